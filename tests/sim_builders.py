"""Hand-made closed-loop scenes: a straight route east along y = 0 and whatever stands on or beside it."""

from collections.abc import Sequence

import numpy as np

from drive.contracts import AgentKind, Turn
from sim.routes import Route, curve_speeds
from sim.situation import Agents, EgoState, Situation, StopLine

LIMIT_MPS = 10.0
AgentRow = tuple[AgentKind, float, float, float, float, float, float]  # kind, x, y, yaw, speed, length, width


def straight_route(points: int = 200, bend_at: int | None = None, radius_m: float = 12.0) -> Route:
    """A route east from the origin; with `bend_at` it turns left by 90 degrees from there on."""
    yaw = np.zeros(points)
    if bend_at is not None:
        arc = int(radius_m * np.pi / 2)
        yaw[bend_at : bend_at + arc] = np.linspace(0, np.pi / 2, arc)
        yaw[bend_at + arc :] = np.pi / 2
    step = np.stack([np.cos(yaw), np.sin(yaw)], -1)
    xy = np.concatenate([np.zeros((1, 2)), np.cumsum(step, 0)[:-1]])
    pose = np.concatenate([xy, yaw[:, None]], -1)
    limit = np.full(points, LIMIT_MPS)
    return Route(
        pose_world=pose,
        z_m=np.zeros(points),
        width_m=np.full(points, 3.5),
        junction=np.zeros(points, bool),
        lane=np.zeros((points, 2), np.int64),
        turn=np.full(points, int(Turn.FOLLOW), np.int64),
        limit_mps=limit,
        speed_mps=curve_speeds(pose, limit),
        start_m=5.0,
        goal_m=float(points - 45),
    )


def agents_of(rows: Sequence[AgentRow]) -> Agents:
    """Agents without lane paths: they are expected to go straight on."""
    table = np.array([row[1:] for row in rows], np.float64).reshape(-1, 6)
    return Agents(
        ids=np.arange(1, len(rows) + 1, dtype=np.int32),
        kind=np.array([int(row[0]) for row in rows], np.int32),
        size_m=table[:, 4:6].astype(np.float32),
        pose_world=table[:, :3],
        speed_mps=table[:, 3],
    )


def scene_of(
    speed_mps: float = 8.0,
    rows: Sequence[AgentRow] = (),
    *,
    route: Route | None = None,
    at_m: float = 20.0,
    lateral_m: float = 0.0,
    yaw_rad: float = 0.0,
    t_s: float = 0.0,
    lights: Sequence[tuple[float, int]] = (),
) -> Situation:
    """The ego's rear axle at arc length at_m, with (stop line, state) lights and agents."""
    route = route or straight_route()
    pose = route.at(at_m)
    pose += [-lateral_m * np.sin(pose[2]), lateral_m * np.cos(pose[2]), yaw_rad]
    return Situation(
        t_s=t_s,
        ego=EgoState(pose, speed_mps, 0.0, 0.0),
        s_m=at_m,
        lateral_m=lateral_m,
        route=route,
        agents=agents_of(rows),
        stops=tuple(StopLine(s, k) for k, (s, _) in enumerate(lights)),
        lights=tuple(state for _, state in lights),
    )
