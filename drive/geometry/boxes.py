"""Oriented boxes in the plane: corners and overlap by the separating-axis theorem, batched."""

from typing import Any

import numpy as np

from drive.contracts import F64, Bool

_SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])


def corners(pose: Any, size_m: Any) -> F64:
    """Corners of boxes.

    Args:
        pose: (..., 3) box centres [x_m, y_m, yaw_rad].
        size_m: (..., 2) length and width, broadcast against pose.

    Returns:
        float64 (..., 4, 2), counter-clockwise or clockwise around the box.
    """
    pose, size = np.asarray(pose, np.float64), np.asarray(size_m, np.float64)
    half = size[..., None, :] * 0.5 * _SIGNS
    c, s = np.cos(pose[..., 2])[..., None], np.sin(pose[..., 2])[..., None]
    x = pose[..., 0, None] + c * half[..., 0] - s * half[..., 1]
    y = pose[..., 1, None] + s * half[..., 0] + c * half[..., 1]
    return np.stack(np.broadcast_arrays(x, y), -1)


def overlap(pose_a: Any, size_a: Any, pose_b: Any, size_b: Any) -> Bool:
    """Do boxes a and b overlap (touching counts)?  Shapes as in `corners`, broadcast; bool (...)."""
    a, b = np.asarray(pose_a, np.float64), np.asarray(pose_b, np.float64)
    sa, sb = np.asarray(size_a, np.float64) / 2, np.asarray(size_b, np.float64) / 2
    dx, dy, dyaw = b[..., 0] - a[..., 0], b[..., 1] - a[..., 1], b[..., 2] - a[..., 2]
    c, s = np.abs(np.cos(dyaw)), np.abs(np.sin(dyaw))
    hit = np.ones(np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), bool)
    for yaw, own, other in ((a[..., 2], sa, sb), (b[..., 2], sb, sa)):
        along = np.abs(dx * np.cos(yaw) + dy * np.sin(yaw))
        across = np.abs(-dx * np.sin(yaw) + dy * np.cos(yaw))
        hit &= along <= own[..., 0] + other[..., 0] * c + other[..., 1] * s
        hit &= across <= own[..., 1] + other[..., 0] * s + other[..., 1] * c
    return hit


def centre_pose(axle_pose: Any, centre_from_axle_m: float) -> F64:
    """Box-centre poses (..., 3) of vehicles whose rear-axle poses are given."""
    pose = np.array(axle_pose, np.float64)
    pose[..., 0] += centre_from_axle_m * np.cos(pose[..., 2])
    pose[..., 1] += centre_from_axle_m * np.sin(pose[..., 2])
    return pose
