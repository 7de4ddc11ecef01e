"""Ingest of a hand-made nuScenes folder: counts, labels, resume, and errors that say how to mend."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from drive.contracts import Lateral, Longitudinal, Turn, UserError
from drive.logs import check_logs, ingest_nuscenes, ingest_py123d, list_drives, read_drive
from drive.logs.ingest import read_report
from tests.unit.logs.nuscenes_tiny import CHANNELS, FRAMES, START_US, write_tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Data root and log root, ingested once."""
    base = tmp_path_factory.mktemp("nus # %20 \u00fc")
    write_tiny(base / "data")
    ingest_nuscenes(base / "data", "v1.0-mini", base / "logs")
    return base / "data", base / "logs"


def test_counts_and_names(tiny: tuple[Path, Path]) -> None:
    report = ingest_nuscenes(*(tiny[0], "v1.0-mini", tiny[1]))
    assert (len(report.scenes), report.samples, report.boxes) == (2, 2 * FRAMES, 4 * FRAMES)
    assert report.sensor_files == (0, 2 * FRAMES * len(CHANNELS))
    assert report.without_can_bus == ("scene-0103", "scene-0061")
    assert {s.log_id: s.split for s in report.scenes} == {
        "scene-0103": "nuscenes-mini_val",
        "scene-0061": "nuscenes-mini_train",
    }
    assert [m.route for m in list_drives(tiny[1])] == ["scene-0061", "scene-0103"]
    assert report.converted == 0
    assert read_report(tiny[1] / "nuscenes_v1.0-mini.ingest.json") == report


def test_labels_are_the_recorded_future(tiny: tuple[Path, Path]) -> None:
    log = read_drive(tiny[1], "scene-0103")
    assert log.ego.t_us[0] == START_US
    assert log.plans.provenance == "oracle"
    steps = np.arange(1, 41) * 0.1
    np.testing.assert_allclose(
        log.plans.label_ego[0], np.stack([8 * steps, 0 * steps, 0 * steps], -1), atol=1e-4
    )
    last_full = FRAMES - 1 - 8
    assert np.isfinite(log.plans.label_ego[: last_full + 1]).all()
    assert np.isnan(log.plans.label_ego[last_full + 1 :, -1]).all()
    assert np.isfinite(log.plans.label_ego[-2, :5]).all()
    np.testing.assert_allclose(
        log.plans.target_points_ego, np.tile([[10.0, 0.0], [25.0, 0.0]], (FRAMES, 1, 1)), atol=1e-4
    )
    assert (log.plans.turn == Turn.FOLLOW).all()
    assert log.plans.label_command[1].tolist() == [Lateral.KEEP, Longitudinal.FOLLOW]
    assert (log.plans.label_command[last_full + 1 :] == -1).all()
    np.testing.assert_allclose(log.ego.speed_mps, [0.0] + [8.0] * (FRAMES - 1), rtol=1e-6)
    assert log.agents.valid.all()
    assert log.agents.size_m[0].tolist() == pytest.approx([4.6, 1.9])


def test_nothing_of_the_future_leaks_into_the_ego_motion(tmp_path: Path, tiny: tuple[Path, Path]) -> None:
    data = write_tiny(tmp_path / "data", speed_mps=8.0)
    path = data / "v1.0-mini" / "ego_pose.json"
    poses = json.loads(path.read_text())
    for row in poses:
        if row["timestamp"] > START_US + 5 * 500_000:
            row["translation"][1] += 3.0
    path.write_text(json.dumps(poses))
    ingest_nuscenes(data, "v1.0-mini", tmp_path / "logs")
    before, after = read_drive(tiny[1], "scene-0061").ego, read_drive(tmp_path / "logs", "scene-0061").ego
    for name in ("pose_world", "speed_mps", "accel_mps2", "yaw_rate_radps"):
        np.testing.assert_array_equal(getattr(before, name)[:6], getattr(after, name)[:6])


def test_an_interrupted_ingest_goes_on_where_it_stopped(tiny: tuple[Path, Path]) -> None:
    shutil.rmtree(tiny[1] / "nuscenes-mini_val" / "scene-0103")
    (tiny[1] / "nuscenes-mini_val" / ".scene-0103.half").mkdir()
    assert ingest_nuscenes(tiny[0], "v1.0-mini", tiny[1]).converted == 1
    assert len(list_drives(tiny[1])) == 2
    assert ingest_nuscenes(tiny[0], "v1.0-mini", tiny[1]).converted == 0


def test_changed_tables_are_ingested_again(tmp_path: Path) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0061",))
    assert ingest_nuscenes(data, "v1.0-mini", tmp_path / "logs").converted == 1
    shutil.rmtree(data)
    write_tiny(data, scenes=("scene-0061",), speed_mps=9.0)
    assert ingest_nuscenes(data, "v1.0-mini", tmp_path / "logs").converted == 1
    assert read_drive(tmp_path / "logs", "scene-0061").ego.speed_mps[1] == pytest.approx(9.0)


