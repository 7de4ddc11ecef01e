"""Background traffic: where it may be, and that the seed fixes it."""

from collections.abc import Iterator
from itertools import combinations
from math import dist

import carla
import numpy as np
import pytest

from sim.background import CLEAR_OF_OTHERS_M, CLEAR_OF_START_M, background_places, spawn_background
from sim.frames import waypoint_pose
from tests.stage_builder import route_of, theatre


@pytest.fixture(scope="module")
def world() -> Iterator[carla.World]:
    with theatre("Town01") as found:
        yield found


def spawned(world: carla.World, count: int, seed: int) -> list[tuple[str, float, float]]:
    vehicles = spawn_background(world, route_of(world, 17), count, seed)
    world.tick()
    rows = []
    for vehicle in vehicles:
        place = vehicle.get_location()
        rows.append((vehicle.type_id, round(place.x, 2), round(place.y, 2)))
        vehicle.destroy()
    world.tick()
    return rows


def test_the_seed_fixes_who_is_where(world: carla.World) -> None:
    first, again, other = spawned(world, 8, 3), spawned(world, 8, 3), spawned(world, 8, 4)
    assert len(first) == 8
    assert first == again != other
    assert spawned(world, 0, 3) == []


@pytest.mark.parametrize("seed", [6, 17])
def test_places_are_lanes_beside_and_across_the_route_but_not_the_egos_own(
    world: carla.World, seed: int
) -> None:
    route, town = route_of(world, seed), world.get_map()
    places = background_places(town, route)
    poses = np.array([pose for pose, _ in places])
    gap = np.hypot(*(poses[:, None, :2] - route.pose_world[None, :, :2]).transpose(2, 0, 1)).min(1)
    assert (gap > 2.5).all()
    assert (gap < 5.0).any()  # oncoming lane
    assert (gap > 15.0).any()  # side roads
    for pose, z in places:
        lane = town.get_waypoint(carla.Location(pose[0], -pose[1], z), True, carla.LaneType.Driving)
        assert dist(waypoint_pose(lane)[:2], pose[:2]) < 0.5


def test_nobody_is_near_the_ego_or_another(world: carla.World) -> None:
    route = route_of(world, 17)
    start = route.at(route.start_m)
    places = [(x, -y) for _, x, y in spawned(world, 100, 5)]
    assert len(places) > 8
    assert min(dist(place, start[:2]) for place in places) > CLEAR_OF_START_M - 0.5
    assert min(dist(a, b) for a, b in combinations(places, 2)) > CLEAR_OF_OTHERS_M - 0.5
