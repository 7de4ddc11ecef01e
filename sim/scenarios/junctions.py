"""Junctions on a route: where they are, and which lanes lead through them from which side."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import carla
import numpy as np

from drive.contracts import F64
from drive.geometry.se2 import wrap
from sim.frames import waypoint_pose
from sim.scenarios.stage import Stage, Unplaceable, follow

APPROACH_M = 55.0
DEPART_M = 45.0
SIDES = {"opposite": math.pi, "left": -math.pi / 2, "right": math.pi / 2}  # heading against the ego's
STRAIGHT_RAD = 0.6
TOUCH_M = 2.5


@dataclass(frozen=True)
class Crossing:
    """A junction on the route, between two arc lengths."""

    entry_m: float
    exit_m: float


@dataclass(frozen=True)
class Through:
    """A way through a junction.

    Attributes:
        path_world: float64 (P, 3), with approach and departure.
        meets_m: Arc length of the route where it first touches the ego's way.
        along_m: Its own arc length there.
        lane: First lane point inside the junction.
    """

    path_world: F64
    meets_m: float
    along_m: float
    lane: carla.Waypoint


def next_junction(stage: Stage, from_m: float) -> Crossing:
    """First junction after an arc length; Unplaceable without one."""
    inside = np.flatnonzero(stage.route.junction[int(from_m) :])
    if not len(inside):
        raise Unplaceable("there is no junction ahead")
    entry = int(from_m) + int(inside[0])
    out = np.flatnonzero(~stage.route.junction[entry:])
    leave = entry + int(out[0]) if len(out) else len(stage.route.junction) - 1
    return Crossing(float(entry), float(leave))


def ways_through(stage: Stage, crossing: Crossing, side: str, merging: bool) -> list[Through]:
    """Ways of others from a side that meet the ego's way, the best first.

    Args:
        stage: The world.
        crossing: The junction.
        side: Where they come from: "left", "right" or "opposite".
        merging: They end in the lane in which the ego leaves; otherwise they cross its way, straight on.
    """
    found = []
    for begin, end in _lanes(stage, crossing):
        heading = float(wrap(waypoint_pose(begin)[2] - stage.route.at(crossing.entry_m)[2]))
        if abs(float(wrap(heading - SIDES[side]))) > math.pi / 4:
            continue
        bend = abs(float(wrap(waypoint_pose(end)[2] - waypoint_pose(begin)[2])))
        path = _path(begin, end)
        meets = _meets(stage, crossing, path)
        if meets is None:
            continue
        away = math.dist(waypoint_pose(end)[:2], stage.route.at(crossing.exit_m)[:2])
        if merging and away > TOUCH_M:
            continue
        found.append((not merging and bend > STRAIGHT_RAD, bend, meets[0], Through(path, *meets, begin)))
    return [way for *_, way in sorted(found, key=lambda row: row[:3])]


def _lanes(stage: Stage, crossing: Crossing) -> Iterator[tuple[carla.Waypoint, carla.Waypoint]]:
    for at in (crossing.entry_m + 1.0, (crossing.entry_m + crossing.exit_m) / 2):
        here = stage.waypoint(at)
        if here.is_junction:
            yield from here.get_junction().get_waypoints(carla.LaneType.Driving)
            return
    raise Unplaceable("its junction is none on this map")


def _path(begin: carla.Waypoint, end: carla.Waypoint) -> F64:
    inside = begin.next_until_lane_end(1.0)
    poses = [
        waypoint_pose(w) for w in (begin, *inside) if (w.road_id, w.lane_id) == (begin.road_id, begin.lane_id)
    ]
    approach = follow(begin, APPROACH_M, back=True)[:-1]
    return np.concatenate([approach, np.array(poses), follow(end, DEPART_M)])


def _meets(stage: Stage, crossing: Crossing, path: F64) -> tuple[float, float] | None:
    """Arc length of the route, and of the path, where the path first comes near the ego's way."""
    first = max(0, int(crossing.entry_m) - 2)
    mine = stage.route.pose_world[first : int(crossing.exit_m) + 6]
    gap = np.hypot(path[:, 0, None] - mine[:, 0], path[:, 1, None] - mine[:, 1])
    rows = np.flatnonzero(gap.min(1) < TOUCH_M)
    if not len(rows):
        return None
    row = int(rows[0])
    arc = float(np.hypot(*np.diff(path[: row + 1, :2], axis=0).T).sum()) if row else 0.0
    return first + float(gap[row].argmin()), arc
