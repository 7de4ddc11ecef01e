"""Sensor poses and measurements as they go into the streams."""

import math
from random import Random
from typing import Any

import carla
import msgpack

from sim.server.actors import Actor, Sensor

STREAMLESS = "sensor.other.lane_invasion"  # computed inside the client
GRAVITY_MPS2 = 9.81


def follow(sensor: Sensor, parent: Actor) -> None:
    """Put a sensor at its place on the parent, pitch and roll of both included."""
    (rx, ry, rz), (pitch, yaw, roll) = sensor.relative
    if parent.pitch == 0.0 and parent.roll == 0.0:
        angle = math.radians(parent.yaw)
        c, s = math.cos(angle), math.sin(angle)
        sensor.x, sensor.y, sensor.z = parent.x + c * rx - s * ry, parent.y + s * rx + c * ry, parent.z + rz
        sensor.pitch, sensor.yaw, sensor.roll = pitch, parent.yaw + yaw, roll
        return
    outer = rotation_axes(parent.pitch, parent.yaw, parent.roll)
    inner = rotation_axes(pitch, yaw, roll)
    place = _apply(outer, (rx, ry, rz))
    sensor.x, sensor.y, sensor.z = parent.x + place[0], parent.y + place[1], parent.z + place[2]
    forward, right, up = (_apply(outer, axis) for axis in inner)
    sensor.pitch = math.degrees(math.asin(max(-1.0, min(1.0, forward[2]))))
    sensor.yaw = math.degrees(math.atan2(forward[1], forward[0]))
    sensor.roll = math.degrees(math.atan2(-right[2], up[2]))


Vec = tuple[float, float, float]


def rotation_axes(pitch_deg: float, yaw_deg: float, roll_deg: float) -> tuple[Vec, Vec, Vec]:
    """Forward, right and up vectors of a CARLA rotation."""
    p, y, r = math.radians(pitch_deg), math.radians(yaw_deg), math.radians(roll_deg)
    cp, sp, cy, sy, cr, sr = math.cos(p), math.sin(p), math.cos(y), math.sin(y), math.cos(r), math.sin(r)
    return (
        (cp * cy, cp * sy, sp),
        (cy * sp * sr - sy * cr, sy * sp * sr + cy * cr, -cp * sr),
        (-cy * sp * cr - sy * sr, -sy * sp * cr + cy * sr, cp * cr),
    )


def _apply(axes: tuple[Vec, Vec, Vec], v: Vec) -> Vec:
    (a, b, c), (x, y, z) = axes, v
    return a[0] * x + b[0] * y + c[0] * z, a[1] * x + b[1] * y + c[1] * z, a[2] * x + b[2] * y + c[2] * z


def imu(sensor: Sensor, parent: Actor, noise: Random) -> bytes:
    """Acceleration [m/s2] and turn rate [rad/s] in the sensor frame, compass [rad, 0 = north (-y)]."""
    yaw = math.radians(sensor.yaw)
    c, s = math.cos(yaw), math.sin(yaw)
    accel = [parent.ax * c + parent.ay * s, -parent.ax * s + parent.ay * c, GRAVITY_MPS2]
    gyro = [0.0, 0.0, math.radians(parent.wz)]
    compass = (yaw + math.pi / 2) % (2 * math.pi)
    names = [f"accel_{{}}_{axis}" for axis in "xyz"], [f"gyro_{{}}_{axis}" for axis in "xyz"]
    accel = [_noisy(sensor, name, v, noise) for name, v in zip(names[0], accel, strict=True)]
    gyro = [_noisy(sensor, name, v, noise) for name, v in zip(names[1], gyro, strict=True)]
    return _packed([accel, gyro, compass])


def gnss(sensor: Sensor, world_map: carla.Map, noise: Random) -> bytes:
    """Latitude [deg], longitude [deg] and altitude [m]."""
    place = world_map.transform_to_geolocation(carla.Location(sensor.x, sensor.y, sensor.z))
    values = {"lat_{}": place.latitude, "lon_{}": place.longitude, "alt_{}": place.altitude}
    return _packed([_noisy(sensor, name, value, noise) for name, value in values.items()])


def collision(owner: Actor, other: Actor, impulse: tuple[float, float]) -> bytes:
    """Both actors and the impulse [N s] on the owner."""
    return _packed([owner.wire(), other.wire(), [impulse[0], impulse[1], 0.0]])


def _noisy(sensor: Sensor, name: str, value: float, noise: Random) -> float:
    deviation = float(sensor.attributes.get("noise_" + name.format("stddev"), 0))
    value += float(sensor.attributes.get("noise_" + name.format("bias"), 0))
    return value + noise.gauss(0.0, deviation) if deviation else value


def _packed(value: Any) -> bytes:
    data: bytes = msgpack.packb(value)
    return data
