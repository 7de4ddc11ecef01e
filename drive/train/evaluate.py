"""Open-loop numbers: how far plans are from the expert's trajectory, and whether the command was right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from drive.contracts import F32, I64, Bool, DriveLog, Plan, Policy, UserError
from drive.data.batches import collate
from drive.data.observations import observation_at
from drive.data.samples import Samples
from drive.model.diffusion import sample
from drive.model.horizon import STRIDE
from drive.model.network import PlannerNetwork
from drive.progress import Progress
from drive.train.learner import encode
from drive.train.losses import inputs_of

_BATCH = 256
_PLAN_BATCH = 16


@dataclass(frozen=True)
class OpenLoopResult:
    """Per-sample open-loop numbers; failed plans stay in as NaN rows and `failed`.

    Attributes:
        case_id: "<log_id>/<plan_index>" per sample.
        ade_m, fde_m: float32 (N,), mean and final distance to the label over 4 s; NaN = failed.
        command_right: bool (N,), emitted command equals the label's (FOLLOW counts as CRUISE).
        split_brain: bool (N,).
        failed: bool (N,), no usable plan (fallback or not finite).
    """

    case_id: tuple[str, ...]
    ade_m: F32
    fde_m: F32
    command_right: Bool
    split_brain: Bool
    failed: Bool


def evaluate_open_loop(
    policy: Policy, log_root: Path | Sequence[Path], plan_indices: Mapping[str, Sequence[int]], seed: int = 0
) -> OpenLoopResult:
    """Plan at recorded planning steps and compare with their labels.

    Args:
        policy: Any policy.
        log_root: Where the drives lie.
        plan_indices: log_id -> planning steps; each needs a finite label.

    Raises:
        UserError: an unknown drive or step, or a step without label.
    """
    roots = [log_root] if isinstance(log_root, str | Path) else list(log_root)
    total = sum(len(set(steps)) for steps in plan_indices.values())
    parts: list[OpenLoopResult] = []
    with Progress("open loop", total, "plans") as bar:
        for log_id in sorted(plan_indices):
            log = _read(roots, log_id)
            steps = sorted(set(plan_indices[log_id]))
            for first in range(0, len(steps), _PLAN_BATCH):
                chunk = steps[first : first + _PLAN_BATCH]
                observations = [observation_at(log, step) for step in chunk]
                parts.append(_compare(log, chunk, policy.plan(observations, seed)))
                bar.advance(len(chunk))
    if not parts:
        raise UserError("open loop: no planning steps given; pick at least one")
    return OpenLoopResult(
        tuple(case for part in parts for case in part.case_id),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS),
    )


_COLUMNS = ("ade_m", "fde_m", "command_right", "split_brain", "failed")


def _read(roots: Sequence[Path], log_id: str) -> DriveLog:
    from drive.logs import list_drives, read_drive

    for root in roots:
        if any(meta.log_id == log_id for meta in list_drives(Path(root))):
            return read_drive(Path(root), log_id)
    raise UserError(f"{', '.join(map(str, roots))}: no drive {log_id!r}")


def _compare(log: DriveLog, steps: Sequence[int], plans: Sequence[Plan]) -> OpenLoopResult:
    label = log.plans.label_ego[steps]
    if not np.isfinite(label).all():
        raise UserError(f"{log.meta.log_id}: a planning step asked for has no label; leave it out")
    pose = np.stack([plan.best.pose_ego for plan in plans])
    failed = np.array(["fallback" in plan.flags for plan in plans]) | ~np.isfinite(pose).all((1, 2))
    distance = np.hypot(*np.moveaxis(pose[..., :2] - label[..., :2], -1, 0))
    distance[failed] = np.nan
    emitted = [(int(p.command.lateral), int(p.command.longitudinal)) if p.command else (-1, -1) for p in plans]
    return OpenLoopResult(
        tuple(f"{log.meta.log_id}/{step}" for step in steps),
        distance.mean(1).astype(np.float32),
        distance[:, -1].astype(np.float32),
        (_merged(np.array(emitted)) == _merged(log.plans.label_command[steps])).all(1),
        np.array(["split_brain" in plan.flags for plan in plans]),
        failed,
    )


def _merged(command: I64) -> I64:
    """Commands with FOLLOW written as CRUISE."""
    from drive.contracts import Longitudinal

    out = np.array(command, np.int64)
    out[:, 1] = np.where(out[:, 1] == Longitudinal.FOLLOW, Longitudinal.CRUISE, out[:, 1])
    return out


def evaluate_samples(network: PlannerNetwork, samples: Samples, rows: I64) -> dict[str, float]:
    """Means over samples: distances of the chosen, the intended and the best proposal [m], and shares of right answers.

    Empty if there are no rows.
    """
    parts = [_measure(network, samples, rows[first : first + _BATCH]) for first in range(0, len(rows), _BATCH)]
    if not parts:
        return {}
    return {name: float(np.concatenate([part[name] for part in parts]).mean()) for name in parts[0]}


@torch.inference_mode()
def _measure(network: PlannerNetwork, samples: Samples, rows: I64) -> dict[str, F32]:
    batch = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in collate(samples, rows).items()}
    scene = encode(network, inputs_of(batch), "fp32")
    command = torch.stack([scene.lateral.argmax(1), scene.longitudinal.argmax(1)], 1)
    noise = np.random.default_rng(0).standard_normal((len(rows), 1 + len(network.anchors), 2 * 8), np.float32)
    proposals = sample(network, scene, command, batch["true_speed_mps"], torch.from_numpy(noise))
    label = batch["label_ego"][:, STRIDE - 1 :: STRIDE, :2]
    ade = (proposals.knots_ego - label[:, None]).norm(dim=-1).mean(-1)
    chosen = proposals.scores.argmax(1, keepdim=True)
    known = batch["light"] >= 0
    right = {
        "lateral": command[:, 0] == batch["command"][:, 0],
        "longitudinal": command[:, 1] == batch["command"][:, 1],
        "light": (scene.light.argmax(1) == batch["light"]) | ~known,
        "obeyed": proposals.obeys.gather(1, chosen)[:, 0],
    }
    numbers = {"ade_m": ade.gather(1, chosen)[:, 0], "ade_intent_m": ade[:, 0], "ade_best_m": ade.amin(1)}
    return {name: value.float().numpy() for name, value in (numbers | right).items()}
