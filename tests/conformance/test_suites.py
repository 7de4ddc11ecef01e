"""Every route of every shipped suite can be built on its town, and is what the suite promises."""

from collections import defaultdict

import numpy as np
import pytest

from drive.contracts import Turn
from sim.routes import build_route, road_speeds_mps, town_map
from sim.server.opendrive import read_town
from sim.suites import load_suite, suite_names


@pytest.mark.parametrize("name", suite_names())
def test_every_route_exists(name: str) -> None:
    by_town = defaultdict(list)
    for spec in load_suite(name).routes:
        by_town[spec.town].append(spec)
    turning = planned = 0
    for town, specs in by_town.items():
        text = read_town(town)
        world, speeds = town_map(town, text), road_speeds_mps(text)
        for spec in specs:
            route = build_route(world, spec, speeds)
            assert route.length_m == spec.length_m
            assert len(route.pose_world) >= route.goal_m + 40
            assert np.abs(np.diff(np.unwrap(route.pose_world[:, 2]))).max() < 0.4
            assert route.speed_mps.min() > 2.0
            assert route.width_m.min() > 2.4
            driven = route.turn[int(route.start_m) : int(route.goal_m)]
            turning += bool(np.isin(driven, (Turn.LEFT, Turn.RIGHT)).any())
            planned += 1
    assert turning / planned > 0.8
