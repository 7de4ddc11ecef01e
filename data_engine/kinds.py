"""Suites by kind of route: plain, with traffic, or with one scenario staged.

A file names kinds and towns; routes are found by seed as those of other suites, and the scenario's trigger
is put on them. A place where a scenario does not fit is driven without it, as on routes of files.
"""

import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from drive.config import Bounds, Count, load_config
from drive.contracts import UserError

if TYPE_CHECKING:
    import carla

    from sim.routes import Route, RouteSpec
    from sim.suites import Suite

PREFIX, LIKE = "kinds:", "_like"
PLAIN = {"empty": (0, 0), "traffic": (10, 5)}  # vehicles, walkers
GENERAL = ("no traffic", "traffic")  # what plain routes are counted under
STREET_KINDS = (
    "HardBreakRoute", "ParkedObstacle", "DynamicObjectCrossing", "ParkingCrossingPedestrian", "StaticCutIn",
    "ParkingCutIn", "ControlLoss", "Accident", "ConstructionObstacle", "HazardAtSideLane",
    "ParkedObstacleTwoWays", "AccidentTwoWays", "ConstructionObstacleTwoWays",
)  # fmt: skip
KINDS = (*PLAIN, *STREET_KINDS)
TO_PASS = ("ParkedObstacle", "Accident", "ConstructionObstacle")  # on the next lane of the same way
TO_PASS_ONCOMING = tuple(f"{kind}TwoWays" for kind in TO_PASS)
PLACES, PLACE_SEED, SWING_M, LONGEST_M, AHEAD_M = 200, 1_000_003, 12.0, 16.0, 40.0
POINT_EVERY_M = 12
TRIGGER_M = 30.0
BLOCKED_S = 60.0  # longer than any light is red: who stands so long will not go on


@dataclass(frozen=True)
class KindGroup:
    """`count` routes of one kind in one town, with seeds that count up."""

    kind: str
    town: str
    count: Annotated[int, Bounds(1, 1000)] = 2
    first_seed: Count = 0
    length_m: Annotated[float, Bounds(80, 2000)] = 150.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"groups: unknown kind {self.kind!r}; known: {', '.join(KINDS)}")


@dataclass(frozen=True)
class KindFile:
    """What a file of kinds says."""

    groups: tuple[KindGroup, ...]
    description: str = ""


def load_kinds(name: str) -> "Suite":
    """The suite "kinds:FILE", or "kinds:FILE@NIGHT" with the night's own seeds.

    Raises:
        UserError: No such file, an unknown kind, or a town without such a place or a route that long.
    """
    from sim.suites import Suite

    place, _, night = name.removeprefix(PREFIX).partition("@")
    path = Path(place)
    if not path.is_file():
        raise UserError(f"suite {name!r}: no file {place}; write {PREFIX}FILE with its groups")
    made = load_config(KindFile, path)
    shift = zlib.crc32(night.encode()) % 100_000 * 1000 if night else 0
    label = path.stem + (f"-{night}" if night else "")
    routes = []
    for group in made.groups:
        for k in range(group.count):
            route_id = f"{label}_{group.kind}_{group.town}_{k:03d}"
            routes.append(kind_route(group, group.first_seed + k + shift, route_id))
    if len({route.route_id for route in routes}) < len(routes):
        raise UserError(f"{path}: two groups of one kind in one town; make one of them")
    return Suite(label, made.description, tuple(routes))


def kind_route(group: KindGroup, seed: int, route_id: str) -> "RouteSpec":
    """One route of a kind; the same arguments give the same route."""
    from sim.route_files import Scenario
    from sim.route_planner import FileRouteSpec
    from sim.routes import RouteSpec

    vehicles, walkers = PLAIN.get(group.kind, (0, 0))
    plain = RouteSpec(route_id, group.town, seed, group.length_m, vehicles, walkers, 3.0)
    if group.kind in PLAIN:
        return plain
    route = _place(group.kind, group.town, seed, group.length_m)
    x, y, yaw = (float(v) for v in route.at(route.start_m + TRIGGER_M))
    z_m = float(route.z_m[int(route.start_m + TRIGGER_M)])
    scenario = Scenario(group.kind, group.kind, (x, y, z_m, yaw), {})
    places = [*np.arange(route.start_m, route.goal_m - POINT_EVERY_M / 2, POINT_EVERY_M), route.goal_m]
    points = tuple((float(route.at(s)[0]), float(route.at(s)[1]), float(route.z_m[int(s)])) for s in places)
    return FileRouteSpec(
        route_id, group.town, seed, route.length_m,
        points_world=points, scenarios=(scenario,), blocked_s=BLOCKED_S,
    )  # fmt: skip


