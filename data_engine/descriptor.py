"""Hand-made description of the scene at a planning step, for deduplication and neighbour search."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from drive.contracts import F32, F64, DriveLog, Lateral, Longitudinal, Turn
from drive.geometry.commands import classify
from drive.geometry.se2 import to_local

SECTORS = 8
NEAR_M = 40.0
LIGHTS = 4


def describe(log: DriveLog) -> F32:
    """Scene descriptors of every planning step of a drive.

    Ego motion and curvature, where the label leads, the command it carries out, the route instruction, the
    traffic light, and the agents around the ego as nearness in eight sectors plus the closing speed ahead.

    Returns:
        float32 (D, 36), each group scaled to order 1; unknown values are 0.
    """
    plans, ego = log.plans, log.ego
    step = plans.step
    if not len(step):
        return np.zeros((0, descriptor_size()), np.float32)
    speed = ego.speed_mps[step].astype(np.float64)
    curvature_1pm = ego.yaw_rate_radps[step] / np.maximum(speed, 1.0)
    motion = np.stack([speed / 10, ego.accel_mps2[step] / 3, curvature_1pm * 10], -1)
    label = np.nan_to_num(plans.label_ego[:, -1].astype(np.float64)) / [20.0, 5.0, 0.5]
    command = label_commands(log)
    groups = [
        motion,
        np.clip(label, -3, 3),
        0.5 * _one_hot(command[:, 0], len(Lateral)),
        0.5 * _one_hot(command[:, 1], len(Longitudinal)),
        0.5 * _one_hot(plans.turn, len(Turn)),
        0.5 * _one_hot(np.nan_to_num(plans.aux[:, 0], nan=3).astype(int), LIGHTS),
        np.stack([_surroundings(log, int(t)) for t in step]),
    ]
    rows: F32 = np.nan_to_num(np.concatenate(groups, -1)).astype(np.float32)
    return rows


def descriptor_size() -> int:
    """Length of one descriptor."""
    return 3 + 3 + len(Lateral) + len(Longitudinal) + len(Turn) + LIGHTS + SECTORS + 1


def label_commands(log: DriveLog) -> Any:
    """Command of the label at each planning step, int32 (D, 2): recorded, else classified from the label."""
    known = log.plans.label_command
    speed = log.ego.speed_mps[log.plans.step]
    derived = classify(np.nan_to_num(log.plans.label_ego), speed) if len(known) else known
    return np.where(known >= 0, known, derived)


def cosine(a: Any, b: Any) -> F64:
    """Cosine similarities between rows of a (N, F) and rows of b (M, F), float64 (N, M); 0 for a zero row."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    norm = np.linalg.norm(a, axis=-1)[:, None] * np.linalg.norm(b, axis=-1)[None]
    return np.asarray((a @ b.T) / np.where(norm > 0, norm, np.inf))


def scenario(log: DriveLog) -> list[str]:
    """Readable scenario of each planning step, e.g. "turn_left / cruise"."""
    return [
        f"{Lateral(int(lat)).name} / {Longitudinal(int(lon)).name}".lower()
        for lat, lon in label_commands(log)
    ]


def count(names: Any, weights: Any) -> Mapping[str, float]:
    """Share of the total weight per name, largest first."""
    total: dict[str, float] = {}
    for name, weight in zip(names, weights, strict=True):
        total[name] = total.get(name, 0.0) + float(weight)
    norm = sum(total.values()) or 1.0
    return {k: v / norm for k, v in sorted(total.items(), key=lambda item: (-item[1], item[0]))}


def _one_hot(index: Any, size: int) -> F64:
    index = np.asarray(index)
    known = (index >= 0) & (index < size)
    return np.asarray(np.eye(size)[np.clip(index, 0, size - 1)] * known[:, None])


def _surroundings(log: DriveLog, t: int) -> F64:
    out = np.zeros(SECTORS + 1)
    agents = log.agents
    if not len(agents.ids):
        return out
    local = to_local(agents.pose_world[:, t], log.ego.pose_world[t])
    distance = np.hypot(local[:, 0], local[:, 1])
    seen = agents.valid[:, t] & (distance < NEAR_M)  # false for what is not finite
    sector = (
        np.round(np.nan_to_num(np.arctan2(local[:, 1], local[:, 0])) / (2 * np.pi / SECTORS)).astype(int)
        % SECTORS
    )
    for k in np.flatnonzero(seen):
        out[sector[k]] = max(out[sector[k]], 1 - distance[k] / NEAR_M)
    ahead = np.flatnonzero(seen & (sector == 0))
    if len(ahead):
        lead = ahead[distance[ahead].argmin()]
        out[SECTORS] = (float(log.ego.speed_mps[t]) - float(agents.speed_mps[lead, t])) / 10
    return out
