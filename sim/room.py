"""How much road there is to the left and right of a route, per metre."""

import math
from dataclasses import dataclass

import carla
import numpy as np

from drive.contracts import F64
from sim.frames import location, waypoint_pose
from sim.routes import Route

MOST_LANES = 5


@dataclass(frozen=True)
class Room:
    """Edges of the road beside the route; R values each, metres left (positive) of the route's centre.

    Attributes:
        own_left, own_right: Edges of the ego's lane.
        left_lane, right_lane: Centre of the neighbour lane of the same direction; NaN without one.
        oncoming: Centre of the nearest oncoming lane; NaN without one beside the same-direction lanes.
        most_left, most_right: Edges of everything that can be driven on, oncoming and parking lanes included.
    """

    own_left: F64
    own_right: F64
    left_lane: F64
    right_lane: F64
    oncoming: F64
    most_left: F64
    most_right: F64


def room_of(carla_map: carla.Map, route: Route) -> Room:
    """Look to both sides at every metre of a route."""
    rows = np.array([_row(carla_map, route, i) for i in range(len(route.pose_world))])
    return Room(*(rows[:, k].copy() for k in range(7)))


def _row(carla_map: carla.Map, route: Route, i: int) -> tuple[float, ...]:
    pose = route.pose_world[i]
    here = carla_map.get_waypoint(location(pose[0], pose[1], route.z_m[i]), True, carla.LaneType.Driving)
    half = float(route.width_m[i]) / 2
    if here is None or route.junction[i]:
        return half, -half, math.nan, math.nan, math.nan, half, -half
    own = _left_of(pose, here)
    half = here.lane_width / 2
    left, oncoming, most_left = _side(pose, here, left=True)
    right, _, most_right = _side(pose, here, left=False)
    return own + half, own - half, left, right, oncoming, most_left, most_right


def _side(pose: F64, here: carla.Waypoint, left: bool) -> tuple[float, float, float]:
    """Neighbour lane, oncoming lane, and edge of the road on one side."""
    sign = 1.0 if left else -1.0
    edge = _left_of(pose, here) + sign * here.lane_width / 2
    neighbour = oncoming = math.nan
    lane, turned = here, False
    for number in range(MOST_LANES):
        beside = (
            (lane.get_left_lane() if left else lane.get_right_lane())
            if not turned
            else (lane.get_right_lane() if left else lane.get_left_lane())
        )
        if beside is None or beside.lane_type not in (carla.LaneType.Driving, carla.LaneType.Parking):
            break
        if beside.lane_width < 1.5:
            break
        opposite = beside.lane_id * here.lane_id < 0
        centre = _left_of(pose, beside)
        if beside.lane_type == carla.LaneType.Driving:
            if opposite and math.isnan(oncoming):
                oncoming = centre
            if not opposite and number == 0:
                neighbour = centre
        edge = centre + sign * beside.lane_width / 2
        turned = opposite
        lane = beside
        if beside.lane_type == carla.LaneType.Parking:
            break
    return neighbour, oncoming, edge


def _left_of(pose: F64, lane: carla.Waypoint) -> float:
    other = waypoint_pose(lane)
    return float(-(other[0] - pose[0]) * math.sin(pose[2]) + (other[1] - pose[1]) * math.cos(pose[2]))
