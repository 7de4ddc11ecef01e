"""Suites made from route files: whatever is wrong with any route is said at once, before any drive."""

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from drive.contracts import UserError
from drive.progress import Progress, track
from sim.lane_graph import LaneGraph
from sim.route_files import FileRoute, Finding, RouteFile, grouped
from sim.route_planner import FileRouteSpec, Trace, lane_route, trace_points
from sim.routes import Route, road_speeds_mps, town_map
from sim.server.opendrive import available_towns, read_town
from sim.suites import Suite, spread

OFF_LANE_M = 3.0
SHORTEST_M = 10.0
DETOUR_RATIO, DETOUR_M = 3.0, 100.0  # a way this much longer than straight on is worth a word
TRIGGER_M = 10.0
PAST_JUNCTION_M = 8.0  # a light's or stop sign's trigger volume reaches this far into a junction
BAR_FROM = 20  # routes
MOST_BACKGROUND = 200


@dataclass(frozen=True)
class PlannedRoute:
    """What planning says about a route.

    Attributes:
        length_m: Length along the lanes.
        junction_share: Share of the route [0, 1] after which its first junction is passed, as Bench2Drive
            counts it; inf without a junction.
    """

    length_m: float
    junction_share: float


def file_suite(
    file: RouteFile, limit: int | None = None, per_scenario: int | None = None, background: int = 0
) -> tuple[Suite, list[Finding]]:
    """Choose routes of a file and plan each of them on CARLA's packaged towns.

    Args:
        file: From `read_routes`.
        limit: At most so many routes, spread evenly over the file.
        per_scenario: At most so many routes of each scenario type (that of a route's first scenario), in the
            order of the file; applied before `limit`.
        background: Vehicles of the TrafficManager around each route.

    Returns:
        The suite, named after the file, and warnings about its routes.

    Raises:
        UserError: Routes cannot be driven; all of them are listed, by reason.
    """
    if not 0 <= background <= MOST_BACKGROUND:
        raise UserError(f"--background must be between 0 and {MOST_BACKGROUND}, got {background}")
    routes = _first_of_each(file.routes, per_scenario)
    if limit is not None:
        routes = spread(routes, limit)
    chosen = {route.route_id for route in routes}
    problems = [f for f in file.problems if f.route_id in chosen]
    broken = {f.route_id for f in problems}
    planned, found, warnings = plan_routes([r for r in routes if r.route_id not in broken])
    problems += found
    if problems:
        count = len({f.route_id for f in problems})
        reasons = " | ".join(grouped(problems))
        raise UserError(f"{file.path}: {count} of {len(routes)} routes cannot be driven: {reasons}")
    specs = tuple(_spec(route, planned[route.route_id], background) for route in routes)
    about = f"{len(specs)} of {len(file.routes)} routes of {file.path.name}"
    return Suite(file.path.stem, about, specs), [
        *(f for f in file.warnings if f.route_id in chosen),
        *warnings,
    ]


def plan_routes(
    routes: Sequence[FileRoute],
) -> tuple[dict[str, PlannedRoute], list[Finding], list[Finding]]:
    """Plan routes on CARLA's packaged towns.

    Returns:
        Plans by route id; why other routes have none; and warnings about the planned ones.
    """
    plans: dict[str, PlannedRoute] = {}
    problems: list[Finding] = []
    warnings: list[Finding] = []
    known = available_towns()
    towns = {town: [r for r in routes if r.town == town] for town in dict.fromkeys(r.town for r in routes)}
    with Progress("planning", len(routes), "routes") if len(routes) >= BAR_FROM else nullcontext() as bar:
        for town, here in towns.items():
            if town in known:
                _plan_town(town, here, plans, problems, warnings)
            else:
                detail = f"{town!r}; known: {', '.join(known)}"
                problems += [Finding(route.route_id, "unknown town", detail) for route in here]
            if bar is not None:
                bar.advance(len(here), town)
    return plans, problems, warnings


