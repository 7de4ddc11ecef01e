"""Smoothness from our own logs and from Bench2Drive's metric files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive.contracts import UserError
from drive.logs import write_drive
from drive.logs.smoothness import run_smoothness
from tests import builders


def record(route: str) -> dict[str, Any]:
    return {"route_id": route, "save_name": f"{route}_saved"}


def metric_info(folder: Path, route: str, lon: float, rate_degps: float, yaw_rad: float = 0.7) -> None:
    """Forty equal frames of a car that heads to yaw."""
    forward, right = [np.cos(yaw_rad), np.sin(yaw_rad), 0.0], [-np.sin(yaw_rad), np.cos(yaw_rad), 0.0]
    frame = {
        "acceleration": [lon * forward[0], lon * forward[1], 9.8],
        "angular_velocity": [0.0, 0.0, rate_degps],
        "forward_vector": forward,
        "right_vector": right,
        "location": [0.0, 0.0, 0.0],
        "rotation": [0.0, 0.0, 0.0],
    }
    path = folder / f"{route}_saved" / "metric_info.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({str(n): frame for n in range(40)}))


def test_metric_files(tmp_path: Path) -> None:
    metric_info(tmp_path, "calm", 2.0, 0.5)
    metric_info(tmp_path, "brakes", -5.0, 0.5)
    metric_info(tmp_path, "turns", 0.0, 20.0)  # 0.35 rad/s: fine, but 20 is more than 0.95
    metric_info(tmp_path, "other", -5.0, 0.5)
    found = run_smoothness(tmp_path, [record(name) for name in ("calm", "brakes", "turns", "not there")])
    assert found is not None
    assert (found.bench2drive, found.radians, found.drives) == (1 / 3, 2 / 3, 3)
    assert found.corrected == found.radians  # no yaw acceleration in equal frames


def test_our_logs(tmp_path: Path) -> None:
    for route, log in (("calm", builders.cruise()), ("brakes", builders.hard_brake())):
        write_drive(tmp_path, replace(log, meta=replace(log.meta, log_id=route, route=route)))
    found = run_smoothness(tmp_path, [record("calm")])
    assert found is not None
    assert (found.bench2drive, found.radians, found.drives) == (1.0, 1.0, 1)
    both = run_smoothness(tmp_path, [record("calm"), record("brakes")])
    assert both is not None
    assert both.drives == 2
    assert both.radians < 1.0


def test_a_folder_without_these_drives_says_nothing(tmp_path: Path) -> None:
    assert run_smoothness(tmp_path, [record("calm")]) is None
    with pytest.raises(UserError, match="no such folder"):
        run_smoothness(tmp_path / "absent", [])


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"0": {}}', '{"0": 1}', '{"0": {"acceleration": ["x", 0, 0]}}', "\x00"]
)
def test_damaged_metric_files_are_named(tmp_path: Path, content: str) -> None:
    metric_info(tmp_path, "calm", 0.0, 0.0)
    path = tmp_path / "calm_saved" / "metric_info.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"metric_info\.json"):
        run_smoothness(tmp_path, [record("calm")])
