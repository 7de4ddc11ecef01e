"""Ways around what stands in the ego's lane: their shape, and whether nobody will be in them."""

import math
from dataclasses import dataclass, replace

import numpy as np

from drive.contracts import EGO_MKZ, F64, Bool
from drive.geometry.se2 import wrap
from sim.expert import FRONT_M, REAR_M
from sim.room import Room
from sim.route_frame import Beside
from sim.routes import curve_speeds
from sim.situation import Situation

SIDE_M = 0.55  # distance to what is passed
SIDE_RIDER_M = 0.8  # to somebody on a bicycle
EDGE_M = 0.25
CLEAR_BEFORE_M, CLEAR_BEHIND_M, ONCOMING_BEHIND_M = 4.5, 2.5, 1.2
BACK_M = 6.0  # the shortest way back into the lane
TAIL_M, NOSE_M = 0.5, 2.0  # left free behind what was passed and before the next one on the shortest way back
CHAIN_M = TAIL_M + REAR_M + BACK_M + FRONT_M + NOSE_M  # obstacles nearer to each other are passed in one go
BEHIND_S = 3.0
LEAST_BEHIND_S = 0.7
HURRY = 0.35  # share of the time beside an obstacle that an ego without patience leaves out of account
GAP_BEHIND_M, GAP_AHEAD_M = 6.0, 5.0
ONCOMING_S, ONCOMING_M = 0.6, 3.0
STARTING_MPS, STARTING_MPS2, STARTED_MPS = 5.0, 3.0, 12.0  # so slow, who comes may just have started
SWING_S = 1.5  # until the ego is in the other lane
TOP_MPS, ONCOMING_TOP_MPS = 9.0, 10.0
HALF_BACK_M = 3.5  # so far behind the obstacle the ego has left the other lane
PASSING_MPS = 6.5
ACCEL_MPS2 = 2.5
STANDING_MPS, SLOW_MPS = 0.08, 1.5
FOLLOWS_M = 1.2  # so little beside the ego, somebody behind is in its own lane
HALF_EGO_M = EGO_MKZ.width_m / 2


@dataclass(frozen=True)
class Detour:
    """A stretch of the route driven `left_m` beside its centre, fully so from `full_m` to `back_m`."""

    from_m: float
    full_m: float
    back_m: float
    to_m: float
    left_m: float
    around: frozenset[int]
    oncoming: bool = False


@dataclass(frozen=True)
class Block:
    """What has to be passed in one go.

    Attributes:
        rows: bool (A,), which of the scene's agents.
        low_m, high_m: Its extent along the route.
        next_m: Near end of the next one that stands in the lane behind it; inf without one.
        side_m: Distance to keep to it.
    """

    rows: Bool
    low_m: float
    high_m: float
    next_m: float = math.inf
    side_m: float = SIDE_M


def ways_around(scene: Situation, beside: Beside, room: Room, block: Block) -> tuple[list[Detour], bool]:
    """Detours that have room, best first: in the lane, on one of the same way, on the oncoming one.

    Returns:
        The detours that can be begun now, and whether there would be any from further back.
    """
    left_edge, right_edge = float(beside.left[block.rows].max()), float(beside.right[block.rows].min())
    over_left = left_edge + block.side_m + HALF_EGO_M
    over_right = right_edge - block.side_m - HALF_EGO_M
    first = max(0, int(block.low_m) - 4)
    part = slice(first, max(first + 1, int(block.high_m) + 4))
    options: list[tuple[float, bool]] = []
    if over_left + HALF_EGO_M + EDGE_M < room.own_left[part].min():
        options.append((over_left, False))
    if over_right - HALF_EGO_M - EDGE_M > room.own_right[part].max():
        options.append((over_right, False))
    for centres, over in ((room.left_lane, over_left), (room.right_lane, over_right)):
        lane = centres[part]
        if np.isfinite(lane).all():
            wanted = float(np.median(lane))
            options.append((max(wanted, over) if over > 0 else min(wanted, over), False))
    most_left, most_right = room.most_left[part].min(), room.most_right[part].max()
    if np.isfinite(room.oncoming[part]).all() and over_left + HALF_EGO_M + EDGE_M < most_left:
        options.append((over_left, True))
    slow = max(0.0, float(beside.speed[block.rows].max()))
    passing = (block.high_m - scene.s_m + 12.0) / max(2.0, PASSING_MPS - slow)
    moved = replace(block, high_m=block.high_m + slow * passing)
    around = frozenset(int(i) for i in scene.agents.ids[block.rows])
    roomy = [way for way in options if most_right + HALF_EGO_M < way[0] < most_left - HALF_EGO_M]
    found = (_shape(scene, moved, left_m, around, oncoming) for left_m, oncoming in roomy)
    return [detour for detour in found if detour is not None], bool(roomy)


