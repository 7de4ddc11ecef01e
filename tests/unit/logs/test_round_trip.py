"""A recorded drive comes back bit for bit, and py123d itself can read it."""

import dataclasses
import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from drive.contracts import DriveLog, UserError
from drive.logs import list_drives, read_drive, write_drive
from tests import builders
from tests.unit.logs.generators import drives


def assert_same(a: Any, b: Any, where: str = "log") -> None:
    """Deep, exact equality of contracts: types, shapes, dtypes and every bit (NaN equals NaN)."""
    if dataclasses.is_dataclass(a):
        for field in dataclasses.fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name), f"{where}.{field.name}")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        np.testing.assert_array_equal(a, b, err_msg=where)
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}[{key}]")
    elif isinstance(a, tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    else:
        assert a == b, where


@given(drives())
@settings(max_examples=40)
def test_recorded_drive_comes_back_exactly(log: DriveLog) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_drive(Path(folder), log)
        assert_same(read_drive(Path(folder), log.meta.log_id), log)
        assert list_drives(Path(folder)) == [log.meta]


def test_without_images_everything_else_is_there(tmp_path: Path) -> None:
    log = builders.cruise(image_size=16)
    write_drive(tmp_path, log)
    blind = read_drive(tmp_path, "cruise", images=False)
    assert blind.plans.images == {}
    assert_same(blind, dataclasses.replace(log, plans=dataclasses.replace(log.plans, images={})))


def test_equal_drives_give_equal_bytes(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        folder = write_drive(tmp_path / name, builders.lead_braking())
        digests.append({f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(folder.iterdir())})
    assert digests[0] == digests[1]


def test_writing_again_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_drive(tmp_path, builders.cruise(5.0))
    folder = write_drive(tmp_path, builders.cruise(7.0))
    assert read_drive(tmp_path, "cruise").ego.speed_mps[0] == pytest.approx(7.0)
    assert [p.name for p in folder.parent.iterdir()] == ["cruise"]


def test_failed_write_keeps_the_old_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drive.logs import writer

    folder = write_drive(tmp_path, builders.cruise(5.0))
    monkeypatch.setattr(writer, "plan_row", lambda log, index: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_drive(tmp_path, builders.cruise(7.0))
    assert [p.name for p in folder.parent.iterdir()] == ["cruise"]
    assert read_drive(tmp_path, "cruise").ego.speed_mps[0] == pytest.approx(5.0)


def test_py123d_reads_our_logs(tmp_path: Path) -> None:
    from py123d.api.scene.arrow.arrow_scene_builder import ArrowSceneBuilder
    from py123d.api.scene.scene_filter import SceneFilter
    from py123d.common.execution.sequential_executor import SequentialExecutor

    log = builders.lead_braking()
    write_drive(tmp_path, log)
    scenes = ArrowSceneBuilder(logs_root=tmp_path, maps_root=tmp_path).get_scenes(
        SceneFilter(), SequentialExecutor()
    )
    assert len(scenes) == 1
    ego = scenes[0].get_ego_state_se3_at_iteration(10)
    assert ego.rear_axle_se2.x == log.ego.pose_world[10, 0]
    boxes = scenes[0].get_box_detections_se3_at_iteration(10)
    assert boxes[0].center_se2.x == log.agents.pose_world[0, 10, 0]
    assert scenes[0].get_custom_modality_at_iteration(10, "nightdrive_plan")["turn"] == 0


@pytest.mark.parametrize(
    ("change", "word"),
    [({"log_id": "a/b"}, "log id"), ({"log_id": ".hidden"}, "log id"), ({"dataset": "a b"}, "dataset")],
)
def test_names_that_are_not_file_names_are_refused(tmp_path: Path, change: dict[str, str], word: str) -> None:
    log = builders.cruise()
    with pytest.raises(UserError, match=word):
        write_drive(tmp_path, dataclasses.replace(log, meta=dataclasses.replace(log.meta, **change)))
    assert not list(tmp_path.iterdir())


def test_times_that_do_not_increase_are_refused(tmp_path: Path) -> None:
    log = builders.cruise()
    t_us = log.ego.t_us.copy()
    t_us[5] = t_us[4]
    with pytest.raises(UserError, match="increase"):
        write_drive(tmp_path, dataclasses.replace(log, ego=dataclasses.replace(log.ego, t_us=t_us)))


def test_missing_and_damaged_logs_name_the_file(tmp_path: Path) -> None:
    folder = write_drive(tmp_path, builders.cruise())
    with pytest.raises(UserError, match="no log named 'other'"):
        read_drive(tmp_path, "other")
    ego = folder / "ego_state_se3.arrow"
    ego.write_bytes(ego.read_bytes()[:400])
    with pytest.raises(UserError, match=r"ego_state_se3\.arrow"):
        read_drive(tmp_path, "cruise")
    with pytest.raises(UserError, match="no such log folder"):
        list_drives(tmp_path / "nowhere")
