"""The expert drives every scenario type: it is staged, passed, and nobody is hit.

The routes are made here, in small towns: a wide road with several lanes of the same way, and two-way streets
that end in a left or a right turn.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import carla
import numpy as np
import pytest

from drive.contracts import F64
from sim.frames import waypoint_pose
from sim.route_files import Scenario, Value
from sim.route_planner import FileRouteSpec
from sim.routes import Route, RouteSpec, build_route, town_map
from sim.runner import run_suite
from sim.scenarios.catalog import SCENARIOS
from sim.scenarios.junctions import next_junction, ways_through
from sim.scenarios.lanes import same_way
from sim.scenarios.stage import Stage
from sim.server.opendrive import read_town
from sim.suites import Suite

WIDE, LEFT, RIGHT = ("Town06", 21, 150.0), ("Town01", 17, 170.0), ("Town01", 6, 170.0)
Street = tuple[str, int, float]
TRIGGER_M = {WIDE: 20.0, LEFT: 15.0, RIGHT: 60.0}
ON_WIDE = (
    "Accident", "ConstructionObstacle", "ParkedObstacle", "HazardAtSideLane", "ParkingCutIn", "StaticCutIn",
    "HardBreakRoute", "ControlLoss", "YieldToEmergencyVehicle", "SequentialLaneChange", "HighwayCutIn",
    "DynamicObjectCrossing", "ParkingCrossingPedestrian", "HighwayExit", "MergerIntoSlowTraffic",
    "MergerIntoSlowTrafficV2", "BackgroundActivityParametrizer",
)  # fmt: skip
ON_LEFT = (
    "AccidentTwoWays", "ConstructionObstacleTwoWays", "ParkedObstacleTwoWays", "HazardAtSideLaneTwoWays",
    "VehicleOpensDoorTwoWays", "InvadingTurn", "SignalizedJunctionLeftTurn", "NonSignalizedJunctionLeftTurn",
    "SignalizedJunctionLeftTurnEnterFlow", "NonSignalizedJunctionLeftTurnEnterFlow", "InterurbanActorFlow",
    "CrossingBicycleFlow", "ParkingExit",
)  # fmt: skip
QUICK = ("ParkedObstacle", "DynamicObjectCrossing", "NonSignalizedJunctionRightTurn")
GAPS: dict[str, Value] = {"frequency": (90.0, 140.0), "source_dist_interval": (25.0, 40.0)}


def street_of(kind: str) -> Street:
    return WIDE if kind in ON_WIDE else LEFT if kind in ON_LEFT else RIGHT


@cache
def stage_of(street: Street) -> Stage:
    """Map and route, without a world."""
    town, seed, length = street
    here = town_map(town, read_town(town))
    nobody: Any = None
    return Stage(nobody, here, build_route(here, RouteSpec("r", town, seed, length)), nobody, lambda _: None)


def places(kind: str, street: Street) -> Mapping[str, Value]:
    """Places that a type needs: a lane beside the wide road, or a way through the junction."""
    stage = stage_of(street)
    if street == WIDE:
        side = "right" if kind == "HighwayCutIn" else "left"
        begin, end = (
            lane_point(stage, at, side) for at in ((45.0, 120.0) if side == "right" else (8.0, 125.0))
        )
    else:
        crossing = next_junction(stage, 60.0)
        sides = ("left", "opposite", "right") if street == RIGHT else ("opposite", "right")
        found = (ways_through(stage, crossing, side, street == RIGHT) for side in sides)
        way = next(ways[0] for ways in found if ways)
        begin, end = way.path_world[0], way.path_world[-1]
    start, stop = ((float(p[0]), float(p[1]), 0.0) for p in (begin, end))
    names = (
        ("other_actor_location", "end_location")
        if kind == "HighwayCutIn"
        else ("start_actor_flow", "end_actor_flow")
    )
    return {names[0]: start, names[1]: stop}


def lane_point(stage: Stage, at_m: float, side: str) -> F64:
    found = same_way(stage, at_m, side)
    assert found is not None
    lane: carla.Waypoint = found[0]
    return np.array(waypoint_pose(lane))


def spec_of(kind: str) -> FileRouteSpec:
    """The route of a type with its scenario."""
    street = street_of(kind)
    route: Route = stage_of(street).route
    first, last = int(route.start_m), int(route.goal_m)
    points = np.column_stack([route.pose_world[:, :2], route.z_m])[[*range(first, last, 6), last]]
    trigger = 6.0 if kind == "ParkingExit" else 60.0 if "Junction" in kind else TRIGGER_M[street]
    values: dict[str, Value] = {**GAPS, "flow_speed": 8.0}
    if any(word in kind for word in ("Flow", "Highway", "Merger")) and "Junction" not in kind:
        values |= places(kind, street)
    at = route.at(trigger)
    scenario = Scenario(f"{kind}_1", kind, (float(at[0]), float(at[1]), 0.0, float(at[2])), values)
    return FileRouteSpec(
        route_id=f"RouteScenario_{kind}_rep0",
        town=street[0],
        seed=zlib.crc32(kind.encode()) & 0xFFFF,
        length_m=route.length_m,
        points_world=tuple(map(tuple, points.tolist())),
        scenarios=(scenario,),
    )


def drive(kinds: Sequence[str], out: Path, workers: int) -> dict[str, Any]:
    """Record per type."""
    run_suite(
        Suite("kinds", "", tuple(spec_of(kind) for kind in kinds)),
        "expert",
        out,
        record=False,
        workers=workers,
    )
    records = json.loads((out / "results.json").read_text())["_checkpoint"]["records"]
    return {record["scenarios"][0]["type"]: record for record in records if "scenarios" in record}


def faults(record: Mapping[str, Any]) -> dict[str, Any]:
    """What keeps a drive from being a pass: its scenario, its completion, whom it hit."""
    states = [(s["state"], s["detail"]) for s in record["scenarios"]]
    hit = {
        key: found for key, found in record["infractions"].items() if key.startswith("collisions") and found
    }
    staged = {} if [state for state, _ in states] == ["passed"] else {"scenarios": states}
    whole = {} if record["scores"]["score_route"] == 100.0 else {"scores": record["scores"]}
    return staged | whole | hit


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return drive(QUICK, tmp_path_factory.mktemp("quick"), 1)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return drive(sorted(SCENARIOS), tmp_path_factory.mktemp("every"), 2)


@pytest.mark.parametrize("kind", QUICK)
def test_the_expert_passes(quick: dict[str, Any], kind: str) -> None:
    assert faults(quick[kind]) == {}


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", sorted(SCENARIOS))
def test_the_expert_passes_every_kind(every: dict[str, Any], kind: str) -> None:
    assert faults(every[kind]) == {}
