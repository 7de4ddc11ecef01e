"""Each injected fault is found at its row; hard but real driving is not a fault."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drive.contracts import DriveLog, Event
from drive.logs import faulty_steps, find_faults
from tests import builders

ROW = 30


def ego_with(log: DriveLog, **changes: Any) -> DriveLog:
    return replace(log, ego=replace(log.ego, **changes))


def shifted(log: DriveLog, rows: slice, metres: float) -> DriveLog:
    pose = log.ego.pose_world.copy()
    pose[rows, 1] += metres
    return ego_with(log, pose_world=pose)


def time_set(log: DriveLog, row: int, value_us: int) -> DriveLog:
    t_us = log.ego.t_us.copy()
    t_us[row] = value_us
    return ego_with(log, t_us=t_us)


def gap(log: DriveLog) -> DriveLog:
    t_us = log.ego.t_us.copy()
    t_us[ROW:] += 2_000_000
    return ego_with(log, t_us=t_us)


def turned(log: DriveLog) -> DriveLog:
    pose = log.ego.pose_world.copy()
    pose[ROW:, 2] += 1.5
    return ego_with(log, pose_world=pose)


def motion_nan(log: DriveLog) -> DriveLog:
    speed = log.ego.speed_mps.copy()
    speed[ROW] = np.nan
    return ego_with(log, speed_mps=speed)


def pose_nan(log: DriveLog) -> DriveLog:
    pose = log.ego.pose_world.copy()
    pose[ROW, 0] = np.inf
    return ego_with(log, pose_world=pose)


def stuck_speed(log: DriveLog) -> DriveLog:
    speed = log.ego.speed_mps.copy()
    speed[ROW : ROW + 10] = 0.0
    return ego_with(log, speed_mps=speed)


FAULTS: dict[str, tuple[str, Callable[[DriveLog], DriveLog]]] = {
    "time runs backwards": ("time_backwards", lambda log: time_set(log, ROW, 2_400_000)),
    "time stamp repeats": ("time_repeated", lambda log: time_set(log, ROW, 2_900_000)),
    "frames are missing": ("time_gap", gap),
    "one pose is off": ("pose_jump", lambda log: shifted(log, slice(ROW, ROW + 1), 6.0)),
    "poses are off from here on": ("pose_jump", lambda log: shifted(log, slice(ROW, None), 6.0)),
    "heading jumps": ("yaw_jump", turned),
    "speed is NaN": ("non_finite", motion_nan),
    "pose is infinite": ("non_finite", pose_nan),
    "speed sticks at zero": ("speed_mismatch", stuck_speed),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found_at_its_row(name: str) -> None:
    kind, break_it = FAULTS[name]
    log = builders.cruise()
    found = [fault for fault in find_faults(break_it(log)) if fault.kind == kind]
    assert found
    assert found[0].row == ROW
    assert found[0].channel == "ego"
    assert found[0].start_us <= log.ego.t_us[ROW] - 900_000
    assert found[0].end_us >= log.ego.t_us[ROW] + 900_000


def test_jump_is_found_where_speed_itself_comes_from_the_jumping_poses() -> None:
    log = shifted(builders.cruise(), slice(ROW, None), 6.0)
    fresh = builders.drive_log(log.ego.pose_world)
    assert ("pose_jump", ROW) in [(f.kind, f.row) for f in find_faults(fresh)]


def test_a_displacement_on_purpose_is_a_note() -> None:
    log = shifted(builders.cruise(), slice(ROW, None), 1.5)
    noted = replace(log, events=(Event("perturbation", int(log.ego.t_us[ROW]) - 50_000),))
    assert [(f.kind, f.row, f.level) for f in find_faults(noted)] == [("perturbation", ROW, "note")]
    assert [(f.kind, f.row, f.level) for f in find_faults(log)] == [("pose_jump", ROW, "fault")]


def test_a_jump_lasts_until_it_is_undone() -> None:
    log = builders.cruise()
    back = find_faults(shifted(log, slice(ROW, ROW + 10), 6.0))
    gone = find_faults(shifted(log, slice(ROW, None), 6.0))
    assert [f.end_us for f in back] == [log.ego.t_us[ROW + 10] + 1_000_000]
    assert [f.end_us for f in gone] == [log.ego.t_us[-1] + 1_000_000]


def test_a_push_in_a_collision_is_driving() -> None:
    log = shifted(builders.cruise(), slice(ROW, None), 0.8)
    hit = replace(log, events=(Event("collisions_vehicle", int(log.ego.t_us[ROW]) - 50_000),))
    assert find_faults(hit) == []
    assert find_faults(log) != []


def test_agent_fault_names_the_step() -> None:
    log = builders.lead_braking()
    pose = log.agents.pose_world.copy()
    pose[0, ROW, 1] = np.nan
    found = find_faults(replace(log, agents=replace(log.agents, pose_world=pose)))
    assert [(f.kind, f.channel, f.row) for f in found] == [("non_finite", "agents", ROW)]


def with_images(change: Callable[[np.ndarray], None]) -> DriveLog:
    log = builders.cruise(image_size=16)
    images = np.random.default_rng(0).integers(0, 256, log.plans.images["front"].shape, dtype=np.uint8)
    change(images)
    return replace(log, plans=replace(log.plans, images={"front": images}))


def test_black_and_frozen_images_are_found() -> None:
    def black(images: np.ndarray) -> None:
        images[7] = 3

    def frozen(images: np.ndarray) -> None:
        images[11:15] = images[10]

    assert not find_faults(with_images(lambda images: None))
    assert [(f.kind, f.channel, f.row) for f in find_faults(with_images(black))] == [
        ("black_image", "front", 7)
    ]
    assert [(f.kind, f.channel, f.row) for f in find_faults(with_images(frozen))] == [
        ("frozen_image", "front", 11)
    ]


def test_a_standing_vehicle_may_see_the_same_image() -> None:
    log = builders.drive_log(builders.along_x(np.zeros(40)), image_size=16)
    assert not find_faults(log)


def stopped_by_a_wall() -> DriveLog:
    """10 m/s to 0 between two steps, as a collision in the light simulator does it."""
    return builders.drive_log(builders.along_x(np.minimum(np.arange(60) * 1.0, 30.0)))


def ends_with_a_collision() -> DriveLog:
    """The last row stands although the way to it was driven at 10 m/s."""
    log = builders.cruise()
    speed = log.ego.speed_mps.copy()
    speed[-1] = 0.0
    return ego_with(log, speed_mps=speed)


@pytest.mark.parametrize(
    "make",
    [
        builders.cruise,
        builders.hard_brake,
        builders.left_turn,
        builders.lead_braking,
        builders.pedestrian_crossing,
        stopped_by_a_wall,
        ends_with_a_collision,
    ],
)
def test_driving_however_hard_is_no_fault(make: Callable[[], DriveLog]) -> None:
    assert find_faults(make()) == []


def test_a_short_drive_has_no_faults() -> None:
    for steps in (2, 3, 4):
        assert find_faults(builders.drive_log(builders.along_x(np.arange(steps) * 1.0))) == []


def test_faulty_steps_cover_the_span() -> None:
    log = shifted(builders.cruise(), slice(ROW, ROW + 1), 6.0)
    bad = faulty_steps(log, find_faults(log))
    assert bad[ROW - 10 : ROW + 11].all()
    assert not bad[: ROW - 12].any()
    assert not bad[ROW + 13 :].any()
