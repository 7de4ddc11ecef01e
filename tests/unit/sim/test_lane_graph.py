"""The lane graph of real towns: lanes join, ways are whole and not longer than they must be."""

import math
from dataclasses import replace
from itertools import pairwise

import carla
import numpy as np
import pytest

from sim.frames import waypoint_pose
from sim.lane_graph import CHANGE_COST_M, JOIN_M, LaneGraph, Place, key_of, section_ends
from sim.routes import town_map
from sim.server.opendrive import read_town

TOWNS = ("Town01", "Town03", "Town04", "Town06", "Town10HD")


@pytest.fixture(scope="module")
def graphs() -> dict[str, LaneGraph]:
    texts = {town: read_town(town) for town in TOWNS}
    return {town: LaneGraph.of(town_map(town, text), text) for town, text in texts.items()}


def spot(graph: LaneGraph, place: Place) -> np.ndarray:
    return np.array(waypoint_pose(graph.waypoint(place.lane, place.at_m)))[:2]


def some_places(graph: LaneGraph, rng: np.random.Generator, count: int) -> list[Place]:
    keys = sorted(graph.lanes)
    chosen = [keys[int(k)] for k in rng.integers(len(keys), size=count)]
    return [Place(key, float(rng.uniform(0, graph.lanes[key].length_m))) for key in chosen]


@pytest.mark.parametrize("town", TOWNS)
def test_every_driving_lane_is_there_and_joins_what_follows(graphs: dict[str, LaneGraph], town: str) -> None:
    graph = graphs[town]
    driving = {key_of(w) for w, _ in graph.town.get_topology() if w.lane_type == carla.LaneType.Driving}
    assert set(graph.lanes) == driving
    for lane in graph.lanes.values():
        assert lane.length_m > 0
        end = spot(graph, Place(lane.key, lane.length_m))
        for after in lane.after:
            assert math.dist(end, spot(graph, Place(after, 0.0))) < JOIN_M


@pytest.mark.parametrize("town", TOWNS)
def test_a_lane_runs_with_its_traffic(
    graphs: dict[str, LaneGraph], town: str, rng: np.random.Generator
) -> None:
    graph = graphs[town]
    for place in some_places(graph, rng, 40):
        here = graph.waypoint(place.lane, place.at_m)
        assert key_of(here) == place.lane
        if place.at_m + 1.0 < graph.lanes[place.lane].length_m:
            yaw = waypoint_pose(here)[2]
            step = spot(graph, Place(place.lane, place.at_m + 1.0)) - spot(graph, place)
            assert step @ [math.cos(yaw), math.sin(yaw)] > 0


@pytest.mark.parametrize("town", TOWNS)
def test_a_point_on_a_lane_is_found_there(
    graphs: dict[str, LaneGraph], town: str, rng: np.random.Generator
) -> None:
    graph = graphs[town]
    for place in some_places(graph, rng, 40):
        here = graph.waypoint(place.lane, place.at_m).transform.location
        found = {p.lane: p for p in graph.places(here.x, -here.y, here.z)}
        nearest = min(found.values(), key=lambda p: p.off_m)
        assert nearest.off_m < 0.5  # the client's own search is that coarse in bends
        if place.lane in found:
            assert found[place.lane].at_m == pytest.approx(place.at_m, abs=1.5)
        else:  # lanes that lie on each other outside junctions, e.g. where one begins
            assert graph.lanes[place.lane].junction < 0 or graph.lanes[nearest.lane].junction < 0


@pytest.mark.parametrize("town", TOWNS)
def test_ways_are_whole_and_no_longer_than_the_sum_of_two(
    graphs: dict[str, LaneGraph], town: str, rng: np.random.Generator
) -> None:
    graph = graphs[town]
    places = some_places(graph, rng, 8)
    table = {a: graph.ways(a, places) for a in places}
    for a in places:
        for b, way in zip(places, table[a], strict=True):
            if way is None:
                continue
            cost, legs = way
            assert legs[0].lane == a.lane
            assert legs[-1].lane == b.lane
            driven = sum(leg.end_m - leg.start_m for leg in legs)
            assert driven - 1e-6 <= cost <= driven + 100.0 * sum(leg.changed for leg in legs) + 1e-6
            for one, two in pairwise(legs):
                if two.changed:
                    assert (one.lane[:2], abs(one.lane[2] - two.lane[2])) == (two.lane[:2], 1)
                else:
                    assert two.lane in graph.lanes[one.lane].after
                    assert one.end_m == pytest.approx(graph.lanes[one.lane].length_m)
            for c, onward, direct in zip(places, table[b], table[a], strict=True):
                if onward is not None:
                    assert direct is not None, f"{a} to {c} although there is a way by {b}"
                    assert direct[0] <= cost + onward[0] + 2 * CHANGE_COST_M + 1e-6


def test_a_place_is_reached_from_itself_and_from_a_little_behind(graphs: dict[str, LaneGraph]) -> None:
    graph = graphs["Town01"]
    lane = next(lane for lane in graph.lanes.values() if lane.length_m > 50)
    here = Place(lane.key, 20.0)
    ways = graph.ways(here, [here, Place(lane.key, 19.5), Place(lane.key, 30.0)])
    assert [way and way[0] for way in ways] == [0.0, 0.0, 10.0]
    (round_trip,) = graph.ways(here, [Place(lane.key, 10.0)])
    assert round_trip is not None
    assert round_trip[0] > 50


def test_nothing_leads_out_of_a_dead_end(graphs: dict[str, LaneGraph]) -> None:
    town = graphs["Town01"]
    graph = LaneGraph(town.town, {key: replace(lane, after=()) for key, lane in town.lanes.items()})
    here, there = (Place(key, 0.0) for key in sorted(graph.lanes)[:2])
    assert graph.ways(here, [there]) == [None]


def test_lanes_beside_run_the_same_way_and_solid_lines_cost_more(graphs: dict[str, LaneGraph]) -> None:
    graph = graphs["Town04"]
    prices = set()
    for lane in graph.lanes.values():
        for other, price in graph.beside(lane.key, lane.length_m / 2):
            prices.add(price)
            assert other[:2] == lane.key[:2]
            assert other[2] * lane.key[2] > 0
    assert prices == {CHANGE_COST_M, 100.0}


def test_sections_are_read_from_the_text() -> None:
    text = '<road name="" length="30.5" id="7"><laneSection s="0"/><laneSection s="1.2e1" single="x"/>'
    text += '<road id="8" length="4"><lanes><laneSection s="0.0">'
    assert section_ends(text) == {7: [(0.0, 12.0), (12.0, 30.5)], 8: [(0.0, 4.0)]}
