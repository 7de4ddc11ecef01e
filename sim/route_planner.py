"""From the waypoints of a route file to a route on lanes, as the leaderboard's planner does it."""

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import carla
import numpy as np

from drive.contracts import F64, Turn, UserError
from drive.geometry.se2 import wrap
from sim.frames import waypoint_pose
from sim.lane_graph import LaneGraph, Leg, Place
from sim.route_files import Point, Scenario, Weather
from sim.routes import RUN_OFF_M, RUN_UP_M, STEP_M, TURN_NOTICE_M, Route, RouteSpec, assemble, build_route
from sim.scenario_types import STAGED

OFF_COST = 3.0  # a waypoint a metre beside a lane weighs as much as this much detour [m]
CHANGE_M = 25.0  # length of a change by one lane
LANE_M = 3.5
LEADERBOARD_BLOCKED_S = 180.0
SHORTEST_CHANGE_M = 8
REPETITION_SEED = 1_000_003


@dataclass(frozen=True)
class FileRouteSpec(RouteSpec):
    """A route of a route file: where it leads is given by waypoints, not by the seed.

    Attributes:
        points_world: Waypoints, x, y, z [m].
        scenarios: What the file wants to happen on it; only types in sim.scenario_types.STAGED do.
        weathers: Weather the file asks for.
        junction_share: Share of the route after which its first junction is passed; inf without one.
        blocked_s: Standing so long [s] ends the drive; the leaderboard's is 180.
    """

    points_world: tuple[Point, ...] = field(default=(), repr=False)
    scenarios: tuple[Scenario, ...] = field(default=(), repr=False)
    weathers: tuple[Weather, ...] = field(default=(), repr=False)
    junction_share: float = math.inf
    blocked_s: float = LEADERBOARD_BLOCKED_S

    def repeated(self, repetition: int) -> "FileRouteSpec":
        """The same route with another seed: what drives on it differs."""
        name = self.route_id.rpartition("_rep")[0]
        seed = (self.seed + repetition * REPETITION_SEED) & 0x7FFFFFFF
        return replace(self, route_id=f"{name}_rep{repetition}", seed=seed)

    @property
    def condition(self) -> str:
        """Group under which results are summarised."""
        return "route file"

    @property
    def note(self) -> str:
        """What is missing from the drive, to be said beside its score."""
        short = f"; {self.blocked_s:g} s of standing end a drive"
        return self._left_out_note() + (short if self.blocked_s != LEADERBOARD_BLOCKED_S else "")

    def _left_out_note(self) -> str:
        if self.vehicles:
            return f"route file: simplified traffic{', some scenarios left out' if self.left_out else ''}"
        return f"route file: background traffic{' and some scenarios' if self.left_out else ''} left out"

    @property
    def scenario_name(self) -> str:
        """Name of its first scenario, as in the leaderboard's records."""
        return self.scenarios[0].name if self.scenarios else self.condition

    @property
    def left_out(self) -> tuple[str, ...]:
        """Scenario types that belong to the route but are not staged."""
        return tuple(sorted({s.type for s in self.scenarios} - STAGED))


@dataclass(frozen=True)
class Trace:
    """The way along K waypoints.

    Attributes:
        legs: Lanes in order.
        off_m: float64 (K,), distance of each waypoint from its lane's centre.
        hop_m: float64 (K - 1,), length of the way from each waypoint to the next; inf where there is none.
    """

    legs: tuple[Leg, ...]
    off_m: F64
    hop_m: F64


def route_for(carla_map: carla.Map, spec: RouteSpec, speeds_mps: dict[int, float]) -> Route:
    """The route of a spec on a town: along its waypoints if it has some, else found by its seed.

    Raises:
        UserError: There is no such route on this map.
    """
    if not isinstance(spec, FileRouteSpec):
        return build_route(carla_map, spec, speeds_mps)
    graph = LaneGraph.of(carla_map, carla_map.to_opendrive())
    trace = trace_points(graph, spec.points_world)
    if not np.isfinite(trace.hop_m).all():
        raise UserError(
            f"{spec.route_id}: {spec.town} has no way along its waypoints; check the map's version"
        )
    return lane_route(graph, trace.legs, speeds_mps)


