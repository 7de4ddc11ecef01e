"""Bicycle model and walkers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.server import physics
from sim.server.actors import Vehicle, Walker
from sim.vehicle_response import throttle_for

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


def seconds_to(kmh: float, throttle: float) -> float:
    car = vehicle(throttle)
    for step in range(1, 1000):
        physics.drive(car, DT)
        if car.speed * 3.6 >= kmh:
            return step * DT
    raise AssertionError(f"{kmh} km/h is never reached at throttle {throttle}")


def at_speed(kmh: float) -> Vehicle:
    car = vehicle(1.0)
    while car.speed * 3.6 < kmh:
        physics.drive(car, DT)
    return car


# Published fits of CARLA 0.9.15's Lincoln MKZ 2020, played forward: see sim/vehicle_response.py.


@pytest.mark.parametrize(
    ("throttle", "kmh", "seconds"),
    [(1.0, 20, 0.85), (1.0, 50, 2.5), (1.0, 80, 5.0), (0.75, 50, 4.75), (0.6, 50, 9.6)],
)
def test_speeding_up_takes_as_long_as_published(throttle: float, kmh: float, seconds: float) -> None:
    assert seconds_to(kmh, throttle) == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize(("kmh", "metres"), [(50, 11.3), (80, 31.6)])
def test_braking_takes_as_far_as_published(kmh: float, metres: float) -> None:
    car = at_speed(kmh)
    start = car.x
    car.control[:3] = [0.0, 0.0, 1.0]
    run(car, 5.0)
    assert (car.speed, car.vx, car.vy, car.ax, car.wz, car.side) == (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert car.x - start == pytest.approx(metres, rel=0.1)


@pytest.mark.parametrize(("steer", "radius_m"), [(0.1, 36.0), (0.3, 12.0), (0.5, 7.3)])
def test_circles_are_as_wide_as_published(steer: float, radius_m: float) -> None:
    car = holding(20.0, steer)
    assert car.speed / math.radians(car.wz) == pytest.approx(radius_m, rel=0.1)


def test_a_third_of_the_throttle_does_not_move_it() -> None:
    assert run(vehicle(0.3), 5.0).speed == 0.0


def holding(kmh: float, steer: float, seconds: float = 4.0) -> Vehicle:
    car = at_speed(kmh)
    car.control[1] = steer
    for _ in range(round(seconds / DT)):
        car.speed = kmh / 3.6
        car.control[0] = throttle_for(physics.AIR_1PM * car.speed**2, car.speed)
        physics.drive(car, DT)
    return car


def test_faster_means_wider_and_a_sliding_car_plows_and_never_spins() -> None:
    radii = [v / 3.6 / math.radians(holding(v, 0.1).wz) for v in (10.0, 30.0, 50.0, 80.0)]
    assert radii == sorted(radii)
    for kmh in (50.0, 80.0, 120.0):
        car = holding(kmh, 1.0, 8.0)
        side_grip = physics.FRICTION_FRONT * physics.GRAVITY_MPS2
        assert abs(car.speed * math.radians(car.wz)) < 1.1 * side_grip
        assert abs(math.atan2(car.side, car.speed)) < math.radians(12)


def test_slow_cars_follow_the_kinematic_bicycle() -> None:
    car = holding(3.0, 0.6)
    radius = physics.wheelbase_m(car) / math.tan(car.wheel_rad)
    assert car.speed / math.radians(car.wz) == pytest.approx(radius, rel=0.01)
    assert car.side == pytest.approx(physics.rear_axle_m(car) * math.radians(car.wz), abs=0.01)


@pytest.mark.parametrize("dt", [0.02, 0.05, 0.1])
def test_the_path_hardly_depends_on_the_step(dt: float) -> None:
    def path(step: float) -> tuple[float, float, float]:
        car = at_speed(40.0)
        car.x = car.y = car.yaw = 0.0
        car.control[:3] = [0.4, 0.2, 0.0]
        for _ in range(round(2.0 / step)):
            physics.drive(car, step)
        return car.x, car.y, car.yaw

    fine, coarse = path(0.005), path(dt)
    assert math.dist(fine[:2], coarse[:2]) < 12 * dt
    assert abs(fine[2] - coarse[2]) < 60 * dt


def test_acceleration_is_continuous_enough() -> None:
    car = vehicle(throttle=0.7)
    physics.drive(car, DT)
    first = car.ax
    run(car, 0.5)
    assert 0.0 < first < 0.5 * car.ax


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
        assert abs(car.speed * math.radians(car.wz)) <= 14.0  # a slide's start turns faster than it can go on
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
