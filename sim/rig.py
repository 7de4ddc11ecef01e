"""Cameras of the ego by name: ours, and the six of Bench2Drive."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.contracts import EGO_MKZ, CameraModel
from sim.frames import CAMERA, CAMERA_FOV_DEG, CAMERA_FROM_AXLE_M, CAMERA_PITCH_DEG, CAMERA_SIZE_PX


@dataclass(frozen=True)
class Mount:
    """A camera on the ego in CARLA's frame: y to the right, degrees, from the vehicle's origin.

    Attributes:
        name: Name of the camera.
        place_m: x, y, z.
        yaw_deg, pitch_deg: Positive to the right, and up.
        size_px: Width, height.
        fov_deg: Horizontal field of view.
    """

    name: str
    place_m: tuple[float, float, float]
    yaw_deg: float
    pitch_deg: float
    size_px: tuple[int, int]
    fov_deg: float


_B2D_PX = (1600, 900)
_FORWARD_M, _LEFT_M, _UP_M = CAMERA_FROM_AXLE_M
RIGS: dict[str, tuple[Mount, ...]] = {
    "front": (
        Mount(
            CAMERA,
            (
                CAMERA_FROM_AXLE_M[0] - EGO_MKZ.centre_from_axle_m,
                -CAMERA_FROM_AXLE_M[1],
                CAMERA_FROM_AXLE_M[2],
            ),
            0.0,
            CAMERA_PITCH_DEG,
            CAMERA_SIZE_PX,
            CAMERA_FOV_DEG,
        ),
    ),
    "bench2drive": (  # as published with Bench2Drive's data (tools/data_collect.py of that project)
        Mount("CAM_FRONT", (0.80, 0.0, 1.60), 0.0, 0.0, _B2D_PX, 70.0),
        Mount("CAM_FRONT_LEFT", (0.27, -0.55, 1.60), -55.0, 0.0, _B2D_PX, 70.0),
        Mount("CAM_FRONT_RIGHT", (0.27, 0.55, 1.60), 55.0, 0.0, _B2D_PX, 70.0),
        Mount("CAM_BACK", (-2.0, 0.0, 1.60), 180.0, 0.0, _B2D_PX, 110.0),
        Mount("CAM_BACK_LEFT", (-0.32, -0.55, 1.60), -110.0, 0.0, _B2D_PX, 70.0),
        Mount("CAM_BACK_RIGHT", (-0.32, 0.55, 1.60), 110.0, 0.0, _B2D_PX, 70.0),
    ),
}


def leaderboard_sensor(mount: Mount) -> dict[str, Any]:
    """The camera as an entry of a leaderboard agent's `sensors()`."""
    x, y, z = mount.place_m
    return {
        "type": "sensor.camera.rgb",
        "id": mount.name,
        **{"x": x, "y": y, "z": z, "roll": 0.0, "pitch": mount.pitch_deg, "yaw": mount.yaw_deg},
        **{"width": mount.size_px[0], "height": mount.size_px[1], "fov": mount.fov_deg},
    }


def camera_model(mount: Mount) -> CameraModel:
    """Pinhole model: pixels, and the camera relative to the rear axle."""
    width, height = mount.size_px
    focal = width / (2 * math.tan(math.radians(mount.fov_deg) / 2))
    intrinsics = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1.0]])
    yaw, pitch = -math.radians(mount.yaw_deg), math.radians(mount.pitch_deg)
    forward = np.array([math.cos(pitch) * math.cos(yaw), math.cos(pitch) * math.sin(yaw), math.sin(pitch)])
    right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
    camera_from_ego = np.eye(4)
    camera_from_ego[:3, :3] = np.stack([right, np.cross(forward, right), forward])
    x, y, z = mount.place_m
    centre_ego = np.array([x + EGO_MKZ.centre_from_axle_m, -y, z])
    camera_from_ego[:3, 3] = -camera_from_ego[:3, :3] @ centre_ego
    return CameraModel(intrinsics, camera_from_ego, mount.size_px)
