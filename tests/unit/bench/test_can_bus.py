"""Ego state from the CAN bus expansion: causal, beside gaps and damaged files, and said in the output."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive.bench.can_bus import read_motion
from drive.cli.main import main
from drive.contracts import UserError
from tools.bench.nuscenes_memory import FRAMES, SPEED_MPS, START_US, write_tables

VAL = ("scene-0003", "scene-0012", "scene-0013")
TRAIN = ("scene-0001", "scene-0002")
ROOT = ["bench", "nuscenes", "--version", "v1.0-trainval", "--policy", "go_straight"]


def message(t_us: int, speed: float, accel: float = 0.0, yaw_rate: float = 0.0) -> dict[str, Any]:
    """As can_bus/SCENE_pose.json has them at 50 Hz; vectors are x, y, z of the car."""
    return {
        "utime": t_us,
        "vel": [speed, 0.0, 0.0],
        "accel": [accel, 0.1, 9.8],
        "rotation_rate": [0.01, -0.02, yaw_rate],
        "orientation": [1.0, 0.0, 0.0, 0.0],
        "pos": [0.0, 0.0, 0.0],
    }


def write(file: Path, messages: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(messages if isinstance(messages, str) else json.dumps(messages), encoding="utf-8")
    return file


def test_the_last_message_up_to_now_counts(tmp_path: Path) -> None:
    rows = [message(1_000_000 + 20_000 * i, i / 10, i / 100, -i / 1000) for i in range(101)]
    times = np.array([990_000, 1_000_000, 2_009_999, 3_000_000, 3_099_000, 3_200_000])
    got = read_motion(write(tmp_path / "a.json", rows[::-1]), times)
    assert np.isnan(got[[0, 5]]).all()  # before the first, and too long after the last
    assert got[1] == pytest.approx([0.0, 0.0, 0.0])
    assert got[2] == pytest.approx([5.0, np.mean(np.arange(25, 51)) / 100, -0.05])
    assert got[3] == pytest.approx(got[4])


def test_nothing_later_and_nothing_that_is_no_number_is_used(tmp_path: Path) -> None:
    rows = [message(1_000_000 + 20_000 * i, 5.0) for i in range(50)]
    now = np.array([1_500_000])
    before = read_motion(write(tmp_path / "a.json", rows), now)
    rows[26:] = [message(row["utime"], 99.0, 9.0, 9.0) for row in rows[26:]]
    assert np.array_equal(before, read_motion(write(tmp_path / "b.json", rows), now))
    rows[25] = message(rows[25]["utime"], float("nan"))
    assert read_motion(write(tmp_path / "c.json", rows), now)[0, 0] == 5.0
    assert np.isnan(read_motion(write(tmp_path / "d.json", []), now)).all()


@pytest.mark.parametrize("text", ["", "[{", "{}", '[{"utime": 1}]', '[{"utime": "x", "vel": 3}]'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"a\.json"):
        read_motion(write(tmp_path / "a.json", text), np.array([1]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_tables(tmp_path, [*VAL, *TRAIN])
    return tmp_path


def bench(root: Path, *more: str) -> tuple[int, dict[str, Any]]:
    report = root / "report.json"
    code = main([*ROOT, "--dataroot", str(root), "--json", str(report), *more])
    return code, json.loads(report.read_text(encoding="utf-8")) if code == 0 else {}


def test_the_floors_use_what_was_measured_and_say_so(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, poses = bench(root)
    assert code == 0
    assert poses["ego_state"] == "key-frame poses"
    start = START_US
    rows = [message(start + 20_000 * i, SPEED_MPS + 1.0) for i in range(-5, 25 * FRAMES + 5)]
    write(root / "can_bus" / f"{VAL[0]}_pose.json", rows)
    _, some = bench(root)
    share = some["samples"]["evaluated"] // 3
    assert some["ego_state"] == (f"CAN bus at {share} of {3 * share} samples, key-frame poses at the others")
    assert some["ego_state"] in capsys.readouterr().out
    straight = [report["rows"][0]["l2_m"]["at"]["3s"] for report in (poses, some)]
    assert straight[0] == pytest.approx(0.0, abs=1e-6)
    assert straight[1] == pytest.approx(1.0, abs=1e-6)  # 1 m/s too fast for 3 s in a third of the samples
    _, without = bench(root, "--ego-state", "poses")
    assert without["rows"] == poses["rows"]


def test_can_everywhere_is_refused_where_there_is_none(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = bench(root, "--ego-state", "can")
    assert code == 2
    error = capsys.readouterr().err
    assert "5 of 5 scenes have no can_bus" in error
    write(root / "can_bus" / f"{VAL[1]}_pose.json", "[{")
    assert bench(root)[0] == 2
    assert f"{VAL[1]}_pose.json: not valid JSON" in capsys.readouterr().err
