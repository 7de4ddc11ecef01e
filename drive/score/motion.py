"""Speeds, accelerations and the comfort bounds: per step of a trajectory, and per window of a drive."""

import numpy as np

from drive.contracts import F64, Bool

LON_ACCEL_MPS2 = (-4.05, 2.40)
LAT_ACCEL_MPS2 = 4.89
JERK_MPS3 = 8.37
LON_JERK_MPS3 = 4.13
YAW_ACCEL_RADPS2 = 1.93
YAW_RATE_RADPS = 0.95
WINDOW, ORDER = 7, 2
SMOOTHNESS_FRAMES = 20


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


def fitted(values: F64, derivative: int, dt_s: float) -> F64:
    """As `smooth` for (T,), but at the ends the polynomial of the outermost window goes on.

    Equal to scipy.signal.savgol_filter(values, min(7, T), 2, deriv, delta); T is at least 3.
    """
    window = min(WINDOW, len(values))
    steps = np.arange(window) * dt_s
    powers = np.vander(steps, ORDER + 1, increasing=True)  # 1, t, t^2, and their derivatives:
    rates = np.stack([np.zeros(window), np.ones(window), 2 * steps], -1)
    rows = (rates if derivative else powers) @ np.linalg.pinv(powers)
    first = np.clip(np.arange(len(values)) - window // 2, 0, len(values) - window)
    windows = np.lib.stride_tricks.sliding_window_view(values, window)[first]
    return np.asarray((rows[np.arange(len(values)) - first] * windows).sum(-1))


def smoothness(
    lon_mps2: F64, lat_mps2: F64, yaw_rate: F64, dt_s: float = 0.1, yaw_accel: bool = False
) -> float | None:
    """Share of 20-frame windows of a drive that are comfortable, as Bench2Drive computes it.

    Its tool bounds the yaw rate by 0.95 without converting CARLA's degrees per second: pass those for a
    number that compares with published ones, radians per second for what the bound means. Its bound on the
    yaw acceleration is applied to the yaw rate, where it never binds, and is left out here unless
    `yaw_accel` asks for what it means: the derivative of the yaw rate.

    Args:
        lon_mps2: float64 (T,), acceleration along the heading.
        lat_mps2: float64 (T,), acceleration across it.
        yaw_rate: float64 (T,).
        dt_s: Time between frames.
        yaw_accel: Bound the yaw acceleration too; the yaw rate is in radians per second then.

    Returns:
        Share in [0, 1]; a drive of at most 20 frames is one window, an incomplete last window does not count.
        None for fewer than 3 frames.
    """
    frames = len(lon_mps2)
    if frames < ORDER + 1:
        return None
    size = min(frames, SMOOTHNESS_FRAMES)
    good = [
        _window_is_smooth(
            lon_mps2[k : k + size], lat_mps2[k : k + size], yaw_rate[k : k + size], dt_s, yaw_accel
        )
        for k in range(0, frames - size + 1, size)
    ]
    return sum(good) / len(good)


def _window_is_smooth(lon: F64, lat: F64, rate: F64, dt_s: float, yaw_accel: bool) -> bool:
    if yaw_accel and (np.abs(fitted(rate, 1, dt_s)) >= YAW_ACCEL_RADPS2).any():
        return False
    turns = np.cumsum(np.round(np.diff(rate, prepend=rate[0]) / (2 * np.pi)))  # its tool unwraps rates too
    rate = fitted(rate - 2 * np.pi * turns, 0, dt_s)
    size, lon, lat = fitted(np.hypot(lon, lat), 0, dt_s), fitted(lon, 0, dt_s), fitted(lat, 0, dt_s)
    good = (lon > LON_ACCEL_MPS2[0]) & (lon < LON_ACCEL_MPS2[1]) & (np.abs(lat) < LAT_ACCEL_MPS2)
    good &= (np.abs(fitted(size, 1, dt_s)) < JERK_MPS3) & (np.abs(fitted(lon, 1, dt_s)) < LON_JERK_MPS3)
    return bool((good & (np.abs(rate) < YAW_RATE_RADPS)).all())


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
