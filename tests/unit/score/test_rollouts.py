"""Roll-outs move like a car: never backwards, mirrored alike, from the present speed, and not too hard."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import F64, Lateral, Longitudinal
from drive.geometry.commands import classify
from drive.score.rollouts import (
    ACCEL_MPS2,
    LAT_ACCEL_MPS2,
    SPACING_M,
    distances,
    joined,
    paths_along,
    poses_at,
    possible,
    simple_paths,
)

SPEEDS = st.floats(0, 14)


def driven(speed_mps: float) -> F64:
    """All that a car can do on simple paths, (P, 40, 3)."""
    paths, along = simple_paths(), distances(np.array(speed_mps))
    path, accel = np.nonzero(possible(paths, along))
    return poses_at(paths.pose_ego[path], along[accel])


@given(speed=SPEEDS)
def test_distances_only_grow_and_begin_with_the_speed(speed: float) -> None:
    along = distances(np.array(speed))
    assert along.shape == (len(ACCEL_MPS2), 40)
    assert (np.diff(along, axis=1, prepend=0.0) >= -1e-12).all()
    accel = np.array(ACCEL_MPS2)
    stops = speed + accel * 4.0 < 0
    np.testing.assert_allclose(along[~stops, -1], np.minimum(4 * speed + 8 * accel[~stops], 80.0))
    np.testing.assert_allclose(along[stops, -1], speed**2 / (2 * -accel[stops]))


def test_a_batch_of_speeds_is_each_speed_by_itself() -> None:
    speeds = np.array([0.0, 3.0, 11.0])
    together = distances(speeds)
    for row, speed in enumerate(speeds):
        np.testing.assert_array_equal(together[row], distances(np.array(speed)))


@given(speed=SPEEDS)
def test_headings_follow_the_path_and_sideways_acceleration_is_bounded(speed: float) -> None:
    pose = driven(speed)
    step = np.diff(pose, axis=1)
    moved = np.hypot(step[..., 0], step[..., 1])
    across = -np.sin(pose[:, :-1, 2]) * step[..., 0] + np.cos(pose[:, :-1, 2]) * step[..., 1]
    assert (np.abs(across) <= 0.2 * moved + 1e-9).all()
    assert (moved / 0.1 * np.abs(step[..., 2]) / 0.1).max() <= 2 * LAT_ACCEL_MPS2  # over one step of 1 m path


def test_every_side_has_its_roll_outs_at_town_speed_and_they_are_mirror_images() -> None:
    pose = driven(6.0)
    named = classify(pose, np.full(len(pose), 6.0))
    sides, counts = np.unique(named[:, 0], return_counts=True)
    assert set(sides) == {int(side) for side in Lateral} - {Lateral.U_TURN}
    count = dict(zip(sides.tolist(), counts.tolist(), strict=True))
    assert count[Lateral.TURN_LEFT] == count[Lateral.TURN_RIGHT]
    assert count[Lateral.LANE_LEFT] == count[Lateral.LANE_RIGHT]
    paces = {int(pace) for pace in Longitudinal} - {Longitudinal.FOLLOW}
    assert set(named[named[:, 0] == Lateral.KEEP, 1]) == paces
    slow = driven(4.5)
    assert (classify(slow, np.full(len(slow), 4.5))[:, 0] == Lateral.U_TURN).any()
    fast = driven(12.0)
    turning = np.abs(fast[:, -1, 2]) > 1.2
    assert not turning.any()  # a quarter turn within reach would be too tight


@given(offset=st.floats(-3.5, 3.5), bend=st.floats(-0.02, 0.02))
def test_paths_join_the_way_that_they_are_made_for(offset: float, bend: float) -> None:
    x = np.arange(0.0, 60.0, 2.0)
    way = np.stack([x, offset + bend * x**2 / 2], -1)
    paths = joined(simple_paths(), paths_along([way]))
    mine = paths.pose_ego[len(simple_paths().pose_ego) :]
    assert len(mine) == 3
    np.testing.assert_allclose(mine[:, 0], 0.0, atol=1e-9)
    at = mine[:, round(40 / SPACING_M)]
    wanted = np.interp(at[:, 0], way[:, 0], way[:, 1])
    np.testing.assert_allclose(at[:, 1], wanted, atol=0.05)
    step = np.hypot(*np.diff(mine[..., :2], axis=1).transpose(2, 0, 1))
    np.testing.assert_allclose(step[:, :50], SPACING_M, rtol=0.02)


def test_no_way_gives_no_path() -> None:
    assert len(paths_along([]).pose_ego) == 0
    assert len(paths_along([np.array([[0.0, 0.0], [2.0, 0.0]])]).pose_ego) == 0
