"""Open-loop displacement and collision rates in both protocols: at the horizon, averaged up to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.contracts import F64, Bool, expect

KEY_DT_S = 0.5
HORIZONS_S = (1.0, 2.0, 3.0)
FAILED_L2_M = 100.0


@dataclass(frozen=True)
class HorizonValues:
    """One number per horizon and protocol.

    Attributes:
        at: float64 (K,), at the horizon (UniAD).
        up_to: float64 (K,), averaged over the steps up to the horizon (ST-P3, VAD).
        n_at: int64 (K,), samples behind each `at`.
        n_up_to: int64 (K,), steps behind each `up_to`.
    """

    at: F64
    up_to: F64
    n_at: Any
    n_up_to: Any


def displacement(pred_xy: Any, true_xy: Any) -> F64:
    """Euclidean distance [m] of positions (B, S, 2); float64 (B, S), NaN where either is NaN."""
    gap = np.asarray(pred_xy, np.float64) - np.asarray(true_xy, np.float64)
    return np.hypot(gap[..., 0], gap[..., 1])


def by_horizon(
    values: F64, mask: Bool, horizons_s: tuple[float, ...] = HORIZONS_S, dt_s: float = KEY_DT_S
) -> HorizonValues:
    """Mean of per-step values at each horizon, and over all steps up to it.

    Masked steps change neither a sum nor a count; a horizon without any step is NaN.

    Args:
        values: float64 (B, S), e.g. displacements or collisions (0 or 1) at (i + 1) * dt_s; finite where mask
            holds.
        mask: bool (B, S), steps to count.
        horizons_s: K horizons [s], multiples of dt_s within S steps.
        dt_s: Step [s].

    Raises:
        ValueError: Shapes differ, or a counted value is not finite.
    """
    data = np.asarray(values, np.float64)
    expect("mask", mask, data.shape, np.bool_)
    if not np.isfinite(data[mask]).all():
        raise ValueError(
            "counted values must be finite; mask failed predictions or give them their cost first"
        )
    data = np.where(mask, data, 0.0)
    at, up_to, n_at, n_up_to = [], [], [], []
    for horizon in horizons_s:
        k = round(horizon / dt_s)
        n_at.append(int(mask[:, k - 1].sum()))
        n_up_to.append(int(mask[:, :k].sum()))
        at.append(_mean(float(data[:, k - 1].sum()), n_at[-1]))
        up_to.append(_mean(float(data[:, :k].sum()), n_up_to[-1]))
    return HorizonValues(np.array(at), np.array(up_to), np.array(n_at), np.array(n_up_to))


def strict(values: F64, failed: Bool, cost: float) -> F64:
    """Values (B, S) in which failed predictions (B,) cost `cost` and no other step costs more.

    With the cap, neither a failed prediction nor a left-out one can improve a mean.
    """
    capped = np.minimum(np.where(np.isfinite(values), values, cost), cost)
    return np.where(np.asarray(failed, bool)[:, None], cost, capped)


def _mean(total: float, n: int) -> float:
    return total / n if n else float("nan")
