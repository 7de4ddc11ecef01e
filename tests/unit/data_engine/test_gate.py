"""Every refusal of the gate has its own reason, and noise is never promoted."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from data_engine.config import GateConfig
from data_engine.evidence import ModelEvidence, OpenLoopItem
from data_engine.gate import REASONS, Verdict, decide, minimum_detectable
from drive.contracts import CaseScore, EvalResult

ROUTES = 12


def suite(scores: Sequence[float], planned: int = ROUTES, **terms: float) -> EvalResult:
    cases = tuple(CaseScore(f"route{i:02d}", "ok", float(s), dict(terms)) for i, s in enumerate(scores))
    return EvalResult("gate", "light simulator, driving score 2.0", "m", planned, cases, {})


def items(
    errors_m: Sequence[float], prefix: str = "unit", agreement: float = 0.9
) -> tuple[OpenLoopItem, ...]:
    return tuple(
        OpenLoopItem(f"{prefix}{i:02d}", float(e), 2 * float(e), agreement, 0.8, 5.0, 8, 0)
        for i, e in enumerate(errors_m)
    )


def champion() -> ModelEvidence:
    return ModelEvidence(
        "aaa", suite([80.0] * ROUTES), items(np.linspace(2.0, 4.0, 10)), items([1.0] * ROUTES)
    )


def better() -> ModelEvidence:
    return replace(champion(), model_id="bbb", siblings=items(np.linspace(1.6, 3.4, 10)))


def verdict(candidate: ModelEvidence, old: ModelEvidence | None = None, **bounds: float) -> Verdict:
    return decide(old or champion(), candidate, GateConfig(**bounds), seed=0)  # type: ignore[arg-type]


def test_a_measured_improvement_without_loss_is_promoted() -> None:
    made = verdict(better())
    assert made.promote
    assert not made.reasons
    assert all(row.verdict in ("pass", "info") for row in made.rows)


def one_new_collision() -> ModelEvidence:
    cases = list(better().closed_loop.cases)
    cases[3] = replace(cases[3], terms={"collisions_vehicle": 1.0})
    return replace(better(), closed_loop=replace(better().closed_loop, cases=tuple(cases)))


def driven(*successes: bool) -> EvalResult:
    """A suite driven with and without fault; kinds a and b in turn."""
    cases = tuple(
        CaseScore(f"route{i:02d}", "ok", 80.0, {"success": float(ok)}) for i, ok in enumerate(successes)
    )
    return EvalResult("kept apart", "light simulator, driving score 2.0", "m", len(cases), cases, {})


def with_fixes(*now: bool, before: Sequence[bool] | None = None) -> tuple[ModelEvidence, ModelEvidence]:
    old = replace(champion(), fixes=driven(*(before or [False] * len(now))))
    return old, replace(better(), fixes=driven(*now))


def forgetful() -> ModelEvidence:
    """The kind that the champion of `knowing` drives is lost."""
    kinds = {f"route{i:02d}": "ab"[i % 2] for i in range(ROUTES)}
    return replace(better(), closed_loop=suite([80.0] * ROUTES, success=0.0), kinds=kinds)


def knowing() -> ModelEvidence:
    return replace(champion(), closed_loop=suite([80.0] * ROUTES, success=1.0))


def slow(times: float) -> ModelEvidence:
    made = better()
    held, siblings = (
        tuple(replace(item, latency_ms=5.0 * times) for item in items_of)
        for items_of in (made.held_out, made.siblings)
    )
    return replace(made, held_out=held, siblings=siblings)


REFUSALS: dict[str, Callable[[], ModelEvidence]] = {
    "identical_weights": lambda: replace(better(), model_id="aaa"),
    "missing_metric": lambda: replace(better(), held_out=()),
    "non_finite_metric": lambda: replace(better(), siblings=items([math.nan, *[1.0] * 9])),
    "unlike_metrics": lambda: replace(
        better(), closed_loop=replace(better().closed_loop, suite="another suite")
    ),
    "low_fix_rate": lambda: with_fixes(*[False] * 8)[1],
    "forgetting": forgetful,
    "latency_regression": lambda: slow(2.5),
    "low_coverage": lambda: replace(better(), closed_loop=suite([80.0] * (ROUTES - 1))),
    "lower_coverage": lambda: replace(better(), closed_loop=suite([80.0] * (ROUTES - 1))),
    "new_safety_failure": one_new_collision,
    "score_regression": lambda: replace(better(), closed_loop=suite([70.0] * ROUTES)),
    "open_loop_regression": lambda: replace(better(), held_out=items([1.2] * ROUTES)),
    "agreement_regression": lambda: replace(better(), held_out=items([1.0] * ROUTES, agreement=0.7)),
    "no_sibling_cases": lambda: replace(better(), siblings=()),
    "no_improvement": lambda: replace(champion(), model_id="bbb"),
}


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_each_refusal_names_its_reason(code: str) -> None:
    olds = {"low_fix_rate": with_fixes(*[False] * 8)[0], "forgetting": knowing()}
    made = verdict(REFUSALS[code](), olds.get(code))
    assert not made.promote
    assert code in made.reasons
    assert set(made.reasons) <= set(REASONS)


def test_every_reason_code_of_the_comparison_is_tested() -> None:
    elsewhere = {"champion_changed", "general_regression"}
    assert set(REFUSALS) | elsewhere == set(REASONS)


def test_fixed_routes_are_an_improvement_even_where_the_error_says_nothing() -> None:
    old, new = with_fixes(*[True] * 6)
    silent = replace(new, siblings=())
    assert verdict(silent, old).promote
    assert "no_sibling_cases" in verdict(replace(silent, fixes=driven(True, True, True, True)), old).reasons


def test_as_many_routes_spoilt_as_fixed_are_no_improvement() -> None:
    before = [True] * 4 + [False] * 4
    old, new = with_fixes(*[not ok for ok in before], before=before)
    made = verdict(replace(new, siblings=()), old)
    assert "no_sibling_cases" in made.reasons
    row = next(row for row in made.rows if "fixed" in row.metric)
    assert (row.candidate, row.cases) == (1.0, 4)
    assert "4 spoilt" in row.bound


def test_few_failed_routes_cannot_refuse() -> None:
    old, new = with_fixes(False, False)
    assert "low_fix_rate" not in verdict(new, old).reasons


def test_forgetting_looks_at_all_earlier_nights() -> None:
    kinds = {f"route{i:02d}": "ab"[i % 2] for i in range(ROUTES)}
    new = replace(better(), closed_loop=suite([80.0] * ROUTES, success=1.0), kinds=kinds)
    history = [("n1", {"a": 1.0, "b": 0.5}), ("n2", {"a": 1.0, "b": 0.9})]
    made = decide(knowing(), new, GateConfig(), 0, history)
    assert made.promote
    worse = decide(knowing(), forgetful(), GateConfig(), 0, history)
    assert worse.reasons["forgetting"].startswith("NBT 0.2")  # a: 1 - (1 + 0) / 2; b: 0.5 - (0.9 + 0) / 2


def test_a_change_within_noise_is_not_promoted() -> None:
    rng = np.random.default_rng(1)
    noisy = replace(
        champion(), model_id="bbb", siblings=items(np.linspace(2, 4, 10) + rng.normal(0, 1.0, 10))
    )
    assert "no_improvement" in verdict(noisy).reasons


def test_an_infraction_the_champion_shares_is_not_new() -> None:
    old = replace(champion(), closed_loop=suite([80.0] * ROUTES, red_light=1.0))
    new = replace(better(), closed_loop=suite([80.0] * ROUTES, red_light=2.0))
    assert verdict(new, old).promote


def test_the_simulators_own_failures_count_against_coverage_not_score() -> None:
    cases = list(better().closed_loop.cases)
    cases[0] = replace(cases[0], status="infrastructure", score=0.0)
    made = verdict(replace(better(), closed_loop=replace(better().closed_loop, cases=tuple(cases))))
    assert "low_coverage" in made.reasons
    assert "score_regression" not in made.reasons


def test_slow_planning_only_warns() -> None:
    slow = tuple(replace(item, latency_ms=9.0) for item in better().held_out)
    slow_siblings = tuple(replace(item, latency_ms=9.0) for item in better().siblings)
    made = verdict(replace(better(), held_out=slow, siblings=slow_siblings))
    assert made.promote
    assert made.warnings


def test_bounds_come_from_the_config() -> None:
    assert verdict(one_new_collision(), new_safety_failures=1).promote
    assert "no_improvement" in verdict(better(), min_case_gain=0.5).reasons


def test_detectable_change_shrinks_with_the_number_of_cases() -> None:
    few, many = [1.0, -1.0] * 5, [1.0, -1.0] * 50
    assert minimum_detectable(many) < minimum_detectable(few)
    assert minimum_detectable([0.0] * 8) == 0.0
    assert math.isnan(minimum_detectable([1.0]))


def on_plain_routes(change: float) -> Verdict:
    """Half of the routes are plain; one of these changes by so many points."""
    kinds = {f"route{i:02d}": ("traffic", "Accident")[i % 2] for i in range(ROUTES)}
    scores = [80.0 + change * (i == 2) for i in range(ROUTES)]
    candidate = replace(better(), closed_loop=suite(scores), kinds=kinds)
    return verdict(candidate, replace(champion(), kinds=kinds), general_margin=1.0)


def test_plain_routes_may_not_get_worse_by_more_than_the_margin() -> None:
    made = on_plain_routes(-20.0)
    assert "general_regression" in made.reasons
    row = next(row for row in made.rows if "plain" in row.metric)
    assert (row.cases, row.verdict) == (ROUTES // 2, "fail")
    for change in (-1.0, 0.0, 20.0):
        assert "general_regression" not in on_plain_routes(change).reasons


def test_without_a_margin_plain_routes_are_only_shown() -> None:
    kinds = dict.fromkeys((f"route{i:02d}" for i in range(ROUTES)), "traffic")
    candidate = replace(better(), closed_loop=suite([79.0] * ROUTES), kinds=kinds)
    made = verdict(candidate, replace(champion(), kinds=kinds))
    assert "general_regression" not in made.reasons
    assert [row.verdict for row in made.rows if "plain" in row.metric] == ["info"]
    assert "missing_metric" in verdict(better(), general_margin=1.0).reasons


def test_an_advisory_gate_warns_and_promotes_all_but_what_cannot_be_compared() -> None:
    lost = replace(better(), closed_loop=suite([70.0] * ROUTES))
    made = verdict(lost, advisory=True)
    assert made.promote
    assert [w for w in made.warnings if w.startswith("score_regression: ")]
    assert not verdict(lost).promote
    assert list(verdict(champion(), advisory=True).reasons) == ["identical_weights"]
    assert list(verdict(REFUSALS["non_finite_metric"](), advisory=True).reasons) == ["non_finite_metric"]


def of_two_kinds(made: ModelEvidence, broken: str) -> ModelEvidence:
    """Kinds a and b in turn; routes of one kind end with a collision."""
    kinds = {f"route{i:02d}": "ab"[i % 2] for i in range(ROUTES)}
    cases = tuple(
        replace(c, terms={"collisions_vehicle": float(kinds[c.case_id] == broken)})
        for c in made.closed_loop.cases
    )
    units = {item.unit: kinds[f"route{i:02d}"] for i, item in enumerate(made.held_out)}
    result = replace(made.closed_loop, cases=cases)
    return replace(made, closed_loop=result, kinds=kinds, unit_kinds=units)


def test_only_kinds_that_the_fleet_has_met_are_judged() -> None:
    old, new = of_two_kinds(champion(), ""), of_two_kinds(better(), "b")
    assert "new_safety_failure" in verdict(new, old).reasons
    assert verdict(new, old, kinds=("a",)).promote  # type: ignore[arg-type]
    assert "new_safety_failure" in verdict(new, old, kinds=("a", "b")).reasons  # type: ignore[arg-type]
    assert not verdict(new, old, kinds=("c",)).promote  # type: ignore[arg-type]


def test_kinds_not_met_yet_cannot_be_forgotten() -> None:
    history = [("night", {"a": 1.0, "b": 1.0})]
    old, new = of_two_kinds(champion(), ""), of_two_kinds(better(), "")
    config = GateConfig(kinds=("a",))
    rows = {row.metric: row for row in decide(old, new, config, 0, history).rows}
    assert rows["forgetting over kinds of route (NBT)"].cases == 1


@pytest.mark.parametrize(("spread", "refused"), [(0.0, True), (3.0, False)])
def test_secondary_measures_are_not_decided_inside_the_noise(spread: float, refused: bool) -> None:
    """Found by a night whose open-loop error grew by 0.7 m [-0.3, +1.8]."""
    worse = [1.1 + spread * (-1) ** i for i in range(ROUTES)]
    steady = replace(better(), held_out=items(worse))
    assert ("open_loop_regression" in verdict(steady).reasons) == refused
    swings = [0.8 + spread / 10 * (-1) ** i for i in range(ROUTES)]
    held = tuple(
        replace(item, agreement=share) for item, share in zip(items([1.0] * ROUTES), swings, strict=True)
    )
    assert ("agreement_regression" in verdict(replace(better(), held_out=held)).reasons) == refused


def test_held_out_routes_driven_without_fault_are_an_improvement_too() -> None:
    old = replace(champion(), closed_loop=suite([80.0] * ROUTES, success=0.0))
    same = replace(old, model_id="bbb")
    assert "no_improvement" in verdict(same, old).reasons
    cases = [replace(c, terms={"success": float(i < 5)}) for i, c in enumerate(old.closed_loop.cases)]
    five = replace(same, closed_loop=replace(old.closed_loop, cases=tuple(cases)))
    assert verdict(five, old).promote
    four = replace(same, closed_loop=replace(old.closed_loop, cases=(*cases[:4], *old.closed_loop.cases[4:])))
    assert "no_improvement" in verdict(four, old).reasons


def test_a_few_windows_that_agree_are_no_improvement() -> None:
    """Found by reading: the interval of one window is a point."""
    old = replace(champion(), siblings=items([2.0] * 4))
    new = replace(better(), siblings=items([1.9] * 4))
    assert "no_improvement" in verdict(new, old).reasons
    old, new = replace(old, siblings=items([2.0] * 5)), replace(new, siblings=items([1.9] * 5))
    assert verdict(new, old).promote
