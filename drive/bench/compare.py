"""Two results of one protocol, case by case: paired differences, intervals, where B is worse."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.bench.result import EvalTable, Metric, cluster_sums
from drive.contracts import F64, UserError
from drive.score.bootstrap import LEVEL, Interval

SEED, FLIPS = 0, 10_000
POWER_Z = 1.959963984540054 + 0.8416212335729143  # two-sided 95 %, 80 % power


@dataclass(frozen=True)
class Difference:
    """One metric, b - a over paired cases.

    Attributes:
        metric, better: What, and which direction is good.
        a, b: Means.
        change: Mean difference with its 95 % interval, resampling clusters.
        p_value: Two-sided, by flipping the signs of clusters.
        detectable: Smallest true change that so many clusters show with 80 % power.
        pairs, clusters: How many.
        verdict: "better", "worse" or "within noise".
    """

    metric: str
    better: str
    a: float
    b: float
    change: Interval
    p_value: float
    detectable: float
    pairs: int
    clusters: int
    verdict: str


@dataclass(frozen=True)
class WorsePart:
    """Cases in which B is worse: how many, means of the primary metric, and b - a."""

    name: str
    pairs: int
    a: float
    b: float
    change: float


@dataclass(frozen=True)
class Comparison:
    """B against A.

    Attributes:
        metrics: Primary one first.
        worse_groups, worse_cases: Where B is worse by the primary metric, worst first.
        notes: What differs between the two without making them unlike.
    """

    metrics: tuple[Difference, ...]
    worse_groups: tuple[WorsePart, ...]
    worse_cases: tuple[WorsePart, ...]
    notes: tuple[str, ...]


def compare(a: EvalTable, b: EvalTable) -> Comparison:
    """Compare two results.

    A case that one of them lacks costs what a missing case costs; planned routes that both lack differ by 0.

    Raises:
        UserError: They are of different protocols or cases, or share no case.
    """
    _check_alike(a, b)
    ids = sorted(set(map(str, a.columns["case_id"])) | set(map(str, b.columns["case_id"])))
    labels = {str(i): (str(c), str(g)) for t in (a, b) for i, c, g in _labels(t)}
    clusters, groups = ([labels[i][k] for i in ids] for k in (0, 1))
    silent = max(0, a.planned - len(ids))
    clusters += [f" nobody {k}" for k in range(silent)]
    found = []
    for metric in a.metrics:
        first, second = (_values(t, metric, ids, silent) for t in (a, b))
        found.append(_difference(metric, first, second, clusters))
    primary = a.metrics[0]
    first, second = (_values(t, primary, ids, 0) for t in (a, b))
    sign = 1.0 if primary.better == "lower" else -1.0
    worse_groups = _worse(first, second, sign, groups)
    worse_cases = _worse(first, second, sign, ids)
    return Comparison(tuple(found), worse_groups, worse_cases, _notes(a, b))


def _check_alike(a: EvalTable, b: EvalTable) -> None:
    for what in ("kind", "suite", "protocol", "planned"):
        one, two = getattr(a, what), getattr(b, what)
        if one != two:
            raise UserError(f"cannot compare: {what} is {one!r} in A and {two!r} in B; run both alike")
    if [m.name for m in a.metrics] != [m.name for m in b.metrics]:
        raise UserError("cannot compare: A and B hold different metrics; run both with the same nightdrive")
    if not set(map(str, a.columns["case_id"])) & set(map(str, b.columns["case_id"])):
        raise UserError("cannot compare: A and B have no case in common; give the right results")


def _labels(table: EvalTable) -> Any:
    return zip(table.columns["case_id"], table.columns["cluster"], table.columns["group"], strict=True)


def _values(table: EvalTable, metric: Metric, ids: Sequence[str], silent: int) -> F64:
    row = dict(zip(map(str, table.columns["case_id"]), table.columns[metric.name], strict=True))
    listed = [float(row.get(case, metric.missing)) for case in ids]
    return np.array([*listed, *[metric.missing] * silent])


def _difference(metric: Metric, first: F64, second: F64, clusters: Sequence[str]) -> Difference:
    change = second - first
    known = np.isfinite(change)
    total, count = cluster_sums(change, clusters)
    used = count[0] > 0
    sums, counts = total[0, used], count[0, used]
    n = len(sums)
    rng = np.random.default_rng(SEED)
    picks = rng.integers(n, size=(FLIPS, n)) if n else np.zeros((0, 0), np.int64)
    means = sums[picks].sum(1) / counts[picks].sum(1) if n else np.array([math.nan])
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean = float(sums.sum() / counts.sum()) if n else math.nan
    flipped = (rng.choice([-1.0, 1.0], (FLIPS, n)) @ sums) / max(counts.sum(), 1.0)
    p = (1 + int((np.abs(flipped) >= abs(mean) - 1e-12).sum())) / (1 + FLIPS)
    good = mean > 0 if metric.better == "higher" else mean < 0
    clear = low > 0 or high < 0
    return Difference(
        metric=metric.name,
        better=metric.better,
        a=float(first[known].mean()) if known.any() else math.nan,
        b=float(second[known].mean()) if known.any() else math.nan,
        change=Interval(mean, float(low), float(high)),
        p_value=p,
        detectable=_detectable(sums, counts),
        pairs=int(known.sum()),
        clusters=n,
        verdict="within noise" if not clear else "better" if good else "worse",
    )


def _detectable(sums: F64, counts: F64) -> float:
    """From the spread of the ratio estimator over clusters; NaN below two."""
    n = len(sums)
    if n < 2:
        return math.nan
    rest = sums - counts * sums.sum() / counts.sum()
    return float(POWER_Z * np.sqrt((rest**2).sum() * n / (n - 1)) / counts.sum())


def _worse(first: F64, second: F64, sign: float, labels: Sequence[str]) -> tuple[WorsePart, ...]:
    parts = []
    for label in sorted(set(labels)):
        mine = np.array([one == label for one in labels]) & np.isfinite(first) & np.isfinite(second)
        if mine.any():
            a, b = float(first[mine].mean()), float(second[mine].mean())
            parts.append(WorsePart(label, int(mine.sum()), a, b, b - a))
    worse = [part for part in parts if sign * part.change > 1e-12]
    return tuple(sorted(worse, key=lambda part: -sign * part.change))


def _notes(a: EvalTable, b: EvalTable) -> tuple[str, ...]:
    notes = []
    for what, one, two in (("facts", a.facts, b.facts), ("versions", a.versions, b.versions)):
        for key in sorted(set(one) | set(two)):
            if one.get(key) != two.get(key):
                notes.append(f"{what}: {key} is {one.get(key)!r} in A and {two.get(key)!r} in B")
    for name, table in (("A", a), ("B", b)):
        if table.run < table.planned:
            notes.append(
                f"{name} covers {table.run} of {table.planned} planned cases; the others cost their price"
            )
    if a.result_id == b.result_id:
        notes.append("A and B hold the same numbers")
    return tuple(notes)
