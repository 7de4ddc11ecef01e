"""The privileged expert: from any state, the trajectory a good driver would take along the route.

IDM towards the vehicle ahead, stops at red and yellow lights, yields to crossing traffic and walkers, pure
pursuit of the lane centre by a kinematic bicycle. Its plan is both how the expert drives and the label of
every recorded step.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drive.contracts import DT_S, EGO_MKZ, F32, F64, I32, STEPS, AgentKind
from drive.geometry.boxes import corners
from drive.geometry.commands import classify
from drive.geometry.se2 import to_local, wrap
from sim.dash import BEGUN, LEAST, WIDE, Berth, first_touch_s
from sim.predict import FINE_TIMES_S, TIMES_S, boxes_ahead
from sim.situation import NO_LIGHT, RED, YELLOW, Situation

WHEELBASE_M = 2.9
FRONT_M = EGO_MKZ.centre_from_axle_m + EGO_MKZ.length_m / 2
REAR_M = EGO_MKZ.length_m / 2 - EGO_MKZ.centre_from_axle_m
MAX_STEER_RAD = 0.6
ACCEL_MPS2 = 1.8
BRISK_MPS2, BRISK_CURVE = 4.2, 1.2
BRAKE_MPS2 = 1.9
HARDEST_MPS2 = 6.0
STANDSTILL_GAP_M = 2.5
HEADWAY_S = 1.2
YELLOW_BRAKE_MPS2 = 3.0
LOOK_AHEAD_M = 60
CORRIDOR_M = EGO_MKZ.width_m / 2 + 0.25
WALKER_EXTRA_M = 0.45
FAR_M = 60.0
PASSING_MPS, PASSING_SHARE = 1.0, 0.7
STILL_MPS = 0.1
BEGUN_MPS, START_S = 0.5, 0.25  # from standstill the wheels turn later than the plan says
RUN_UP_M = 4.0
FASTER_MPS, LEAVING_M = 2.0, 2.0
DASH_M, DASH_MPS = 4.0, 3.0  # a run that is shorter or ends slower may end in the way of others
FOLLOWS_M = 1.2  # so little beside the ego's line, somebody is in its lane: behind it or ahead of it
BOLD_M = 9.0  # so near to the place where ways meet, it may go
OTHERS_BRAKE_MPS2 = 3.0


@dataclass(frozen=True)
class Obstacle:
    """Something the front bumper must stay behind.

    Attributes:
        s_m: Arc length of its near end.
        speed_mps: Speed along the route.
        walker: Somebody on foot.
        passing: It is in motion across the ego's way or against it, and will be gone.
    """

    s_m: float
    speed_mps: float
    walker: bool = False
    passing: bool = False


@dataclass(frozen=True)
class ExpertPlan:
    """The expert's answer.

    Attributes:
        pose_ego: float32 (40, 3), as drive.contracts.Trajectory.
        command: int32 (2,), Lateral and Longitudinal of that trajectory.
        aux: float32 (3,), [light 0 red 1 yellow 2 green 3 none, distance to stop line m, gap to lead m].
    """

    pose_ego: F32
    command: I32
    aux: F32


def plan_expert(scene: Situation) -> ExpertPlan:
    """Plan from the current state; a pure function of the scene."""
    leads = on_path(scene)
    crossing = conflicts(scene, leads)
    stops = red_lights(scene) + held(scene)
    passing = [o for o in leads if o.passing]
    others = [o for o in leads if not o.passing]
    if scene.brisk and passing and touches_s(scene, others + stops + crossing) == math.inf:
        leads, passing = others, []  # who comes on the other lane will have passed, or the ego will be back
    obstacles = leads + stops + crossing
    if scene.choosy:
        scene, obstacles = _chosen(scene, others + stops, passing, give_way_at(scene, crossing))
    pose_world, _ = rollout(scene, obstacles)
    pose_ego = to_local(pose_world, scene.ego.pose_world).astype(np.float32)
    nose = scene.s_m + FRONT_M
    gap = min((o.s_m - nose for o in leads), default=math.inf)
    command = classify(pose_ego, scene.ego.speed_mps, gap)
    return ExpertPlan(pose_ego, command, _aux(scene, gap))


def _chosen(
    scene: Situation, fixed: list[Obstacle], passing: list[Obstacle], crossing: list[Obstacle]
) -> tuple[Situation, list[Obstacle]]:
    """Which scene and obstacles to drive by: to give way, to dash, or to stop where the ego is."""
    walkers = [o for o in crossing if o.walker]
    usual, dash = (scene, fixed + passing + crossing), (brisk(scene), _leaving(scene, fixed) + walkers)
    stop = (scene, [*fixed, *passing, Obstacle(scene.s_m + FRONT_M, 0.0)])
    if scene.eager:
        if may_dash(*dash):
            return dash
        stands = scene.ego.speed_mps < BEGUN_MPS and not scene.bold
        if stands and touches_s(*dash, WIDE, START_S) < math.inf:
            return stop  # creeping on would only cost the run-up
    soon = touches_s(*usual, LEAST)
    if soon == math.inf or (scene.ego.speed_mps < STILL_MPS and not _starts(*usual)):
        return usual
    touched = [(touches_s(*stop, LEAST), stop), (touches_s(*dash, LEAST), dash)]
    later, best = max(touched, key=lambda pair: pair[0])
    return best if later > soon + 0.1 else usual


def _starts(scene: Situation, obstacles: list[Obstacle]) -> bool:
    return float(rollout(scene, obstacles)[1][-1]) > 0.3


def _leaving(scene: Situation, obstacles: list[Obstacle]) -> list[Obstacle]:
    """Behind somebody who is much faster a smaller gap will do, since it grows."""
    faster = scene.ego.speed_mps + FASTER_MPS
    return [replace(o, s_m=o.s_m + LEAVING_M) if o.speed_mps > faster else o for o in obstacles]


def brisk(scene: Situation) -> Situation:
    """The scene for somebody in a hurry: harder acceleration, faster curves."""
    route = scene.route
    speed = np.minimum(route.limit_mps, BRISK_CURVE * route.speed_mps)
    return replace(scene, brisk=True, route=replace(route, speed_mps=speed))


def may_dash(scene: Situation, fixed: list[Obstacle]) -> bool:
    """Does a start behind `fixed` alone meet nobody, and not end in the way of others?"""
    _, travelled = rollout(scene, fixed)
    if travelled[-1] < DASH_M or travelled[-1] - travelled[-2] < DASH_MPS * DT_S:
        return False
    begun = scene.ego.speed_mps > BEGUN_MPS
    berth = BEGUN if begun or scene.bold else WIDE
    return touches_s(scene, fixed, berth, 0.0 if begun else START_S) == math.inf


def touches_s(scene: Situation, obstacles: list[Obstacle], berth: Berth = WIDE, late_s: float = 0.0) -> float:
    """When the ego behind `obstacles` touches one of those who are not in its lane; inf if it does not."""
    poses, _ = rollout(scene, obstacles)
    here = to_local(scene.agents.pose_world, scene.ego.pose_world)
    lane = (np.abs(here[:, 1]) < FOLLOWS_M) & (np.abs(here[:, 2]) < 0.5)
    ignored = lane & ((here[:, 0] < -REAR_M) | (here[:, 0] > 0))
    return first_touch_s(poses, scene.agents, ignored, berth, late_s)


def _aux(scene: Situation, gap_m: float) -> F32:
    state, distance = NO_LIGHT, FAR_M
    for stop, light in zip(scene.stops, scene.lights, strict=True):
        ahead = stop.s_m - scene.s_m - FRONT_M
        if -1.0 < ahead < 40.0:
            state, distance = light, ahead
            break
    return np.array([state, min(distance, FAR_M), min(max(gap_m, 0.0), FAR_M)], np.float32)


def footprint(scene: Situation, poses: F64, sizes: Any) -> tuple[F64, F64, F64]:
    """Where boxes lie relative to the route ahead.

    Args:
        scene: Scene with B boxes around it.
        poses: (B, 3) box centres.
        sizes: (B, 2).

    Returns:
        s_low, s_high (B,): extent along the route [m]; sideways (B,): smallest distance of the box from the
        route's centre line [m], 0 if it covers it, inf if it is not beside the part ahead.
    """
    first = max(0, int(scene.s_m))
    path = scene.route.pose_world[first : first + LOOK_AHEAD_M]
    ring = corners(poses, sizes)
    ring = np.concatenate([ring, (ring + np.roll(ring, 1, axis=1)) / 2, poses[:, None, :2]], axis=1)
    dx = ring[..., 0, None] - path[:, 0]
    dy = ring[..., 1, None] - path[:, 1]
    near = np.argmin(dx * dx + dy * dy, axis=-1)
    at = path[near]
    px, py = ring[..., 0] - at[..., 0], ring[..., 1] - at[..., 1]
    along = px * np.cos(at[..., 2]) + py * np.sin(at[..., 2])
    across = -px * np.sin(at[..., 2]) + py * np.cos(at[..., 2])
    s = first + near + along
    beside = np.abs(along) < 1.5
    across = np.where(beside, across, np.inf)
    low, high = np.where(beside, across, np.inf).min(1), np.where(beside, across, -np.inf).max(1)
    covers = (low <= 0) & (high >= 0)
    sideways = np.where(covers, 0.0, np.where(beside.any(1), np.abs(across).min(1), np.inf))
    inside = beside & (np.abs(across) < 3.0)
    s_low = np.where(inside, s, np.inf).min(1)
    s_high = np.where(inside, s, -np.inf).max(1)
    return s_low, s_high, sideways


def on_path(scene: Situation) -> list[Obstacle]:
    """Road users whose box is in the ego's corridor now."""
    agents = scene.agents
    if not len(agents.ids):
        return []
    s_low, _, sideways = footprint(scene, agents.pose_world, agents.size_m)
    corridor = CORRIDOR_M + np.where(agents.kind == AgentKind.PEDESTRIAN, WALKER_EXTRA_M, 0.0)
    found = []
    for i in np.flatnonzero((sideways < corridor) & np.isfinite(s_low)):
        middle = scene.s_m + EGO_MKZ.centre_from_axle_m
        if s_low[i] < middle:  # beside or behind the ego's middle
            continue
        heading = scene.route.at(s_low[i])[2]
        speed = float(agents.speed_mps[i]) * math.cos(agents.pose_world[i, 2] - heading)
        if agents.kind[i] == AgentKind.PEDESTRIAN:
            found.append(Obstacle(float(s_low[i]), 0.0, walker=True))
            continue
        fast = abs(float(agents.speed_mps[i]))
        passing = speed < PASSING_SHARE * fast and fast > PASSING_MPS
        found.append(Obstacle(float(s_low[i]), max(0.0, speed), passing=passing))
    return found


