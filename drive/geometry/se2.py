"""Planar rigid transforms on pose arrays [x_m, y_m, yaw_rad]."""

from typing import Any

import numpy as np

from drive.contracts import F64


def wrap(angle_rad: Any) -> Any:
    """Wrap angles to [-pi, pi)."""
    turned = (np.asarray(angle_rad) + np.pi) % (2 * np.pi)
    return np.where(turned >= 2 * np.pi, 0.0, turned)[()] - np.pi  # the remainder of -1e-16 rounds up to 2 pi


def to_local(pose_world: Any, origin_world: Any) -> F64:
    """Express poses in the frame of `origin_world`.

    Args:
        pose_world: (..., 2) points or (..., 3) poses.
        origin_world: (3,) pose of the local frame in the world.

    Returns:
        float64 array of the same shape in the local frame.
    """
    pose = np.asarray(pose_world, np.float64)
    x0, y0, yaw0 = np.asarray(origin_world, np.float64)
    c, s = np.cos(yaw0), np.sin(yaw0)
    out = np.empty_like(pose)
    dx, dy = pose[..., 0] - x0, pose[..., 1] - y0
    out[..., 0], out[..., 1] = c * dx + s * dy, -s * dx + c * dy
    if pose.shape[-1] == 3:
        out[..., 2] = wrap(pose[..., 2] - yaw0)
    return out


def to_world(pose_local: Any, origin_world: Any) -> F64:
    """Inverse of `to_local`: (..., 2|3) local points or poses to the world frame, float64."""
    pose = np.asarray(pose_local, np.float64)
    x0, y0, yaw0 = np.asarray(origin_world, np.float64)
    c, s = np.cos(yaw0), np.sin(yaw0)
    out = np.empty_like(pose)
    out[..., 0] = x0 + c * pose[..., 0] - s * pose[..., 1]
    out[..., 1] = y0 + s * pose[..., 0] + c * pose[..., 1]
    if pose.shape[-1] == 3:
        out[..., 2] = wrap(pose[..., 2] + yaw0)
    return out


def resample_poses(pose: Any, t_s: Any, at_s: Any) -> F64:
    """Interpolate poses (N, 3) at times t_s (N,) linearly at times at_s (M,); yaw along the short way."""
    pose = np.asarray(pose, np.float64)
    yaw = np.unwrap(pose[:, 2])
    columns = [
        np.interp(at_s, t_s, pose[:, 0]),
        np.interp(at_s, t_s, pose[:, 1]),
        wrap(np.interp(at_s, t_s, yaw)),
    ]
    return np.stack(columns, -1)


def yaw_from_path(xy: Any, start_yaw_rad: float = 0.0, min_step_m: float = 0.05) -> F64:
    """Heading along a path (..., T, 2) that starts at the origin of the ego frame.

    Steps shorter than `min_step_m` keep the previous heading, so that a standing vehicle does not spin.

    Returns:
        float64 (..., T), radians.
    """
    xy = np.asarray(xy, np.float64)
    step = np.diff(np.concatenate([np.zeros_like(xy[..., :1, :]), xy], axis=-2), axis=-2)
    yaw = np.arctan2(step[..., 1], step[..., 0])
    moving = np.hypot(step[..., 0], step[..., 1]) >= min_step_m
    last = np.full(xy.shape[:-2], float(start_yaw_rad))
    out = np.empty(xy.shape[:-1])
    for i in range(xy.shape[-2]):
        last = np.where(moving[..., i], yaw[..., i], last)
        out[..., i] = last
    return out