def trace_points(graph: LaneGraph, points_world: tuple[Point, ...]) -> Trace:
    """Lanes along waypoints; where lanes overlap (in junctions) those that make the way shortest."""
    places = [graph.places(*point) for point in points_world]
    off = np.array([found[0].off_m if found else math.inf for found in places])
    hops = np.full(max(0, len(places) - 1), math.inf)
    if not np.isfinite(off).all():
        return Trace((), off, hops)
    costs = [OFF_COST * place.off_m for place in places[0]]
    steps: list[list[tuple[int, list[Leg]]]] = []
    for n, (here, there) in enumerate(pairwise(places)):
        found = _hop(graph, here, there, costs)
        choices: list[tuple[int, list[Leg]]] = [(0, [])] * len(there)
        if found is None:  # the next waypoint starts anew, so that every broken hop is found
            costs = [OFF_COST * place.off_m for place in there]
        else:
            costs, choices = found
            hops[n] = 0.0
        steps.append(choices)
    at = int(np.argmin(costs))
    legs: list[Leg] = []
    for n in range(len(steps) - 1, -1, -1):
        at, part = steps[n][at]
        hops[n] += sum(leg.end_m - leg.start_m for leg in part)
        legs = part + legs
    return Trace(tuple(_joined(legs)), off, hops)


def _hop(
    graph: LaneGraph, here: list[Place], there: list[Place], costs: list[float]
) -> tuple[list[float], list[tuple[int, list[Leg]]]] | None:
    """Cheapest way to each place of the next waypoint: its cost, and from which place along which legs."""
    ways = [graph.ways(place, there) for place in here]
    totals: list[float] = []
    choices: list[tuple[int, list[Leg]]] = []
    for n, place in enumerate(there):
        best: tuple[float, int, list[Leg]] = (math.inf, 0, [])
        for k, found in enumerate(ways):
            way = found[n]
            if way is not None and costs[k] + way[0] < best[0]:
                best = (costs[k] + way[0], k, way[1])
        totals.append(best[0] + OFF_COST * place.off_m)
        choices.append((best[1], best[2]))
    return (totals, choices) if np.isfinite(totals).any() else None


def _joined(legs: list[Leg]) -> list[Leg]:
    """Legs with the pieces of one passage of a lane put together."""
    joined: list[Leg] = []
    for leg in legs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.lane == leg.lane
            and not leg.changed
            and leg.start_m <= last.end_m + 1e-6
        ):
            joined[-1] = replace(last, end_m=max(last.end_m, leg.end_m))
        else:
            joined.append(leg)
    return joined


@dataclass
class Line:
    """Points of a path while it is built, at most STEP_M apart along the lanes; start with empty lists."""

    pose: list[tuple[float, float, float]] = field(default_factory=list)
    z: list[float] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    junction: list[bool] = field(default_factory=list)
    lane: list[tuple[int, int]] = field(default_factory=list)

    def add(self, waypoint: carla.Waypoint) -> None:
        """Append a waypoint."""
        self.pose.append(waypoint_pose(waypoint))
        self.z.append(waypoint.transform.location.z)
        self.width.append(waypoint.lane_width)
        self.junction.append(waypoint.is_junction)
        self.lane.append((waypoint.road_id, waypoint.lane_id))


def lane_route(graph: LaneGraph, legs: tuple[Leg, ...], speeds_mps: dict[int, float]) -> Route:
    """Route along legs, with a run-up before it and a run-off behind the goal; lane changes take 25 m."""
    line = Line()
    changes: list[
        tuple[int, float]
    ] = []  # index of the first point on the new lane, offset of the old one [m]
    for before, leg in zip((None, *legs), legs, strict=False):
        if before is not None and leg.changed:
            changes.append((len(line.pose), _offset_m(graph, before, leg)))
        for at in np.arange(leg.start_m, leg.end_m - 1e-6, STEP_M):
            line.add(graph.waypoint(leg.lane, float(at)))
    line.add(graph.waypoint(legs[-1].lane, legs[-1].end_m))
    driven = len(line.pose)
    _run_off(graph, legs[-1], line)
    return smooth_route(line, changes, driven, speeds_mps)


def smooth_route(
    line: Line, changes: list[tuple[int, float]], driven: int, speeds_mps: dict[int, float]
) -> Route:
    """Route along a line that jumps sideways at lane changes, with the jumps spread over a length.

    Args:
        line: Points up to the goal and behind it.
        changes: Per lane change the index of its first point on the new lane, and how far to the left of that
            the old lane lies [m].
        driven: How many of the points lead to the goal.
        speeds_mps: Posted speed per OpenDRIVE road.
    """
    pose = np.array(line.pose)
    spans = _change_spans(line, changes, driven)
    pose = _shifted(pose, changes, spans)
    return _resampled(line, pose, driven - 1, changes, spans, speeds_mps)


def _offset_m(graph: LaneGraph, before: Leg, leg: Leg) -> float:
    """How far to the left of the new lane the old one lies."""
    old = waypoint_pose(graph.waypoint(before.lane, before.end_m))
    new = waypoint_pose(graph.waypoint(leg.lane, leg.start_m))
    return -(old[0] - new[0]) * math.sin(new[2]) + (old[1] - new[1]) * math.cos(new[2])


