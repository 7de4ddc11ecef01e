"""Where other road users may be in the next seconds: along their lanes, at constant or rising speed."""

import math

import carla
import numpy as np

from drive.contracts import F64, AgentKind
from sim.frames import location, waypoint_pose, wrap_angle
from sim.situation import Agents

TIMES_S, FINE_TIMES_S = np.arange(1, 11) * 0.4, np.arange(1, 21) * 0.2
STEP_M = 2.0
MAX_PATHS = 3
MOST_KEPT = 400  # vehicles come and go
OFF_LANE_M = 2.5
ON_WAY_M, ON_WAY_RAD = 1.0, 0.4
CELL_M, TURNS = 2.0, 12  # squares, and sectors of direction, in which vehicles are counted
FORKED_M, PROBES, ENOUGH = 2.5, 4, 2
RISE_MPS2 = 1.5
TOP_SPEED_MPS = 11.0

Poses = list[tuple[float, float, float]]  # STEP_M apart
Way = tuple[carla.Waypoint, Poses]  # where it ends, and its poses
Cell = tuple[int, int, int]


class Ways:
    """Lane paths that vehicles may follow, up to MAX_PATHS branches each.

    A vehicle keeps the paths that it was seen to be on, since inside a junction the nearest lane need not be
    the one that it drives along. Where several vehicles took the same branch and none another, those that
    follow are expected to take it too.

    Args:
        town: Map of the town.
    """

    def __init__(self, town: carla.Map) -> None:
        self._town = town
        self._kept: dict[int, list[Way]] = {}
        self._driven: dict[Cell, set[int]] = {}

    def of(self, vehicle: int, pose_world: F64, z_m: float, reach_m: float) -> tuple[F64, ...]:
        """Paths of one vehicle.

        Args:
            vehicle: Its id.
            pose_world: (3,) box centre.
            z_m: Height, tells bridges from the roads below.
            reach_m: How far to look ahead.

        Returns:
            Paths (P, 3) that start at the vehicle; empty if it is not on a lane or drives against it.
        """
        if len(self._kept) > MOST_KEPT:
            self._kept.clear()
        kept = [_rest(way, pose_world) for way in self._kept.get(vehicle, [])]
        ways = [way for way in kept if way is not None] or self._begin(pose_world, z_m)
        self._kept[vehicle] = _grown(ways, int(reach_m / STEP_M) + 1)
        self._driven.setdefault(_cell(pose_world), set()).add(vehicle)
        start = tuple(float(v) for v in pose_world)
        return tuple(np.array([start, *poses]) for poses in self._usual(vehicle) if poses)

    def _usual(self, vehicle: int) -> list[Poses]:
        """The branches that others took, if some are known to be taken; else all."""
        branches = [poses for _, poses in self._kept[vehicle]]
        if len(branches) < 2:
            return branches
        took = [self._took(branches, k, vehicle) for k in range(len(branches))]
        return [poses for poses, n in zip(branches, took, strict=True) if n or max(took) < ENOUGH]

    def _took(self, branches: list[Poses], number: int, vehicle: int) -> int:
        """How many vehicles drove along a branch behind the fork that makes it different from the others."""
        mine = np.array(branches[number])
        others = [np.array(poses)[:, :2] for k, poses in enumerate(branches) if k != number]
        apart = np.min([_gaps(mine[:, :2], other) for other in others], axis=0)
        own = mine[apart > FORKED_M][:PROBES]
        if not len(own):
            return 1  # not there yet: neither taken nor ruled out
        counts = [len(self._near(pose) - {vehicle}) for pose in own]
        return min(counts)

    def _near(self, pose: F64) -> set[int]:
        """Who drove within about a cell of a place, in about its direction."""
        x, y, turn = _cell(pose)
        steps = (-1, 0, 1)
        cells = ((x + i, y + j, (turn + k) % TURNS) for i in steps for j in steps for k in steps)
        return set().union(*(self._driven.get(cell, set()) for cell in cells))

    def _begin(self, pose_world: F64, z_m: float) -> list[Way]:
        place = location(pose_world[0], pose_world[1], z_m)
        here = self._town.get_waypoint(place, True, carla.LaneType.Driving)
        if here is None:
            return []
        lane = waypoint_pose(here)
        if math.hypot(lane[0] - pose_world[0], lane[1] - pose_world[1]) > OFF_LANE_M:
            return []
        return [] if abs(wrap_angle(lane[2] - pose_world[2])) > 1.0 else [(here, [])]


