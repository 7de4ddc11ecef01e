"""The promotion gate: champion and candidate on the same cases; every refusal has a reason code.

Differences are candidate minus champion, paired by case, with 95 % bootstrap intervals (drive.score.bootstrap).
A model that is not measurably better on what it was trained to mend is refused; so is one that lost something.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from data_engine.config import GateConfig
from drive.contracts import CaseScore, EvalResult
from drive.score.bootstrap import Interval, paired_bootstrap

REASONS = {
    "identical_weights": "the candidate's weights equal the champion's",
    "missing_metric": "a metric could not be computed for one of the models",
    "non_finite_metric": "a metric is NaN or infinite",
    "low_coverage": "too few of the planned routes have a result",
    "lower_coverage": "the candidate has results for fewer cases than the champion",
    "new_safety_failure": "the candidate hits something, runs a red light or leaves the road where the champion did not",
    "score_regression": "the driving score fell beyond noise, or more than the tolerated drop",
    "open_loop_regression": "the open-loop error on held-out drives grew beyond the tolerated share",
    "agreement_regression": "commands and trajectories agree less often",
    "no_sibling_cases": "no mined case on a held-out sibling route, so a fix cannot be measured",
    "no_improvement": "the error on the mined cases (held-out siblings) did not fall beyond noise",
}
SAFETY_PREFIXES = ("collisions", "red_light", "outside_route_lanes")
POWER_Z = 1.959964 + 0.841621
MIN_SPREAD = 1e-12


@dataclass(frozen=True)
class OpenLoopItem:
    """One model on one unit (a case window, or the steps of a held-out drive).

    Attributes:
        unit: Pairs the two models; units are whole windows or drives because neighbouring steps are not independent.
        ade_m: Mean distance between plan and label over 4 s.
        fde_m: Distance at 4 s.
        agreement: Share of steps whose command and trajectory agree; NaN for a policy without commands.
        command_accuracy: Share of steps whose command equals the label's; NaN for a policy without commands.
        latency_ms: Median planning time of a step.
        steps: Number of steps.
        failed: Steps whose plan was not finite; they count with a fixed cost.
    """

    unit: str
    ade_m: float
    fde_m: float
    agreement: float
    command_accuracy: float
    latency_ms: float
    steps: int
    failed: int


@dataclass(frozen=True)
class ModelEvidence:
    """Everything the gate looks at, for one model.

    Attributes:
        model_id: Weights' id.
        closed_loop: Held-out suite.
        siblings: Open loop on mined windows of held-out routes.
        held_out: Open loop on held-out drives.
    """

    model_id: str
    closed_loop: EvalResult
    siblings: tuple[OpenLoopItem, ...]
    held_out: tuple[OpenLoopItem, ...]


def evidence_from_json(value: Mapping[str, Any]) -> ModelEvidence:
    """Read back what `drive.files.write_json` wrote."""
    result = dict(value["closed_loop"])
    cases = tuple(CaseScore(**case) for case in result.pop("cases"))
    return ModelEvidence(
        model_id=value["model_id"],
        closed_loop=EvalResult(cases=cases, **result),
        siblings=tuple(OpenLoopItem(**item) for item in value["siblings"]),
        held_out=tuple(OpenLoopItem(**item) for item in value["held_out"]),
    )


@dataclass(frozen=True)
class Row:
    """One line of the gate table.

    Attributes:
        metric, unit: What, in what.
        champion, candidate: Means.
        change: candidate - champion with its interval; None when it cannot be paired.
        detectable: Smallest true change that this many cases would show with 80 % power.
        cases: Pairs.
        better: "higher" or "lower".
        verdict: "pass", "fail", "warn" or "info".
        bound: The rule in words.
    """

    metric: str
    unit: str
    champion: float
    candidate: float
    change: Interval | None
    detectable: float
    cases: int
    better: str
    verdict: str
    bound: str


@dataclass(frozen=True)
class Verdict:
    """Decision with its reasons (code -> detail), warnings and table."""

    promote: bool
    reasons: Mapping[str, str]
    warnings: tuple[str, ...]
    rows: tuple[Row, ...]


def decide(champion: ModelEvidence, candidate: ModelEvidence, config: GateConfig, seed: int) -> Verdict:
    """Compare two models; the same evidence and seed give the same verdict."""
    reasons: dict[str, str] = {}
    warnings: list[str] = []
    rows: list[Row] = []
    if champion.model_id == candidate.model_id:
        reasons["identical_weights"] = f"both are {champion.model_id}"
    _coverage(champion.closed_loop, candidate.closed_loop, config, reasons)
    _closed_loop(champion.closed_loop, candidate.closed_loop, config, seed, reasons, rows)
    _siblings(champion.siblings, candidate.siblings, config, seed, reasons, rows)
    _held_out(champion.held_out, candidate.held_out, config, seed, reasons, rows)
    _latency(champion, candidate, config, seed, warnings, rows)
    ordered = {code: reasons[code] for code in REASONS if code in reasons}
    return Verdict(not ordered, ordered, tuple(warnings), tuple(rows))


def minimum_detectable(differences: Sequence[float]) -> float:
    """Smallest true mean change that this many paired cases show at 95 % with 80 % power; NaN below two cases."""
    n = len(differences)
    if n < 2:
        return math.nan
    return float(POWER_Z * np.std(np.asarray(differences, np.float64), ddof=1) / math.sqrt(n))


def safety_failures(case: CaseScore) -> tuple[str, ...]:
    """Safety-class infractions of a route, e.g. ("collisions_vehicle",)."""
    return tuple(sorted(k for k, v in case.terms.items() if k.startswith(SAFETY_PREFIXES) and v > 0))


def paired_cases(a: EvalResult, b: EvalResult) -> list[tuple[CaseScore, CaseScore]]:
    """Cases that both results hold and the simulator did not spoil, in case_id order."""
    first = {c.case_id: c for c in a.cases if c.status != "infrastructure"}
    second = {c.case_id: c for c in b.cases if c.status != "infrastructure"}
    return [(first[key], second[key]) for key in sorted(first.keys() & second.keys())]


def _coverage(a: EvalResult, b: EvalResult, config: GateConfig, reasons: dict[str, str]) -> None:
    have = [len({c.case_id for c in r.cases if c.status != "infrastructure"}) for r in (a, b)]
    if a.planned != b.planned or a.suite != b.suite or a.protocol != b.protocol:
        reasons["low_coverage"] = "champion and candidate were not evaluated on the same suite and protocol"
    elif min(have) < config.min_coverage * a.planned or a.planned == 0:
        reasons["low_coverage"] = f"{min(have)} of {a.planned} planned routes have a result"
    if have[1] < have[0]:
        reasons["lower_coverage"] = f"candidate {have[1]} routes, champion {have[0]}"


def _closed_loop(
    a: EvalResult, b: EvalResult, config: GateConfig, seed: int, reasons: dict[str, str], rows: list[Row]
) -> None:
    pairs = paired_cases(a, b)
    before = [x.score if x.status == "ok" else 0.0 for x, _ in pairs]
    after = [y.score if y.status == "ok" else 0.0 for _, y in pairs]
    bound = f"not below 0 beyond noise, mean drop <= {config.max_score_drop:g}"
    row = _row("driving score (held-out routes)", "points", before, after, "higher", bound, seed, reasons)
    if row.change is not None:
        lost = row.change.high < -MIN_SPREAD or row.change.mean < -config.max_score_drop
        if lost:
            reasons["score_regression"] = (
                f"{row.change.mean:+.2f} points [{row.change.low:+.2f}, {row.change.high:+.2f}]"
            )
        row = _judged(row, "fail" if lost else "pass")
    rows.append(row)
    new = {y.case_id: sorted(set(safety_failures(y)) - set(safety_failures(x))) for x, y in pairs}
    new = {case: kinds for case, kinds in new.items() if kinds}
    mended = [x.case_id for x, y in pairs if set(safety_failures(x)) - set(safety_failures(y))]
    failed = len(new) > config.new_safety_failures
    if failed:
        listed = "; ".join(f"{case}: {', '.join(kinds)}" for case, kinds in sorted(new.items()))
        reasons["new_safety_failure"] = f"{len(new)} routes ({listed})"
    counts = [float(sum(bool(safety_failures(c)) for c in side)) for side in zip(*pairs, strict=True)] or [
        math.nan
    ] * 2
    rows.append(
        Row("routes with a safety failure", "routes", counts[0], counts[1], None, math.nan, len(pairs),
            "lower", "fail" if failed else "pass",
            f"{len(new)} new (<= {config.new_safety_failures}), {len(mended)} mended")
    )  # fmt: skip


def _siblings(
    a: Sequence[OpenLoopItem], b: Sequence[OpenLoopItem], config: GateConfig, seed: int,
    reasons: dict[str, str], rows: list[Row],
) -> None:  # fmt: skip
    if not a or not b:
        reasons["no_sibling_cases"] = "0 windows"
        return
    before, after = _paired(a, b, "ade_m", reasons)
    bound = f"falls beyond noise and by >= {config.min_case_gain:.0%}"
    row = _row("error on mined cases (sibling routes)", "m", before, after, "lower", bound, seed, reasons)
    if row.change is not None:
        gained = row.change.high < -MIN_SPREAD and -row.change.mean >= config.min_case_gain * row.champion
        if not gained:
            reasons["no_improvement"] = (
                f"{row.change.mean:+.3f} m [{row.change.low:+.3f}, {row.change.high:+.3f}] on {row.cases} windows; "
                f"{row.detectable:.3f} m would have been detectable"
            )
        row = _judged(row, "pass" if gained else "fail")
    rows.append(row)


def _held_out(
    a: Sequence[OpenLoopItem], b: Sequence[OpenLoopItem], config: GateConfig, seed: int,
    reasons: dict[str, str], rows: list[Row],
) -> None:  # fmt: skip
    if not a or not b:
        reasons["missing_metric"] = "no open-loop result on held-out drives"
        return
    before, after = _paired(a, b, "ade_m", reasons)
    bound = f"may grow by <= {config.max_ade_increase:.0%}, and not more beyond noise"
    row = _row("open-loop error (held-out drives)", "m", before, after, "lower", bound, seed, reasons)
    if row.change is not None:
        worse = row.change.mean > config.max_ade_increase * row.champion
        if worse:
            reasons["open_loop_regression"] = (
                f"{row.change.mean:+.3f} m [{row.change.low:+.3f}, {row.change.high:+.3f}]"
            )
        row = _judged(row, "fail" if worse else "pass")
    rows.append(row)
    for name, title in (
        ("agreement", "command agrees with trajectory"),
        ("command_accuracy", "command equals label's"),
    ):
        _share(a, b, name, title, config, seed, reasons, rows)


def _share(
    a: Sequence[OpenLoopItem], b: Sequence[OpenLoopItem], name: str, title: str, config: GateConfig, seed: int,
    reasons: dict[str, str], rows: list[Row],
) -> None:  # fmt: skip
    """Row of a share of steps; only the agreement can refuse. Policies without commands have no such row."""
    if all(math.isnan(getattr(item, name)) for item in (*a, *b)):
        return
    before, after = _paired(a, b, name, reasons)
    decides = name == "agreement"
    bound = f"may drop by <= {config.max_agreement_drop:.0%}" if decides else "shown only"
    row = _row(title, "share", before, after, "higher", bound, seed, reasons)
    if row.change is not None and decides:
        worse = row.change.mean < -config.max_agreement_drop
        if worse:
            reasons["agreement_regression"] = (
                f"{row.change.mean:+.3f} [{row.change.low:+.3f}, {row.change.high:+.3f}]"
            )
        row = _judged(row, "fail" if worse else "pass")
    rows.append(row)


def _latency(
    champion: ModelEvidence,
    candidate: ModelEvidence,
    config: GateConfig,
    seed: int,
    warnings: list[str],
    rows: list[Row],
) -> None:
    a, b = (np.array([i.latency_ms for i in (*e.siblings, *e.held_out)]) for e in (champion, candidate))
    if not len(a) or len(a) != len(b) or not np.isfinite([*a, *b]).all():
        return
    before, after = float(np.median(a)), float(np.median(b))
    slow = before > 0 and after / before > config.max_latency_ratio
    if slow:
        warnings.append(
            f"planning takes {after / before:.2f}x the champion's time (bound {config.max_latency_ratio:g}x)"
        )
    rows.append(
        Row("planning time", "ms", before, after, None, math.nan, len(a), "lower", "warn" if slow else "pass",
            f"<= {config.max_latency_ratio:g}x, warns only: timing on a shared machine is noisy")
    )  # fmt: skip


def _paired(
    a: Sequence[OpenLoopItem], b: Sequence[OpenLoopItem], name: str, reasons: dict[str, str]
) -> tuple[list[float], list[float]]:
    first, second = ({item.unit: float(getattr(item, name)) for item in side} for side in (a, b))
    if not first.keys() <= second.keys():
        reasons["lower_coverage"] = f"candidate lacks {len(first.keys() - second.keys())} open-loop units"
    units = sorted(first.keys() & second.keys())
    return [first[u] for u in units], [second[u] for u in units]


def _row(
    metric: str, unit: str, before: Sequence[float], after: Sequence[float], better: str, bound: str, seed: int,
    reasons: dict[str, str],
) -> Row:  # fmt: skip
    """Row with its interval; an empty or non-finite metric is a reason to refuse."""
    if not before:
        reasons["missing_metric"] = metric
        return Row(metric, unit, math.nan, math.nan, None, math.nan, 0, better, "fail", bound)
    if not np.isfinite([*before, *after]).all():
        reasons["non_finite_metric"] = metric
        return Row(metric, unit, float(np.mean(before)), float(np.mean(after)), None, math.nan, len(before), better,
                   "fail", bound)  # fmt: skip
    change = paired_bootstrap(after, before, seed)
    detectable = minimum_detectable([y - x for x, y in zip(before, after, strict=True)])
    means = float(np.mean(before)), float(np.mean(after))
    return Row(metric, unit, *means, change, detectable, len(before), better, "info", bound)


def _judged(row: Row, verdict: str) -> Row:
    return Row(**{**row.__dict__, "verdict": verdict})
