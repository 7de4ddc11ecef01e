"""Where walkers may go: kerbs, strolls, and not into cars."""

import math

import carla
import numpy as np
import pytest

from drive.contracts import AgentKind
from sim.routes import Route, RouteSpec, build_route, town_map
from sim.server.opendrive import read_town
from sim.walkers import _blocked, _boxes, free_walk_m, kerb_m
from tests.sim_builders import scene_of


@pytest.fixture(scope="module")
def town() -> carla.Map:
    return town_map("Town01", read_town("Town01"))


@pytest.fixture(scope="module")
def route(town: carla.Map) -> Route:
    return build_route(town, RouteSpec("r", "Town01", 3, 150.0))


def test_kerbs_of_a_two_lane_road(town: carla.Map, route: Route) -> None:
    pose = route.at(20.0)
    right, left = (math.sin(pose[2]), -math.cos(pose[2])), (-math.sin(pose[2]), math.cos(pose[2]))
    near, far = kerb_m(town, pose, right, 0.0), kerb_m(town, pose, left, 0.0)
    assert near == pytest.approx(2.0, abs=0.5)
    assert far == pytest.approx(6.0, abs=0.5)


def test_a_stroll_ends_before_the_road(town: carla.Map, route: Route) -> None:
    pose = route.at(20.0)
    right = np.array([math.sin(pose[2]), -math.cos(pose[2])])
    spot = tuple(pose[:2] + 3.0 * right)
    assert free_walk_m(town, spot, (float(-right[0]), float(-right[1])), 0.0) < 1.5


def _stops(x: float, y: float, way: tuple[float, float], ego_speed: float) -> bool:
    return _blocked((x, y), way, _boxes(scene_of(ego_speed, at_m=20.0)))  # centre of the ego at x = 21.4


def test_nobody_walks_into_the_side_of_a_car_or_into_a_standing_one() -> None:
    assert _stops(21.4, -2.0, (0.0, 1.0), 8.0)
    assert _stops(24.0, -2.0, (0.0, 1.0), 0.0)
    assert not _stops(21.4, -6.0, (0.0, 1.0), 8.0)
    assert not _stops(21.4, -2.0, (0.0, -1.0), 8.0)


def test_the_space_ahead_of_a_moving_ego_is_not_avoided() -> None:
    assert not _stops(26.0, -2.0, (0.0, 1.0), 8.0)


def test_walkers_wait_for_approaching_cars_of_the_traffic() -> None:
    def blocked(car_speed: float) -> bool:
        scene = scene_of(8.0, [(AgentKind.CAR, 50.0, 0.0, math.pi, car_speed, 4.8, 2.0)])
        return _blocked((42.0, -1.6), (0.0, 1.0), _boxes(scene))

    assert blocked(8.0)
    assert not blocked(0.0)


def test_who_stands_on_the_road_does_not_step_out_before_the_ego() -> None:
    scene = scene_of(5.0, at_m=20.0)  # nose of the ego at x = 23.8
    assert not _blocked((30.0, -2.0), (0.0, 1.0), _boxes(scene))
    assert _blocked((30.0, -2.0), (0.0, 1.0), _boxes(scene, careful=True))
    assert not _blocked((45.0, -2.0), (0.0, 1.0), _boxes(scene, careful=True))