def _cell(pose: F64) -> Cell:
    return round(pose[0] / CELL_M), round(pose[1] / CELL_M), round(pose[2] / math.tau * TURNS) % TURNS


def _gaps(points: F64, line: F64) -> F64:
    """Distance of each point (P, 2) to the nearest one of a line (L, 2)."""
    gaps: F64 = np.hypot(*(points[:, None] - line).transpose(2, 0, 1)).min(1)
    return gaps


def _grown(ways: list[Way], steps: int) -> list[Way]:
    """Ways of so many steps, branching where the lanes do."""
    while any(len(poses) < steps for _, poses in ways):
        grown: list[Way] = []
        for tip, poses in ways:
            choices = tip.next(STEP_M) if len(poses) < steps else []
            if not choices:
                grown.append((tip, poses))
                continue
            room = max(1, MAX_PATHS - len(ways) + 1)
            grown += [(after, [*poses, waypoint_pose(after)]) for after in choices[:room]]
        if sum(len(poses) for _, poses in grown) == sum(len(poses) for _, poses in ways):
            break  # all of them end here
        ways = grown[:MAX_PATHS]
    return ways


def _rest(way: Way, pose_world: F64) -> Way | None:
    """What of a way lies ahead of a vehicle; None if it is not on it."""
    tip, poses = way
    if len(poses) < 2:
        return None
    line = np.array(poses)
    along = (pose_world[0] - line[:, 0]) * np.cos(line[:, 2]) + (pose_world[1] - line[:, 1]) * np.sin(
        line[:, 2]
    )
    apart = np.hypot(line[:, 0] - pose_world[0], line[:, 1] - pose_world[1])
    near = int(apart.argmin())
    across = math.sqrt(max(0.0, float(apart[near] ** 2 - along[near] ** 2)))
    turned = abs(wrap_angle(float(line[near, 2]) - float(pose_world[2])))
    if abs(along[near]) > 2 * STEP_M or across > ON_WAY_M or turned > ON_WAY_RAD:
        return None
    return tip, poses[near + (1 if along[near] > -STEP_M / 2 else 0) :]


def boxes_ahead(agents: Agents, times_s: F64 = TIMES_S, rising: bool = True) -> tuple[F64, F64]:
    """Boxes that agents may occupy.

    Args:
        agents: Everybody; those that stand are left out.
        times_s: (T,), when.
        rising: Count with vehicles getting faster, too; else with their present speed alone.

    Returns:
        boxes: float64 (B, 3), poses of box centres.
        rows: float64 (B, 3), [agent index, time s, path number].
    """
    boxes: list[F64] = []
    rows: list[F64] = []
    for i in range(len(agents.ids)):
        speed = float(agents.speed_mps[i])
        if abs(speed) < 0.3:
            continue
        reached = [speed * times_s]
        if rising and agents.kind[i] != AgentKind.PEDESTRIAN:
            reached.append(_rising(speed, max(speed, TOP_SPEED_MPS), times_s))
        paths = agents.paths[i] if agents.paths else ()
        for number, path in enumerate(paths or (_straight(agents.pose_world[i], reached[-1].max()),)):
            for distance in reached:
                boxes.append(_along(path, distance))
                rows.append(np.stack([np.full(len(times_s), i), times_s, np.full(len(times_s), number)], -1))
    if not boxes:
        return np.zeros((0, 3)), np.zeros((0, 3))
    return np.concatenate(boxes), np.concatenate(rows)


def _rising(speed: float, top: float, times_s: F64) -> F64:
    until = (top - speed) / RISE_MPS2
    t = np.minimum(times_s, until)
    reached: F64 = speed * t + 0.5 * RISE_MPS2 * t**2 + top * np.maximum(times_s - until, 0)
    return reached


def _straight(pose: F64, reach_m: float) -> F64:
    steps = np.array([0.0, max(reach_m, 0.1)])
    return np.stack(
        [pose[0] + steps * math.cos(pose[2]), pose[1] + steps * math.sin(pose[2]), np.full(2, pose[2])], -1
    )


def _along(path: F64, distance_m: F64) -> F64:
    """Poses at distances along a polyline; beyond its end the last pose is held."""
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path[:, :2], axis=0).T))])
    yaw = np.unwrap(path[:, 2])
    return np.stack([np.interp(distance_m, lengths, column) for column in (path[:, 0], path[:, 1], yaw)], -1)
