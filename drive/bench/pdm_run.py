"""PDMS and EPDMS of a policy over recorded drives, beside blind floors and what was really driven."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from drive.bench.floors import ConstantVelocity, GoStraight
from drive.bench.pdm import (
    EXCUSED,
    PdmTerms,
    drivable,
    drive_proposals,
    epdms,
    excuse,
    failed_too,
    pdms,
    score_scenes,
)
from drive.bench.pdm_scene import PdmScene, scene_of, start_of
from drive.bench.result import EvalTable, Metric, cluster_sums, versions
from drive.contracts import DT_S, F64, STEPS, DriveLog, Plan, Policy, Turn, UserError
from drive.data.observations import observation_at
from drive.logs.reader import list_drives, read_drive
from drive.progress import Progress
from drive.score.bootstrap import crossed_interval

SEED = 0
BEFORE = 2  # planning steps between two plans whose comfort is compared
HUMAN, RECORDED = "recorded drive", "recorded plan"
BATCH = 8
TERMS = tuple(f.name for f in fields(PdmTerms) if f.name != "progress_m")
SCORES = ("epdms", "epdms_unfiltered", "pdms", *TERMS)
PROTOCOL = (
    "non-reactive simulation, 4 s at 10 Hz, bicycle tracked by LQR; recorded road users; NC DAC DDC TLC "
    "gates, EP TTC LK HC EC weighted 5 5 2 2 2 (EPDMS; terms but HC and EC that the recorded driver fails "
    "are excused; without a plan before EC is left out), NC DAC, TTC EP C weighted 5 5 2 (PDMS); a failed "
    "plan scores 0"
)


@dataclass(frozen=True)
class PdmRow:
    """One policy: planned and failed plans, and the mean of each score."""

    policy: str
    planned: int
    failed: int
    means: Mapping[str, Metric]


@dataclass(frozen=True)
class PdmReport:
    """A policy, the floors and what was recorded, on the planning steps of some drives.

    Attributes:
        drives: Log ids.
        simulator: Where the drives come from, e.g. "light simulator".
        left_out: Planning steps that less than 4 s follow.
        without_map: Log ids of drives without a map: there DAC, DDC, TLC and LK find no fault.
        rows: The policy first.
        columns: Policy -> case_id, cluster (drive), group (turn), failed, and all scores per case.
    """

    drives: tuple[str, ...]
    simulator: str
    left_out: int
    without_map: tuple[str, ...]
    rows: tuple[PdmRow, ...]
    columns: Mapping[str, Mapping[str, Any]]


def bench_pdm(root: Path, policy: Policy | None, every: int = 5, limit: int | None = None) -> PdmReport:
    """Score a policy's plans at every `every`-th planning step of recorded drives.

    Args:
        root: Folder of drive logs.
        policy: None scores the plans that were recorded.
        every: Stride in planning steps.
        limit: Number of drives.

    Raises:
        UserError: No drives, none with planning steps that 4 s follow, or another simulator per drive.
    """
    metas = list_drives(root)[:limit]
    if not metas:
        raise UserError(f"{root}: no drive logs there; record some with `drive sim`")
    kinds = sorted({meta.simulator for meta in metas})
    if len(kinds) > 1:
        raise UserError(f"{root}: drives of different origin ({', '.join(kinds)}); score them apart")
    floors: list[Policy] = [ConstantVelocity(), GoStraight()]
    planners = {p.name: p for p in [*([policy] if policy else []), *floors]}
    names = [*([] if policy else [RECORDED]), *planners, *([RECORDED] if policy else []), HUMAN]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    left_out, without_map = 0, []
    with Progress("pdm", len(metas), "drives") as bar:
        for meta in metas:
            log = read_drive(root, meta.log_id, images=bool(policy and policy.needs_images))
            steps, short = _steps(log, every)
            left_out += short
            without_map += [meta.log_id] if log.road is None else []
            _score_drive(log, steps, planners, found)
            bar.advance(1, meta.log_id)
    if not found[HUMAN]:
        raise UserError(f"{root}: no planning step that 4 s of the drive follow; record longer drives")
    columns = {name: _columns(rows) for name, rows in found.items()}
    rows = tuple(_row(name, one) for name, one in columns.items())
    return PdmReport(tuple(m.log_id for m in metas), kinds[0], left_out, tuple(without_map), rows, columns)


def _steps(log: DriveLog, every: int) -> tuple[list[int], int]:
    left_s = (log.ego.t_us[-1] - log.ego.t_us[log.plans.step]) * 1e-6
    asked = np.arange(0, len(log.plans.step), every)
    fits = left_s[asked] >= STEPS * DT_S - 1e-6
    return [int(i) for i in asked[fits]], int((~fits).sum())


def _score_drive(
    log: DriveLog,
    steps: Sequence[int],
    planners: Mapping[str, Policy],
    found: dict[str, list[dict[str, Any]]],
) -> None:
    scenes = [scene_of(log, i) for i in steps]
    if not scenes:
        return
    wanted = sorted({j for i in steps for j in (i, i - BEFORE) if j >= 0})
    humans = score_scenes(scenes, [_human(scene)[None] for scene in scenes])
    sources: dict[str, Callable[[int], F64]] = {
        name: _plans(log, wanted, one) for name, one in planners.items()
    }
    sources[RECORDED] = lambda i: log.plans.plan_ego[i].astype(np.float64)
    for name in found:
        if name == HUMAN:
            for scene, terms, i in zip(scenes, humans, steps, strict=True):
                found[name].append(_case(log, scene, i, terms, terms, False))
            continue
        source = sources[name]
        proposals = [source(i)[None] for i in steps]
        before = _driven_before(log, steps, source)
        shift = _shift(log, steps)
        scored = [
            score_scenes([scene], [one], [last], gap)[0]
            for scene, one, last, gap in zip(scenes, proposals, before, shift, strict=True)
        ]
        for scene, one, terms, human, i in zip(scenes, proposals, scored, humans, steps, strict=True):
            found[name].append(_case(log, scene, i, terms, human, not drivable(one).all()))


def _human(scene: PdmScene) -> F64:
    assert scene.human is not None
    return scene.human


def _plans(log: DriveLog, wanted: Sequence[int], policy: Policy) -> Callable[[int], F64]:
    """Plans float64 (40, 3) at planning steps; NaN where there is none or the policy replaced it."""
    plans: dict[int, F64] = {}
    for first in range(0, len(wanted), BATCH):
        batch = wanted[first : first + BATCH]
        got: list[Plan] = policy.plan([observation_at(log, i) for i in batch], seed=0)
        for i, plan in zip(batch, [*got, *[None] * (len(batch) - len(got))], strict=True):
            plans[i] = _usable(plan)
    return lambda i: plans[i]


def _usable(plan: Plan | None) -> F64:
    nothing = np.full((STEPS, 3), np.nan)
    if plan is None or "fallback" in plan.flags or plan.best.pose_ego.shape != (STEPS, 3):
        return nothing
    return plan.best.pose_ego.astype(np.float64)


def _driven_before(log: DriveLog, steps: Sequence[int], source: Callable[[int], F64]) -> list[Any]:
    earlier = [i - BEFORE for i in steps if i >= BEFORE]
    usable = [j for j in earlier if drivable(source(j)[None])[0]]
    if not usable:
        return [None] * len(steps)
    driven = drive_proposals([start_of(log, j) for j in usable], [source(j)[None] for j in usable])
    by_step = dict(zip(usable, driven, strict=True))
    return [by_step.get(i - BEFORE) for i in steps]


def _shift(log: DriveLog, steps: Sequence[int]) -> list[int]:
    t_s = log.ego.t_us[log.plans.step] * 1e-6
    return [round((t_s[i] - t_s[max(0, i - BEFORE)]) / DT_S) for i in steps]


def _case(
    log: DriveLog, scene: PdmScene, step: int, terms: PdmTerms, human: PdmTerms, failed: bool
) -> dict[str, Any]:
    filtered = excuse(terms, human)
    zero = 0.0 if failed else 1.0
    return {
        "case_id": scene.case_id,
        "cluster": log.meta.log_id,
        "group": Turn(int(log.plans.turn[step])).name.lower(),
        "status": "failed" if failed else "ok",
        "epdms": zero * float(epdms(filtered)[0]),
        "epdms_unfiltered": float(epdms(terms)[0]),
        "pdms": float(pdms(terms)[0]),
        **{name: float(getattr(terms, name)[0]) for name in TERMS},
        **{f"excused_{name}": name in failed_too(human) for name in EXCUSED},
        "progress_m": float(terms.progress_m[0]),
    }


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _row(name: str, columns: Mapping[str, Any]) -> PdmRow:
    means = {}
    for score in SCORES:
        total, count = cluster_sums(columns[score], list(columns["cluster"]))
        if count.sum():
            interval = crossed_interval(total, count, SEED, 2000)
            means[score] = Metric(score, "higher", 0.0, interval, int(count.sum()))
    failed = int((columns["status"] == "failed").sum())
    return PdmRow(name, len(columns["case_id"]), failed, means)


def pdm_table(report: PdmReport, every: int) -> EvalTable:
    """Result of `drive bench pdm` for its first row; cases are planning steps, drives their clusters."""
    from drive.bench.cases import token_hash

    row = report.rows[0]
    columns = report.columns[row.policy]
    return EvalTable(
        kind="pdm",
        suite=f"planning steps {token_hash(list(columns['case_id']))} of {len(report.drives)} drives",
        protocol=f"{report.simulator}; {PROTOCOL}",
        model=row.policy,
        planned=row.planned,
        run=row.planned - row.failed,
        failed=row.failed,
        seeds=(SEED,),
        versions=versions(),
        facts={"every": str(every)},
        metrics=tuple(row.means.values()),
        columns={k: list(columns[k]) for k in ("case_id", "status", "cluster", "group")}
        | {name: columns[name] for name in row.means},
    )