def conflicts(scene: Situation, leads: list[Obstacle]) -> list[Obstacle]:
    """Predicted boxes that meet the ego's corridor when the ego would be there."""
    agents = scene.agents
    boxes, rows = boxes_ahead(agents, FINE_TIMES_S if scene.choosy else TIMES_S)
    if not len(boxes):
        return []
    who = rows[:, 0].astype(int)
    near = (
        np.hypot(boxes[:, 0] - scene.ego.pose_world[0], boxes[:, 1] - scene.ego.pose_world[1]) < LOOK_AHEAD_M
    )
    boxes, rows, who = boxes[near], rows[near], who[near]
    if not len(boxes):
        return []
    s_low, s_high, sideways = footprint(scene, boxes, agents.size_m[who])
    walker = agents.kind[who] == AgentKind.PEDESTRIAN
    hit = (sideways < CORRIDOR_M + np.where(walker, WALKER_EXTRA_M, 0.0)) & np.isfinite(s_low)
    _, travelled = rollout(scene, leads)
    found = []
    for key in sorted({(int(a), int(p)) for a, p in rows[hit][:, [0, 2]]}):
        rowset = hit & (who == key[0]) & (rows[:, 2] == key[1])
        obstacle = _yield_to(
            scene, key[0], rows[rowset, 1], s_low[rowset], s_high[rowset], boxes[rowset], travelled
        )
        if obstacle is not None:
            found.append(obstacle)
    return found


