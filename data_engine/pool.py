"""Planning steps that may be trained on: which moments say something, and which are taken."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from data_engine.descriptor import cosine, describe, scenario
from data_engine.hygiene import record, spoilt_steps
from data_engine.store import DriveRef
from drive.contracts import F32, GATES, Bool, DriveLog
from drive.geometry.se2 import to_local
from drive.logs import find_faults
from drive.score.scene import freeze_log
from drive.score.terms import reward_terms

Step = tuple[str, int]
MOVED_M, LED_M, STOOD_US = 0.3, 1.0, 2_000_000
WELL_M, UNTRUE_M = 1.0, 2.0


@dataclass
class Pool:
    """Labelled planning steps that may be trained on, in a fixed order."""

    steps: list[Step] = field(default_factory=list)
    scenarios: list[str] = field(default_factory=list)
    descriptors: list[F32] = field(default_factory=list)
    index: dict[Step, int] = field(default_factory=dict)

    def add(self, log: DriveLog, faults: Sequence[Mapping[str, Any]]) -> None:
        """Add the moments of a drive that have a label and that no fault touches."""
        seen = [record(fault, log.meta.log_id) for fault in find_faults(log)]
        finite = np.isfinite(log.plans.label_ego).all((1, 2)) & ~spoilt_steps(log, [*faults, *seen])
        finite &= moments(log)
        rows = zip(describe(log), scenario(log), finite, strict=True)
        for i, (descriptor, name, ok) in enumerate(rows):
            if not ok:
                continue
            self.index[log.meta.log_id, i] = len(self.steps)
            self.steps.append((log.meta.log_id, i))
            self.descriptors.append(descriptor)
            self.scenarios.append(name)


def moments(log: DriveLog) -> Bool:
    """Planning steps that differ from the last such step: bool (D,).

    The ego has moved, the label leads elsewhere, or some time has passed. A vehicle that is stuck for a
    minute would otherwise fill the training set with one picture.
    """
    plans, t_us = log.plans, log.ego.t_us[log.plans.step]
    xy_m, ends_m = log.ego.pose_world[plans.step, :2], plans.label_ego[:, -1, :2]
    kept = np.zeros(len(t_us), bool)
    last = -1
    for i in range(len(t_us)):
        if last >= 0:
            moved = math.dist(xy_m[i], xy_m[last]) > MOVED_M or math.dist(ends_m[i], ends_m[last]) > LED_M
            if not moved and t_us[i] - t_us[last] < STOOD_US:
                continue
        kept[i], last = True, i
    return kept


def does_well(log: DriveLog, plan_index: int) -> bool:
    """Is what the planner wanted near the label?  True where a recording has no plan or no label.

    Replay holds the network to what the champion does; a champion that stands before an obstacle must not be
    held to that.
    """
    return not apart_m(log.plans.plan_ego[plan_index], log.plans.label_ego[plan_index]) > WELL_M


def teaches(log: DriveLog) -> bool:
    """Are the labels what the drive then did?  Of a teacher's own drive they have to be.

    In the expert's undisturbed drives they lie a third of a metre from it (median); UNTRUE_M is far more.
    """
    plans, pose = log.plans, log.ego.pose_world
    found = []
    for step, label in zip(plans.step.tolist(), plans.label_ego, strict=True):
        then = to_local(pose[step + 1 : step + 1 + len(label)], pose[step])[:, :2]
        if len(then) * 2 >= len(label):
            found.append(float(np.hypot(*(then - label[: len(then), :2]).T).mean()))
    known = [gap_m for gap_m in found if math.isfinite(gap_m)]
    return bool(known) and bool(np.median(known) <= UNTRUE_M)


def apart_m(plan_ego: F32, label_ego: F32) -> float:
    """Mean distance [m] of two trajectories (40, 3); NaN where one is not known, inf for another length."""
    if plan_ego.shape != label_ego.shape:
        return math.inf
    return float(np.hypot(*(plan_ego[:, :2] - label_ego[:, :2]).T).mean())


def label_passes(log: DriveLog, plan_index: int) -> bool:
    """Does the label at a planning step pass every gate in the recorded scene?"""
    label = log.plans.label_ego[plan_index]
    if not np.isfinite(label).all():
        return False
    terms = reward_terms(label[None], freeze_log(log, plan_index))
    return all(float(getattr(terms, gate).min()) > 0 for gate in GATES)


class LabelCheck:
    """Gate check of labels that keeps the drive of the last question loaded."""

    def __init__(self, refs: Mapping[str, DriveRef]) -> None:
        self._refs = refs
        self._logs: dict[str, DriveLog] = {}

    def __call__(self, step: Step) -> bool:
        """Does the label pass the gates?"""
        log_id, plan_index = step
        if log_id not in self._logs:
            self._logs[log_id] = self._refs[log_id].read()
        return label_passes(self._logs[log_id], plan_index)

    def well(self, step: Step) -> bool:
        """And the planner wanted much the same."""
        return self(step) and does_well(self._logs[step[0]], step[1])


def take(
    order: Sequence[int], pool: Pool, taken: set[int], passes: Callable[[Step], bool], wanted: int
) -> list[Step]:
    """The first `wanted` steps in `order` that are free and whose label passes the gates."""
    out: list[Step] = []
    for i in order:
        if len(out) >= wanted:
            break
        if i not in taken and passes(pool.steps[i]):
            taken.add(i)
            out.append(pool.steps[i])
    return out


def by_similarity(pool: Pool, bad: set[int]) -> list[int]:
    """All steps, most similar to any bad-case step first; ties in pool order."""
    if not bad:
        return []
    rows = np.stack(pool.descriptors)
    best = cosine(rows, rows[sorted(bad)]).max(-1)
    return [int(i) for i in np.argsort(-best, kind="stable")]


def stratified(pool: Pool, seed: int) -> list[int]:
    """All steps in an order that takes one of each scenario in turn, drawn at random within a scenario."""
    rng = np.random.default_rng(seed)
    turns: list[tuple[int, str, int]] = []
    for name in sorted(set(pool.scenarios)):
        members = [i for i, s in enumerate(pool.scenarios) if s == name]
        turns += [(turn, name, i) for turn, i in enumerate(rng.permutation(members).tolist())]
    return [i for _, _, i in sorted(turns)]
