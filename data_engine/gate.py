"""The promotion gate: champion and candidate on the same cases; every refusal has a reason code.

Differences are candidate minus champion, paired by case, with 95 % bootstrap intervals. A model that is not
measurably better on what it was trained to mend is refused; so is one that lost something elsewhere.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from data_engine.config import GateConfig
from data_engine.evidence import (
    ModelEvidence,
    OpenLoopItem,
    of_kinds,
    paired_cases,
    plain_scores,
    safety_failures,
    usable_cases,
)
from data_engine.forgetting import (
    backward_transfer,
    matrix_of,
    negative_backward_transfer,
    succeeded,
    success_by_kind,
)
from drive.contracts import EvalResult
from drive.score.bootstrap import Interval, paired_bootstrap, wilson

REASONS = {
    "identical_weights": "the candidate's weights equal the champion's",
    "missing_metric": "a metric could not be computed for one of the models",
    "non_finite_metric": "a metric is NaN or infinite",
    "unlike_metrics": "champion and candidate were measured on other routes or by other rules",
    "low_coverage": "too few of the planned routes have a result",
    "lower_coverage": "the candidate has results for fewer cases than the champion",
    "new_safety_failure": "the candidate alone hit something, ran a red light or left its lanes",
    "score_regression": "the driving score fell beyond noise, or by more than is tolerated",
    "general_regression": "on plain routes the driving score may have fallen by more than is tolerated",
    "open_loop_regression": "the open-loop error on held-out drives grew beyond noise and what is tolerated",
    "agreement_regression": "commands and trajectories agree less often, beyond noise",
    "no_sibling_cases": "no mined case on a route that was kept apart, so a fix cannot be measured",
    "low_fix_rate": "too few of the failed routes that were kept apart are driven without fault now",
    "forgetting": "kinds of route that were driven well before are driven worse now",
    "latency_regression": "planning takes far longer than the champion's",
    "no_improvement": "neither mined cases kept apart nor routes without fault got better beyond noise",
    "champion_changed": "another model became champion while this night was running",
}
ALWAYS = ("identical_weights", "missing_metric", "non_finite_metric")  # reasons of an advisory gate, too
POWER_Z = 1.959964 + 0.841621
MIN_CHANGE = 1e-12
SURE = 0.05
FEW_WINDOWS = 5


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


def decide(
    champion: ModelEvidence,
    candidate: ModelEvidence,
    config: GateConfig,
    seed: int,
    history: Sequence[tuple[str, Mapping[str, float]]] = (),
) -> Verdict:
    """Compare two models; the same evidence and seed give the same verdict.

    `history` has a row per earlier night: its name and the success by kind of route of its champion.
    """
    champion, candidate = (of_kinds(model, config.kinds) for model in (champion, candidate))
    if config.kinds is not None:
        history = [(name, {k: v for k, v in row.items() if k in config.kinds}) for name, row in history]
    judge = _Judge(config, seed)
    if champion.model_id == candidate.model_id:
        judge.reasons["identical_weights"] = f"both are {champion.model_id}"
    judge.coverage(champion.closed_loop, candidate.closed_loop)
    judge.driving_score(champion.closed_loop, candidate.closed_loop)
    judge.general(champion, candidate)
    judge.safety(champion.closed_loop, candidate.closed_loop)
    judge.siblings(champion.siblings, candidate.siblings)
    judge.fixes(champion.fixes, candidate.fixes)
    judge.closed_loop(champion, candidate)
    judge.held_out(champion.held_out, candidate.held_out)
    judge.forgetting(champion, candidate, history)
    judge.latency(champion, candidate)
    ordered = {code: judge.reasons[code] for code in REASONS if code in judge.reasons}
    if config.advisory:
        judge.warnings += [f"{code}: {why}" for code, why in ordered.items() if code not in ALWAYS]
        ordered = {code: why for code, why in ordered.items() if code in ALWAYS}
    return Verdict(not ordered, ordered, tuple(judge.warnings), tuple(judge.rows))


def minimum_detectable(differences: Sequence[float]) -> float:
    """Smallest true mean change that these paired cases show at 95 % with 80 % power; NaN below two cases."""
    n = len(differences)
    if n < 2:
        return math.nan
    return float(POWER_Z * np.std(np.asarray(differences, np.float64), ddof=1) / math.sqrt(n))


def by_chance(better: int, worse: int) -> float:
    """One-sided sign test: how likely at least so many of the changed cases get better by chance."""
    n = better + worse
    return float(sum(math.comb(n, k) for k in range(better, n + 1)) / 2**n)


@dataclass
class _Judge:
    """Collects reasons, warnings and table rows; one method per part of the gate."""

    config: GateConfig
    seed: int
    reasons: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def coverage(self, a: EvalResult, b: EvalResult) -> None:
        """Same suite and protocol, enough routes with a result, and no fewer for the candidate."""
        have = [len(usable_cases(a)), len(usable_cases(b))]
        if (a.planned, a.suite, a.protocol) != (b.planned, b.suite, b.protocol):
            self.reasons["unlike_metrics"] = (
                f"{a.suite} ({a.planned} routes, {a.protocol}) and {b.suite} ({b.planned}, {b.protocol})"
            )
        elif min(have) < self.config.min_coverage * a.planned or a.planned == 0:
            self.reasons["low_coverage"] = f"{min(have)} of {a.planned} planned routes have a result"
        if have[1] < have[0]:
            self.reasons["lower_coverage"] = f"candidate {have[1]} routes, champion {have[0]}"

    def driving_score(self, a: EvalResult, b: EvalResult) -> None:
        """Mean driving score over routes that both models have."""
        pairs = paired_cases(a, b)
        before = [x.score if x.status == "ok" else 0.0 for x, _ in pairs]
        after = [y.score if y.status == "ok" else 0.0 for _, y in pairs]
        bound = f"not below 0 beyond noise; mean drop <= {self.config.max_score_drop:g}"
        row = self._row("driving score (held-out routes)", "points", before, after, "higher", bound)
        if row.change is not None:
            lost = row.change.high < -MIN_CHANGE or row.change.mean < -self.config.max_score_drop
            row = self._judged(row, lost, "score_regression", _text(row.change, 2, "points"))
        self.rows.append(row)

    def general(self, champion: ModelEvidence, candidate: ModelEvidence) -> None:
        """Driving score on plain routes, where nothing is staged: not worse by more than a margin."""
        before, after = plain_scores(champion, candidate)
        margin = self.config.general_margin
        if not before and margin is None:
            return
        bound = "shown only" if margin is None else f"interval not below -{margin:g}"
        row = self._row("driving score (plain routes)", "points", before, after, "higher", bound)
        if row.change is not None and margin is not None:
            lost = row.change.low < -margin
            row = self._judged(row, lost, "general_regression", _text(row.change, 2, "points"))
        self.rows.append(row)

    def safety(self, a: EvalResult, b: EvalResult) -> None:
        """Routes on which only the candidate has a safety-class infraction."""
        pairs = paired_cases(a, b)
        new = {y.case_id: sorted(set(safety_failures(y)) - set(safety_failures(x))) for x, y in pairs}
        new = {case: kinds for case, kinds in new.items() if kinds}
        mended = sum(bool(set(safety_failures(x)) - set(safety_failures(y))) for x, y in pairs)
        row = Row(
            metric="routes with a safety failure",
            unit="routes",
            champion=float(sum(bool(safety_failures(x)) for x, _ in pairs)),
            candidate=float(sum(bool(safety_failures(y)) for _, y in pairs)),
            change=None,
            detectable=math.nan,
            cases=len(pairs),
            better="lower",
            verdict="info",
            bound=f"{len(new)} new (<= {self.config.new_safety_failures} allowed), {mended} mended",
        )
        listed = "; ".join(f"{case}: {', '.join(kinds)}" for case, kinds in sorted(new.items()))
        failed = len(new) > self.config.new_safety_failures
        self.rows.append(self._judged(row, failed, "new_safety_failure", f"{len(new)} routes ({listed})"))

    def siblings(self, a: Sequence[OpenLoopItem], b: Sequence[OpenLoopItem]) -> None:
        """Error on mined windows of routes that were kept apart: this has to improve."""
        if not a or not b:
            self.reasons["no_sibling_cases"] = "0 windows"
            return
        before, after = self._paired(a, b, "ade_m")
        bound = f"falls beyond noise and by >= {self.config.min_case_gain:.0%}"
        row = self._row("error on mined cases (routes kept apart)", "m", before, after, "lower", bound)
        if row.change is not None:
            fell, least = -row.change.mean, self.config.min_case_gain * row.champion
            few = row.cases < FEW_WINDOWS  # so few agree by chance
            failed = few or row.change.high >= -MIN_CHANGE or fell < least
            detail = f"{_text(row.change, 3, 'm')} on {row.cases} windows; detectable: {row.detectable:.3f} m"
            row = self._judged(row, failed, "no_improvement", detail)
        self.rows.append(row)

    def fixes(self, a: EvalResult | None, b: EvalResult | None) -> None:
        """Routes kept apart on which the champion failed: how many does the candidate drive without fault?"""
        pairs = paired_cases(a, b) if a is not None and b is not None else []
        failed = [succeeded(y) for x, y in pairs if not succeeded(x)]
        spoilt = sum(succeeded(x) and not succeeded(y) for x, y in pairs)
        if not pairs:
            return
        share = wilson(sum(failed), len(failed))
        bound = f"at least {self.config.min_fix_rate:.0%} within its 95 % interval; {spoilt} spoilt"
        row = Row(
            metric="failed routes fixed (routes kept apart)", unit="share", champion=0.0,
            candidate=share.mean, change=share if failed else None, detectable=math.nan, cases=len(failed),
            better="higher", verdict="info", bound=bound,
        )  # fmt: skip
        if failed:
            low = share.high < self.config.min_fix_rate
            detail = f"{sum(failed)} of {len(failed)} fixed, {spoilt} spoilt"
            row = self._judged(row, low, "low_fix_rate", detail)
        self.rows.append(row)

    def closed_loop(self, champion: ModelEvidence, candidate: ModelEvidence) -> None:
        """Routes kept apart and held-out ones together: driven without fault by one of the models only.

        Enough of them (a sign test) are an improvement by themselves.
        """
        pairs = paired_cases(champion.closed_loop, candidate.closed_loop)
        if champion.fixes is not None and candidate.fixes is not None:
            pairs += paired_cases(champion.fixes, candidate.fixes)
        gained = sum(succeeded(y) and not succeeded(x) for x, y in pairs)
        lost = sum(succeeded(x) and not succeeded(y) for x, y in pairs)
        chance = by_chance(gained, lost)
        self.rows.append(
            Row(
                metric="routes driven without fault (held-out and kept apart)", unit="routes",
                champion=float(sum(succeeded(x) for x, _ in pairs)),
                candidate=float(sum(succeeded(y) for _, y in pairs)),
                change=None, detectable=math.nan, cases=len(pairs), better="higher",
                verdict="pass" if chance < SURE else "info",
                bound=f"{gained} gained, {lost} lost: by chance in {chance:.1%}; better if below {SURE:.0%}",
            )
        )  # fmt: skip
        if chance < SURE:
            self.reasons.pop("no_improvement", None)
            self.reasons.pop("no_sibling_cases", None)

    def forgetting(
        self,
        champion: ModelEvidence,
        candidate: ModelEvidence,
        history: Sequence[tuple[str, Mapping[str, float]]],
    ) -> None:
        """NBT and BWT over the kinds of held-out routes, with the candidate as the newest night."""
        kinds = candidate.kinds
        if not kinds:
            return
        rows = list(history) or [("champion", success_by_kind(champion.closed_loop, kinds))]
        before, after = (
            matrix_of(rows),
            matrix_of([*rows, ("candidate", success_by_kind(candidate.closed_loop, kinds))]),
        )
        nbt = negative_backward_transfer(after)
        bound = f"NBT <= {self.config.max_forgetting:g}; {len(after.kinds)} kinds, {len(rows) + 1} models"
        row = Row(
            "forgetting over kinds of route (NBT)", "share", negative_backward_transfer(before), nbt, None,
            math.nan, len(after.kinds), "lower", "info", bound,
        )  # fmt: skip
        detail = f"NBT {nbt:.3f} > {self.config.max_forgetting:g}"
        self.rows.append(self._judged(row, nbt > self.config.max_forgetting + 1e-9, "forgetting", detail))
        self.rows.append(
            replace(
                row,
                metric="backward transfer (BWT, GEM)",
                champion=backward_transfer(before),
                candidate=backward_transfer(after),
                better="higher",
                verdict="info",
                bound="shown only",
            )
        )

    def held_out(self, a: Sequence[OpenLoopItem], b: Sequence[OpenLoopItem]) -> None:
        """Error and command agreement on held-out drives: these must not get worse."""
        if not a or not b:
            self.reasons["missing_metric"] = "no open-loop result on held-out drives"
            return
        bound = f"does not grow beyond noise by > {self.config.max_ade_increase:.0%}"
        row = self._row(
            "open-loop error (held-out drives)", "m", *self._paired(a, b, "ade_m"), "lower", bound
        )
        if row.change is not None:
            more = row.change.mean > self.config.max_ade_increase * row.champion
            grew = more and row.change.low > MIN_CHANGE
            row = self._judged(row, grew, "open_loop_regression", _text(row.change, 3, "m"))
        self.rows.append(row)
        if all(math.isnan(item.agreement) for item in (*a, *b)):  # policies that emit no command
            return
        bound = f"does not drop beyond noise by > {self.config.max_agreement_drop:.0%}"
        before, after = self._paired(a, b, "agreement")
        row = self._row("command agrees with trajectory", "share", before, after, "higher", bound)
        if row.change is not None:
            fell = row.change.mean < -self.config.max_agreement_drop and row.change.high < -MIN_CHANGE
            row = self._judged(row, fell, "agreement_regression", _text(row.change, 3, "of steps"))
        self.rows.append(row)
        before, after = self._paired(a, b, "command_accuracy")
        self.rows.append(
            self._row("command equals the expert's", "share", before, after, "higher", "shown only")
        )

    def latency(self, champion: ModelEvidence, candidate: ModelEvidence) -> None:
        """Planning time: a warning, as timing is noisy; a reason only where no noise explains it."""
        a, b = ([i.latency_ms for i in (*e.siblings, *e.held_out)] for e in (champion, candidate))
        if not a or len(a) != len(b) or not np.isfinite([*a, *b]).all():
            return
        before, after = float(np.median(a)), float(np.median(b))
        slow = before > 0 and after / before > self.config.max_latency_ratio
        bound = f"<= {self.config.max_latency_ratio:g}x; warns only, timing is noisy"
        verdict = "warn" if slow else "pass"
        self.rows.append(
            Row("planning time", "ms", before, after, None, math.nan, len(a), "lower", verdict, bound)
        )
        if before > 0 and after / before > self.config.latency_limit:
            self.reasons["latency_regression"] = f"{after / before:.2f}x the champion's time"
        if slow:
            self.warnings.append(f"planning takes {after / before:.2f}x the champion's time ({bound})")

    def _paired(
        self, a: Sequence[OpenLoopItem], b: Sequence[OpenLoopItem], name: str
    ) -> tuple[list[float], list[float]]:
        first, second = ({item.unit: float(getattr(item, name)) for item in side} for side in (a, b))
        if not first.keys() <= second.keys():
            lost = len(first.keys() - second.keys())
            self.reasons["lower_coverage"] = f"candidate lacks {lost} open-loop units"
        units = sorted(first.keys() & second.keys())
        return [first[u] for u in units], [second[u] for u in units]

    def _row(
        self, metric: str, unit: str, before: list[float], after: list[float], better: str, bound: str
    ) -> Row:
        """Row with its interval; an empty or non-finite metric is a reason to refuse."""
        means = (float(np.mean(before)), float(np.mean(after))) if before else (math.nan, math.nan)
        row = Row(metric, unit, *means, None, math.nan, len(before), better, "info", bound)
        if not before:
            return self._judged(row, True, "missing_metric", metric)
        if not np.isfinite([*before, *after]).all():
            return self._judged(row, True, "non_finite_metric", metric)
        detectable = minimum_detectable([y - x for x, y in zip(before, after, strict=True)])
        return replace(row, change=paired_bootstrap(after, before, self.seed), detectable=detectable)

    def _judged(self, row: Row, failed: bool, code: str, detail: str) -> Row:
        if failed:
            self.reasons[code] = detail
        return replace(row, verdict="fail" if failed else "pass")


def _text(change: Interval, digits: int, unit: str) -> str:
    return f"{change.mean:+.{digits}f} {unit} [{change.low:+.{digits}f}, {change.high:+.{digits}f}]"
