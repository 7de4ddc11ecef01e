"""What the gate looks at: one model on the held-out suite and on recorded planning steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from data_engine.kinds import GENERAL
from drive.contracts import CaseScore, EvalResult

SAFETY_PREFIXES = ("collisions", "red_light", "outside_route_lanes")


@dataclass(frozen=True)
class OpenLoopItem:
    """One model on one unit (a case window, or the steps of a held-out drive).

    Attributes:
        unit: Pairs the two models; whole windows or drives, because neighbouring steps are not independent.
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
    """Everything the gate knows about one model.

    Attributes:
        model_id: Weights' id.
        closed_loop: Held-out suite.
        siblings: Open loop on mined windows of routes that were kept apart.
        held_out: Open loop on held-out drives.
        fixes: Closed loop on tonight's routes that were kept apart; None = there were none.
        kinds: Route id -> kind of route, of the held-out suite.
        unit_kinds: Unit of `held_out` -> kind of its route.
        retest: case_id -> error on the window of a case of tonight or of the case store.
    """

    model_id: str
    closed_loop: EvalResult
    siblings: tuple[OpenLoopItem, ...]
    held_out: tuple[OpenLoopItem, ...]
    fixes: EvalResult | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    unit_kinds: Mapping[str, str] = field(default_factory=dict)
    retest: Mapping[str, float] = field(default_factory=dict)


def evidence_from_json(value: Mapping[str, Any]) -> ModelEvidence:
    """Read back what `drive.files.write_json` wrote."""
    fixes = value.get("fixes")
    return ModelEvidence(
        model_id=value["model_id"],
        closed_loop=result_from_json(value["closed_loop"]),
        siblings=tuple(OpenLoopItem(**item) for item in value["siblings"]),
        held_out=tuple(OpenLoopItem(**item) for item in value["held_out"]),
        fixes=None if fixes is None else result_from_json(fixes),
        kinds=dict(value.get("kinds", {})),
        unit_kinds=dict(value.get("unit_kinds", {})),
        retest=dict(value.get("retest", {})),
    )


def result_from_json(value: Mapping[str, Any]) -> EvalResult:
    """Read back an EvalResult."""
    result = dict(value)
    cases = tuple(CaseScore(**case) for case in result.pop("cases"))
    return EvalResult(cases=cases, **result)


def of_kinds(evidence: ModelEvidence, kinds: Sequence[str] | None) -> ModelEvidence:
    """What the evidence says about routes of some kinds of the held-out suite; None = all of it."""
    if kinds is None:
        return evidence
    routes = {route for route, kind in evidence.kinds.items() if kind in kinds}
    cases = tuple(case for case in evidence.closed_loop.cases if case.case_id in routes)
    units = evidence.unit_kinds
    return replace(
        evidence,
        closed_loop=replace(evidence.closed_loop, planned=len(routes), cases=cases),
        held_out=tuple(item for item in evidence.held_out if units.get(item.unit) in kinds),
        kinds={route: kind for route, kind in evidence.kinds.items() if kind in kinds},
    )


def safety_failures(case: CaseScore) -> tuple[str, ...]:
    """Safety-class infractions of a route, e.g. ("collisions_vehicle",)."""
    return tuple(sorted(k for k, v in case.terms.items() if k.startswith(SAFETY_PREFIXES) and v > 0))


def usable_cases(result: EvalResult) -> dict[str, CaseScore]:
    """Cases that the simulator did not spoil, by id."""
    return {c.case_id: c for c in result.cases if c.status != "infrastructure"}


def paired_cases(a: EvalResult, b: EvalResult) -> list[tuple[CaseScore, CaseScore]]:
    """Usable cases that both results hold, in case_id order."""
    first, second = usable_cases(a), usable_cases(b)
    return [(first[key], second[key]) for key in sorted(first.keys() & second.keys())]


def plain_scores(a: ModelEvidence, b: ModelEvidence) -> tuple[list[float], list[float]]:
    """Driving scores of both models on plain routes, where nothing is staged; a failed drive counts 0."""
    pairs = paired_cases(a.closed_loop, b.closed_loop)
    plain = [pair for pair in pairs if a.kinds.get(pair[0].case_id) in GENERAL]
    first, second = ([p[k].score if p[k].status == "ok" else 0.0 for p in plain] for k in (0, 1))
    return first, second
