"""The frozen frame in which proposals are scored: everything in the ego frame at plan time."""

from dataclasses import dataclass, field

import numpy as np

from drive.contracts import DT_S, F32, F64, STEPS, AgentTracks, Bool, DriveLog, EgoSize, RoadPatch, expect
from drive.geometry.se2 import resample_poses, to_local

NO_POINTS: F64 = np.zeros((0, 2))
NO_LINES: F64 = np.zeros((0, 2, 2))
RED, YELLOW = 0, 1
STOP_LINE_HALF_M = 3.5
HOLD_S = 0.35


@dataclass(frozen=True)
class FrozenScene:
    """Road users, lanes, route and red lights around one planning step, in the ego frame at that step.

    Attributes:
        speed_mps: Ego speed now.
        ego_size: Ego box.
        agent_pose_ego: float64 (N, T, 3), box centres at (i + 1) * dt_s, row i as in the proposals.
        agent_size_m: float32 (N, 2), length and width.
        agent_valid: bool (N, T).
        lane_ego: float64 (L, P, 2), centre lines in driving direction; None when no map is known.
        lane_width_m: float32 (L,).
        in_junction: bool (L,).
        route_ego: float64 (R, 2), intended path; empty when none is known.
        red_line_ego: float64 (G, 2, 2), stop lines that are red now.
        speed_limit_mps: Posted limit; inf when unknown.
        dt_s: Step [s].
    """

    speed_mps: float
    ego_size: EgoSize
    agent_pose_ego: F64
    agent_size_m: F32
    agent_valid: Bool
    lane_ego: F64 | None = None
    lane_width_m: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    in_junction: Bool = field(default_factory=lambda: np.zeros(0, bool))
    route_ego: F64 = field(default_factory=NO_POINTS.copy)
    red_line_ego: F64 = field(default_factory=NO_LINES.copy)
    speed_limit_mps: float = float("inf")
    dt_s: float = DT_S

    def __post_init__(self) -> None:
        n, t = self.agent_valid.shape
        expect("agent_pose_ego", self.agent_pose_ego, (n, t, 3), np.float64)
        expect("agent_size_m", self.agent_size_m, (n, 2), np.float32)
        if self.lane_ego is not None:
            expect("lane_ego", self.lane_ego, (len(self.lane_width_m), None, 2), np.float64)
        expect("in_junction", self.in_junction, (len(self.lane_width_m),), np.bool_)
        expect("route_ego", self.route_ego, (None, 2), np.float64)
        expect("red_line_ego", self.red_line_ego, (None, 2, 2), np.float64)


def freeze(
    origin_world: F64,
    speed_mps: float,
    ego_size: EgoSize,
    agents: AgentTracks,
    agent_t_s: F64,
    *,
    road: RoadPatch | None = None,
    route_world: F64 = NO_POINTS,
    red_line_world: F64 = NO_LINES,
    speed_limit_mps: float = float("inf"),
    dt_s: float = DT_S,
    steps: int = STEPS,
) -> FrozenScene:
    """Build a FrozenScene from world-frame ground truth.

    Args:
        origin_world: (3,) rear-axle pose at plan time.
        speed_mps: Ego speed at plan time.
        ego_size: Ego box.
        agents: Recorded road users.
        agent_t_s: float64 (A,), the agents' times relative to plan time [s], increasing.
        road: Lanes, or None.
        route_world: Intended path (R, 2).
        red_line_world: Stop lines (G, 2, 2) that are red now.
        speed_limit_mps: Posted limit.
        dt_s: Spacing of the proposals [s].
        steps: Number of their poses.
    """
    times = np.arange(1, steps + 1) * dt_s
    pose, valid = _future(agents, np.asarray(agent_t_s, np.float64), times)
    return FrozenScene(
        speed_mps=float(speed_mps),
        ego_size=ego_size,
        agent_pose_ego=to_local(pose, origin_world),
        agent_size_m=agents.size_m,
        agent_valid=valid,
        lane_ego=None if road is None else to_local(road.centre_world, origin_world),
        lane_width_m=np.zeros(0, np.float32) if road is None else road.width_m,
        in_junction=np.zeros(0, bool) if road is None else road.in_junction,
        route_ego=to_local(np.asarray(route_world, np.float64).reshape(-1, 2), origin_world),
        red_line_ego=to_local(np.asarray(red_line_world, np.float64).reshape(-1, 2, 2), origin_world),
        speed_limit_mps=float(speed_limit_mps),
        dt_s=dt_s,
    )


def freeze_log(log: DriveLog, plan_index: int) -> FrozenScene:
    """FrozenScene at planning step `plan_index` of a recorded drive.

    The recorded light state and its distance (from the front bumper along the route) give the red stop line.
    """
    step = int(log.plans.step[plan_index])
    t_s = (log.ego.t_us - log.ego.t_us[step]) * 1e-6
    origin = log.ego.pose_world[step]
    light, distance = log.plans.aux[plan_index, :2]
    limit = float(log.plans.speed_limit_mps[plan_index])
    scene = freeze(
        origin,
        float(log.ego.speed_mps[step]),
        log.ego_size,
        log.agents,
        t_s,
        road=log.road,
        route_world=log.route_world,
        speed_limit_mps=limit if limit > 0 else float("inf"),
    )
    if light != RED or not np.isfinite(distance):
        return scene
    front_m = log.ego_size.centre_from_axle_m + log.ego_size.length_m / 2
    line = stop_line(scene.route_ego, front_m + float(distance))
    return FrozenScene(**{**scene.__dict__, "red_line_ego": line})


def stop_line(route_ego: F64, distance_m: float) -> F64:
    """Segment (1, 2, 2) across the route `distance_m` ahead of the rear axle; straight on without a route."""
    if len(route_ego) < 2:
        return np.array([[[distance_m, -STOP_LINE_HALF_M], [distance_m, STOP_LINE_HALF_M]]])
    length = np.append(0.0, np.cumsum(np.hypot(*np.diff(route_ego, axis=0).T)))
    here = length[int(np.argmin(np.hypot(*route_ego.T)))]
    point, before = (
        np.array([np.interp(s, length, route_ego[:, i]) for i in range(2)])
        for s in (here + distance_m, here + distance_m - 0.5)
    )
    ahead = (point - before) / max(float(np.hypot(*(point - before))), 1e-9)
    across = np.array([-ahead[1], ahead[0]]) * STOP_LINE_HALF_M
    return np.asarray(np.stack([point - across, point + across])[None], np.float64)


def _future(agents: AgentTracks, t_s: F64, times_s: F64) -> tuple[F64, Bool]:
    """Agents' poses (N, T, 3) and validity (N, T) at `times_s`, between valid recorded steps."""
    n, t = len(agents.ids), len(times_s)
    pose, valid = np.zeros((n, t, 3)), np.zeros((n, t), bool)
    for i in range(n):
        seen = agents.valid[i]
        if not seen.any():
            continue
        known = t_s[seen]
        pose[i] = resample_poses(agents.pose_world[i, seen], known, times_s)
        right = np.clip(np.searchsorted(known, times_s), 0, len(known) - 1)
        left = np.clip(right - 1, 0, None)
        near = np.minimum(np.abs(known[right] - times_s), np.abs(times_s - known[left]))
        between = (known[left] <= times_s) & (times_s <= known[right])
        valid[i] = (near <= HOLD_S) & (between | (near <= 1e-3))
    return pose, valid
