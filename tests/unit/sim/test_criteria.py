"""Infractions and the ends of a drive, on a real town map with hand-placed egos."""

from dataclasses import replace

import carla
import numpy as np
import pytest

from sim.criteria import Criteria, time_limit_s
from sim.expert import FRONT_M
from sim.routes import Route, RouteSpec, build_route, town_map
from sim.sensors import Contact
from sim.server.opendrive import read_town
from sim.situation import GREEN, RED, Situation
from tests.sim_builders import scene_of


@pytest.fixture(scope="module")
def town() -> carla.Map:
    return town_map("Town01", read_town("Town01"))


@pytest.fixture(scope="module")
def route(town: carla.Map) -> Route:
    return build_route(town, RouteSpec("r", "Town01", 3, 150.0))


def watch(town: carla.Map, route: Route, **ego: float) -> tuple[Criteria, list[Situation]]:
    """Criteria and the scenes of a 10 m/s drive of 3 s from 20 m on, displaced as given."""
    scenes = [
        replace(scene_of(10.0, route=route, at_m=20.0 + 0.5 * k, **ego), t_s=0.05 * k) for k in range(60)
    ]
    return Criteria(town, 100.0, 0.05), scenes


def kinds(criteria: Criteria) -> list[str]:
    return [e.kind for e in criteria.finish([], 0)]


def test_driving_in_the_lane_is_no_infraction(town: carla.Map, route: Route) -> None:
    criteria, scenes = watch(town, route)
    assert [criteria.tick(s, 40.0) for s in scenes] == [None] * 60
    assert kinds(criteria) == []
    assert criteria.completion == pytest.approx((20 + 29.5 - 5) / 150)
    assert criteria.driven_m == pytest.approx(29.5, abs=0.6)


def test_the_oncoming_lane_counts(town: carla.Map, route: Route) -> None:
    criteria, scenes = watch(
        town, route, lateral_m=4.0
    )  # right-hand traffic: the oncoming lane is on the left
    for scene in scenes:
        criteria.tick(scene, 40.0)
    events = criteria.finish([], 0)
    assert [e.kind for e in events] == ["outside_route_lanes"]
    assert "oncoming" in events[0].detail
    assert criteria.outside_m == pytest.approx(30.0, abs=3.0)


def test_off_the_road_counts(town: carla.Map, route: Route) -> None:
    criteria, scenes = watch(town, route, lateral_m=-4.5)
    for scene in scenes:
        criteria.tick(scene, 40.0)
    events = criteria.finish([], 0)
    assert [e.kind for e in events] == ["outside_route_lanes"]
    assert "off the road" in events[0].detail


def test_leaving_the_route_ends_the_drive(town: carla.Map, route: Route) -> None:
    criteria, scenes = watch(town, route, lateral_m=11.0)
    assert criteria.tick(scenes[0], 40.0) == "deviation"
    assert criteria.completion < 1.0


@pytest.mark.parametrize(("state", "expected"), [(RED, ["red_light"]), (GREEN, [])])
def test_crossing_the_line_counts_on_red_only(
    town: carla.Map, route: Route, state: int, expected: list[str]
) -> None:
    criteria = Criteria(town, 100.0, 0.05)
    for k in range(60):
        at = 20.0 + 0.5 * k
        scene = scene_of(10.0, route=route, at_m=at, t_s=0.05 * k, lights=[(32.0 + FRONT_M, state)])
        criteria.tick(scene, 40.0)
    assert kinds(criteria) == expected


def test_standing_before_a_red_light_is_not_blocked_but_a_free_way_is(town: carla.Map, route: Route) -> None:
    waits, blocks = Criteria(town, 200.0, 0.05), Criteria(town, 200.0, 0.05)
    for k in range(round(45 / 0.05)):
        scene = scene_of(0.0, route=route, t_s=0.05 * k)
        assert waits.tick(scene, 0.0) is None
        if blocks.ended is None:
            blocks.tick(scene, 10.0)
    assert blocks.ended == "blocked"
    assert kinds(blocks) == ["vehicle_blocked"]


def test_goal_and_time_limit_end_the_drive(town: carla.Map, route: Route) -> None:
    assert (
        Criteria(town, 100.0, 0.05).tick(scene_of(8.0, route=route, at_m=route.goal_m + 0.1), 9.0)
        == "completed"
    )
    late = Criteria(town, 1.0, 0.05)
    assert late.tick(scene_of(8.0, route=route, t_s=1.5), 9.0) == "timeout"
    assert kinds(late) == ["route_timeout"]
    assert time_limit_s(100.0, 2) == 170.0


def test_collisions_are_named_by_what_was_hit_and_sorted_by_time(town: carla.Map) -> None:
    criteria = Criteria(town, 100.0, 0.05)
    contacts = [Contact(140, 9, "walker.pedestrian.0001"), Contact(120, 8, "vehicle.audi.tt")]
    events = criteria.finish([*contacts, Contact(160, 7, "static.prop.bin")], 100)
    assert [(e.kind, e.t_us) for e in events] == [
        ("collisions_vehicle", 1_000_000),
        ("collisions_pedestrian", 2_000_000),
        ("collisions_layout", 3_000_000),
    ]


def test_lane_checks_do_not_depend_on_float_noise(town: carla.Map, route: Route) -> None:
    scenes = watch(town, route, lateral_m=4.0)[1]
    shifted = [replace(s, t_s=s.t_s + np.float64(1e-12)) for s in scenes]
    totals = []
    for sequence in (scenes, shifted):
        criteria = Criteria(town, 100.0, 0.05)
        for scene in sequence:
            criteria.tick(scene, 40.0)
        criteria.finish([], 0)
        totals.append(criteria.outside_m)
    assert totals[0] == pytest.approx(totals[1])


def test_being_hit_while_standing_is_not_an_infraction(town: carla.Map, route: Route) -> None:
    for speed, expected in ((0.0, []), (5.0, ["collisions_vehicle"])):
        criteria = Criteria(town, 100.0, 0.05)
        for k in range(20):
            criteria.tick(scene_of(speed, route=route, at_m=20.0, t_s=0.05 * k), 0.0)
        events = criteria.finish([Contact(110, 8, "vehicle.audi.tt")], 100)
        assert [e.kind for e in events] == expected
