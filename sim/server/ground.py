"""What is below a vehicle or walker: height, slope, speed limit and the traffic light in force."""

import math

import carla

from sim.server.actors import Mover, TrafficLight, Vehicle, Walker
from sim.server.town import LaneKey, LaneStop, Town

_LIGHT_AHEAD_M = 6.0
_SETTLE_M = 0.15  # a lifted actor sinks by this much per tick
_HIGHEST_STEP_M = 5.0
_LOOK_UP_EVERY_M = 0.8  # in between, height follows the slope of the last look-up

LightsByLane = dict[LaneKey, tuple[TrafficLight, LaneStop]]


def settle(mover: Mover, town: Town, lights: LightsByLane, dt: float) -> None:
    """Put a mover on the road surface below it and update its lane, limit and light."""
    if _known(mover):
        if mover.gravity and isinstance(mover, Vehicle):
            mover.vz = mover.speed * math.sin(math.radians(mover.pitch))
            mover.z += mover.vz * dt
        return
    _locate(mover, town, lights)
    if mover.waypoint is None or not mover.gravity:
        return
    at = mover.waypoint.transform
    ground = at.location.z + (mover.body[2] if isinstance(mover, Walker) else 0.0)
    if mover.z - ground > 0.02:
        mover.z = max(ground, mover.z - _SETTLE_M)
        mover.ground_at = None
    elif ground - mover.z < _HIGHEST_STEP_M:
        mover.z = ground
    if isinstance(mover, Vehicle):
        across = math.radians(mover.yaw - at.rotation.yaw)
        slope = (at.rotation.pitch + 180) % 360 - 180  # the map library answers 369 degrees for 9
        mover.pitch, mover.roll = slope * math.cos(across), 0.0
        mover.vz = mover.speed * math.sin(math.radians(mover.pitch))


def _known(mover: Mover) -> bool:
    known = mover.ground_at
    return known is not None and math.hypot(mover.x - known[0], mover.y - known[1]) < _LOOK_UP_EVERY_M


def _locate(mover: Mover, town: Town, lights: LightsByLane) -> None:
    mover.waypoint = town.map.get_waypoint(
        carla.Location(mover.x, mover.y, mover.z), True, carla.LaneType.Any
    )
    mover.ground_at = (mover.x, mover.y, mover.z)
    if mover.waypoint is not None and isinstance(mover, Vehicle):
        mover.speed_limit_kmh = town.speed_kmh.get(mover.waypoint.road_id, mover.speed_limit_kmh)
        mover.light = _light_in_force(mover, mover.waypoint, lights)


def _light_in_force(vehicle: Vehicle, waypoint: carla.Waypoint, lights: LightsByLane) -> TrafficLight | None:
    """The light of this lane from 6 m before the stop line until the rear has passed it."""
    entry = lights.get((waypoint.road_id, waypoint.lane_id))
    if entry is not None:
        light, stop = entry
        return light if _distance(vehicle, stop) < vehicle.body[0] + _LIGHT_AHEAD_M else None
    passed = vehicle.light
    if passed is None or not waypoint.is_junction:
        return None
    return passed if any(_distance(vehicle, stop) < vehicle.body[0] for stop in passed.stops) else None


def _distance(vehicle: Vehicle, stop: LaneStop) -> float:
    return math.hypot(stop.x - vehicle.x, stop.y - vehicle.y)