def _plan_town(
    town: str,
    routes: Sequence[FileRoute],
    plans: dict[str, PlannedRoute],
    problems: list[Finding],
    warnings: list[Finding],
) -> None:
    """Plan the routes of one town, and add what that gives to the collections."""
    opendrive = read_town(town)
    graph, speeds = LaneGraph.of(town_map(town, opendrive), opendrive), road_speeds_mps(opendrive)
    for route in routes:
        trace = trace_points(graph, route.points_world)
        wrong = _problem(route, trace)
        if wrong is not None:
            problems.append(wrong)
            continue
        path = lane_route(graph, trace.legs, speeds)
        plans[route.route_id] = PlannedRoute(path.length_m, _junction_share(path))
        warnings += _warnings(route, trace, path)


def _problem(route: FileRoute, trace: Trace) -> Finding | None:
    off = trace.off_m > OFF_LANE_M
    if off.any():
        farthest = max(trace.off_m[np.isfinite(trace.off_m)], default=math.inf)
        detail = f"{off.sum()} of {len(off)}, up to {farthest:.3g} m"
        return Finding(route.route_id, "waypoints off any lane", detail)
    cut = np.flatnonzero(~np.isfinite(trace.hop_m))
    if len(cut):
        hops = ", ".join(f"{n} to {n + 1}" for n in cut)
        return Finding(route.route_id, "no way between waypoints", hops)
    if trace.hop_m.sum() < SHORTEST_M:
        return Finding(route.route_id, "too short", f"{trace.hop_m.sum():.1f} m, at least {SHORTEST_M:.0f} m")
    return None


def _warnings(route: FileRoute, trace: Trace, path: Route) -> list[Finding]:
    found = []
    straight = np.array([math.dist(a[:2], b[:2]) for a, b in pairwise(route.points_world)])
    longer = np.flatnonzero(trace.hop_m > DETOUR_RATIO * straight + DETOUR_M)
    for n in longer:
        detail = f"{trace.hop_m[n]:.0f} m from waypoint {n} to {n + 1}, {straight[n]:.0f} m apart"
        found.append(Finding(route.route_id, "detours", detail))
    for scenario in route.scenarios:
        gap = np.hypot(*(path.pose_world[:, :2] - np.array(scenario.trigger_world[:2])).T).min()
        if gap > TRIGGER_M:
            detail = f"{scenario.name} begins {gap:.0f} m from the route"
            found.append(Finding(route.route_id, "scenarios beside the route", detail))
    return found


def _junction_share(path: Route) -> float:
    inside = np.flatnonzero(path.junction[int(path.start_m) : int(path.goal_m) + 1])
    return float((inside[0] + 1 + PAST_JUNCTION_M) / path.length_m) if len(inside) else math.inf


def _first_of_each(routes: Sequence[FileRoute], count: int | None) -> tuple[FileRoute, ...]:
    """The first `count` routes of each scenario type; all of them without a count."""
    if count is None:
        return tuple(routes)
    if count < 1:
        raise UserError(f"--limit-per-scenario must be at least 1, got {count}")
    seen: Counter[str] = Counter()
    kept = []
    for route in routes:
        seen[route.kind] += 1
        if seen[route.kind] <= count:
            kept.append(route)
    return tuple(kept)


def prepare_pictures(suite: Suite) -> None:
    """Draw the towns of a suite once, into the user's cache; large towns are drawn around the cameras only.

    A server draws its town itself, but with the first picture, for which its client does not wait that long.
    """
    from sim.server.local_mesh import is_large
    from sim.server.mesh_cache import cache_folder, town_mesh
    from sim.server.opendrive import read_town
    from sim.server.town import load_town

    missing = [t for t in suite.towns if not list((cache_folder() / "meshes").glob(f"{t}-*.npz"))]
    missing = [t for t in missing if not is_large(read_town(t))]
    for town in track(missing, "drawing towns", len(missing)) if missing else ():
        town_mesh(load_town(town))


def record_id(route_id: str, repetition: int = 0) -> str:
    """What the leaderboard's results call a route of a file."""
    return f"RouteScenario_{route_id}_rep{repetition}"


def _spec(route: FileRoute, plan: PlannedRoute, background: int) -> FileRouteSpec:
    return FileRouteSpec(
        route_id=record_id(route.route_id),
        town=route.town,
        seed=zlib.crc32(f"{route.town} {route.route_id}".encode()) & 0x7FFFFFFF,
        length_m=round(plan.length_m, 3),
        vehicles=background,
        points_world=route.points_world,
        scenarios=route.scenarios,
        weathers=route.weathers,
        junction_share=plan.junction_share,
    )
