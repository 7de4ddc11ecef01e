"""Semantic, instance and depth images in CARLA's encodings (BGRA rows)."""

import numpy as np

from drive.contracts import F64, U8
from sim.server.actors import Sensor
from sim.server.scene import Scene, Seen, view_of
from sim.server.wire import IMAGE
from sim.server.world import World

FAR_M = 1000.0  # depth of the sky, and the largest one that the encoding holds
_DEPTH_STEPS = 256**3 - 1


def semantic(scene: Scene, world: World, camera: Sensor) -> bytes:
    """Payload with the tag in the red channel."""
    seen = scene.seen(world, camera, view_of(camera))
    return _payload(camera, semantic_pixels(seen))


def instance(scene: Scene, world: World, camera: Sensor) -> bytes:
    """Payload with the tag in the red channel and the lower 16 bits of the actor id in green and blue."""
    seen = scene.seen(world, camera, view_of(camera))
    return _payload(camera, instance_pixels(seen))


def depth(scene: Scene, world: World, camera: Sensor) -> bytes:
    """Payload with the distance along the optical axis in red, green and blue, low byte first."""
    seen = scene.seen(world, camera, view_of(camera))
    return _payload(camera, depth_pixels(seen.survey.depth(seen.ground_m)))


def semantic_pixels(seen: Seen) -> U8:
    """uint8 (H, W, 4), BGRA."""
    tags = seen.survey.tags
    bgra = np.zeros((*tags.shape, 4), np.uint8)
    bgra[..., 2], bgra[..., 3] = tags, 255
    return bgra


def instance_pixels(seen: Seen) -> U8:
    """uint8 (H, W, 4), BGRA: tag in red, actor id & 255 in green, (actor id >> 8) & 255 in blue."""
    bgra = semantic_pixels(seen)
    actors = seen.actors
    bgra[..., 1], bgra[..., 0] = actors & 255, (actors >> 8) & 255
    return bgra


def depth_pixels(depth_m: F64) -> U8:
    """uint8 (H, W, 4), BGRA, of float64 (H, W) metres: R + 256 G + 65536 B counts 1000 m / (2^24 - 1)."""
    steps = np.rint(np.minimum(depth_m, FAR_M) * (_DEPTH_STEPS / FAR_M)).astype(np.uint32)
    bgra = np.full((*steps.shape, 4), 255, np.uint8)
    bgra[..., 2], bgra[..., 1], bgra[..., 0] = steps & 255, (steps >> 8) & 255, steps >> 16
    return bgra


def _payload(camera: Sensor, bgra: U8) -> bytes:
    return IMAGE.pack(camera.width, camera.height, camera.fov_deg) + bgra.tobytes()