def _place(kind: str, town: str, seed: int, length_m: float) -> "Route":
    """The route of a seed; where something has to be passed, the first of PLACES with room for that.

    Raises:
        UserError: There is none.
    """
    if kind not in (*TO_PASS, *TO_PASS_ONCOMING):
        return _route(town, seed, length_m)
    routes = (_route(town, seed + n * PLACE_SEED, length_m) for n in range(PLACES))
    found = next((route for route in routes if _has_room(kind, town, route)), None)
    if found is None:
        way = "oncoming" if kind in TO_PASS_ONCOMING else "parallel"
        raise UserError(
            f"groups: {kind} in {town}: found no stretch with one {way} lane beside; another town"
        )
    return found


@lru_cache(maxsize=256)
def fits(kind: str, town: str, length_m: float) -> bool:
    """Has the town a place for routes of this kind?"""
    try:
        _place(kind, town, 0, length_m)
    except UserError:
        return False
    return True


def _has_room(kind: str, town: str, route: "Route") -> bool:
    """Is there the other lane that the kind needs, and no junction, where things stand and around it?"""
    from sim.room import room_of

    stands = int(route.start_m + TRIGGER_M + AHEAD_M)
    part = slice(int(stands - SWING_M), int(stands + LONGEST_M + SWING_M))
    if route.junction[part].any():
        return False
    room = room_of(_map(town), route)
    parallel = (np.isfinite(room.left_lane) | np.isfinite(room.right_lane))[part]
    if kind in TO_PASS_ONCOMING:
        return bool(np.isfinite(room.oncoming[part]).all() and not parallel.any())
    return bool(parallel.all())


@lru_cache(maxsize=256)
def _route(town: str, seed: int, length_m: float) -> "Route":
    from sim.routes import RouteSpec, build_route

    return build_route(_map(town), RouteSpec("r", town, seed, length_m))


@lru_cache(maxsize=8)
def _map(town: str) -> "carla.Map":
    from sim.routes import town_map
    from sim.server.opendrive import available_towns, read_town

    if town not in available_towns():
        raise UserError(f"groups: unknown town {town!r}; known: {', '.join(available_towns())}")
    return town_map(town, read_town(town))


def variation(route: "RouteSpec", number: int) -> "RouteSpec | None":
    """Another route like this one: same town, length, traffic and scenario, at another place.

    Args:
        route: Of any suite.
        number: Which of its variations, from 1.

    Returns:
        None for a route of a file with no, several or other scenarios than suites stage, and where the town
        is not known here, has no such place, or no route that long.
    """
    seed = zlib.crc32(f"{route.route_id}/{route.seed}/{number}".encode()) & 0x7FFFFFFF
    name = f"{route.route_id}{LIKE}{number}"
    scenarios = getattr(route, "scenarios", None)
    try:
        if scenarios is None:
            _route(route.town, seed, route.length_m)
            return replace(route, route_id=name, seed=seed)
        if len(scenarios) != 1 or scenarios[0].type not in STREET_KINDS:
            return None
        group = KindGroup(scenarios[0].type, route.town, 1, 0, min(2000.0, max(80.0, route.length_m)))
        return kind_route(group, seed, name)
    except UserError:  # a night does without it
        return None


def family(route_id: str) -> str:
    """The route that one is a variation of, or it itself."""
    return route_id.partition(LIKE)[0]


def kind_of(route: "RouteSpec") -> str:
    """Kind of a route: its scenario's type, else whether there is traffic."""
    scenarios = getattr(route, "scenarios", ())
    return str(scenarios[0].type) if scenarios else route.condition
