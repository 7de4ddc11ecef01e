"""Which part of the driver most likely caused a bad case: a short list of questions, asked in order.

The answers come from the log alone, so they are suspicions for sorting cases, not proofs.
"""

import numpy as np

from data_engine.rules.moments import Finding
from drive.contracts import DT_S, BadCase, DriveLog
from drive.contracts.engine import Cause
from drive.geometry.commands import agree
from drive.geometry.se2 import to_local
from drive.score.scene import RED

BEFORE_S = 1.0  # the plan that led here was made about this long before
STANDS_MPS = 0.2
STRAY_M, STRAY_S = 1.0, 1.0
PLAN_OFF_M = 2.0
SWERVE_MPS, SWERVE_RAD = 2.0, 0.35
NEAR_M = 15.0

_ALWAYS: dict[str, Cause] = {
    "intent": "command",
    "split_brain": "trajectory",
    "jerk": "control",
    "low_confidence": "command",
    "novelty": "perception",
}


def root_cause(log: DriveLog, kind: str, finding: Finding) -> Cause:
    """Likely cause of a moment.

    In order: the kind itself tells (intent: command; split brain: trajectory; jerk: control); the ego stood
    when it was hit (simulator); the command was another one than the driver's (command); the car was not
    where its plan said (control); a red light was there to be seen (perception); a road user nearby changed
    its motion within 2 s (prediction); the plan was off although the command was right (trajectory). Else
    unknown.
    """
    if kind in _ALWAYS:
        return _ALWAYS[kind]
    row = int(np.clip(np.searchsorted(log.ego.t_us, finding.start_us), 0, len(log.ego.t_us) - 1))
    if kind == "collision" and abs(float(log.ego.speed_mps[row])) < STANDS_MPS:
        return "simulator"
    at = _plan_before(log, finding.start_us)
    if at < 0:
        return "unknown"
    if _other_command(log, at):
        return "command"
    if _strays(log, at):
        return "control"
    if kind == "red_light" or log.plans.aux[at, 0] == RED:
        return "perception"
    if kind in ("collision", "near_miss", "hard_brake") and _somebody_swerves(log, row):
        return "prediction"
    gap = np.linalg.norm(log.plans.plan_ego[at, :30, :2] - log.plans.label_ego[at, :30, :2], axis=-1)
    return "trajectory" if np.nan_to_num(gap).mean() > PLAN_OFF_M else "unknown"


def _plan_before(log: DriveLog, t_us: int) -> int:
    """Planning step that was driven a second before `t_us`; -1 if nothing was planned."""
    times = log.ego.t_us[log.plans.step]
    known = np.flatnonzero((times <= t_us - BEFORE_S * 1e6) & np.isfinite(log.plans.plan_ego).all((1, 2)))
    return int(known[-1]) if len(known) else -1


def _other_command(log: DriveLog, at: int) -> bool:
    """Was a command emitted that the driver's own trajectory does not carry out?"""
    said, label = log.plans.command[at], log.plans.label_ego[at]
    if (said < 0).any() or not np.isfinite(label).all():
        return False
    return not bool(agree(said, label, log.ego.speed_mps[log.plans.step[at]]))


def _strays(log: DriveLog, at: int) -> bool:
    """Is the car, a second later, somewhere else than its plan said?"""
    first = int(log.plans.step[at])
    later = int(np.searchsorted(log.ego.t_us, log.ego.t_us[first] + STRAY_S * 1e6))
    if log.meta.driver == "human" or later >= len(log.ego.t_us):
        return False
    seconds = (log.ego.t_us[later] - log.ego.t_us[first]) * 1e-6
    wanted = log.plans.plan_ego[at, min(round(seconds / DT_S), log.plans.plan_ego.shape[1]) - 1, :2]
    went = to_local(log.ego.pose_world[later : later + 1], log.ego.pose_world[first])[0, :2]
    return bool(np.hypot(*(went - wanted)) > STRAY_M)


def _somebody_swerves(log: DriveLog, row: int) -> bool:
    """Did a road user near the ego change speed or heading within the 2 s before?"""
    agents = log.agents
    earlier = int(np.searchsorted(log.ego.t_us, log.ego.t_us[row] - 2_000_000))
    if not len(agents.ids) or earlier >= row:
        return False
    gap = np.hypot(*(agents.pose_world[:, row, :2] - log.ego.pose_world[row, :2]).T)
    near = agents.valid[:, row] & agents.valid[:, earlier] & (gap < NEAR_M)
    faster = np.abs(agents.speed_mps[:, row] - agents.speed_mps[:, earlier]) > SWERVE_MPS
    turn = agents.pose_world[:, row, 2] - agents.pose_world[:, earlier, 2]
    turned = np.abs((turn + np.pi) % (2 * np.pi) - np.pi) > SWERVE_RAD
    return bool((near & (faster | turned)).any())


def by_cause(cases: tuple[BadCase, ...]) -> dict[str, int]:
    """Number of cases per cause, most first."""
    names = [case.cause for case in cases]
    return {name: names.count(name) for name in sorted(set(names), key=lambda n: (-names.count(n), n))}
