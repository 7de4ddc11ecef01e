"""Ground truth around the ego: where things are drawn, what is known, and that mirrored drives mirror it."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.contracts import DriveLog, RoadPatch
from drive.data.ground import (
    CELL_M,
    CHANNELS,
    COLUMNS,
    FROM_X_M,
    HALF_Y_M,
    OCCUPIED,
    ONCOMING,
    ROAD,
    ROWS,
    ground_of,
    unpack,
)
from tests import builders


def planes(log: DriveLog, plan_index: int = 0) -> np.ndarray:
    return unpack(ground_of(log, plan_index)[None])[0][0]


def cell(x_m: float, y_m: float) -> tuple[int, int]:
    return int((x_m - FROM_X_M) // CELL_M), int((y_m + HALF_Y_M) // CELL_M)


def two_way(log: DriveLog) -> DriveLog:
    """The ego's lane ahead, and one 3.5 m to its left that leads back."""
    x = np.linspace(-20, 200, 45)
    there, back = np.stack([x, 0 * x], -1), np.stack([x[::-1], 0 * x + 3.5], -1)
    road = RoadPatch(
        np.stack([there, back]), np.full(2, 3.5, np.float32), np.zeros(2, bool), np.zeros((0, 2, 2))
    )
    return replace(log, road=road)


def test_the_lane_ahead_is_road_and_the_one_that_leads_back_is_oncoming() -> None:
    seen = planes(two_way(builders.cruise()))
    assert seen.shape == (CHANNELS, ROWS, COLUMNS)
    for x in (1.5, 20.5, 45.5):
        assert seen[(ROAD, *cell(x, 0.5))]
        assert not seen[(ONCOMING, *cell(x, 0.5))]
        assert seen[(ROAD, *cell(x, 3.5))]
        assert seen[(ONCOMING, *cell(x, 3.5))]
        assert not seen[(ROAD, *cell(x, -3.5))]


def test_a_braking_lead_is_where_it_is_now_and_where_it_will_be() -> None:
    log = builders.lead_braking(25.0, 10.0, 4.0)
    seen = planes(log)
    gap = log.agents.pose_world[0, :, 0] - log.ego.pose_world[log.plans.step[0], 0]
    for k, at_s in enumerate((0, 1, 2, 3)):
        at = int(log.plans.step[0]) + 10 * at_s
        if gap[at] < 45:
            assert seen[(OCCUPIED + k, *cell(gap[at], 0.1))]
    rows = np.flatnonzero(seen[OCCUPIED].any(1))
    assert abs(rows.mean() + 0.5 - gap[log.plans.step[0]]) < 1.0
    assert 4 <= len(rows) <= 6


def test_what_is_not_known_says_so() -> None:
    log = replace(builders.cruise(), road=None)
    last = len(log.plans.step) - 1
    known = unpack(np.stack([ground_of(log, 0), ground_of(log, last), ground_of(two_way(log), 0)]))[1]
    assert known[0].tolist() == [False, False, True, True, True, True]
    assert known[1].tolist() == [False, False, True, False, False, False]
    assert known[2].all()


@settings(max_examples=25, deadline=None)
@given(x=st.floats(3, 44), y=st.floats(-12, 12), yaw=st.floats(-3.1, 3.1))
def test_a_mirrored_road_user_is_drawn_mirrored(x: float, y: float, yaw: float) -> None:
    log = builders.lead_braking()

    def at(y_m: float, yaw_rad: float) -> np.ndarray:
        pose = log.agents.pose_world.copy()
        pose[0] = log.ego.pose_world + np.array([x, y_m, yaw_rad])
        return planes(replace(log, agents=replace(log.agents, pose_world=pose)))[OCCUPIED]

    one, other = at(y, yaw), at(-y, -yaw)
    different = one != other[:, ::-1]
    assert different.sum() <= 4  # cells that are covered by just about the share that counts
    length, width = log.agents.size_m[0]
    assert 0.6 * length * width < one.sum() < 2.6 * length * width
