"""Waypoints give the route they were taken from, lane changes are smooth, lengths are the published ones."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from drive.contracts import Turn, UserError
from sim.frames import waypoint_pose
from sim.lane_graph import LaneGraph, LaneKey
from sim.route_files import read_routes
from sim.route_planner import FileRouteSpec, lane_route, route_for, trace_points
from sim.routes import Route, RouteSpec, build_route, road_speeds_mps, town_map
from sim.server.opendrive import read_town

TOWNS = ("Town01", "Town03", "Town05", "Town10HD")
LENGTH_M = 2.2  # the leaderboard's planner stops up to two steps of 1 m before the last waypoint


class Town:
    """A town, its lane graph and its speeds."""

    def __init__(self, name: str) -> None:
        text = read_town(name)
        self.name, self.map, self.speeds = name, town_map(name, text), road_speeds_mps(text)
        self.graph = LaneGraph.of(self.map, text)

    def route(self, *points: tuple[float, float, float]) -> Route:
        spec = FileRouteSpec("r", self.name, 1, 0.0, points_world=points)
        return route_for(self.map, spec, self.speeds)


@pytest.fixture(scope="module")
def towns() -> dict[str, Town]:
    return {name: Town(name) for name in TOWNS}


def well_formed(route: Route) -> None:
    """What everybody who drives a route relies on."""
    hops = np.hypot(*np.diff(route.pose_world[:, :2], axis=0).T)
    assert hops == pytest.approx(np.ones(len(hops)), abs=0.2)
    heading = np.arctan2(*np.diff(route.pose_world[:, :2], axis=0).T[::-1])
    astray = np.abs((heading - route.pose_world[:-1, 2] + math.pi) % (2 * math.pi) - math.pi)
    assert astray.max() < 0.3
    assert len(route.pose_world) > route.goal_m + 40
    assert (
        len({len(getattr(route, f)) for f in ("z_m", "width_m", "junction", "lane", "turn", "limit_mps")})
        == 1
    )
    assert (route.speed_mps <= route.limit_mps).all()
    assert np.isfinite(route.pose_world).all()


@pytest.mark.parametrize("every_m", [2, 20, 60])
@pytest.mark.parametrize("town", TOWNS)
def test_waypoints_of_a_route_give_that_route(towns: dict[str, Town], town: str, every_m: int) -> None:
    place = towns[town]
    for seed in range(4):
        original = build_route(place.map, RouteSpec("r", town, seed, 180.0), place.speeds)
        first, last = int(original.start_m), int(original.goal_m)
        chosen = sorted({*range(first, last, every_m), last})
        points = [(*original.pose_world[i, :2].tolist(), float(original.z_m[i])) for i in chosen]
        route = place.route(*points)
        well_formed(route)
        driven = route.pose_world[int(route.start_m) : int(route.goal_m), :2]
        gap = np.hypot(*(driven[:, None] - original.pose_world[None, :, :2]).transpose(2, 0, 1)).min(1)
        assert gap.max() < 0.8  # to the nearest point, which are a metre apart
        length = np.hypot(*np.diff(original.pose_world[first : last + 1, :2], axis=0).T).sum()
        assert route.length_m == pytest.approx(length, rel=0.01)
        assert math.dist(route.at(route.start_m)[:2], points[0][:2]) < 0.5
        assert math.dist(route.at(route.goal_m)[:2], points[-1][:2]) < 1.0


def neighbours(town: Town) -> tuple[LaneKey, LaneKey]:
    """A long lane outside junctions and one beside it that may be changed to."""
    for key, lane in sorted(town.graph.lanes.items()):
        if lane.junction < 0 and lane.length_m > 90:
            allowed = [other for other, price in town.graph.beside(key, 45.0) if price < 50]
            if allowed:
                return key, allowed[0]
    raise AssertionError("no such lanes")


def point(town: Town, lane: LaneKey, at_m: float) -> tuple[float, float, float]:
    here = town.graph.waypoint(lane, at_m)
    return (*waypoint_pose(here)[:2], here.transform.location.z)


@pytest.mark.parametrize("town", ["Town03", "Town05", "Town10HD"])
def test_a_lane_change_is_smooth_announced_and_complete(towns: dict[str, Town], town: str) -> None:
    place = towns[town]
    here, there = neighbours(place)
    route = place.route(point(place, here, 5.0), point(place, here, 35.0), point(place, there, 80.0))
    well_formed(route)
    side = Turn.LANE_LEFT if abs(there[2]) < abs(here[2]) else Turn.LANE_RIGHT
    assert route.turn[int(route.start_m)] == side  # 30 m before it begins
    assert route.turn[int(route.start_m) + 31] == side
    assert route.turn[int(route.goal_m) - 2] not in (Turn.LANE_LEFT, Turn.LANE_RIGHT)
    assert math.dist(route.at(route.start_m + 30.0)[:2], point(place, here, 35.0)[:2]) < 0.3
    assert math.dist(route.at(route.goal_m)[:2], point(place, there, 80.0)[:2]) < 0.3
    bends = np.abs(np.diff(np.unwrap(route.pose_world[: int(route.goal_m), 2])))
    assert bends.max() < 0.12


LANES = """<lanes><laneSection s="0"><center><lane id="0" type="none" level="false"/></center><right>
<lane id="-1" type="driving" level="false"><link>{link}</link><width sOffset="0" a="3.5" b="0" c="0" d="0"/>
</lane></right></laneSection></lanes>"""
ROAD = """<road name="" length="50" id="{id}" junction="-1"><link>{link}</link><planView>
<geometry s="0" x="{x}" y="{y}" hdg="0" length="50"><line/></geometry></planView>"""


def street(number: int, y: float) -> str:
    """Two roads of 50 m, one after the other, eastwards."""
    onward, back = '<successor id="-1"/>', '<predecessor id="-1"/>'
    first = ROAD.format(
        id=number,
        x=0,
        y=y,
        link=f'<successor elementType="road" elementId="{number + 1}" contactPoint="start"/>',
    )
    second = ROAD.format(
        id=number + 1,
        x=50,
        y=y,
        link=f'<predecessor elementType="road" elementId="{number}" contactPoint="end"/>',
    )
    return f"{first}{LANES.format(link=onward)}</road>{second}{LANES.format(link=back)}</road>"


TWO_ROADS = (
    '<OpenDRIVE><header revMajor="1" revMinor="4" name="" version="1"/>'
    f"{street(0, 0.0)}{street(10, 50.0)}</OpenDRIVE>"
)


def test_roads_that_do_not_meet_have_no_way_between_them() -> None:
    apart = town_map("Apart", TWO_ROADS)
    points = tuple((x, y, 0.0) for x, y in ((5, -1.75), (30, -1.75), (50, 48.25), (80, 48.25), (9, -1.75)))
    trace = trace_points(LaneGraph.of(apart, TWO_ROADS), points)
    assert np.isfinite(trace.hop_m).tolist() == [True, False, True, False]
    assert trace.off_m == pytest.approx(np.zeros(5), abs=0.01)
    spec = FileRouteSpec("r", "Apart", 1, 0.0, points_world=points)
    with pytest.raises(UserError, match="r: Apart has no way along its waypoints"):
        route_for(apart, spec, {})


def test_where_lanes_end_the_path_goes_straight_on() -> None:
    apart = town_map("Apart", TWO_ROADS)
    spec = FileRouteSpec("r", "Apart", 1, 0.0, points_world=((1.0, -1.75, 0.0), (95.0, -1.75, 0.0)))
    route = route_for(apart, spec, {})
    well_formed(route)
    assert route.length_m == pytest.approx(94.0, abs=0.05)
    assert route.pose_world[:, 1] == pytest.approx(np.full(len(route.pose_world), -1.75), abs=0.01)
    assert route.pose_world[0, 0] == pytest.approx(-4.0, abs=0.01)


def test_the_same_file_route_is_the_same_path(towns: dict[str, Town]) -> None:
    place = towns["Town03"]
    here, there = neighbours(place)
    points = (point(place, here, 5.0), point(place, there, 80.0))
    assert place.route(*points).pose_world.tobytes() == place.route(*points).pose_world.tobytes()


def test_a_spec_by_seed_is_built_as_before(towns: dict[str, Town]) -> None:
    place = towns["Town01"]
    spec = RouteSpec("r", "Town01", 3, 150.0)
    ours, theirs = route_for(place.map, spec, place.speeds), build_route(place.map, spec, place.speeds)
    assert ours.pose_world.tobytes() == theirs.pose_world.tobytes()


def planned(shared_data: Path, wanted: set[str]) -> list[tuple[str, float, int]]:
    """Bench2Drive's routes on some towns: id, planned length, lane changes."""
    path = shared_data / "carla" / "routes" / "bench2drive220.xml"
    if not path.is_file():
        pytest.skip(f"no {path.name} in ../shared/data")
    found = []
    routes = read_routes(path).routes
    for name in sorted(wanted):
        town = Town(name)
        for route in (r for r in routes if r.town == name):
            trace = trace_points(town.graph, route.points_world)
            path_driven = lane_route(town.graph, trace.legs, town.speeds)
            found.append((route.route_id, path_driven.length_m, sum(leg.changed for leg in trace.legs)))
    return found


def check_lengths(shared_data: Path, towns: set[str], count: int) -> None:
    published = {}
    for path in sorted((shared_data / "carla" / "results").glob("b2dzoo_*.json")):
        for record in json.loads(path.read_text(encoding="utf-8"))["_checkpoint"]["records"]:
            published[record["route_id"].split("_")[1]] = record["meta"]["route_length"]
    routes = planned(shared_data, towns)
    assert len(routes) == count
    known = [route for route in routes if route[0] in published]
    assert len(known) > count - 5  # routes on which all four models crashed have no record
    for route_id, length, changes in known:
        # the leaderboard counts the jump to the side of each lane change
        assert length == pytest.approx(published[route_id], abs=LENGTH_M + 3.5 * changes), route_id


def test_lengths_are_those_of_published_results(shared_data: Path) -> None:
    check_lengths(shared_data, {"Town01", "Town02", "Town03", "Town04", "Town05", "Town06", "Town07"}, 51)


@pytest.mark.slow
def test_lengths_in_large_towns_are_those_of_published_results(shared_data: Path) -> None:
    check_lengths(shared_data, {"Town10HD", "Town11", "Town12", "Town13", "Town15"}, 169)