def _yield_to(
    scene: Situation, agent: int, t_s: F64, s_low: F64, s_high: F64, boxes: F64, travelled: F64
) -> Obstacle | None:
    """Does the ego have to give way to one predicted path that enters its corridor?"""
    enter = int(np.argmin(t_s))
    heading = scene.route.at(float(s_low[enter]))[2]
    across = abs(float(wrap(boxes[enter, 2] - heading)))
    nose, tail = scene.s_m + FRONT_M, scene.s_m - REAR_M
    if s_high.max() < scene.s_m + EGO_MKZ.centre_from_axle_m:
        return None
    clock = np.arange(len(travelled)) * DT_S
    speed = float(scene.agents.speed_mps[agent])
    if across < 0.5 and scene.agents.kind[agent] != AgentKind.PEDESTRIAN:
        ego_then = float(np.interp(t_s[enter], clock, travelled))
        if nose + ego_then > s_low[enter] + 1.0:  # it merges behind or beside: its driver gives way
            return None
        return Obstacle(max(nose, float(s_low[enter]) - speed * float(t_s[enter])), speed)
    if scene.bold and _can_brake(scene, agent, boxes[enter], speed) and s_low.min() - nose < BOLD_M:
        return None
    margin = 1.0 if scene.agents.kind[agent] == AgentKind.PEDESTRIAN else 0.6
    arrive = float(np.interp(s_low.min() - nose, travelled, clock, right=math.inf))
    leave = float(np.interp(s_high.max() - tail, travelled, clock, right=math.inf))
    if s_low.min() - nose <= 0.3:  # already inside: clear the place
        return None
    if arrive > t_s.max() + margin or leave < t_s.min() - margin:
        return None
    return Obstacle(float(s_low.min()) - 0.5, 0.0, scene.agents.kind[agent] == AgentKind.PEDESTRIAN)


