"""Where signs stand: at their place in the map, moved off the lanes if need be, facing their traffic."""

import math
from dataclasses import dataclass

import carla
import numpy as np

from drive.contracts import F64
from drive.viz.figures import place
from drive.viz.plates import speed_sign, stop_sign, yield_sign
from drive.viz.quads import Quads
from sim.frames import pose_from_carla
from sim.server.actors import Actor

_SPEED_TYPE = "274"
_CLEAR_M = 0.55  # of the edge of a lane
_MOST_LIMIT = 999


@dataclass(frozen=True)
class SpeedSigns:
    """Speed-limit signs of a town: they are landmarks, not actors.

    Attributes:
        xy: float64 (N, 2), CARLA frame [m].
        quads: Their figures in the world.
    """

    xy: F64
    quads: tuple[Quads, ...]


def speed_signs(world_map: carla.Map) -> SpeedSigns:
    """All of a town, in the order of the map."""
    places, quads = [], []
    for mark in world_map.get_all_landmarks():
        if mark.type == _SPEED_TYPE and 0 < mark.value <= _MOST_LIMIT:
            at = mark.transform
            x, y, z = _beside_lanes(world_map, at.location, at.rotation.yaw)
            places.append((x, y))
            quads.append(_stand(speed_sign(round(mark.value)), x, y, z, at.rotation.yaw))
    return SpeedSigns(np.array(places, np.float64).reshape(-1, 2), tuple(quads))


def sign_figure(world_map: carla.Map, sign: Actor, letters: bool = True) -> Quads:
    """A stop or yield sign at its place in the world."""
    yaw = sign.yaw - 90  # as in CARLA, a sign actor is turned by a quarter against its traffic
    x, y, z = _beside_lanes(world_map, carla.Location(sign.x, sign.y, sign.z), yaw)
    return _stand(yield_sign() if sign.type_id == "traffic.yield" else stop_sign(letters), x, y, z, yaw)


def _stand(figure: Quads, x: float, y: float, z: float, yaw_deg: float) -> Quads:
    east, north, yaw = pose_from_carla(x, y, yaw_deg)
    return place(figure, east, north, z, yaw)


def _beside_lanes(world_map: carla.Map, at: carla.Location, yaw_deg: float) -> tuple[float, float, float]:
    """(x, y, height of the road) at or right of a place, off the driving lanes (CARLA frame)."""
    x, y = at.x, at.y
    lane = world_map.get_waypoint(at, True, carla.LaneType.Driving)
    if lane is None:
        return x, y, at.z
    middle = lane.transform.location
    away, need = math.hypot(x - middle.x, y - middle.y), lane.lane_width / 2 + _CLEAR_M
    if away < need:
        yaw = math.radians(yaw_deg)
        right_x, right_y = -math.sin(yaw), math.cos(yaw)
        beside = (x - middle.x) * right_x + (y - middle.y) * right_y
        x, y = x + (need - beside) * right_x, y + (need - beside) * right_y
    return x, y, middle.z