def test_measured_motion_is_used_where_the_can_bus_has_it(tmp_path: Path) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0103",))
    measured = {"vel": [7.5, 0, 0], "accel": [0.25, 0, 9.8], "rotation_rate": [0, 0, 0.125]}
    messages = [{"utime": START_US + 20_000 * i, **measured} for i in range(100)]
    (data / "can_bus").mkdir()
    (data / "can_bus" / "scene-0103_pose.json").write_text(json.dumps(messages))
    report = ingest_nuscenes(data, "v1.0-mini", tmp_path / "logs")
    ego = read_drive(tmp_path / "logs", "scene-0103").ego
    assert report.without_can_bus == ()
    assert (ego.speed_mps[0], ego.accel_mps2[0], ego.yaw_rate_radps[0]) == (7.5, 0.25, 0.125)
    assert ego.speed_mps[-1] == pytest.approx(8.0)
    gaps = [f for f in check_logs(tmp_path / "logs").faults if f.kind == "can_bus_gap"]
    assert [f.row for f in gaps] == list(range(5, FRAMES))


def test_check_of_raw_tables_names_clock_and_pose_faults(tmp_path: Path) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0103",))
    kinds = [f.kind for f in check_logs(data).faults]
    assert kinds == ["missing_files"] * len(CHANNELS)
    for table, change in (("sample", _swap_times), ("ego_pose", _jump)):
        path = data / "v1.0-mini" / f"{table}.json"
        rows = json.loads(path.read_text())
        change(rows)
        path.write_text(json.dumps(rows))
    found = {(f.kind, f.row): Path(f.file).name for f in check_logs(data).faults if f.kind != "missing_files"}
    assert found["time_backwards", 4] == "sample.json"
    assert found["pose_jump", 8] == "ego_pose.json"


def _swap_times(rows: list[dict[str, int]]) -> None:
    rows[3]["timestamp"], rows[4]["timestamp"] = rows[4]["timestamp"], rows[3]["timestamp"]


def _jump(rows: list[dict[str, list[float]]]) -> None:
    rows[8]["translation"][1] += 40.0


def test_truncated_camera_files_are_found(tmp_path: Path) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0103",))
    folder = data / "samples" / "CAM_FRONT"
    folder.mkdir(parents=True)
    (folder / "scene-0103-2.jpg").write_bytes(b"\xff\xd8 cut")
    (folder / "scene-0103-3.jpg").write_bytes(b"\xff\xd8 whole \xff\xd9")
    faults = [f for f in check_logs(data).faults if f.kind == "truncated_image"]
    assert [(f.channel, f.row) for f in faults] == [("CAM_FRONT", 2)]


@pytest.mark.parametrize(
    ("version", "spoil", "words"),
    [
        ("v1.0-trainval", lambda d: None, "there is v1.0-mini"),
        ("v1.0-mini", lambda d: (d / "v1.0-mini" / "sample.json").unlink(), "missing sample.json"),
        ("v1.0-mini", lambda d: (d / "v1.0-mini" / "scene.json").write_text("[{"), "not valid JSON"),
        ("v1.0-mini", lambda d: (d / "v1.0-mini" / "sample.json").write_text("[]"), "refers to token"),
        ("v1.0-mini", lambda d: shutil.rmtree(d), "no such folder"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(tmp_path: Path, version: str, spoil, words: str) -> None:  # type: ignore[no-untyped-def]
    data = write_tiny(tmp_path / "data")
    spoil(data)
    with pytest.raises(UserError, match=words):
        ingest_nuscenes(data, version, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_logs_converted_elsewhere_are_taken_stock_of(tiny: tuple[Path, Path], tmp_path: Path) -> None:
    report = ingest_py123d(tiny[1])
    assert (len(report.scenes), report.samples, report.boxes) == (2, 2 * FRAMES, 4 * FRAMES)
    with pytest.raises(UserError, match="no py123d logs"):
        ingest_py123d(tmp_path)


def test_images_are_read_where_no_frame_lacks_one(tmp_path: Path) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0103",))
    folder = data / "samples" / "CAM_FRONT"
    folder.mkdir(parents=True)
    for i in range(FRAMES):
        assert cv2.imwrite(
            str(folder / f"scene-0103-{i}.jpg"), np.full((9, 16, 3), (250, 20 * i, 5), np.uint8)
        )
    ingest_nuscenes(data, "v1.0-mini", tmp_path / "logs")
    log = read_drive(tmp_path / "logs", "scene-0103")
    assert log.meta.image_kind == "camera"
    assert log.plans.images["front"].shape == (FRAMES, 9, 16, 3)
    red, green, blue = log.plans.images["front"][5].reshape(-1, 3).mean(0)
    assert (red, green, blue) == pytest.approx((5, 100, 250), abs=4)
    camera = log.plans.cameras["front"]
    ahead = camera.camera_from_ego @ np.array([11.7, 0.0, 1.5, 1.0])
    np.testing.assert_allclose(ahead[:3], [0.0, 0.0, 10.0], atol=1e-9)
    (folder / "scene-0103-3.jpg").unlink()
    with pytest.raises(UserError, match=r"scene-0103-3\.jpg"):
        read_drive(tmp_path / "logs", "scene-0103")
    assert ingest_nuscenes(data, "v1.0-mini", tmp_path / "logs").converted == 1
    assert list_drives(tmp_path / "logs")[0].image_kind == "none"