def _can_brake(scene: Situation, agent: int, meets: F64, speed_mps: float) -> bool:
    """Can the driver of a vehicle still stop comfortably before the place where the ways meet?"""
    if scene.agents.kind[agent] == AgentKind.PEDESTRIAN:
        return False
    here = scene.agents.pose_world[agent]
    room = math.hypot(meets[0] - here[0], meets[1] - here[1]) - float(scene.agents.size_m[agent, 0]) / 2
    return room > speed_mps**2 / (2 * OTHERS_BRAKE_MPS2) + 3.0


def red_lights(scene: Situation) -> list[Obstacle]:
    """Stop lines at red, and at yellow when braking is comfortable."""
    nose = scene.s_m + FRONT_M
    found = []
    for stop, light in zip(scene.stops, scene.lights, strict=True):
        gap = stop.s_m - nose
        if light not in (RED, YELLOW) or not -1.0 < gap < LOOK_AHEAD_M:
            continue
        if light == YELLOW and scene.ego.speed_mps**2 > 2 * YELLOW_BRAKE_MPS2 * max(gap - 0.5, 0.01):
            continue
        found.append(Obstacle(max(stop.s_m - 0.8 + STANDSTILL_GAP_M, nose + 0.25), 0.0))
    return found


def give_way_at(scene: Situation, crossing: list[Obstacle]) -> list[Obstacle]:
    """Gives way with room for a run-up, and before a signalled line rather than on it.

    The light may turn red meanwhile, and a tail that crosses the line then has run it.
    """
    nose, length = scene.s_m + FRONT_M, FRONT_M + REAR_M
    lines = [stop.s_m for stop in scene.stops if stop.s_m > nose - 0.5]
    moved = []
    for o in crossing:
        at = o.s_m - RUN_UP_M
        tail = at - STANDSTILL_GAP_M - length
        line = min((s for s in lines if tail < s + 0.5 and s < o.s_m), default=None)
        if line is not None:
            at = min(at, line - 0.8 + STANDSTILL_GAP_M)
        here = min(o.s_m, nose + STANDSTILL_GAP_M)
        moved.append(o if o.walker else replace(o, s_m=max(at, here)))
    return moved


