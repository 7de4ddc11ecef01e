"""The network's 8 poses every 0.5 s and the contract's 40 poses every 0.1 s."""

from typing import Any

import numpy as np

from drive.contracts import DT_S, F32, F64, STEPS
from drive.geometry.se2 import yaw_from_path

KNOTS = 8
KNOT_S = 0.5
STRIDE = round(KNOT_S / DT_S)
_MAX_BRAKE_MPS2 = 4.0


def knots_from_poses(pose_ego: Any) -> F32:
    """Every fifth position of trajectories (..., 40, 3) or (..., 40, 2): float32 (..., 8, 2) [m]."""
    return np.ascontiguousarray(np.asarray(pose_ego)[..., STRIDE - 1 :: STRIDE, :2], np.float32)


def poses_from_knots(knots_ego: Any, speed_mps: Any) -> F32:
    """Smooth 10 Hz trajectories through knots.

    Monotone cubic Hermite interpolation per coordinate (Fritsch and Carlson, 1980): never overshoots, so a
    plan that stops does not roll back. The first slope is the present velocity (speed along x).

    Args:
        knots_ego: (..., 8, 2) positions at 0.5, 1.0, ... 4.0 s in the ego frame [m].
        speed_mps: (...) speed now.

    Returns:
        float32 (..., 40, 3), [x_m, y_m, yaw_rad]; the heading follows the path and stays put at standstill.
    """
    knots = np.asarray(knots_ego, np.float64)
    points = np.concatenate([np.zeros_like(knots[..., :1, :]), knots], -2)
    secant = np.diff(points, axis=-2) / KNOT_S
    slope = _slopes(secant, np.asarray(speed_mps, np.float64))
    u = (np.arange(STRIDE) + 1.0)[:, None] / STRIDE
    h00, h10 = (1 + 2 * u) * (1 - u) ** 2, u * (1 - u) ** 2
    h01, h11 = u**2 * (3 - 2 * u), u**2 * (u - 1)
    left, right = points[..., :-1, None, :], points[..., 1:, None, :]
    xy = h00 * left + h01 * right + KNOT_S * (h10 * slope[..., :-1, None, :] + h11 * slope[..., 1:, None, :])
    xy = xy.reshape(*knots.shape[:-2], STEPS, 2)
    return np.concatenate([xy, yaw_from_path(xy)[..., None]], -1).astype(np.float32)


def _slopes(secant: F64, speed_mps: F64) -> F64:
    """Slopes (..., 9, 2) at the knots from secants (..., 8, 2): means, limited so that nothing overshoots."""
    a, b = secant[..., :-1, :], secant[..., 1:, :]
    limit = 3 * np.minimum(np.abs(a), np.abs(b)) * (a * b > 0)
    inner = np.clip((a + b) / 2, -limit, limit)
    first = np.zeros_like(secant[..., :1, :])
    first[..., 0, 0] = np.clip(speed_mps, 0.0, np.maximum(3 * secant[..., 0, 0], 0.0))
    last = np.clip(1.5 * secant[..., -1:, :] - 0.5 * inner[..., -1:, :], *_range(3 * secant[..., -1:, :]))
    return np.concatenate([first, inner, last], -2)


def _range(bound: F64) -> tuple[F64, F64]:
    return np.minimum(bound, 0.0), np.maximum(bound, 0.0)


def brake_poses(speed_mps: float) -> F32:
    """Safe stop straight ahead at 4 m/s^2, float32 (40, 3); a speed that is no number counts as standing."""
    speed = max(0.0, speed_mps) if np.isfinite(speed_mps) else 0.0
    t = np.minimum((np.arange(STEPS) + 1) * DT_S, speed / _MAX_BRAKE_MPS2)
    pose = np.zeros((STEPS, 3), np.float32)
    pose[:, 0] = speed * t - 0.5 * _MAX_BRAKE_MPS2 * t**2
    return pose