def _shape(
    scene: Situation, block: Block, left_m: float, around: frozenset[int], oncoming: bool
) -> Detour | None:
    """Where it begins and ends; None if there is not enough way left to swing out."""
    speed = max(0.0, scene.ego.speed_mps)
    length = max(8.0, 1.7 * speed) * max(0.45, min(1.3, abs(left_m) / 3.5))
    full = block.low_m - CLEAR_BEFORE_M
    begin = max(scene.s_m + 0.5, full - max(length, 14.0 * min(1.0, abs(left_m) / 3.5)))
    swing = 2.2 if speed > SLOW_MPS else 1.6  # from standstill the wheel turns further
    if full - begin < max(4.0, swing * abs(left_m)) and abs(left_m) > 0.8:
        return None
    back = block.high_m + (ONCOMING_BEHIND_M if oncoming else CLEAR_BEHIND_M) + REAR_M
    end = back + max(10.0, 1.5 * speed)
    latest = block.next_m - NOSE_M - FRONT_M
    if latest < end:  # steeper back, where the next one leaves no more room
        end = max(latest, block.high_m + TAIL_M + REAR_M + BACK_M)
        back = max(block.high_m + TAIL_M + REAR_M, min(back, end - BACK_M))
    return Detour(begin, max(full, begin + 2.0), back, end, left_m, around, oncoming)


def is_free(scene: Situation, beside: Beside, mine: Bool, detour: Detour, behind_s: float = BEHIND_S) -> bool:
    """Is nobody in the strip of the detour, nor will be while the ego is there?

    Args:
        scene: Now.
        beside: Its agents along the route.
        mine: bool (A,), who is passed and does not count.
        detour: The way.
        behind_s: Time that somebody faster behind is left, and, short of BEHIND_S, a measure of the hurry.
    """
    reach = HALF_EGO_M + 0.35
    inside = (beside.left > detour.left_m - reach) & (beside.right < detour.left_m + reach)
    tail, nose = scene.s_m - REAR_M, scene.s_m + FRONT_M
    middle = (beside.left + beside.right) / 2
    follows = (beside.high < tail) & (np.abs(middle - scene.lateral_m) < FOLLOWS_M)
    others = inside & ~mine & ~follows & np.isfinite(beside.low)
    if not others.any():
        return True
    speed = max(0.0, scene.ego.speed_mps)
    back = detour.back_m + HALF_BACK_M + FRONT_M
    time = time_for(back - scene.s_m, speed, ONCOMING_TOP_MPS if detour.oncoming else TOP_MPS)
    time *= 1 - HURRY * (BEHIND_S - behind_s) / BEHIND_S
    against = others & (beside.speed < -0.3)
    meets = beside.low - _comes(-beside.speed, time + ONCOMING_S) < back + ONCOMING_M
    still_to_come = beside.high + beside.speed * SWING_S > nose
    if (against & meets & still_to_come).any():
        return False
    with_us = others & ~against
    closing = np.maximum(0.0, beside.speed - speed)
    behind = (beside.high > tail - GAP_BEHIND_M - closing * behind_s) & (beside.low < nose + GAP_AHEAD_M)
    if (with_us & behind).any():
        return False
    ahead = with_us & (beside.low < detour.to_m)
    if detour.oncoming:
        return not (ahead & (beside.high > tail)).any()
    return not (ahead & (beside.speed < 1.0) & (beside.high > nose)).any()


def _comes(speed_mps: F64, time_s: float) -> F64:
    """Way [m] of those who come, at their speed or, if they are slow, getting faster."""
    rise = np.minimum(time_s, (STARTED_MPS - speed_mps) / STARTING_MPS2)
    started = speed_mps * rise + STARTING_MPS2 / 2 * rise**2 + STARTED_MPS * (time_s - rise)
    way: F64 = np.where(speed_mps < STARTING_MPS, started, speed_mps * time_s)
    return way


def bent(scene: Situation, detour: Detour) -> Situation:
    """The scene with its route along a detour."""
    route = scene.route
    s = np.arange(len(route.pose_world), dtype=np.float64)
    rise = np.clip((s - detour.from_m) / max(1.0, detour.full_m - detour.from_m), 0.0, 1.0)
    fall = np.clip((detour.to_m - s) / max(1.0, detour.to_m - detour.back_m), 0.0, 1.0)
    share = np.minimum(rise, fall)
    shift = detour.left_m * share * share * (3 - 2 * share)
    pose = route.pose_world.copy()
    pose[:, 0] -= shift * np.sin(route.pose_world[:, 2])
    pose[:, 1] += shift * np.cos(route.pose_world[:, 2])
    pose[:, 2] = wrap(route.pose_world[:, 2] + np.arctan(np.gradient(shift)))
    speed = np.minimum(route.speed_mps, curve_speeds(pose, route.limit_mps))
    near = (s > detour.full_m - 6.0) & (s < detour.back_m)
    speed = np.where(near, np.minimum(speed, ONCOMING_TOP_MPS if detour.oncoming else TOP_MPS), speed)
    return replace(scene, route=replace(route, pose_world=pose, speed_mps=speed))


def time_for(way_m: float, speed_mps: float, top_mps: float = TOP_MPS) -> float:
    """Time [s] for a way from a speed on, accelerating to `top_mps`."""
    rise = max(0.0, top_mps - speed_mps) / ACCEL_MPS2
    done = speed_mps * rise + 0.5 * ACCEL_MPS2 * rise**2
    if done >= way_m:
        return (-speed_mps + math.sqrt(speed_mps**2 + 2 * ACCEL_MPS2 * way_m)) / ACCEL_MPS2
    return rise + (way_m - done) / max(top_mps, speed_mps)
