"""Trajectory anchors: k-means over training labels plus the rare motions k-means misses."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.contracts import F32, F64, Bool
from drive.geometry.commands import agree
from drive.geometry.se2 import yaw_from_path
from drive.model.horizon import KNOT_S, KNOTS

LATERAL_WEIGHT = 2.5  # a metre sideways matters more than a metre along the road
_MAX_FIT = 20_000


@dataclass(frozen=True)
class InputStatistics:
    """Frozen normalisation of trajectories; part of the checkpoint, never refit when fine-tuning.

    Attributes:
        mean, std: float32 (8, 2) [m].
        anchors: float32 (A, 8, 2) [m], ego frame.
    """

    mean: F32
    std: F32
    anchors: F32


def fit_statistics(knots_ego: F32, kmeans_anchors: int, seed: int) -> InputStatistics:
    """Statistics of training labels (N, 8, 2) [m].

    The lateral scale is capped at 0.8 m: else a few turns set the resolution of lane keeping.
    """
    mean = knots_ego.mean(0).astype(np.float32)
    std = np.maximum(knots_ego.std(0), [0.5, 0.1])
    std[:, 1] = np.minimum(std[:, 1], 0.8)
    moving = knots_ego[knots_ego[:, -1, 0] > 1.0]
    rng = np.random.default_rng(seed)
    if len(moving) > _MAX_FIT:
        moving = moving[np.sort(rng.choice(len(moving), _MAX_FIT, replace=False))]
    scale = np.tile([1.0, LATERAL_WEIGHT], KNOTS)
    centres = _kmeans(moving.reshape(len(moving), -1) * scale, kmeans_anchors, rng) / scale
    anchors = np.concatenate([explicit_anchors(), centres.reshape(-1, KNOTS, 2)]).astype(np.float32)
    return InputStatistics(mean, std.astype(np.float32), anchors)


def explicit_anchors() -> F64:
    """Standstill, lane changes left and right (3.5 m at 8 m/s), U-turn of 5.5 m radius: (4, 8, 2) [m]."""
    t = (np.arange(KNOTS) + 1) * KNOT_S
    u = t / t[-1]
    across = 3.5 * u**2 * (3 - 2 * u)
    angle = np.pi * u
    u_turn = np.stack([5.5 * np.sin(angle), 5.5 * (1 - np.cos(angle))], -1)
    left = np.stack([8.0 * t, across], -1)
    return np.stack([np.zeros((KNOTS, 2)), left, left * [1, -1], u_turn])


def _kmeans(points: F64, count: int, rng: np.random.Generator, rounds: int = 30) -> F64:
    """k-means++ and Lloyd's iterations on (N, D); returns (count, D)."""
    if len(points) < count:
        raise ValueError(f"{count} anchors need at least as many moving labels, got {len(points)}")
    centres = points[rng.integers(len(points))][None]
    near = ((points - centres[0]) ** 2).sum(1)
    for _ in range(count - 1):
        share = near / near.sum() if near.sum() > 0 else None
        centres = np.concatenate([centres, points[rng.choice(len(points), p=share)][None]])
        near = np.minimum(near, ((points - centres[-1]) ** 2).sum(1))
    for _ in range(rounds):
        owner = ((points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1)).argmin(1)
        for k in range(count):
            if (owner == k).any():
                centres[k] = points[owner == k].mean(0)
    return centres


def carries_out(command: Any, knots_ego: Any, speed_mps: Any) -> Bool:
    """Which proposals carry out a command?

    Args:
        command: int (B, 2).
        knots_ego: (B, P, 8, 2) [m].
        speed_mps: (B,).

    Returns:
        bool (B, P), by drive.geometry.commands.agree.
    """
    knots = np.asarray(knots_ego, np.float64)
    pose = np.concatenate([knots, yaw_from_path(knots, min_step_m=0.25)[..., None]], -1)
    speed = np.broadcast_to(np.asarray(speed_mps)[:, None], knots.shape[:2])
    return np.asarray(agree(np.asarray(command)[:, None], pose, speed, KNOT_S), np.bool_)
