"""Each recording fault, injected into the real nuScenes mini scenes, adds no bad case and is reported."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_engine.config import MineConfig
from data_engine.mine import Mined, mine
from data_engine.rules import RULES
from drive.contracts import DriveLog
from drive.logs import ingest_nuscenes, list_drives, read_drive

RULES_ON = MineConfig(rules={name: {} for name in RULES})
ROW = 15


@pytest.fixture(scope="module")
def scenes(nuscenes_mini: Path, tmp_path_factory: pytest.TempPathFactory) -> list[DriveLog]:
    root = tmp_path_factory.mktemp("mini")
    ingest_nuscenes(nuscenes_mini, "v1.0-mini", root)
    return [read_drive(root, meta.log_id, images=False) for meta in list_drives(root)]


def mined(scenes: list[DriveLog]) -> Mined:
    return mine([(log, "") for log in scenes], RULES_ON, ())


def ego(log: DriveLog, **changes: Any) -> DriveLog:
    return replace(log, ego=replace(log.ego, **changes))


def backwards(log: DriveLog) -> DriveLog:
    t_us = log.ego.t_us.copy()
    t_us[ROW] = t_us[ROW - 2] + 1
    return ego(log, t_us=t_us)


def repeated(log: DriveLog) -> DriveLog:
    t_us = log.ego.t_us.copy()
    t_us[ROW] = t_us[ROW - 1]
    return ego(log, t_us=t_us)


def jumped(log: DriveLog) -> DriveLog:
    """A position that is 25 m off for one row, and the speeds that a reader makes of it."""
    pose, speed = log.ego.pose_world.copy(), log.ego.speed_mps.copy()
    pose[ROW, :2] += 25.0
    speed[ROW : ROW + 2] = 70.0
    return ego(log, pose_world=pose, speed_mps=speed)


def not_a_number(log: DriveLog) -> DriveLog:
    pose, speed = log.ego.pose_world.copy(), log.ego.speed_mps.copy()
    pose[ROW], speed[ROW + 1] = np.nan, np.inf
    return ego(log, pose_world=pose, speed_mps=speed)


def lost_frames(log: DriveLog) -> DriveLog:
    t_us = log.ego.t_us.copy()
    t_us[ROW:] += 9_000_000
    return ego(log, t_us=t_us)


def frozen_speed(log: DriveLog) -> DriveLog:
    speed = log.ego.speed_mps.copy()
    speed[ROW : ROW + 6] = speed[ROW] + 9.0
    return ego(log, speed_mps=speed)


def agent_thrown(log: DriveLog) -> DriveLog:
    """Every road user stands in front of the ego for one row."""
    pose = log.agents.pose_world.copy()
    pose[:, ROW, :2] = log.ego.pose_world[ROW, :2] + 6.0 * np.array(
        [np.cos(log.ego.pose_world[ROW, 2]), np.sin(log.ego.pose_world[ROW, 2])]
    )
    return replace(log, agents=replace(log.agents, pose_world=pose))


def agents_nan(log: DriveLog) -> DriveLog:
    pose = log.agents.pose_world.copy()
    pose[:, ROW] = np.nan
    return replace(log, agents=replace(log.agents, pose_world=pose))


FAULTS: dict[str, Callable[[DriveLog], DriveLog]] = {
    "time_backwards": backwards,
    "time_repeated": repeated,
    "pose_jump": jumped,
    "non_finite": not_a_number,
    "time_gap": lost_frames,
    "speed_mismatch": frozen_speed,
    "agent_jump": agent_thrown,
    "non_finite ": agents_nan,
}


def test_the_scenes_themselves_give_the_reviewed_cases(scenes: list[DriveLog]) -> None:
    found = mined(scenes)
    assert not [fault for fault in found.faults if fault["level"] == "fault"]
    assert {"scene-0103", "scene-0655", "scene-0916"} <= {case.route for case in found.cases}


def moments(scenes: list[DriveLog]) -> set[tuple[str, str, int]]:
    """Mined cases as (scene, kind, row), whatever the clock says."""
    t_us = {log.meta.log_id: log.ego.t_us for log in scenes}
    return {(c.log_id, c.kind, int(np.argmin(abs(t_us[c.log_id] - c.start_us)))) for c in mined(scenes).cases}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_in_every_scene_adds_no_case_and_is_reported(scenes: list[DriveLog], kind: str) -> None:
    broken = [FAULTS[kind](log) for log in scenes]
    assert moments(broken) <= moments(scenes)
    faults = [f for f in mined(broken).faults if f["level"] == "fault" and f["row"] >= 0]
    assert {f["log_id"] for f in faults} == {log.meta.log_id for log in scenes}
    assert len({f["log_id"] for f in faults if f["kind"] == kind.strip()}) >= 9  # CAN speed hides one jump
