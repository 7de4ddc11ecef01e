"""How much earlier skills suffer from later nights: matrices of success and their measures.

Rows are nights (models), columns are kinds of route; c[i, j] is the success share of the model after night i
on kind j, in [0, 1]; NaN = not measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drive.contracts import F64, CaseScore, EvalResult


@dataclass(frozen=True)
class Matrix:
    """Success by night and kind; `learned[j]` is the row after which kind j had been trained on."""

    nights: tuple[str, ...]
    kinds: tuple[str, ...]
    success: F64
    learned: tuple[int, ...]


def negative_backward_transfer(matrix: Matrix) -> float:
    """NBT (as LIBERO defines it): mean over kinds of how much success fell on average since it was learned.

    NBT_k = (1 / (K - k)) * sum over t > k of (c[k, k] - c[t, k]); kinds without a later night are left out.
    Negative means that later nights helped. 0 if there is nothing to compare.
    """
    drops = []
    for j, k in enumerate(matrix.learned):
        later = matrix.success[k + 1 :, j]
        later = later[np.isfinite(later)]
        if len(later) and np.isfinite(matrix.success[k, j]):
            drops.append(float((matrix.success[k, j] - later).mean()))
    return float(np.mean(drops)) if drops else 0.0


def normalised_nbt(matrix: Matrix) -> float:
    """NBT as a share of what was known: the sum of drops over the sum of successes when learned."""
    drops, known = 0.0, 0.0
    for j, k in enumerate(matrix.learned):
        later = matrix.success[k + 1 :, j]
        later = later[np.isfinite(later)]
        if len(later) and np.isfinite(matrix.success[k, j]):
            drops += float((matrix.success[k, j] - later).mean())
            known += float(matrix.success[k, j])
    return drops / known if known else 0.0


def backward_transfer(matrix: Matrix) -> float:
    """BWT (as GEM defines it): mean over kinds of the last success minus that when learned; > 0 is good."""
    last = matrix.success[-1] if len(matrix.nights) else np.zeros(0)
    gains = [
        float(last[j] - matrix.success[k, j])
        for j, k in enumerate(matrix.learned)
        if k < len(matrix.nights) - 1 and np.isfinite(last[j]) and np.isfinite(matrix.success[k, j])
    ]
    return float(np.mean(gains)) if gains else 0.0


def forward_transfer_gem(matrix: Matrix, untrained: Mapping[str, float] | None = None) -> float:
    """FWT (GEM): mean success over kinds one night before they were learned, minus the untrained model's."""
    gains = [
        float(matrix.success[k - 1, j] - (untrained or {}).get(matrix.kinds[j], 0.0))
        for j, k in enumerate(matrix.learned)
        if k > 0 and np.isfinite(matrix.success[k - 1, j])
    ]
    return float(np.mean(gains)) if gains else 0.0


def forward_transfer_libero(matrix: Matrix) -> float:
    """FWT (LIBERO): mean over kinds of success when learned: how well a night's kind is acquired."""
    got = [
        float(matrix.success[k, j]) for j, k in enumerate(matrix.learned) if np.isfinite(matrix.success[k, j])
    ]
    return float(np.mean(got)) if got else 0.0


def success_by_kind(result: EvalResult, kind_of: Mapping[str, str]) -> dict[str, float]:
    """Share of routes of each kind driven without fault; what the simulator spoilt does not count."""
    found: dict[str, list[float]] = {}
    for case in result.cases:
        if case.status != "infrastructure":
            found.setdefault(kind_of.get(case.case_id, "other"), []).append(float(succeeded(case)))
    return {kind: float(np.mean(values)) for kind, values in sorted(found.items())}


def succeeded(case: CaseScore) -> bool:
    """Was the route driven to its end without any infraction?"""
    return case.status == "ok" and bool(case.terms.get("success", 0.0))


def matrix_of(
    rows: Sequence[tuple[str, Mapping[str, float]]], learned: Mapping[str, int] | None = None
) -> Matrix:
    """Matrix of one (night, success by kind) per row; kinds are learned at their first row, or as told."""
    kinds = tuple(sorted({kind for _, row in rows for kind in row}))
    cells = [[row.get(kind, np.nan) for kind in kinds] for _, row in rows]
    success = np.array(cells, np.float64).reshape(len(rows), len(kinds))
    first = {kind: int(np.flatnonzero(np.isfinite(success[:, j]))[0]) for j, kind in enumerate(kinds)}
    at = tuple((learned or first).get(kind, first[kind]) for kind in kinds)
    return Matrix(tuple(night for night, _ in rows), kinds, success, at)
