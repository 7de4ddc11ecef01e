"""Lanes beside the route and ways between two places, for scenarios."""

import math
from collections import deque

import carla
import numpy as np

from drive.contracts import F64
from sim.frames import location, waypoint_pose
from sim.scenarios.stage import Stage, Unplaceable, follow

HOP_M = 2.0
REACHED_M = 3.0
MOST_STEPS = 400
MOST_OPEN = 64
PARKED_M = 2.0  # width of a parking space where the map has none


def oncoming(stage: Stage, at_m: float) -> carla.Waypoint:
    """Nearest lane of oncoming traffic beside the route; Unplaceable without one."""
    here: carla.Waypoint | None = stage.waypoint(at_m)
    while here is not None:
        beside = here.get_left_lane()
        if beside is None or beside.lane_type != carla.LaneType.Driving:
            break
        if beside.lane_id * here.lane_id < 0:
            return beside
        here = beside
    raise Unplaceable("there is no oncoming lane beside the route")


def same_way(stage: Stage, at_m: float, side: str) -> tuple[carla.Waypoint, float] | None:
    """Neighbour lane of the same direction, and how far left of the route its centre is; None without one."""
    here = stage.waypoint(at_m)
    beside = here.get_left_lane() if side == "left" else here.get_right_lane()
    if beside is None or beside.lane_type != carla.LaneType.Driving or beside.lane_id * here.lane_id < 0:
        return None
    return beside, offset_of(stage, at_m, beside)


def offset_of(stage: Stage, at_m: float, lane: carla.Waypoint) -> float:
    """How far left of the route a lane's centre lies."""
    pose, other = stage.route.at(at_m), waypoint_pose(lane)
    return float(-(other[0] - pose[0]) * math.sin(pose[2]) + (other[1] - pose[1]) * math.cos(pose[2]))


def kerb_offset(stage: Stage, at_m: float, side: str) -> float:
    """How far left of the route a car parks on a side: on the map's parking lane, else beside the lane."""
    here = stage.waypoint(at_m)
    beside = here.get_left_lane() if side == "left" else here.get_right_lane()
    if beside is not None and beside.lane_type == carla.LaneType.Parking:
        return offset_of(stage, at_m, beside)
    off = float(here.lane_width) / 2 + PARKED_M / 2 + 0.2
    return off if side == "left" else -off


def oncoming_path(stage: Stage, at_m: float, before_m: float, after_m: float, road_only: bool = False) -> F64:
    """Way of oncoming traffic past arc length `at_m`: from `before_m` ahead of it to `after_m` behind."""
    lane = oncoming(stage, at_m)
    before = follow(lane, before_m, back=True, road_only=road_only)
    return np.concatenate([before[:-1], follow(lane, after_m, road_only=road_only)])


def way_between(stage: Stage, start: tuple[float, ...], end: tuple[float, ...]) -> F64:
    """Lane path (P, 3) from one place to another, or to the point of a way nearest to it.

    Biking lanes count. Unplaceable if no way comes within 12 m of the end.
    """
    kinds = carla.LaneType.Any if _is_bikes(stage, start) else carla.LaneType.Driving
    first = stage.map.get_waypoint(location(*start[:3]), True, kinds)
    if first is None:
        raise Unplaceable("there is no lane where the flow starts")
    limit = int((3 * math.dist(start[:2], end[:2]) + 60) / HOP_M)
    best: tuple[float, list[carla.Waypoint]] = (math.inf, [])
    open_ways: deque[list[carla.Waypoint]] = deque([[first]])
    for _ in range(min(limit, MOST_STEPS)):
        for _ in range(len(open_ways)):
            way = open_ways.popleft()
            gap = math.dist(waypoint_pose(way[-1])[:2], end[:2])
            if gap < best[0]:
                best = (gap, way)
            open_ways.extend([*way, after] for after in way[-1].next(HOP_M))
        while len(open_ways) > MOST_OPEN:
            open_ways.pop()
        if best[0] < REACHED_M / 2:
            break
    if best[0] > 12.0 or len(best[1]) < 2:
        raise Unplaceable("no lane leads from the start of the flow to its end")
    return np.array([waypoint_pose(w) for w in best[1]])


def _is_bikes(stage: Stage, place: tuple[float, ...]) -> bool:
    here = stage.map.get_waypoint(location(*place[:3]), False, carla.LaneType.Biking)
    return here is not None
