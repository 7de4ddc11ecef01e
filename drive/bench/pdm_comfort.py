"""HC and EC: comfort of driven proposals, their past included, by NAVSIM's filters and bounds."""

from functools import lru_cache

import numpy as np

from drive.bench.pdm_scene import PdmScene
from drive.contracts import F64, Bool
from drive.score import motion
from drive.score.tracking import Driven

ACCEL_WINDOW, JERK_WINDOW, YAW_WINDOW = 8, 15, 5
EC_ACCEL_MPS2, EC_JERK_MPS3, EC_YAW_RATE, EC_YAW_ACCEL = 0.7, 0.5, 0.1, 0.1


def comfortable(scene: PdmScene, driven: Driven, dt_s: float) -> Bool:
    """Is every step, up to 1.5 s of the past included, within nuPlan's bounds?  bool (P,).

    As published, the acceleration across has no bound here: NAVSIM takes it from a bicycle that never slips,
    in which it is 0.
    """
    accel, rate, yaw = _series(scene, driven)
    rate_change = np.diff(rate, axis=1, prepend=rate[:, :1]) / dt_s
    lever = scene.ego_size.centre_from_axle_m
    at_centre = accel + lever * (rate * rate + rate_change)
    steps = accel.shape[1]
    smooth, slope = _smoothed(steps, dt_s)
    lon = at_centre @ smooth
    good = (lon > motion.LON_ACCEL_MPS2[0]) & (lon < motion.LON_ACCEL_MPS2[1])
    good &= np.abs(at_centre @ slope) < motion.LON_JERK_MPS3
    good &= np.abs(np.abs(accel) @ slope) < motion.JERK_MPS3
    good &= np.abs(yaw @ _filter(steps, YAW_WINDOW, 2, 1, dt_s)) < motion.YAW_RATE_RADPS
    good &= np.abs(yaw @ _filter(steps, YAW_WINDOW, 3, 2, dt_s)) < motion.YAW_ACCEL_RADPS2
    return np.asarray(good.all(1))


def alike(scene: PdmScene, driven: Driven, previous: Driven | None, shift: int, dt_s: float) -> F64:
    """EC (P,): 1 if driven like the plan before where both overlap, by root mean square differences.

    NaN without a plan before.

    Args:
        scene: Where from; without its past.
        driven: P proposals.
        previous: What was driven `shift` steps earlier, one row; its own start is left out.
        shift: In steps, at least 1.
        dt_s: Step.
    """
    steps = driven.speed_mps.shape[1]
    if previous is None or not 0 < shift <= steps - JERK_WINDOW:
        return np.full(len(driven.pose), np.nan)
    accel, _, yaw = (one[:, -steps - 1 : -shift] for one in _series(scene, driven))
    first = shift - 1
    before = previous.accel_mps2[:, first:], np.unwrap(previous.pose[..., 2], axis=1)[:, first:]
    count = steps + 1 - shift
    smooth, slope = _smoothed(count, dt_s)
    turn, bend = (_filter(count, YAW_WINDOW, 2, order, dt_s) for order in (1, 2))
    size = np.abs(accel) - np.abs(before[0])
    good = np.ones(len(driven.pose), bool)
    for change, limit in (
        (size @ smooth, EC_ACCEL_MPS2), (size @ slope, EC_JERK_MPS3),
        ((yaw - before[1]) @ turn, EC_YAW_RATE), ((yaw - before[1]) @ bend, EC_YAW_ACCEL),
    ):  # fmt: skip
        good &= np.sqrt((change**2).mean(1)) <= limit
    return good.astype(np.float64)


def _series(scene: PdmScene, driven: Driven) -> tuple[F64, F64, F64]:
    """Acceleration, yaw rate and unwrapped heading (P, H + 1 + T): the past, now, and what was driven."""
    count = len(driven.pose)

    def row(past: F64, now: float, then: F64) -> F64:
        head = np.broadcast_to(np.append(past, now), (count, len(past) + 1))
        return np.concatenate([head, then], 1)

    accel = row(scene.past[:, 0], scene.accel_mps2, driven.accel_mps2)
    rate = row(scene.past[:, 1], scene.yaw_rate_radps, driven.yaw_rate_radps)
    return accel, rate, np.unwrap(row(scene.past[:, 2], 0.0, driven.pose[..., 2]), axis=1)


@lru_cache(maxsize=64)
def _smoothed(steps: int, dt_s: float) -> tuple[F64, F64]:
    """Matrices that smooth accelerations, and that take jerk from them."""
    smooth = _filter(steps, ACCEL_WINDOW, 2, 0, dt_s)
    return smooth, smooth @ _filter(steps, JERK_WINDOW, 2, 1, dt_s)


@lru_cache(maxsize=64)
def _filter(steps: int, window: int, order: int, derivative: int, dt_s: float) -> F64:
    """Matrix (steps, steps) that is multiplied from the right: scipy's savgol_filter along a row."""
    from scipy.signal import savgol_filter

    matrix = savgol_filter(np.eye(steps), min(window, steps), order, derivative, dt_s, axis=0)
    return np.ascontiguousarray(matrix.T, np.float64)
