"""Streamed scenes: equal to what the devkit says, in any order of rows, and nothing dangling."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive.bench.nuscenes_scenes import read_scenes
from drive.bench.nuscenes_tables import open_tables, yaw_of
from drive.contracts import UserError
from drive.logs.nuscenes_rows import devkit, read_tables
from tests.unit.logs.nuscenes_tiny import write_tiny


def rewrite(data: Path, name: str, how: Any) -> None:
    path = data / "v1.0-mini" / f"{name}.json"
    rows = json.loads(path.read_text())
    path.write_text(json.dumps(how(rows)))


def test_scenes_equal_the_devkits_tables_in_any_order_of_rows(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    data = write_tiny(tmp_path)
    before = read_scenes(open_tables(data, "v1.0-mini"), ["scene-0061", "scene-0103"])
    for name in ("sample_data", "ego_pose", "sample_annotation"):
        rewrite(data, name, lambda rows: [rows[i] for i in rng.permutation(len(rows))])
    after = read_scenes(open_tables(data, "v1.0-mini"), ["scene-0061", "scene-0103"])
    nusc = devkit(data, "v1.0-mini", read_tables(data / "v1.0-mini"))
    for one, two in zip(before, after, strict=True):
        assert one.pose_world.tobytes() == two.pose_world.tobytes()
        assert one.agents.size_m.shape == two.agents.size_m.shape
        for k, token in enumerate(one.tokens):
            sample = nusc.get("sample", token)
            data_row = nusc.get("sample_data", sample["data"]["LIDAR_TOP"])
            pose = nusc.get("ego_pose", data_row["ego_pose_token"])
            assert two.pose_world[k].tolist() == [*pose["translation"][:2], yaw_of(pose["rotation"])]
            assert {
                c: nusc.get("sample_data", t)["filename"] for c, t in sample["data"].items()
            } == two.files[k]
            boxes = sorted(nusc.get("sample_annotation", t)["translation"][:2] for t in sample["anns"])
            assert sorted(two.agents.pose_world[two.agents.valid[:, k], k, :2].tolist()) == boxes


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        (
            "sample_data",
            lambda rows: [{**rows[0], "sample_token": "x"}, *rows[1:]],
            "row 0: sample_token: refers",
        ),
        (
            "sample_data",
            lambda rows: [{**rows[0], "calibrated_sensor_token": "x"}],
            "calibrated_sensor.json lacks",
        ),
        ("sample_data", lambda rows: [*rows, rows[3]], "is there twice"),
        ("ego_pose", lambda rows: rows[:-1], "ego_pose.json: lacks token"),
        ("sample_annotation", lambda rows: [{**rows[0], "instance_token": "x"}], "instance.json lacks"),
        ("sample_annotation", lambda rows: [{**rows[0], "sample_token": "x"}], "sample.json lacks"),
    ],
)
def test_dangling_rows_are_named(tmp_path: Path, name: str, how: Any, words: str) -> None:
    data = write_tiny(tmp_path, scenes=("scene-0103",))
    rewrite(data, name, how)
    with pytest.raises(UserError, match=words) as caught:
        read_scenes(open_tables(data, "v1.0-mini"), ["scene-0103"])
    assert "extract the metadata archive again" in str(caught.value)
