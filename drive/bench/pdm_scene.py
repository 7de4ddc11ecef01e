"""The scene in which proposals are driven and judged: road users, areas of the map, the human."""

from dataclasses import dataclass, replace
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
from drive.geometry.se2 import resample_poses, to_local
from drive.score.road import EDGE_M, JUNCTION_EDGE_M
from drive.score.scene import NO_LINES, NO_POINTS, RED, freeze_log

WHEELBASE_SHARE = 0.585  # of the car's length; 2.86 m for the simulator's ego
REACH_M = 90.0
AGAINST_COS = -0.5


@dataclass(frozen=True)
class Areas:
    """Prepared shapely geometries in the ego frame at plan time.

    Attributes:
        drivable: Lanes with their edges.
        against: Only in lanes that lead against the route; None without a route.
        centre: Centre lines that do not lead against it.
        junction: Lanes of junctions.
    """

    drivable: Any
    against: Any
    centre: Any
    junction: Any


@dataclass(frozen=True)
class PdmScene:
    """Everything in the ego frame at plan time; T steps of dt_s.

    Attributes:
        case_id: Name.
        speed_mps, accel_mps2, yaw_rate_radps: Ego now.
        ego_size, wheelbase_m: Ego car.
        agent_pose: float64 (A, T, 3), box centres, recorded: they do not react.
        agent_size_m: float64 (A, 2).
        agent_valid: bool (A, T).
        static: bool (A,), obstacles: hitting one costs half.
        areas: None when no map is known.
        route: float64 (R, 2), may be empty.
        red_line: float64 (G, 2, 2), stop lines that are red.
        red_steps: So many steps they stay red, as recorded.
        speed_limit_mps: Posted; inf when unknown.
        human: float64 (T, 3), what the recorded driver did, or None.
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
    return replace(
        start_of(log, plan_index),
        agent_pose=frozen.agent_pose_ego,
        agent_size_m=frozen.agent_size_m.astype(np.float64),
        agent_valid=frozen.agent_valid,
        static=log.agents.kind == AgentKind.OBSTACLE,
        areas=None if log.road is None else areas_of(log.road, origin, route),
        route=route,
        red_line=frozen.red_line_ego,
        red_steps=_red_steps(log, plan_index),
        speed_limit_mps=frozen.speed_limit_mps,
        human=human,
    )


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
        agent_pose=np.zeros((0, STEPS, 3)),
        agent_size_m=np.zeros((0, 2)),
        agent_valid=np.zeros((0, STEPS), bool),
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
    against: list[Any] = []
    along: list[Any] = []
    centres: list[Any] = []
    for i in near:
        for opposed, piece in _pieces(centre[i], route):
            line = shapely.LineString(piece)
            (against if opposed else along).append(line.buffer(half[i], cap_style="flat"))
            if not opposed:
                centres.append(line)
    wrong = None if len(route) < 2 else _union(against).difference(_union(along)).difference(junction)
    areas = Areas(drivable, wrong, shapely.union_all(centres), junction)
    for one in (areas.drivable, areas.against, areas.centre, areas.junction):
        shapely.prepare(one)
    return areas


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
