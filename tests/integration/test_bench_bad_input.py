"""Bad input to the benchmarks on nuScenes mini: one clear line and exit 2; partial is 3, printed first."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive.bench.nuscenes_scenes import read_scenes
from drive.bench.nuscenes_tables import open_tables, split_scenes
from drive.cli.main import main

Content = dict[str, Any]


@pytest.fixture(scope="module")
def sound(nuscenes_mini: Path) -> Content:
    """Recorded drives as predictions of mini_val, on the map."""
    tables = open_tables(nuscenes_mini, "v1.0-mini")
    rows = {}
    for scene in read_scenes(tables, split_scenes(tables, "mini_val")):
        for k in range(1, len(scene.tokens) - 6):
            rows[scene.tokens[k]] = scene.pose_world[k + 1 : k + 7, :2].tolist()
    return {"planner": "theirs", "frame": "world", "dt_s": 0.5, "predictions": rows}


def text_of(content: Content, change: Callable[[Content], object]) -> str:
    copy = json.loads(json.dumps(content))
    change(copy)
    return json.dumps(copy)


def first(content: Content) -> str:
    return next(iter(content["predictions"]))


CHANGES: dict[str, tuple[Callable[[Content], object], str]] = {
    "wrong token": (
        lambda c: c["predictions"].update(nobody=[[0, 0]] * 6),
        "1 of 68 tokens are not in these",
    ),
    "NaN": (lambda c: c["predictions"].update({first(c): [[np.nan, 0]] * 6}), "1 predictions are not finite"),
    "wrong frame": (lambda c: c.update(frame="ego"), "look like frame 'world'"),
    "no frame": (lambda c: c.pop("frame"), "frame is None; declare one of"),
    "too short": (lambda c: c.update(dt_s=0.1), "reaches 0.6 s; 3 s are needed"),
    "uneven": (lambda c: c["predictions"].update({first(c): [[0, 0]] * 5}), "give all the same steps"),
}


def bench(nuscenes_mini: Path, file: Path, *more: str) -> int:
    return main(["bench", "nuscenes", "--dataroot", str(nuscenes_mini), "--predictions", str(file), *more])


def refused(code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = capsys.readouterr()
    assert code == 2
    assert words in said.err
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("name", CHANGES)
def test_predictions(
    name: str, nuscenes_mini: Path, sound: Content, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, words = CHANGES[name]
    file = tmp_path / "p.json"
    file.write_text(text_of(sound, change))
    refused(bench(nuscenes_mini, file, "--out", str(tmp_path / "out")), words, capsys)
    assert not (tmp_path / "out").exists()


def test_truncated_predictions(
    nuscenes_mini: Path, sound: Content, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text = tmp_path / "p.json", json.dumps(sound)
    for keep in (1, 40, len(text) // 2, len(text) - 1):
        file.write_text(text[:keep])
        refused(bench(nuscenes_mini, file), "not valid JSON", capsys)


def test_a_missing_table(
    nuscenes_mini: Path, sound: Content, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "data"
    (root / "v1.0-mini").mkdir(parents=True)
    for table in (nuscenes_mini / "v1.0-mini").glob("*.json"):
        (root / "v1.0-mini" / table.name).symlink_to(table)
    file = tmp_path / "p.json"
    file.write_text(json.dumps(sound))
    (root / "v1.0-mini" / "ego_pose.json").unlink()
    refused(bench(root, file), "missing ego_pose.json", capsys)


def test_partial_coverage_is_3_printed_first_and_allowed_on_request(
    nuscenes_mini: Path, sound: Content, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.json"
    file.write_text(text_of(sound, lambda c: [c["predictions"].pop(first(c)) for _ in range(7)]))
    assert bench(nuscenes_mini, file) == 3
    assert capsys.readouterr().out.startswith("PARTIAL: 60 of 67 samples have a prediction: 7 missing")
    assert bench(nuscenes_mini, file, "--allow-partial") == 0


def test_leaving_the_drivable_area_is_counted_on_request(
    nuscenes_mini: Path, sound: Content, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recorded drives stay on the road, as the data's own description says of all positions."""
    file, out = tmp_path / "p.json", tmp_path / "out.json"
    file.write_text(json.dumps(sound))
    assert bench(nuscenes_mini, file, "--off-road", "--json", str(out)) == 0
    assert "Off the drivable area [% of steps], strict, clean steps" in capsys.readouterr().out
    row, floor = json.loads(out.read_text())["rows"][:2]
    assert row["off_road"]["up_to"]["3s"] < 0.05
    assert row["off_road_clean"]["up_to"]["3s"] <= row["off_road"]["up_to"]["3s"]
    assert floor["off_road_clean"]["at"]["3s"] > 0.0
