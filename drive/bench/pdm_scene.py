"""The scene in which proposals are driven and judged: road users, areas of the map, the human."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import shapely

from drive.contracts import (
    DT_S,
    F64,
    STEPS,
    AgentKind,
    Bool,
    DriveLog,
    EgoSize,
    RoadPatch,
    UserError,
)
from drive.geometry.se2 import resample_poses, to_local, wrap
from drive.score.road import EDGE_M, JUNCTION_EDGE_M, OFF_CENTRE_M
from drive.score.scene import NO_LINES, NO_POINTS, RED, freeze_log

WHEELBASE_SHARE = 0.585  # of the car's length; 2.86 m for the simulator's ego
REACH_M = 90.0
AGAINST_COS = -0.5
PAST_STEPS = 15


@dataclass(frozen=True)
class Areas:
    """Prepared shapely geometries in the ego frame at plan time.

    Attributes:
        drivable: Lanes with their edges.
        with_route: Lanes that do not lead against the route; None without a route.
        middle: Within 0.5 m of the route; without one, of any centre line.
        junction: Lanes of junctions.
        lanes: Each lane on its own, an STRtree.
    """

    drivable: Any
    with_route: Any
    middle: Any
    junction: Any
    lanes: Any


@dataclass(frozen=True)
class PdmScene:
    """Everything in the ego frame at plan time; T steps of dt_s, rows of road users from now on.

    Attributes:
        case_id: Name.
        speed_mps, accel_mps2, yaw_rate_radps: Ego now.
        ego_size, wheelbase_m: Ego car.
        agent_pose: float64 (A, T + 1, 3), box centres, recorded: they do not react.
        agent_size_m: float64 (A, 2).
        agent_valid: bool (A, T + 1).
        static: bool (A,), obstacles: hitting one costs half.
        areas: None when no map is known.
        route: float64 (R, 2), may be empty.
        red_line: float64 (G, 2, 2), stop lines that are red.
        red_steps: So many steps they stay red, as recorded.
        speed_limit_mps: Posted; inf when unknown.
        human: float64 (T, 3), what the recorded driver did, or None.
        past: float64 (H, 3), acceleration [m/s2], yaw rate [rad/s] and heading [rad] at the steps before now,
            up to 1.5 s, oldest first.
    """

    case_id: str
    speed_mps: float
    accel_mps2: float
    yaw_rate_radps: float
    ego_size: EgoSize
    wheelbase_m: float
    agent_pose: F64
    agent_size_m: F64
    agent_valid: Bool
    static: Bool
    areas: Areas | None
    route: F64
    red_line: F64
    red_steps: int
    speed_limit_mps: float
    human: F64 | None
    past: F64 = field(default_factory=lambda: np.zeros((0, 3)))


def scene_of(log: DriveLog, plan_index: int) -> PdmScene:
    """Scene at a planning step of a recorded drive.

    Raises:
        UserError: Less than 4 s of the drive follow.
    """
    row = int(log.plans.step[plan_index])
    t_s = (log.ego.t_us - log.ego.t_us[row]) * 1e-6
    if t_s[-1] < STEPS * DT_S - 1e-6:
        raise UserError(f"{log.meta.log_id}: planning step {plan_index}: less than 4 s follow; leave it out")
    frozen = freeze_log(log, plan_index)
    origin = log.ego.pose_world[row]
    times = np.arange(1, STEPS + 1) * DT_S
    human = to_local(resample_poses(log.ego.pose_world, t_s, times), origin)
    route = frozen.route_ego if len(frozen.route_ego) > 1 else NO_POINTS
    now = to_local(log.agents.pose_world[:, row], origin)
    return replace(
        start_of(log, plan_index),
        agent_pose=np.concatenate([now[:, None], frozen.agent_pose_ego], 1),
        agent_size_m=frozen.agent_size_m.astype(np.float64),
        agent_valid=np.concatenate([log.agents.valid[:, row, None], frozen.agent_valid], 1),
        static=log.agents.kind == AgentKind.OBSTACLE,
        areas=None if log.road is None else areas_of(log.road, origin, route),
        route=route,
        red_line=frozen.red_line_ego,
        red_steps=_red_steps(log, plan_index),
        speed_limit_mps=frozen.speed_limit_mps,
        human=human,
        past=_past(log, row, t_s),
    )


def _past(log: DriveLog, row: int, t_s: F64) -> F64:
    """Ego at -1.5, -1.4, ..., -0.1 s as far as it was recorded; see `PdmScene.past`."""
    times = np.arange(-PAST_STEPS, 0) * DT_S
    times = times[times >= t_s[0] - 1e-6]
    ego, seen = log.ego, slice(0, row + 1)
    yaw = wrap(np.unwrap(ego.pose_world[seen, 2]) - ego.pose_world[row, 2])
    columns = (ego.accel_mps2[seen], ego.yaw_rate_radps[seen], np.unwrap(yaw))
    return np.stack([np.interp(times, t_s[seen], c.astype(np.float64)) for c in columns], -1)


def _red_steps(log: DriveLog, plan_index: int) -> int:
    """Steps until the recorded light ahead is no longer red; all of them if it stays red."""
    rows = log.plans.step[plan_index:]
    green = np.flatnonzero(log.plans.aux[plan_index:, 0] != RED)
    if not len(green):
        return STEPS
    wait_s = (log.ego.t_us[rows[green[0]]] - log.ego.t_us[rows[0]]) * 1e-6
    return min(STEPS, round(float(wait_s) / DT_S))


def start_of(log: DriveLog, plan_index: int) -> PdmScene:
    """Only where a plan starts from: no road users, no map; enough to drive a proposal."""
    row = int(log.plans.step[plan_index])
    return PdmScene(
        case_id=f"{log.meta.log_id}/{plan_index}",
        speed_mps=float(log.ego.speed_mps[row]),
        accel_mps2=float(log.ego.accel_mps2[row]),
        yaw_rate_radps=float(log.ego.yaw_rate_radps[row]),
        ego_size=log.ego_size,
        wheelbase_m=WHEELBASE_SHARE * log.ego_size.length_m,
        agent_pose=np.zeros((0, STEPS + 1, 3)),
        agent_size_m=np.zeros((0, 2)),
        agent_valid=np.zeros((0, STEPS + 1), bool),
        static=np.zeros(0, bool),
        areas=None,
        route=NO_POINTS,
        red_line=NO_LINES,
        red_steps=0,
        speed_limit_mps=float("inf"),
        human=None,
    )


def areas_of(road: RoadPatch, origin_world: F64, route: F64) -> Areas:
    """Areas around a pose; a piece of lane leads against the route if it does at its nearest place."""
    centre = to_local(road.centre_world, origin_world)
    near = np.flatnonzero((np.hypot(centre[..., 0], centre[..., 1]) < REACH_M).any(1))
    half = road.width_m.astype(np.float64) / 2
    edge = half + np.where(road.in_junction, JUNCTION_EDGE_M, EDGE_M)
    lines = [shapely.LineString(centre[i]) for i in near]
    drivable = _union([line.buffer(edge[i], quad_segs=4) for i, line in zip(near, lines, strict=True)])
    junction = _union(
        [
            line.buffer(half[i], quad_segs=4)
            for i, line in zip(near, lines, strict=True)
            if road.in_junction[i]
        ]
    )
    pieces = [(i, *piece) for i in near for piece in _pieces(centre[i], route)]
    lanes = [shapely.LineString(line).buffer(half[i], cap_style="flat") for i, _, line in pieces]
    fits = [lane for lane, (_, opposed, _) in zip(lanes, pieces, strict=True) if not opposed]
    lines = [shapely.LineString(line) for _, _, line in pieces]
    middle = shapely.union_all(lines) if len(route) < 2 else shapely.LineString(route)
    areas = Areas(
        drivable=drivable,
        with_route=None if len(route) < 2 else _union(fits),
        middle=middle.buffer(OFF_CENTRE_M),
        junction=junction,
        lanes=shapely.STRtree(lanes),
    )
    for one in (areas.drivable, areas.with_route, areas.middle, areas.junction):
        shapely.prepare(one)
    return areas


def inside(area: Any, points: F64) -> Bool:
    """Which points (..., 2) lie inside a prepared area?  bool (...)."""
    if area.is_empty:
        return np.zeros(points.shape[:-1], bool)
    return np.asarray(shapely.contains_xy(area, points[..., 0], points[..., 1]), bool)


def astride(areas: Areas | None, box: F64) -> Bool:
    """Are boxes with corners (Q, 4, 2) in more than one lane, and wholly in none, or off the drivable area?

    Returns:
        bool (Q,); False without a map.
    """
    count = len(box)
    if areas is None or not count:
        return np.zeros(count, bool)
    point, lane = areas.lanes.query(shapely.points(box.reshape(-1, 2)), predicate="within")
    lanes = max(1, len(areas.lanes))
    inside_of = np.bincount(point // 4 * lanes + lane, minlength=count * lanes).reshape(count, lanes)
    several = ((inside_of > 0).sum(1) > 1) & (inside_of < 4).all(1)
    return np.asarray(several | ~inside(areas.drivable, box).all(1))


def _union(shapes: list[Any]) -> Any:
    return shapely.union_all(shapes) if shapes else shapely.Polygon()


def _pieces(centre: F64, route: F64) -> list[tuple[bool, F64]]:
    """A centre line (P, 2) cut where it starts or stops to lead against the route."""
    step = np.diff(centre, axis=0)
    keep = np.hypot(step[:, 0], step[:, 1]) > 1e-6
    if not keep.any():
        return []
    opposed = np.zeros(len(step), bool)
    if len(route) > 1:
        way = np.diff(route, axis=0)
        middle = centre[:-1] + step / 2
        gap = middle[:, None] - (route[:-1] + way / 2)[None]
        nearest = (gap**2).sum(-1).argmin(1)
        size = np.maximum(np.hypot(step[:, 0], step[:, 1]) * np.hypot(*way[nearest].T), 1e-9)
        opposed = (step * way[nearest]).sum(1) / size < AGAINST_COS
    cuts = [0, *(np.flatnonzero(np.diff(opposed)) + 1), len(step)]
    return [(bool(opposed[a]), centre[a : b + 1]) for a, b in pairwise(cuts)]
