"""The one place where CARLA's left-handed degrees become our right-handed radians.

CARLA: x forward/east, y to the right/south, yaw clockwise in degrees. Ours (drive.contracts.arrays): y to the
left/north, yaw counter-clockwise in radians. A vehicle's CARLA position is its box centre on the ground, ours
is the rear axle of the ego and the box centre of everybody else.
"""

import math
from typing import Any

import carla
import numpy as np

from drive.contracts import EGO_MKZ, F64, CameraModel
from drive.geometry.boxes import centre_pose

CAMERA = "front"
CAMERA_SIZE_PX = (256, 144)
CAMERA_FOV_DEG = 100.0
CAMERA_FROM_AXLE_M = (1.9, 0.0, 1.7)
CAMERA_PITCH_DEG = -4.0


def wrap_angle(angle_rad: float) -> float:
    """Wrap one angle to [-pi, pi)."""
    return (angle_rad + math.pi) % (2 * math.pi) - math.pi


def pose_from_carla(x_m: float, y_m: float, yaw_deg: float) -> tuple[float, float, float]:
    """CARLA planar pose to our world pose (x_m, y_m, yaw_rad)."""
    return x_m, -y_m, wrap_angle(-math.radians(yaw_deg))


def pose_to_carla(pose_world: Any) -> tuple[float, float, float]:
    """Our world pose to CARLA (x_m, y_m, yaw_deg)."""
    return float(pose_world[0]), -float(pose_world[1]), -math.degrees(float(pose_world[2]))


def location(x_m: float, y_m: float, z_m: float = 0.0) -> carla.Location:
    """Our world point as a carla.Location."""
    return carla.Location(x=float(x_m), y=-float(y_m), z=float(z_m))


def transform(pose_world: Any, z_m: float) -> carla.Transform:
    """Our world pose at height z_m as a carla.Transform."""
    x, y, yaw = pose_to_carla(pose_world)
    return carla.Transform(
        carla.Location(x=x, y=y, z=float(z_m)), carla.Rotation(pitch=0.0, yaw=yaw, roll=0.0)
    )


def vector(x: float, y: float, z: float = 0.0) -> carla.Vector3D:
    """Our world vector as a carla.Vector3D."""
    return carla.Vector3D(x=float(x), y=-float(y), z=float(z))


def waypoint_pose(waypoint: carla.Waypoint) -> tuple[float, float, float]:
    """World pose of a waypoint: lane centre, driving direction."""
    here = waypoint.transform
    return pose_from_carla(here.location.x, here.location.y, here.rotation.yaw)


def axle_from_centre(pose_world: Any) -> F64:
    """Rear-axle pose(s) of the ego from its box-centre pose(s) (..., 3)."""
    return centre_pose(pose_world, -EGO_MKZ.centre_from_axle_m)


def centre_from_axle(pose_world: Any) -> F64:
    """Box-centre pose(s) of the ego from its rear-axle pose(s) (..., 3)."""
    return centre_pose(pose_world, EGO_MKZ.centre_from_axle_m)


def camera_mount() -> carla.Transform:
    """Where the front camera sits relative to the vehicle's centre."""
    x, y, z = CAMERA_FROM_AXLE_M
    place = carla.Location(x=x - EGO_MKZ.centre_from_axle_m, y=-y, z=z)
    return carla.Transform(place, carla.Rotation(pitch=CAMERA_PITCH_DEG, yaw=0.0, roll=0.0))


def front_camera() -> CameraModel:
    """Pinhole model of the front camera."""
    width, height = CAMERA_SIZE_PX
    focal = width / (2 * math.tan(math.radians(CAMERA_FOV_DEG) / 2))
    intrinsics = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1.0]])
    pitch = math.radians(CAMERA_PITCH_DEG)  # negative looks down
    forward = np.array([math.cos(pitch), 0.0, math.sin(pitch)])
    down = np.array([math.sin(pitch), 0.0, -math.cos(pitch)])
    camera_from_ego = np.eye(4)
    camera_from_ego[:3, :3] = np.stack([np.array([0.0, -1.0, 0.0]), down, forward])
    camera_from_ego[:3, 3] = -camera_from_ego[:3, :3] @ np.array(CAMERA_FROM_AXLE_M)
    return CameraModel(intrinsics, camera_from_ego, CAMERA_SIZE_PX)
