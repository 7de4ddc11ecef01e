"""Open-loop error of a policy on recorded planning steps: what would it plan from this state?"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from data_engine.descriptor import label_commands
from data_engine.evidence import OpenLoopItem
from data_engine.pool import WELL_M, Step, apart_m, moments
from data_engine.rules import REAL
from data_engine.store import DriveRef
from drive.contracts import DT_S, F32, DriveLog, Plan, PlanSteps, Policy
from drive.data.observations import observation_at
from drive.geometry.commands import agree
from drive.progress import Progress

BATCH = 8
MANY = 32
FAILED_M = 20.0


@dataclass(frozen=True)
class Unit:
    """Planning steps of one drive that are scored together (a case window, or a drive)."""

    unit: str
    log_id: str
    plan_indices: tuple[int, ...]


def score_units(
    policy: Policy, units: Sequence[Unit], drives: Mapping[str, DriveRef], seed: int, label: str
) -> tuple[OpenLoopItem, ...]:
    """Score a policy on recorded planning steps; units in the given order, each drive loaded once.

    A plan that is not finite, too short or missing counts FAILED_M metres.
    """
    steps = {(u.log_id, i) for u in units for i in u.plan_indices}
    found: dict[tuple[str, int], tuple[float, ...]] = {}
    with Progress(label, len(steps), "steps") as bar:
        for log_id in sorted({u.log_id for u in units}):
            log = drives[log_id].read(images=policy.needs_images)
            wanted = sorted(i for other, i in steps if other == log_id)
            for k in range(0, len(wanted), BATCH):
                batch = wanted[k : k + BATCH]
                for i, numbers in zip(batch, _score_batch(policy, log, batch, seed), strict=True):
                    found[log_id, i] = numbers
                bar.advance(len(batch), policy.name)
    return tuple(_item(u, [found[u.log_id, i] for i in u.plan_indices]) for u in units)


def shadow_plans(policy: Policy, log: DriveLog, seed: int) -> PlanSteps:
    """Planning steps of a log with what the policy would have planned there."""
    plans = log.plans
    pose, command = np.full_like(plans.plan_ego, np.nan), np.full_like(plans.command, -1)
    split, sure = np.zeros_like(plans.split_brain), np.full_like(plans.confidence, np.nan)
    for k in range(0, len(plans.step), BATCH):
        batch = range(k, min(k + BATCH, len(plans.step)))
        made = policy.plan([observation_at(log, i) for i in batch], seed)
        for i, plan in zip(batch, made, strict=True):
            if plan.best.pose_ego.shape == pose[i].shape:
                pose[i] = plan.best.pose_ego
            if plan.command is not None:
                command[i] = int(plan.command.lateral), int(plan.command.longitudinal)
                sure[i] = plan.command.confidence
            split[i] = "split_brain" in plan.flags
    return replace(plans, plan_ego=pose, command=command, split_brain=split, confidence=sure)


def with_shadow(
    drives: Sequence[DriveRef], champion: Callable[[], Policy] | None, seed: int
) -> Iterator[tuple[DriveLog, str]]:
    """Drives one by one with "", real logs with the champion's plans, or with why it could not plan there.

    Args:
        drives: To mine.
        champion: Loads the policy, which happens once and only if there is a real log; None = no plans.
        seed: Of the plans.
    """
    policy: Policy | None = None
    for ref in drives:
        if champion is None or ref.meta.simulator != REAL:
            yield ref.read(), ""
            continue
        policy = policy or champion()
        log = ref.read(images=True)
        if policy.needs_images and not log.plans.images:
            yield log, "camera policy, log has no images"
        else:
            yield replace(log, plans=shadow_plans(policy, log, seed)), ""


def done_otherwise(policy: Policy, refs: Sequence[DriveRef], seed: int) -> dict[Step, float]:
    """Moments of demonstrations at which the policy would do something else, and how far off that is [m].

    Only these say something new; of a demonstration most is ordinary driving.
    """
    found: dict[Step, float] = {}
    with Progress("demonstrations", len(refs), "drives") as bar:
        for ref in refs:
            log = ref.read(images=policy.needs_images)
            usable = moments(log) & np.isfinite(log.plans.label_ego).all((1, 2))
            rows = np.flatnonzero(usable).tolist()
            for k in range(0, len(rows), MANY):
                batch = rows[k : k + MANY]
                plans = policy.plan([observation_at(log, i) for i in batch], seed)
                for i, plan in zip(batch, plans, strict=True):
                    off_m = apart_m(plan.best.pose_ego, log.plans.label_ego[i])
                    if not off_m <= WELL_M:
                        found[ref.meta.log_id, i] = min(off_m, FAILED_M) if math.isfinite(off_m) else FAILED_M
            bar.advance(1, ref.meta.log_id)
    return found


def _score_batch(policy: Policy, log: DriveLog, batch: Sequence[int], seed: int) -> list[tuple[float, ...]]:
    observations = [observation_at(log, i) for i in batch]
    start = time.perf_counter()
    plans = policy.plan(observations, seed)
    each_ms = 1e3 * (time.perf_counter() - start) / len(batch)
    wanted = label_commands(log)
    return [
        (*_errors(plan, log.plans.label_ego[i], observation.speed_mps, wanted[i]), each_ms)
        for plan, i, observation in zip(plans, batch, observations, strict=True)
    ]


def _errors(plan: Plan, label_ego: F32, speed_mps: float, label_command: Sequence[int]) -> tuple[float, ...]:
    """(ade_m, fde_m, agreement, command accuracy, failed) of one plan."""
    pose = plan.best.pose_ego
    if pose.shape != label_ego.shape or not np.isfinite(pose).all() or abs(plan.best.dt_s - DT_S) > 1e-6:
        return FAILED_M, FAILED_M, 0.0, 0.0, 1.0
    gap = np.minimum(np.linalg.norm(pose[:, :2].astype(np.float64) - label_ego[:, :2], axis=-1), FAILED_M)
    if plan.command is None:
        return float(gap.mean()), float(gap[-1]), math.nan, math.nan, 0.0
    said = np.array([int(plan.command.lateral), int(plan.command.longitudinal)])
    agrees = float(bool(agree(said, pose, speed_mps)))
    return float(gap.mean()), float(gap[-1]), agrees, float(np.array_equal(said, label_command)), 0.0


def _item(unit: Unit, numbers: Sequence[tuple[float, ...]]) -> OpenLoopItem:
    table = np.array(numbers, np.float64)
    means = table.mean(0)
    return OpenLoopItem(
        unit=unit.unit,
        ade_m=float(means[0]),
        fde_m=float(means[1]),
        agreement=float(means[2]),
        command_accuracy=float(means[3]),
        latency_ms=float(np.median(table[:, 5])),
        steps=len(table),
        failed=int(table[:, 4].sum()),
    )
