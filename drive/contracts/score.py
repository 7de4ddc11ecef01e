"""Scores. Every reward term is in [0, 1] and 1 is good."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

GATES = ("no_collision", "on_road", "right_way", "red_light")
WEIGHTED = ("progress", "ttc", "lane", "comfort")


@dataclass(frozen=True)
class CaseScore:
    """One planned item (route and seed, or sample) of an evaluation.

    Attributes:
        case_id: Stable id; the same case in two evaluations is paired by it.
        status: "ok", "failed" (the policy failed: score 0) or "infrastructure" (the simulator failed).
        score: Primary score, higher is better.
        terms: Further named numbers.
    """

    case_id: str
    status: Literal["ok", "failed", "infrastructure"]
    score: float
    terms: Mapping[str, float]


@dataclass(frozen=True)
class EvalResult:
    """One model on one suite.

    Attributes:
        suite: Name of the set of cases.
        protocol: What exactly was measured, e.g. "light simulator, driving score 2.0".
        model: Model version or policy name.
        planned: Number of planned cases; the denominator.
        cases: What was run.
        versions: Package and code versions.
    """

    suite: str
    protocol: str
    model: str
    planned: int
    cases: tuple[CaseScore, ...]
    versions: Mapping[str, Any]

    @property
    def mean(self) -> float:
        """Sum of scores over planned cases; a missing or failed case counts as 0."""
        if not self.planned:
            return float("nan")
        return sum(c.score for c in self.cases if c.status == "ok") / self.planned