def _run_off(graph: LaneGraph, last: Leg, line: Line) -> None:
    """Go on behind the goal along the straightest lanes, as far as there are any."""
    lane, begin, left = last.lane, last.end_m + STEP_M, float(RUN_OFF_M + 2)
    while left > 0:
        known = graph.lanes[lane]
        for place in np.arange(begin, min(known.length_m, begin + left), STEP_M):
            line.add(graph.waypoint(lane, float(place)))
        left -= max(STEP_M, known.length_m - begin)
        if not known.after:
            return
        ends = {key: waypoint_pose(graph.waypoint(key, graph.lanes[key].length_m))[2] for key in known.after}
        yaw = line.pose[-1][2]
        lane, begin = min(known.after, key=lambda key: (abs(float(wrap(ends[key] - yaw))), key)), 0.0


def _change_spans(line: Line, changes: list[tuple[int, float]], driven: int) -> list[int]:
    """Over how many points each lane change is spread; changes that follow at once share one long movement.

    A change ends before the next junction, unless it begins in one, and before the goal.
    """
    ends: list[int] = []
    for first, offset in changes:
        begin = max(first, ends[-1]) if ends else first
        ends.append(begin + round(CHANGE_M * max(1.0, abs(offset) / LANE_M)))
    for n in range(len(changes) - 2, -1, -1):
        if changes[n + 1][0] < ends[n]:
            ends[n] = ends[n + 1]
    spans = []
    for (first, _), end in zip(changes, ends, strict=True):
        ahead = line.junction[first:driven]
        room = len(ahead) if line.junction[first] or True not in ahead else ahead.index(True)
        spans.append(max(1, min(end - first, max(SHORTEST_CHANGE_M, room))))
    return spans


def _shifted(pose: F64, changes: list[tuple[int, float]], spans: list[int]) -> F64:
    """Poses moved sideways from the old lane to the new one along a smooth step."""
    shift, slope = np.zeros(len(pose)), np.zeros(len(pose))
    for (first, offset), span in zip(changes, spans, strict=True):
        t = np.clip((np.arange(first, min(first + span, len(pose))) - first) / span, 0.0, 1.0)
        shift[first : first + span] += offset * (1 - t * t * (3 - 2 * t))
        slope[first : first + span] -= offset * 6 * t * (1 - t) / (span * STEP_M)
    moved = pose.copy()
    moved[:, 0] -= shift * np.sin(pose[:, 2])
    moved[:, 1] += shift * np.cos(pose[:, 2])
    moved[:, 2] += np.arctan(slope)
    return moved


def _resampled(
    line: Line,
    pose: F64,
    goal: int,
    changes: list[tuple[int, float]],
    spans: list[int],
    speeds_mps: dict[int, float],
) -> Route:
    """One point per metre of arc length, from RUN_UP_M before the first point on."""
    pose = np.concatenate([pose, pose[-1:]])
    pose[:, 2] = np.unwrap(pose[:, 2])
    arc = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(pose[:-1, :2], axis=0).T))])
    end = arc[goal] + RUN_OFF_M + 1
    straight = max(1.0, end - arc[-1] + 1)  # the lanes ended before the run-off did
    pose[-1, :2] += straight * np.array([np.cos(pose[-1, 2]), np.sin(pose[-1, 2])])
    arc = np.append(arc, arc[-1] + straight)
    before = pose[0, :2] - RUN_UP_M * np.array([np.cos(pose[0, 2]), np.sin(pose[0, 2])])
    pose = np.concatenate([[[*before, pose[0, 2]]], pose])
    arc = np.concatenate([[-float(RUN_UP_M)], arc])
    at = np.arange(-float(RUN_UP_M), end, STEP_M)
    nearest = np.clip(np.searchsorted(arc[1:-1], at + 0.5 * STEP_M) - 1, 0, len(line.z) - 1)
    points = np.stack([np.interp(at, arc, pose[:, k]) for k in range(3)], -1)
    points[:, 2] = wrap(points[:, 2])
    route = assemble(
        pose=points,
        z_m=np.interp(at, arc[1:-1], line.z),
        width_m=np.interp(at, arc[1:-1], line.width),
        junction=np.array(line.junction)[nearest],
        lane=np.array(line.lane, np.int64)[nearest],
        speeds_mps=speeds_mps,
        start_m=float(RUN_UP_M),
        goal_m=float(arc[1 + goal] + RUN_UP_M),
    )
    turn = route.turn.copy()
    for (first, offset), span in zip(changes, spans, strict=True):
        begin = max(0, int(arc[1 + first] + RUN_UP_M) - TURN_NOTICE_M)
        part = turn[begin : int(arc[1 + min(first + span, goal)] + RUN_UP_M) + 1]
        part[part == Turn.FOLLOW] = Turn.LANE_RIGHT if offset > 0 else Turn.LANE_LEFT
    return replace(route, turn=turn)
