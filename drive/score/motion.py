"""Speeds, accelerations and the comfort bounds, from poses alone."""

import numpy as np

from drive.contracts import F64, Bool

LON_ACCEL_MPS2 = (-4.05, 2.40)
LAT_ACCEL_MPS2 = 4.89
JERK_MPS3 = 8.37
LON_JERK_MPS3 = 4.13
YAW_ACCEL_RADPS2 = 1.93
YAW_RATE_RADPS = 0.95
WINDOW, ORDER = 7, 2


def speeds(pose_ego: F64, dt_s: float) -> F64:
    """Speed of the step that ends at each pose (P, T, 3), float64 (P, T); the first starts at the origin."""
    step = np.diff(pose_ego[..., :2], axis=1, prepend=0.0)
    return np.asarray(np.hypot(step[..., 0], step[..., 1]) / dt_s)


def smooth(values: F64, derivative: int, dt_s: float) -> F64:
    """Savitzky-Golay filter (window 7, order 2) or its derivative along the last axis, ends held.

    Equal to scipy.signal.savgol_filter(values, 7, 2, deriv, delta, mode="nearest").
    """
    half = WINDOW // 2
    offsets = np.arange(-half, half + 1) * dt_s
    row = (
        np.linalg.pinv(np.vander(offsets, ORDER + 1, increasing=True))[derivative]
        * (1.0, 1.0, 2.0)[derivative]
    )
    padded = np.concatenate(
        [np.repeat(values[..., :1], half, -1), values, np.repeat(values[..., -1:], half, -1)], -1
    )
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, axis=-1)
    return np.asarray(windows @ row)


def comfortable(pose_ego: F64, speed_mps: float, dt_s: float) -> Bool:
    """Is each step within the nuPlan comfort bounds?  (P, T, 3) -> bool (P, T).

    Longitudinal acceleration, lateral acceleration (speed x yaw rate), jerk, longitudinal jerk, yaw
    acceleration and yaw rate, after Savitzky-Golay smoothing. The past is taken as constant speed without
    turning.
    """
    p = len(pose_ego)
    past = WINDOW
    speed = np.concatenate([np.full((p, past), speed_mps), speeds(pose_ego, dt_s)], 1)
    yaw = np.concatenate([np.zeros((p, past)), np.unwrap(pose_ego[..., 2], axis=-1)], 1)
    speed, rate = smooth(speed, 0, dt_s), smooth(yaw, 1, dt_s)
    lon, lat = smooth(speed, 1, dt_s), speed * rate
    lon_jerk, lat_jerk = smooth(lon, 1, dt_s), smooth(lat, 1, dt_s)
    good = (lon >= LON_ACCEL_MPS2[0]) & (lon <= LON_ACCEL_MPS2[1]) & (np.abs(lat) <= LAT_ACCEL_MPS2)
    good &= (np.hypot(lon_jerk, lat_jerk) <= JERK_MPS3) & (np.abs(lon_jerk) <= LON_JERK_MPS3)
    good &= (np.abs(smooth(rate, 1, dt_s)) <= YAW_ACCEL_RADPS2) & (np.abs(rate) <= YAW_RATE_RADPS)
    return np.asarray(good[:, past:])
