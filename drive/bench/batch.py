"""The truth of many samples in flat arrays, so that all of them are scored at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.bench.cases import Case
from drive.bench.inputs import FUTURE_STEPS
from drive.contracts import EGO_NUSCENES, F64, Bool
from drive.score.collision import touched


@dataclass(frozen=True)
class CaseBatch:
    """B samples; the M road users of all of them lie behind each other, sample by sample.

    Attributes:
        truth_ego: float64 (B, 6, 3), NaN where not known.
        known: bool (B, 6).
        agents_ego: float64 (M, 6, 3), box centres in the ego frame of their sample.
        size_m: float64 (M, 2).
        kind: int32 (M,).
        valid: bool (M, 6).
        case: int64 (M,), sample of each road user, not decreasing.
        rows: int64 (B, 2), first and past-the-last road user of each sample.
        lidar_ahead_m: float64 (B,), lidar ahead of the rear axle.
    """

    truth_ego: F64
    known: Bool
    agents_ego: F64
    size_m: F64
    kind: Any
    valid: Bool
    case: Any
    rows: Any
    lidar_ahead_m: F64


def batch_of(cases: Sequence[Case]) -> CaseBatch:
    """Flat arrays of at least one case."""
    counts = np.array([len(case.valid) for case in cases])
    ends = np.cumsum(counts)
    return CaseBatch(
        truth_ego=np.stack([case.truth_ego for case in cases]),
        known=np.stack([case.known for case in cases]),
        agents_ego=np.concatenate([case.agents_ego for case in cases]).reshape(-1, FUTURE_STEPS, 3),
        size_m=np.concatenate([case.size_m for case in cases]).astype(np.float64).reshape(-1, 2),
        kind=np.concatenate([case.kind for case in cases]),
        valid=np.concatenate([case.valid for case in cases]).reshape(-1, FUTURE_STEPS),
        case=np.repeat(np.arange(len(cases)), counts),
        rows=np.stack([ends - counts, ends], -1),
        lidar_ahead_m=np.array([case.scene.lidar_ego[0] for case in cases]),
    )


def box_hits(batch: CaseBatch, pose_ego: F64) -> Bool:
    """Does the oriented ego box at poses (B, 6, 3) touch a road user at the same key frame?  bool (B, 6)."""
    return touched(pose_ego, batch.agents_ego, batch.size_m, batch.valid, batch.case, EGO_NUSCENES)
