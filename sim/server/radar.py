"""Radar and obstacle sensor with CARLA's attributes."""

import math
from random import Random

import msgpack
import numpy as np

from drive.contracts import F64
from sim.server.actors import Actor, Sensor, Vehicle, Walker
from sim.server.rays import cast
from sim.server.scene import Scene
from sim.server.sensors import rotation_axes
from sim.server.wire import RpcError
from sim.server.world import World

MAX_POINTS_PER_S, MAX_FOV_DEG = 1_000_000.0, 160.0


def check(sensor: Sensor) -> None:
    """RpcError when the attributes describe no radar."""
    fovs = sensor.number("horizontal_fov"), sensor.number("vertical_fov")
    points = sensor.number("points_per_second")
    if not all(0 < fov <= MAX_FOV_DEG for fov in fovs) or not 0 < points <= MAX_POINTS_PER_S:
        raise RpcError(f"radar of {fovs[0]:g} x {fovs[1]:g} degrees, {points:g} points/s is not possible")


def detections(scene: Scene, world: World, sensor: Sensor, dt: float, noise: Random) -> bytes:
    """Payload: velocity away from the radar [m/s], azimuth to the right and altitude [rad], depth [m].

    Directions are drawn at random within an elliptic cone, densest in its middle, as in CARLA.
    """
    rng = np.random.default_rng(noise.getrandbits(64))
    count = round(sensor.number("points_per_second") * dt)
    radius, angle = rng.random(count), rng.random(count) * 2 * math.pi
    right = math.tan(math.radians(sensor.number("horizontal_fov") / 2)) * radius * np.cos(angle)
    up = math.tan(math.radians(sensor.number("vertical_fov") / 2)) * radius * np.sin(angle)
    directions = np.stack([np.ones(count), right, up], -1)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    hits = cast(scene, world, sensor, directions, sensor.number("range"))
    kept = np.isfinite(hits.distance_m)
    directions, depth, owner = directions[kept], hits.distance_m[kept], hits.actor_id[kept]
    world_from_sensor = np.array(rotation_axes(sensor.pitch, sensor.yaw, sensor.roll)).T
    own = _velocity(world.actors.get(sensor.parent))
    moving = {int(i): _velocity(world.actors.get(int(i))) for i in np.unique(owner)}
    relative = np.array([moving[i] for i in owner.tolist()]).reshape(-1, 3) - own
    velocity = (relative * (directions @ world_from_sensor.T)).sum(1)
    azimuth, altitude = np.arctan2(directions[:, 1], directions[:, 0]), np.arcsin(directions[:, 2])
    rows: bytes = np.stack([velocity, azimuth, altitude, depth], -1).astype("<f4").tobytes()
    return rows


def _velocity(actor: Actor | None) -> F64:
    return np.zeros(3) if actor is None else np.array([actor.vx, actor.vy, actor.vz])


def obstacle(world: World, sensor: Sensor) -> bytes | None:
    """Payload [own actor, other actor, distance [m]] of the nearest body ahead, None when there is none.

    A ball of `hit_radius` moves `distance` along the sensor's axis; `only_dynamics` leaves out props.
    """
    reach, radius = sensor.number("distance"), sensor.number("hit_radius")
    only_movers = sensor.attributes.get("only_dynamics", "false").lower() in ("true", "1")
    forward = rotation_axes(sensor.pitch, sensor.yaw, sensor.roll)[0]
    nearest: tuple[float, Actor] | None = None
    for actor in world.actors.values():
        if actor.half_size is None or actor.id == sensor.parent:
            continue
        if only_movers and not isinstance(actor, Vehicle | Walker):
            continue
        distance = _entry(sensor, forward, actor, radius)
        if distance is not None and distance <= reach and (nearest is None or distance < nearest[0]):
            nearest = (distance, actor)
    if nearest is None:
        return None
    own = world.actors.get(sensor.parent, sensor)
    payload: bytes = msgpack.packb([own.wire(), nearest[1].wire(), nearest[0]])
    return payload


def _entry(sensor: Sensor, forward: tuple[float, float, float], actor: Actor, radius: float) -> float | None:
    """Way of a ball's centre until it meets an actor's box, None if it passes by."""
    half = actor.half_size or (0.0, 0.0, 0.0)
    centre_z = actor.z + (0.0 if isinstance(actor, Walker) else half[2])
    yaw = math.radians(actor.yaw)
    c, s = math.cos(yaw), math.sin(yaw)
    dx, dy = sensor.x - actor.x, sensor.y - actor.y
    start = (c * dx + s * dy, -s * dx + c * dy, sensor.z - centre_z)
    along = (c * forward[0] + s * forward[1], -s * forward[0] + c * forward[1], forward[2])
    enter, leave = 0.0, math.inf
    for at, step, size in zip(start, along, half, strict=True):
        edge = size + radius
        if abs(step) < 1e-9:
            if abs(at) > edge:
                return None
            continue
        near, far = sorted(((-edge - at) / step, (edge - at) / step))
        enter, leave = max(enter, near), min(leave, far)
    return enter if enter <= leave else None