def held(scene: Situation) -> list[Obstacle]:
    """Places where the ego has to wait."""
    return [Obstacle(s_m + STANDSTILL_GAP_M, 0.0) for s_m in scene.holds if s_m > scene.s_m]


def idm(
    speed: float,
    wanted: float,
    nose_m: float,
    t_s: float,
    obstacles: list[Obstacle],
    accel: float = ACCEL_MPS2,
) -> float:
    """Acceleration [m/s^2] of the Intelligent Driver Model, in [-6, accel]; obstacles move on steadily."""
    if speed < wanted:
        best = accel * (1 - (speed / max(wanted, 0.1)) ** 4)
    else:
        best = max(-3.0, (wanted - speed) / 0.6)
    free = best
    for o in obstacles:
        gap = o.s_m + o.speed_mps * t_s - nose_m
        if gap > 80.0:
            continue
        if gap < 0.3:
            return -HARDEST_MPS2
        closing = speed * (speed - o.speed_mps) / (2 * math.sqrt(ACCEL_MPS2 * BRAKE_MPS2))
        desired = STANDSTILL_GAP_M + max(0.0, speed * HEADWAY_S + closing)
        best = min(best, free - accel * (desired / gap) ** 2)
    return max(-HARDEST_MPS2, min(accel, best))


def rollout(scene: Situation, obstacles: list[Obstacle]) -> tuple[F64, F64]:
    """Drive the bicycle model for 4 s behind `obstacles`.

    Returns:
        pose_world float64 (40, 3), rear axle; travelled float64 (41,), route distance at 0, 0.1, ..., 4 s.
    """
    route = scene.route
    last = len(route.pose_world) - 2
    xs, ys, wanted = route.pose_world[:, 0], route.pose_world[:, 1], route.speed_mps
    x, y, yaw = (float(v) for v in scene.ego.pose_world)
    v, s = max(0.0, scene.ego.speed_mps), scene.s_m
    poses, travelled = np.empty((STEPS, 3)), np.zeros(STEPS + 1)
    most = BRISK_MPS2 if scene.brisk else ACCEL_MPS2
    for k in range(STEPS):
        i = min(int(s), last)
        accel = idm(v, float(wanted[i]), s + FRONT_M, k * DT_S, obstacles, most)
        target = min(s + 3.0 + 0.45 * v, float(last))
        j = int(target)
        f = target - j
        dx, dy = xs[j] + f * (xs[j + 1] - xs[j]) - x, ys[j] + f * (ys[j + 1] - ys[j]) - y
        ahead, left = dx * math.cos(yaw) + dy * math.sin(yaw), -dx * math.sin(yaw) + dy * math.cos(yaw)
        steer = math.atan(2 * WHEELBASE_M * left / max(ahead * ahead + left * left, 1.0))
        steer = max(-MAX_STEER_RAD, min(MAX_STEER_RAD, steer))
        v = max(0.0, v + accel * DT_S)
        if v < 0.05 and accel < 0:
            v = 0.0
        x += v * math.cos(yaw) * DT_S
        y += v * math.sin(yaw) * DT_S
        yaw += v / WHEELBASE_M * math.tan(steer) * DT_S
        s += v * DT_S
        poses[k] = x, y, yaw
        travelled[k + 1] = s - scene.s_m
    return poses, travelled
