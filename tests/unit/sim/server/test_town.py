"""Lights, groups, speeds and spawn points of the packaged towns."""

import subprocess
import sys

import carla
import numpy as np
import pytest

from drive.contracts import UserError
from sim.server.opendrive import available_towns, read_town, short_name
from sim.server.town import Town, load_town


@pytest.fixture(scope="module", params=["Town01", "Town02", "Town03", "Town10HD"])
def town(request: pytest.FixtureRequest) -> Town:
    return load_town(request.param)


def test_towns_are_read_without_importing_py123d() -> None:
    code = (
        "import sys; from sim.server.opendrive import read_town; read_town('Town01'); "
        "assert 'py123d' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_packaged_towns_are_listed() -> None:
    assert {"Town01", "Town02", "Town03", "Town04", "Town05", "Town06", "Town07", "Town10HD"} <= set(
        available_towns()
    )
    assert short_name("/Game/Carla/Maps/Town03_Opt") == "Town03"


def test_unknown_town_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"Town98.*Town01"):
        read_town("Town98")


def test_every_light_is_in_exactly_one_group(town: Town) -> None:
    lights = [sign.sign_id for sign in town.signs if sign.type_id == "traffic.traffic_light"]
    grouped = [sign_id for group in town.groups for controller in group for sign_id in controller]
    assert len(lights) > 10
    assert sorted(lights) == sorted(grouped)
    assert all(controller for group in town.groups for controller in group)


def test_stops_lie_on_driving_lanes_before_a_junction(town: Town) -> None:
    for sign in town.signs:
        for stop in sign.stops:
            waypoint = town.map.get_waypoint_xodr(stop.lane[0], stop.lane[1], 0.0)
            assert waypoint is None or not waypoint.is_junction
            assert 2.0 < stop.width_m < 6.0


def test_speeds_are_plausible(town: Town) -> None:
    assert all(20 <= speed <= 130 for speed in town.speed_kmh.values())


def test_spawn_points_are_distinct_and_off_junctions(town: Town) -> None:
    places = {tuple(round(v, 2) for v in point[0]) for point in town.spawn_points}
    assert len(places) == len(town.spawn_points) > 50


def test_spawn_points_lie_on_lane_centres_in_driving_direction_both_ways(town: Town) -> None:
    both = set()
    for (x, y, z), (pitch, yaw, _) in town.spawn_points:
        waypoint = town.map.get_waypoint(carla.Location(x, y, z), True, carla.LaneType.Driving)
        at = waypoint.transform
        across = at.get_right_vector()
        assert abs((at.location.x - x) * across.x + (at.location.y - y) * across.y) < 0.05
        assert abs((at.rotation.yaw - yaw + 180) % 360 - 180) < 3.0
        assert abs(pitch) < 30
        both.add((waypoint.road_id, waypoint.lane_id > 0))
    roads = {road for road, _ in both}
    assert sum((road, True) in both and (road, False) in both for road in roads) > len(roads) / 4


def test_spawn_points_leave_room_for_a_car(town: Town) -> None:
    rows = np.array([[*place, yaw] for place, (_, yaw, _) in town.spawn_points])
    gap = np.linalg.norm(rows[:, None, :3] - rows[None, :, :3], axis=-1)
    same_way = np.abs((rows[:, None, 3] - rows[None, :, 3] + 180) % 360 - 180) < 90
    np.fill_diagonal(gap, np.inf)
    assert gap[same_way].min() >= 5.0


def test_parsing_twice_gives_the_same_town() -> None:
    a, b = load_town("Town02"), load_town("Town02")
    assert (a.signs, a.groups, a.spawn_points) == (b.signs, b.groups, b.spawn_points)
