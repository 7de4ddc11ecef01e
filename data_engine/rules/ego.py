"""Rules over the ego's own motion: one scan of its columns for all drives."""

from typing import Any

import numpy as np

from data_engine.rules.moments import Finding, before_hit, moments
from data_engine.tables import REAL_WORLD, Tables
from drive.contracts import F64

JERK_ROWS = 3  # fewer rows in the window say nothing about a change of acceleration


def hard_brake(
    tables: Tables, decel_mps2: float = 4.0, real_decel_mps2: float = 2.0, window_s: float = 0.5
) -> list[Finding]:
    """Mean deceleration over `window_s` above a bound: the same measure for 2 Hz and 10 Hz logs.

    Real logs have their own bound: trained drivers of data sets brake gently, and what stands out is lower.
    The jump to standstill of a collision is not braking, so nothing after the first collision counts.
    """
    clock = tables.clock_s()
    real = np.array([row.simulator == REAL_WORLD for row in tables.drives], bool)
    bound = np.where(real, real_decel_mps2, decel_mps2)[tables.ego["drive"]]
    decel, _ = _mean_decel(clock, tables.ego["speed_mps"], window_s)
    mask = (decel > bound) & before_hit(tables, clock, window_s)
    return moments(tables, clock, mask, decel / (2 * decel_mps2), highest={"decel_mps2": decel})


def jerk(tables: Tables, jerk_mps3: float = 12.0, window_s: float = 0.5) -> list[Finding]:
    """Change of the mean acceleration from one window to the next above a bound, before any collision.

    Needs several rows in a window: 2 Hz logs cannot show it.
    """
    clock = tables.clock_s()
    decel, before = _mean_decel(clock, tables.ego["speed_mps"], window_s)
    rows = np.arange(len(clock)) - before
    earlier = before - np.minimum(before, JERK_ROWS) >= 0
    usable = (rows >= JERK_ROWS) & (clock - clock[before] > 0.8 * window_s) & earlier
    usable &= clock[before] - clock[before[before]] > 0.8 * window_s
    usable &= clock - clock[before[before]] < 4 * window_s  # the same drive
    rate = np.abs(decel - decel[before]) / window_s * usable
    mask = (rate > jerk_mps3) & before_hit(tables, clock, window_s)
    return moments(tables, clock, mask, rate / (2 * jerk_mps3), highest={"jerk_mps3": rate})


def route_deviation(tables: Tables, distance_m: float = 6.0) -> list[Finding]:
    """Farther from the planned route than a bound; passing an obstacle on the next lane is nearer."""
    off = np.nan_to_num(tables.ego["off_route_m"])
    clock = tables.clock_s()
    return moments(tables, clock, off > distance_m, off / (4 * distance_m), highest={"off_route_m": off})


def _mean_decel(clock_s: F64, speed_mps: Any, window_s: float) -> tuple[F64, Any]:
    """Loss of speed over the last `window_s` [m/s2] at each row, 0 where not covered; and the row before."""
    speed = speed_mps.astype(np.float64)
    before = np.searchsorted(clock_s, clock_s - (window_s + 1e-3))
    span = clock_s - clock_s[before]
    full = span > 0.8 * window_s
    return np.where(full, (speed[before] - speed) / np.where(full, span, 1.0), 0.0), before
