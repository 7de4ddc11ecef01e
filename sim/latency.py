"""Planning times of many drives, as counts per narrow class: percentiles over all of them add up."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from drive.files import read_json

RATIO = 1.02  # width of a class: percentiles are exact to 1 %
FLOOR_MS = 0.01
PERCENTILES = (50, 95, 99)


def counts(values_ms: Sequence[float]) -> dict[str, int]:
    """Number of values per class; the key is the class's middle [ms] as text, for JSON."""
    found = Counter(_class(value) for value in values_ms)
    return {f"{FLOOR_MS * RATIO ** (n + 0.5):.4g}": found[n] for n in sorted(found)}


def percentiles(histograms: Iterable[Mapping[str, int]]) -> dict[str, float]:
    """p50, p95 and p99 [ms] over everything that was counted; empty without a value."""
    together: Counter[float] = Counter()
    for histogram in histograms:
        for text, count in histogram.items():
            together[float(text)] += count
    total = sum(together.values())
    if not total:
        return {}
    found: dict[str, float] = {}
    seen = 0
    ranks = {p: max(1, math.ceil(total * p / 100)) for p in PERCENTILES}
    for middle in sorted(together):
        seen += together[middle]
        for p, rank in ranks.items():
            if seen >= rank:
                found.setdefault(f"p{p}", round(middle, 3))
    return found


def of_results(path: Path) -> dict[str, float]:
    """p50, p95 and p99 [ms] over all drives of a results file of `drive sim`; empty if no policy planned."""
    return {name: float(value) for name, value in read_json(path)["nightdrive"]["plan_ms"].items()}


def _class(value_ms: float) -> int:
    return math.floor(math.log(max(value_ms, FLOOR_MS) / FLOOR_MS) / math.log(RATIO))
