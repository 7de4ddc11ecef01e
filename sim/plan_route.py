"""The route of an official evaluator: transforms as its planner traced them along the lanes."""

import math
from collections.abc import Sequence
from itertools import pairwise

import carla
import numpy as np

from drive.contracts import UserError
from drive.geometry.se2 import wrap
from sim.frames import pose_from_carla, waypoint_pose
from sim.route_planner import Line, smooth_route
from sim.routes import RUN_OFF_M, STEP_M, Route

SAME_PLACE_M = 0.05
BESIDE_M = 1.5  # a step sideways by this much is a change of lanes
LONGEST_HOP_M = 30.0
BACK_RAD = 2.0

Pose = tuple[float, float, float]


def plan_route(town: carla.Map, plan: Sequence[carla.Transform], speeds_mps: dict[int, float]) -> Route:
    """Route along an evaluator's plan.

    Args:
        town: Map of the world.
        plan: The evaluator's route, about 1 m apart; where it changes lanes it jumps sideways.
        speeds_mps: Posted speed per OpenDRIVE road.

    Raises:
        UserError: The plan has fewer than two different points, or a gap that is no lane change.
    """
    poses = _without_repeats(plan)
    if len(poses) < 2:
        raise UserError(f"the evaluator's plan has {len(poses)} different points; a route needs two or more")
    line = Line()
    changes: list[tuple[int, float]] = []
    for before, here in pairwise([None, *poses]):
        assert here is not None
        if before is not None:
            _connect(town, line, changes, before, here)
        _add(town, line, here)
    driven = len(line.pose)
    _run_off(town, line)
    return smooth_route(line, changes, driven, speeds_mps)


def _without_repeats(plan: Sequence[carla.Transform]) -> list[tuple[Pose, float]]:
    """Poses and heights without repeated points, nor the short steps back that join its parts."""
    kept: list[tuple[Pose, float]] = []
    for point in plan:
        pose = pose_from_carla(point.location.x, point.location.y, point.rotation.yaw)
        if kept:
            last = kept[-1][0]
            dx, dy = pose[0] - last[0], pose[1] - last[1]
            forward = dx * math.cos(pose[2]) + dy * math.sin(pose[2])
            if math.hypot(dx, dy) < SAME_PLACE_M or (forward <= 0 and math.hypot(dx, dy) < BESIDE_M):
                continue
        kept.append((pose, point.location.z))
    return kept


def _connect(
    town: carla.Map,
    line: Line,
    changes: list[tuple[int, float]],
    before: tuple[Pose, float],
    here: tuple[Pose, float],
) -> None:
    """Note a lane change between two points, and fill a longer hop with points on the new lane."""
    (x0, y0, _), (x, y, yaw) = before[0], here[0]
    dx, dy = x - x0, y - y0
    forward, left = dx * math.cos(yaw) + dy * math.sin(yaw), -dx * math.sin(yaw) + dy * math.cos(yaw)
    if math.hypot(dx, dy) > LONGEST_HOP_M:
        raise UserError(f"the evaluator's plan has a gap of {math.hypot(dx, dy):.0f} m; check its route file")
    beside = abs(left) > BESIDE_M and abs(left) > 0.3 * abs(forward)
    if beside:
        changes.append((len(line.pose), -left))
    for back in np.arange(math.floor(forward), 0.5, -STEP_M):
        share = back / max(forward, 1e-6)
        if beside:
            filled = (x - back * math.cos(yaw), y - back * math.sin(yaw), yaw)
        else:
            turn = float(wrap(yaw - before[0][2]))
            filled = (x - share * dx, y - share * dy, float(wrap(yaw - share * turn)))
        if math.hypot(filled[0] - x0, filled[1] - y0) > SAME_PLACE_M:
            _add(town, line, (filled, here[1]))


def _add(town: carla.Map, line: Line, point: tuple[Pose, float]) -> None:
    (x, y, yaw), z = point
    nearest = town.get_waypoint(carla.Location(x, -y, z), True, carla.LaneType.Driving)
    line.add(nearest)
    line.pose[-1] = (x, y, yaw)


def _run_off(town: carla.Map, line: Line) -> None:
    """Go on behind the goal along the straightest lanes."""
    x, y, yaw = line.pose[-1]
    here = town.get_waypoint(carla.Location(x, -y, line.z[-1]), True, carla.LaneType.Driving)
    if abs(float(wrap(waypoint_pose(here)[2] - yaw))) > BACK_RAD:
        return
    for _ in range(RUN_OFF_M + 2):
        choices = here.next(STEP_M)
        if not choices:
            return
        here = min(choices, key=lambda w: abs(float(wrap(waypoint_pose(w)[2] - line.pose[-1][2]))))
        line.add(here)
