"""Contracts refuse arrays of the wrong shape or type, and scores keep honest denominators."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from drive.contracts import (
    CaseScore,
    DriveLog,
    DrivingCommand,
    EvalResult,
    Lateral,
    Longitudinal,
    Plan,
    RouteHint,
    Trajectory,
    Turn,
    expect,
)
from tests import builders

STANDSTILL = Trajectory(np.zeros((40, 3), np.float32))


@pytest.mark.parametrize(
    ("value", "shape", "dtype"),
    [
        (np.zeros((3, 2)), (3, 2), np.float64),
        (np.zeros((0, 2), np.int32), (None, 2), np.int32),
        (np.zeros(5, bool), (None,), np.bool_),
    ],
)
def test_expect_accepts(value: np.ndarray, shape: tuple[int | None, ...], dtype: type) -> None:
    expect("x", value, shape, dtype)


@pytest.mark.parametrize(
    ("value", "shape", "dtype"),
    [
        (np.zeros((3, 2)), (3, 3), np.float64),
        (np.zeros((3, 2)), (3,), np.float64),
        (np.zeros((3, 2)), (3, 2), np.float32),
        (np.zeros(3), (None, None), np.float64),
    ],
)
def test_expect_refuses_and_names_the_array(
    value: np.ndarray, shape: tuple[int | None, ...], dtype: type
) -> None:
    with pytest.raises(ValueError, match="speed: expected"):
        expect("speed", value, shape, dtype)


@pytest.mark.parametrize(
    "broken",
    [
        lambda log: dataclasses.replace(log.ego, t_us=log.ego.t_us.astype(np.int32)),
        lambda log: dataclasses.replace(log.ego, speed_mps=log.ego.speed_mps[:-1]),
        lambda log: dataclasses.replace(log.agents, size_m=log.agents.size_m[:, :1]),
        lambda log: dataclasses.replace(log.plans, label_ego=log.plans.label_ego[:, :10]),
        lambda log: dataclasses.replace(log.plans, images={"front": np.zeros((1, 4, 4, 3), np.uint8)}),
        lambda log: dataclasses.replace(log.road, width_m=log.road.width_m.astype(np.float64)),
        lambda log: Trajectory(np.zeros((40, 2), np.float32)),
        lambda log: Plan(STANDSTILL, np.zeros((2, 40, 3), np.float32), np.zeros(3, np.float32)),
        lambda log: RouteHint(Turn.LEFT, np.zeros((2, 2)), 10.0),
        lambda log: dataclasses.replace(builders.observation(image_size=8), cameras={}),
    ],
)
def test_records_check_their_arrays(broken: Callable[[DriveLog], object]) -> None:
    log = builders.lead_braking()
    with pytest.raises(ValueError, match=r"expected|differ"):
        broken(log)


def test_a_missing_or_failed_case_counts_as_zero() -> None:
    cases = (
        CaseScore("a", "ok", 100.0, {}),
        CaseScore("b", "ok", 50.0, {}),
        CaseScore("c", "failed", 80.0, {}),
        CaseScore("d", "infrastructure", 90.0, {}),
    )
    result = EvalResult("s", "p", "m", 6, cases, {})
    assert result.mean == 25.0
    assert dataclasses.replace(result, cases=cases[:1]).mean < result.mean  # dropping a record never helps
    assert math.isnan(dataclasses.replace(result, planned=0).mean)


def test_commands_have_readable_names() -> None:
    command = DrivingCommand(Lateral.TURN_LEFT, Longitudinal.CRUISE, 8.0, (20.0, 10.0), 0.9)
    assert command.name == "turn_left/cruise"


def test_the_braking_lead_is_hit_when_its_docstring_says() -> None:
    log = builders.lead_braking()
    k = 57
    front = log.ego.pose_world[k, 0] + log.ego_size.centre_from_axle_m + log.ego_size.length_m / 2
    rear = log.agents.pose_world[0, k, 0] - log.agents.size_m[0, 0] / 2
    assert rear - front == pytest.approx(0.5)  # closing at 10 m/s: contact 0.05 s later
    assert log.agents.speed_mps[0, k] == pytest.approx(0.0, abs=1e-5)


def test_the_pedestrian_is_in_mid_lane_when_its_docstring_says() -> None:
    log = builders.pedestrian_crossing()
    np.testing.assert_allclose(log.agents.pose_world[0, 50, :2], [45.0, 0.0], atol=1e-9)


def test_labels_end_where_the_future_is_too_short() -> None:
    log = builders.cruise(seconds=8.0)
    whole = np.isfinite(log.plans.label_ego).all(axis=(1, 2))
    np.testing.assert_array_equal(whole, log.plans.step <= 40)
    np.testing.assert_allclose(log.plans.label_ego[0, :, 0], 10.0 * 0.1 * np.arange(1, 41), rtol=1e-6)


def test_the_left_turn_ends_heading_north() -> None:
    log = builders.left_turn()
    assert log.ego.pose_world[-1, 2] == pytest.approx(np.pi / 2, abs=0.02)
    assert (log.plans.label_command[:, 0] == Lateral.TURN_LEFT).any()
