"""The tracker: it follows plans on a bicycle model and brakes on nonsense."""

import math

import numpy as np
import pytest

from sim.control import SAFE_BRAKE, Tracker, VehicleGains
from sim.expert import WHEELBASE_M
from sim.vehicle_response import BRAKE_MPS2, DRAG_MPS2, engine_mps2

GAINS = VehicleGains()


def straight(speed: float) -> np.ndarray:
    t = np.arange(1, 41) * 0.1
    return np.stack([speed * t, 0 * t, 0 * t], -1).astype(np.float32)


def drive(
    plan: np.ndarray, speed: float, lateral: float = 0.0, seconds: float = 3.0
) -> tuple[np.ndarray, float]:
    """Follow one world-fixed plan with ideal pedals and wheels; returns the final pose and speed."""
    tracker, pose = Tracker(GAINS), np.array([0.0, lateral, 0.0])
    tracker.set_plan(plan, np.zeros(3), 0.0)
    for k in range(round(seconds / 0.05)):
        pedals = tracker.control(pose, speed, 0.05 * k, 0.05)
        wheel = pedals.steer * GAINS.max_wheel_rad
        accel = engine_mps2(pedals.throttle, speed) - DRAG_MPS2 - BRAKE_MPS2 * pedals.brake
        speed = max(0.0, speed + 0.05 * accel)
        pose = pose + 0.05 * speed * np.array(
            [math.cos(pose[2]), math.sin(pose[2]), math.tan(wheel) / WHEELBASE_M]
        )
    return pose, speed


def test_holds_speed() -> None:
    assert drive(straight(8.0), 8.0)[1] == pytest.approx(8.0, abs=0.3)


def test_speeds_up_and_slows_down() -> None:
    assert drive(straight(8.0), 5.0)[1] == pytest.approx(8.0, abs=0.5)
    assert drive(straight(3.0), 6.0)[1] == pytest.approx(3.0, abs=0.5)


def test_stops_where_the_plan_stops() -> None:
    t = np.arange(1, 41) * 0.1
    x = np.where(t < 2.5, 5 * t - t**2, 6.25)
    pose, speed = drive(np.stack([x, 0 * t, 0 * t], -1).astype(np.float32), 5.0, seconds=4.0)
    assert speed == 0.0
    assert pose[0] == pytest.approx(6.25, abs=1.0)


def test_steers_back_to_the_path_from_both_sides() -> None:
    left, right = drive(straight(6.0), 6.0, lateral=1.0)[0], drive(straight(6.0), 6.0, lateral=-1.0)[0]
    assert abs(left[1]) < 0.3
    assert left[1] == pytest.approx(-right[1], abs=1e-6)


def test_positive_steer_is_left() -> None:
    tracker = Tracker(GAINS)
    t = np.arange(1, 41) * 0.1
    tracker.set_plan(np.stack([6 * t, 0.5 * t**2, 0.1 * t], -1).astype(np.float32), np.zeros(3), 0.0)
    assert tracker.control(np.zeros(3), 6.0, 0.0, 0.05).steer > 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_brakes_on_a_plan_that_is_not_finite_and_counts_it(bad: float) -> None:
    tracker, plan = Tracker(GAINS), straight(6.0)
    plan[17, 1] = bad
    assert not tracker.set_plan(plan, np.zeros(3), 0.0)
    pedals = tracker.control(np.zeros(3), 6.0, 0.0, 0.05)
    assert (pedals.throttle, pedals.brake, pedals.steer) == (0.0, SAFE_BRAKE, 0.0)
    assert tracker.unusable_plans == 1


def test_a_standing_plan_holds_the_brake() -> None:
    tracker = Tracker(GAINS)
    tracker.set_plan(straight(0.0), np.zeros(3), 0.0)
    pedals = tracker.control(np.zeros(3), 0.0, 0.0, 0.05)
    assert pedals.throttle == 0.0
    assert pedals.brake > 0.0


def test_steer_uses_the_servers_steering_curve() -> None:
    gains = VehicleGains(max_wheel_rad=1.0, curve=((0.0, 1.0), (36.0, 0.5)))
    assert gains.steer(0.25, 10.0) == pytest.approx(0.5)
    assert gains.steer(0.25, 0.0) == pytest.approx(0.25)
    assert gains.steer(9.0, 0.0) == 1.0
