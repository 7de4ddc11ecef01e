"""Spinning lidar with CARLA's attributes: plain points with intensity, or with object and tag."""

import math
import struct
from random import Random

import numpy as np

from drive.contracts import F64, I64, Bool
from sim.server.actors import Sensor
from sim.server.rays import Hits, cast
from sim.server.scene import Scene
from sim.server.wire import RpcError
from sim.server.world import World

MAX_CHANNELS, MAX_POINTS_PER_S = 512, 10_000_000.0
MAX_POINTS = 2_000_000  # of one measurement
_SEMANTIC_POINT = np.dtype([("point", "<f4", 3), ("cosine", "<f4"), ("object", "<u4"), ("tag", "<u4")])


def check(sensor: Sensor) -> None:
    """RpcError when the attributes describe no lidar."""
    channels, points, turns = (
        sensor.number(n) for n in ("channels", "points_per_second", "rotation_frequency")
    )
    if not 1 <= channels <= MAX_CHANNELS or not 0 < points <= MAX_POINTS_PER_S or turns < 0:
        raise RpcError(f"lidar with {channels:g} channels, {points:g} points/s, {turns:g} Hz is not possible")
    if not sensor.number("lower_fov") <= sensor.number("upper_fov"):
        raise RpcError("lidar with lower_fov above upper_fov is not possible")
    if not 0 < sensor.number("horizontal_fov") <= 360 or sensor.number("noise_stddev") < 0:
        raise RpcError("lidar needs a horizontal_fov of 0 to 360 degrees and no negative noise_stddev")


def points(scene: Scene, world: World, sensor: Sensor, dt: float, noise: Random) -> bytes:
    """Payload of sensor.lidar.ray_cast: x, y, z [m] in the sensor frame and intensity of each point."""
    directions, channels = sweep(sensor, dt)
    hits = cast(scene, world, sensor, directions, sensor.number("range"))
    met = np.isfinite(hits.distance_m)
    intensity = np.exp(-sensor.number("atmosphere_attenuation_rate") * np.where(met, hits.distance_m, 0.0))
    rng = np.random.default_rng(noise.getrandbits(64))
    kept = met & ~_dropped(sensor, intensity, rng)
    distance = hits.distance_m[kept] + _jitter(sensor, int(kept.sum()), rng)
    rows: bytes = np.c_[directions[kept] * distance[:, None], intensity[kept]].astype("<f4").tobytes()
    return _head(sensor, channels[kept]) + rows


def labelled_points(scene: Scene, world: World, sensor: Sensor, dt: float, _: Random) -> bytes:
    """Payload of sensor.lidar.ray_cast_semantic: x, y, z [m], cosine of incidence, actor id, tag."""
    directions, channels = sweep(sensor, dt)
    hits: Hits = cast(scene, world, sensor, directions, sensor.number("range"))
    kept = np.isfinite(hits.distance_m)
    rows = np.zeros(int(kept.sum()), _SEMANTIC_POINT)
    rows["point"] = directions[kept] * hits.distance_m[kept][:, None]
    rows["cosine"], rows["object"], rows["tag"] = hits.cosine[kept], hits.actor_id[kept], hits.tag[kept]
    return _head(sensor, channels[kept]) + rows.tobytes()


def sweep(sensor: Sensor, dt: float) -> tuple[F64, I64]:
    """Turn the lidar on by dt seconds.

    Returns:
        Unit vectors float64 (R, 3) in the sensor frame and the channel int64 (R,) of each ray: channel 0, the
        highest, first, and within a channel in the order of time.
    """
    count = int(sensor.number("channels"))
    fov = sensor.number("horizontal_fov")
    shots = min(int(sensor.number("points_per_second") * dt / count + 0.5), MAX_POINTS // count)
    turn = sensor.number("rotation_frequency") * fov * dt
    azimuth = np.radians((sensor.turned_deg + turn / max(shots, 1) * np.arange(shots)) % fov - fov / 2)
    sensor.turned_deg = (sensor.turned_deg + turn) % fov
    elevation = np.radians(np.linspace(sensor.number("upper_fov"), sensor.number("lower_fov"), count))
    level, up = np.cos(elevation)[:, None], np.sin(elevation)[:, None]
    shape = (count, shots)
    directions = np.stack(
        [level * np.cos(azimuth), level * np.sin(azimuth), np.broadcast_to(up, shape)], -1
    ).reshape(-1, 3)
    return directions, np.repeat(np.arange(count), shots)


def _dropped(sensor: Sensor, intensity: F64, rng: np.random.Generator) -> Bool:
    """Rays that get lost: a general share, and more of them the fainter the return is below a limit."""
    lost = rng.random(len(intensity)) < sensor.number("dropoff_general_rate")
    limit, at_zero = sensor.number("dropoff_intensity_limit"), sensor.number("dropoff_zero_intensity")
    if limit > 0 and at_zero > 0:
        share = at_zero * (1 - intensity / limit)
        lost |= rng.random(len(intensity)) < share
    return lost


def _jitter(sensor: Sensor, count: int, rng: np.random.Generator) -> F64:
    deviation = sensor.number("noise_stddev")
    return rng.normal(0.0, deviation, count) if deviation > 0 else np.zeros(count)


def _head(sensor: Sensor, channel: I64) -> bytes:
    count = int(sensor.number("channels"))
    per_channel = np.bincount(channel, minlength=count).astype("<u4")
    return struct.pack("<fI", math.radians(sensor.turned_deg), count) + per_channel.tobytes()
