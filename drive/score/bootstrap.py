"""Confidence intervals: percentile bootstrap (paired and plain) and Wilson's interval for shares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.contracts import F64

LEVEL = 0.95
Z95 = 1.959963984540054
CHUNK = 1_000_000


@dataclass(frozen=True)
class Interval:
    """Estimate with its 95 % interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float] | F64, seed: int, n: int = 10_000) -> Interval:
    """95 % percentile-bootstrap interval of the mean of `values` (K,); the same seed gives the same interval.

    Raises:
        ValueError: No values, or one that is not finite.
    """
    data = _checked(values)
    means = _resampled_means(data, np.random.default_rng(seed), n)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(data.mean()), float(low), float(high))


def paired_bootstrap(
    a: Sequence[float] | F64, b: Sequence[float] | F64, seed: int, n: int = 10_000
) -> Interval:
    """95 % interval of mean(a - b), where a[i] and b[i] are the same case (route and seed, or sample).

    Pairing removes the spread between cases, so a small but steady difference can be told from noise.

    Raises:
        ValueError: Different lengths, no values, or one that is not finite.
    """
    first, second = _checked(a), _checked(b)
    if first.shape != second.shape:
        raise ValueError(f"paired values differ in number: {first.size} and {second.size}")
    return interval(first - second, seed, n)


def crossed_interval(total: Any, count: Any, seed: int, n: int = 10_000) -> Interval:
    """95 % interval of sum(total) / sum(count) when both rows and columns are samples of more.

    Rows (training seeds) and columns (routes) are resampled independently: drives of one route with several
    models, or of one model on several routes, are not independent cases (Owen, The pigeonhole bootstrap,
    2007). With one row this is the plain bootstrap over columns.

    Args:
        total: (S, K) sums of a value per cell.
        count: (S, K) number of values per cell; 0 = no value there.
        seed: Of the resamples.
        n: Number of resamples; those without any value are left out.

    Raises:
        ValueError: Different shapes, values that are not finite, or no value at all.
    """
    sums, counts = np.asarray(total, np.float64), np.asarray(count, np.float64)
    if sums.ndim != 2 or sums.shape != counts.shape or not np.isfinite(sums).all() or not counts.sum() > 0:
        raise ValueError(f"need finite cells and a value, got shapes {sums.shape} and {counts.shape}")
    rng, (height, width) = np.random.default_rng(seed), sums.shape
    found = []
    step = max(1, CHUNK // sums.size)
    for first in range(0, n, step):
        size = min(step, n - first)
        rows, columns = rng.integers(height, size=(size, height)), rng.integers(width, size=(size, width))
        cells = rows[:, :, None], columns[:, None, :]
        found.append((sums[cells].sum((1, 2)), counts[cells].sum((1, 2))))
    upper, lower = (np.concatenate(part) for part in zip(*found, strict=True))
    low, high = np.quantile(upper[lower > 0] / lower[lower > 0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(sums.sum() / counts.sum()), float(low), float(high))


def wilson(successes: float, n: int) -> Interval:
    """Wilson's 95 % interval of a share; (nan, 0, 1) for n = 0. Successes may be means over repetitions.

    Raises:
        ValueError: Unless 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"need 0 <= successes <= n, got {successes} of {n}")
    if n == 0:
        return Interval(math.nan, 0.0, 1.0)
    share, z2 = successes / n, Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def _checked(values: Any) -> F64:
    data = np.asarray(values, np.float64)
    if data.ndim != 1 or not data.size or not np.isfinite(data).all():
        raise ValueError(f"need a non-empty row of finite values, got shape {data.shape}")
    return data


def _resampled_means(data: F64, rng: np.random.Generator, n: int) -> F64:
    """Means of n resamples of `data`, drawn in chunks of bounded memory."""
    rows = max(1, CHUNK // len(data))
    parts = [rng.choice(data, (min(rows, n - i), len(data))).mean(1) for i in range(0, n, rows)]
    return np.concatenate(parts)
