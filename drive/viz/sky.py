"""The sky in any weather, on a grid of viewing rays coarser than the picture."""

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from drive.contracts import F32, U8
from drive.viz.air import Air, cloud_tile
from drive.viz.faces import Faces
from drive.viz.quads import Layer
from drive.viz.view import View

_COARSE = 4
_EYE_M, _LEAST_EYE_M, _ROAD_NEAR_M = 1.9, 0.2, 15.0
_FAR_M, _TOP_OF_FOG_M = 400.0, 2000.0
_CLOUD_SCALE = 22.0


@dataclass(frozen=True)
class Rays:
    """Viewing rays of a coarse grid, and where they meet level ground.

    Attributes:
        view: The camera.
        direction: float32 (h, w, 3), unit vectors in the axes of the world.
        eye_m: Height of the camera over the road.
        ground_m: float32 (h, w), distance of the ground along each ray; far away above the horizon.
    """

    view: View
    direction: F32
    eye_m: float
    ground_m: F32

    @staticmethod
    def of(view: View, faces: Faces) -> "Rays":
        """The rays of a camera; the road in view says how high it is."""
        direction = _directions(view.size_px, view.pinhole) @ view.camera_from_world[:3, :3].astype(
            np.float32
        )
        road = (faces.layer == Layer.ROAD) & (faces.distance < _ROAD_NEAR_M)
        eye = max(float(-np.median(faces.height[road])) if road.any() else _EYE_M, _LEAST_EYE_M)
        ground = eye / np.maximum(-direction[..., 2], eye / _FAR_M)
        return Rays(view, direction, eye, ground.astype(np.float32))

    def whole(self, coarse: F32) -> U8:
        """Colours float32 (h, w, 3), RGB, as a whole picture uint8 (H, W, 4), BGRA, with 255."""
        small = np.full((*coarse.shape[:2], 4), 255, np.uint8)
        small[..., :3] = np.clip(coarse[..., ::-1], 0, 255)
        whole: U8 = np.asarray(cv2.resize(small, self.view.size_px, interpolation=cv2.INTER_LINEAR), np.uint8)
        return whole


@lru_cache(maxsize=16)
def _directions(size_px: tuple[int, int], pinhole: tuple[float, float, float, float]) -> F32:
    """Unit vectors in the camera frame, float32 (h, w, 3)."""
    width, height = size_px
    fx, fy, cx, cy = pinhole
    h, w = max(2, -(-height // _COARSE)), max(2, -(-width // _COARSE))
    rows, columns = (np.arange(h) + 0.5) * height / h, (np.arange(w) + 0.5) * width / w
    u, v = np.meshgrid((columns - cx) / fx, (rows - cy) / fy)
    rays = np.stack([u, v, np.ones_like(u)], -1)
    unit: F32 = (rays / np.linalg.norm(rays, axis=-1, keepdims=True)).astype(np.float32)
    return unit


def sky(rays: Rays, air: Air) -> F32:
    """Colour of the sky along each ray, float32 (h, w, 3), RGB 0..255."""
    height, width = rays.direction.shape[:2]
    rows = (np.arange(height, dtype=np.float32) + 0.5) * rays.view.size_px[1] / height
    blend = np.clip(rows / max(rays.view.horizon_row, 1), 0, 1)[:, None, None]
    zenith, horizon = np.array(air.zenith, np.float32), np.array(air.horizon, np.float32)
    colour = np.repeat(zenith + (horizon - zenith) * blend, width, 1)
    colour = _with_clouds(_with_sun(colour, rays, air), rays, air)
    if air.fog_1pm > 0:
        slope = np.maximum(rays.direction[..., 2:], np.float32(1e-3)) * max(air.fog_fall_1pm, 1e-4)
        depth = (1 - np.exp(-slope * _TOP_OF_FOG_M)) / slope
        clear = np.exp(-air.fog_1pm * np.maximum(depth - air.fog_from_m, 0))
        colour = colour * clear + np.array(air.fog, np.float32) * (1 - clear)
    return np.asarray(colour, np.float32)


def _with_sun(colour: F32, rays: Rays, air: Air) -> F32:
    """A low sun's glow, and the sun itself where no cloud hides it."""
    if max(air.glow) <= 0:
        return colour
    cosine = rays.direction @ np.array(air.sun_world, np.float32)
    wide = np.exp((cosine - 1) * 5 - np.abs(rays.direction[..., 2]) * 4)
    disc = np.exp((cosine - 1) * 1500) * ((1 - air.clouds) * (air.sun_world[2] > -0.02))
    bright: F32 = colour + wide[..., None] * np.array(air.glow, np.float32) + 255 * disc[..., None]
    return bright


def _with_clouds(colour: F32, rays: Rays, air: Air) -> F32:
    if air.clouds <= 0:
        return colour
    reach = _CLOUD_SCALE / (np.maximum(rays.direction[..., 2], 0.02) + 0.12)
    u, v = (np.mod(rays.direction[..., i] * reach, 255).astype(np.float32) for i in (0, 1))
    noise: F32 = np.asarray(cv2.remap(cloud_tile(), u, v, cv2.INTER_LINEAR), np.float32)
    cover = np.clip((noise - (1 - air.clouds)) / 0.18 + air.clouds, 0, 1) * min(1.0, air.clouds * 4)
    shade = np.array(air.cloud, np.float32) * (0.9 + 0.16 * noise[..., None])
    clouded: F32 = colour + (shade - colour) * cover[..., None]
    return clouded
