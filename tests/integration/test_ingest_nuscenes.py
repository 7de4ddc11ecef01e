"""nuScenes mini, the real tables: counts, names and times, what is missing, and the commands' exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest

from drive.cli.main import main
from drive.logs import check_logs, find_faults, ingest_nuscenes, list_drives, read_drive


@pytest.fixture(scope="module")
def logs(nuscenes_mini: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Log root with nuScenes mini."""
    root = tmp_path_factory.mktemp("logs")
    report = ingest_nuscenes(nuscenes_mini, "v1.0-mini", root)
    assert (len(report.scenes), report.samples, report.boxes, report.converted) == (10, 404, 18532, 10)
    assert report.sensor_files == (7, 4848)
    assert len(report.without_can_bus) == 9
    assert "scene-0103" not in report.without_can_bus
    return root


def test_every_scene_reads_as_a_drive(logs: Path) -> None:
    metas = list_drives(logs)
    drives = [read_drive(logs, meta.log_id) for meta in metas]
    assert [meta.log_id for meta in metas][:3] == ["scene-0061", "scene-0103", "scene-0553"]
    assert sum(len(log.ego.t_us) for log in drives) == 404
    assert sum(int(log.agents.valid.sum()) for log in drives) == 18532
    assert all(log.meta.image_kind == "none" and not log.plans.images for log in drives)
    assert drives[0].ego.t_us[0] == 1532402927647951
    assert [fault for log in drives for fault in find_faults(log) if fault.level == "fault"] == []


def test_labels_hold_the_key_frame_poses(logs: Path) -> None:
    log = read_drive(logs, "scene-0061")
    t_s = (log.ego.t_us - log.ego.t_us[0]) * 1e-6
    k = int(np.argmin(np.abs(t_s - 2.0)))
    label = log.plans.label_ego[0, round(t_s[k] * 10) - 1]
    moved = np.hypot(*(log.ego.pose_world[k, :2] - log.ego.pose_world[0, :2]))
    assert np.hypot(*label[:2]) == pytest.approx(moved, abs=0.5)


def test_check_names_missing_files_first(logs: Path, nuscenes_mini: Path) -> None:
    for root in (logs, nuscenes_mini):
        report = check_logs(root)
        assert {fault.kind for fault in report.faults} == {"missing_files"}
        assert len(report.faults) == 120
        assert sum(fault.kind == "no_can_bus" for fault in report.notes) == 9


def test_commands(
    logs: Path, nuscenes_mini: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ingest.json"
    data = ["--dataroot", str(nuscenes_mini), "--version", "v1.0-mini", "--out", str(logs)]
    assert main(["ingest", "nuscenes", *data, "--json", str(out)]) == 0
    assert "10 scenes / 404 samples / 18,532 boxes" in capsys.readouterr().out
    totals = json.loads(out.read_text())["totals"]
    assert (totals["scenes"], totals["samples"], totals["boxes"]) == (10, 404, 18532)
    assert main(["check", str(logs), "--json", str(out)]) == 1
    assert json.loads(out.read_text())["totals"]["by_kind"]["missing_files"] == 120
    assert main(["ingest", "py123d", "--root", str(logs)]) == 0
    assert main(["ingest", "nuscenes", "--dataroot", str(nuscenes_mini), "--version", "v1.0-tset"]) == 2
    assert "there is v1.0-mini" in capsys.readouterr().err
