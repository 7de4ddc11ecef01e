"""Bicycle model and walkers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.server import physics
from sim.server.actors import Vehicle, Walker

DT = 0.05
MKZ = [1, "vehicle.lincoln.mkz_2020", []]


def vehicle(throttle: float = 0.0, steer: float = 0.0, brake: float = 0.0, type_row: list = MKZ) -> Vehicle:
    car = Vehicle(1, type_row, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    car.control = [throttle, steer, brake, False, False, False, 0]
    return car


def run(car: Vehicle, seconds: float) -> Vehicle:
    for _ in range(round(seconds / DT)):
        physics.drive(car, DT)
    return car


def test_mkz_axles_are_where_the_ego_contract_says() -> None:
    assert physics.rear_axle_m(vehicle()) == pytest.approx(1.40, abs=0.005)
    assert physics.wheelbase_m(vehicle()) == pytest.approx(2.86, abs=0.01)


def test_full_throttle_reaches_100_kmh_in_a_sensible_time() -> None:
    car = vehicle(throttle=1.0)
    steps = 0
    while car.speed < 100 / 3.6 and steps < 400:
        physics.drive(car, DT)
        steps += 1
    assert 6.0 < steps * DT < 12.0


def test_full_brake_stops_and_stays() -> None:
    car = run(vehicle(throttle=1.0), 4.0)
    speed, start = car.speed, car.x
    car.control[:3] = [0.0, 0.0, 1.0]
    run(car, 5.0)
    assert (car.speed, car.vx, car.vy, car.ax, car.wz) == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert speed**2 / (2 * 9.0) < car.x - start < speed**2 / (2 * 7.0) + 0.15 * speed


def test_acceleration_is_continuous_enough() -> None:
    car = vehicle(throttle=0.5)
    physics.drive(car, DT)
    assert 0.0 < car.ax < 0.5 * 5.0
    run(car, 1.0)
    assert car.ax == pytest.approx(0.5 * 5.0 - 0.1, abs=0.1)


def test_positive_steer_turns_right_and_wheels_lag() -> None:
    car = run(vehicle(throttle=0.4), 2.0)
    car.control[1] = 0.5
    physics.drive(car, DT)
    assert 0.0 < car.wheel_rad < 0.25
    run(car, 1.0)
    assert car.yaw > 1.0
    assert car.y > 0.0


def test_rear_axle_follows_the_steady_circle() -> None:
    car = vehicle()
    car.constant_velocity = [3.0, 0.0, 0.0]
    car.control[1] = 0.3
    run(car, 1.5)
    radius = physics.wheelbase_m(car) / math.tan(car.wheel_rad)
    assert 3.0 / radius == pytest.approx(math.radians(car.wz), rel=1e-6)
    slip = math.atan2(car.vy, car.vx) - math.radians(car.yaw)
    assert math.tan(slip) == pytest.approx(physics.rear_axle_m(car) / radius, rel=1e-3)


@given(st.floats(0, 1), st.floats(-1, 1), st.floats(0, 1), st.booleans(), st.booleans())
def test_any_control_keeps_the_motion_within_limits(
    throttle: float, steer: float, brake: float, hand_brake: bool, reverse: bool
) -> None:
    car = vehicle(1.0)
    run(car, 3.0)
    car.control = [throttle, steer, brake, hand_brake, reverse, False, 0]
    for _ in range(60):
        before = car.speed
        physics.drive(car, DT)
        assert abs(car.speed - before) <= 20.0 * DT
        assert abs(car.speed * math.radians(car.wz)) <= physics.GRIP_MPS2 + 1e-6
        assert math.isfinite(car.x + car.y + car.yaw)


@pytest.mark.parametrize("reverse", [False, True])
def test_brake_never_reverses_the_motion(reverse: bool) -> None:
    car = vehicle(throttle=0.5)
    car.control[4] = reverse
    run(car, 3.0)
    sign = math.copysign(1.0, car.speed)
    car.control[:3] = [0.0, 0.0, 0.7]
    for _ in range(100):
        physics.drive(car, DT)
        assert car.speed * sign >= 0.0
    assert car.speed == 0.0


def test_ackermann_reaches_its_speed() -> None:
    car = vehicle()
    car.ackermann = [0.1, 0.0, 6.0, 0.0, 0.0]
    run(car, 5.0)
    assert car.speed == pytest.approx(6.0, abs=0.1)
    assert car.wheel_rad > 0.05


def test_trucks_are_slower_than_cars() -> None:
    truck = vehicle(1.0, type_row=[1, "vehicle.carlamotors.firetruck", []])
    assert run(truck, 3.0).speed < 0.7 * run(vehicle(1.0), 3.0).speed


def test_walker_walks_in_its_direction_and_stops() -> None:
    walker = Walker(1, [1, "walker.pedestrian.0001", []], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    walker.control = [[0.0, 2.0, 0.0], 1.5, False]
    for _ in range(20):
        physics.walk(walker, DT)
    assert (walker.x, walker.y) == (0.0, pytest.approx(1.5))
    assert walker.yaw == pytest.approx(90.0)
    walker.control[1] = 0.0
    physics.walk(walker, DT)
    assert (walker.vx, walker.vy) == (0.0, 0.0)
    assert walker.yaw == pytest.approx(90.0)
