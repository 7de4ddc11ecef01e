"""Rays from a sensor to whatever the renderer draws: what lidar and radar measure.

Rays are grouped into pinhole views; each ray takes the quad that is seen at its pixel and meets the plane of
that quad exactly. Sensor frame: x forward, y right, z up.
"""

import math
from dataclasses import dataclass

import numpy as np

from drive.contracts import F64, I64, U8
from drive.viz.survey import GROUND
from drive.viz.view import View
from sim.server.actors import Sensor
from sim.server.scene import Scene, place_view
from sim.server.world import World

MAX_RANGE_M = 120.0
_VIEW_RAD = math.pi / 2
_FOCAL_PX = 256.0  # 0.22 degrees per pixel in the middle of a view
_STEEPEST = math.tan(math.radians(70.0))
_MARGIN_PX = 2


@dataclass(frozen=True)
class Hits:
    """What R rays meet.

    Attributes:
        distance_m: float64 (R,), infinite for rays that meet nothing within range.
        cosine: float64 (R,), of the angle between the ray and the surface normal.
        tag: uint8 (R,), Tag.
        actor_id: int64 (R,), 0 for the town itself.
    """

    distance_m: F64
    cosine: F64
    tag: U8
    actor_id: I64


def cast(scene: Scene, world: World, sensor: Sensor, directions: F64, range_m: float) -> Hits:
    """Follow rays to the first thing drawn there; the sensor's own vehicle is left out.

    Args:
        scene: What there is to see.
        world: Present episode.
        sensor: Where the rays start; only its pose and parent matter.
        directions: float64 (R, 3), unit vectors in the sensor frame.
        range_m: Farthest hit; at most MAX_RANGE_M counts.

    Returns:
        One answer per ray; rays steeper than 70 degrees (seen from the sensor's own plane) meet nothing.
    """
    n = len(directions)
    hits = Hits(np.full(n, np.inf), np.zeros(n), np.zeros(n, np.uint8), np.zeros(n, np.int64))
    level = np.hypot(directions[:, 0], directions[:, 1])
    from_back = np.arctan2(directions[:, 1], directions[:, 0]) + math.pi
    quarter = np.minimum(from_back // _VIEW_RAD, 3)
    aside = from_back - (quarter + 0.5) * _VIEW_RAD
    quarter[np.abs(directions[:, 2]) > _STEEPEST * level] = -1
    for index in range(4):
        rows = np.flatnonzero(quarter == index)
        if len(rows):
            u = np.tan(aside[rows])
            v = -directions[rows, 2] / (level[rows] * np.cos(aside[rows]))
            middle = (index + 0.5) * _VIEW_RAD - math.pi
            _look(scene, world, sensor, middle, u, v, min(range_m, MAX_RANGE_M), rows, hits)
    return hits


def _look(
    scene: Scene,
    world: World,
    sensor: Sensor,
    azimuth_rad: float,
    u: F64,
    v: F64,
    range_m: float,
    rows: I64,
    hits: Hits,
) -> None:
    """Fill in the hits of the rays (u, v, 1) of one view."""
    left, top = u.min() * _FOCAL_PX - _MARGIN_PX, v.min() * _FOCAL_PX - _MARGIN_PX
    width = math.ceil(u.max() * _FOCAL_PX - left) + _MARGIN_PX
    height = math.ceil(v.max() * _FOCAL_PX - top) + _MARGIN_PX
    intrinsics = np.array([[_FOCAL_PX, 0, -left], [0, _FOCAL_PX, -top], [0, 0, 1.0]])
    view = View(intrinsics, place_view(sensor, azimuth_rad), (width, height))
    seen = scene.seen(world, sensor, view, range_m)
    shown = seen.survey
    face = shown.pixel[(v * _FOCAL_PX - top).astype(int), (u * _FOCAL_PX - left).astype(int)]
    face = np.maximum(face, GROUND)  # without a quad the direction alone tells ground from sky
    distance = shown.depth_along(u, v, face, seen.ground_m) * np.sqrt(u * u + v * v + 1)
    hits.distance_m[rows] = np.where(distance <= range_m, distance, np.inf)
    hits.cosine[rows] = shown.incidence(u, v, face)
    hits.tag[rows] = shown.tag_of(face)
    hits.actor_id[rows] = seen.actor_id[shown.body_of(face)]
