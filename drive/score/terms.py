"""Reward terms of proposals, in [0, 1], 1 = good: one definition for bench, mining, gate, reports."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from drive.contracts import F32, F64, GATES, WEIGHTED, Bool
from drive.geometry.se2 import wrap
from drive.score import road
from drive.score.collision import STOPPED_MPS, at_fault, collisions
from drive.score.motion import comfortable, speeds
from drive.score.scene import FrozenScene

WEIGHTS: Mapping[str, float] = {"progress": 5.0, "ttc": 5.0, "lane": 2.0, "comfort": 2.0}
TTC_S = (0.3, 0.6, 0.9)
PROGRESS_FLOOR_M = 5.0


@dataclass(frozen=True)
class RewardTerms:
    """Per-step terms, each float32 (P, T) in [0, 1].

    Attributes:
        no_collision, on_road, right_way, red_light: Gates; a zero spoils the proposal.
        progress, ttc, lane, comfort: Weighted terms.
        unknown: Terms set to 1 because the scene lacks what they need (map, route).
    """

    no_collision: F32
    on_road: F32
    right_way: F32
    red_light: F32
    progress: F32
    ttc: F32
    lane: F32
    comfort: F32
    unknown: tuple[str, ...] = ()


def reward_terms(
    proposals_ego: F32 | F64, scene: FrozenScene, best_progress_m: float | None = None
) -> RewardTerms:
    """Score proposals in a frozen scene.

    no_collision: ego box touches no agent for which the ego is at fault (0 from the first contact on).
    on_road: all four corners of the ego box inside a lane (0 while not).
    right_way: 1, 1/2 or 0 as less than 2 m, less than 6 m or more is driven against the lane in 1 s (NAVSIM).
    red_light: 0 from the step in which the front bumper has crossed a red stop line.
    progress: distance gained along the route, relative to the best proposal that passes all gates, at most
        the posted limit's; 1 when the best gains less than 5 m (NAVSIM).
    ttc: 0 where constant speed and heading for up to 0.9 s more would end in an at-fault contact.
    lane: 0 where the ego has been more than 0.5 m off the nearest centre line for 2 s, junctions excepted.
    comfort: 0 where acceleration, jerk or yaw exceed the nuPlan bounds.
    A proposal with a non-finite pose gets 0 in every term.

    Args:
        proposals_ego: (P, T, 3) rear-axle poses in the ego frame, row i at (i + 1) * scene.dt_s.
        scene: Ground truth at the same T steps.
        best_progress_m: Denominator of progress [m]; None = best gate-passing proposal of this batch.

    Raises:
        ValueError: The number of steps differs from the scene's.
    """
    given = np.asarray(proposals_ego, np.float64)
    if given.ndim != 3 or given.shape[1:] != (scene.agent_valid.shape[1], 3):
        raise ValueError(f"proposals_ego: expected (P, {scene.agent_valid.shape[1]}, 3), got {given.shape}")
    finite = np.isfinite(given).all((1, 2))
    pose = np.where(finite[:, None, None], given, 0.0)
    ones = np.ones(pose.shape[:2])
    values = dict.fromkeys((*GATES, *WEIGHTED), ones)
    unknown: list[str] = []
    speed = speeds(pose, scene.dt_s)
    values["no_collision"] = 1.0 - np.maximum.accumulate(_contacts(pose, speed, scene).any(1), -1)
    if scene.lane_ego is None:
        unknown += ["on_road", "right_way", "lane"]
    else:
        lanes = road.Lanes(scene.lane_ego, scene.lane_width_m, scene.in_junction)
        values |= road.lane_terms(pose, scene.ego_size, lanes, scene.dt_s)
    values["red_light"] = 1.0 - road.crossed(pose, scene.ego_size, scene.red_line_ego)
    values["ttc"] = 1.0 - _closing(pose, speed, scene)
    values["comfort"] = comfortable(pose, scene.speed_mps, scene.dt_s).astype(np.float64)
    if len(scene.route_ego) < 2:
        unknown.append("route")
    gates = np.prod([values[g].min(1) for g in GATES], axis=0) * finite
    values["progress"] = _progress(pose, scene, gates > 0, best_progress_m)
    return RewardTerms(
        **{k: np.where(finite[:, None], v, 0.0).astype(np.float32) for k, v in values.items()},
        unknown=tuple(unknown),
    )


def reduce(terms: RewardTerms) -> dict[str, F64]:
    """One number per term, float64 (P,): worst step of gates and ttc, progress at the end, else the mean."""
    out: dict[str, F64] = {}
    for name in (f.name for f in fields(terms) if f.name != "unknown"):
        value = np.asarray(getattr(terms, name), np.float64)
        worst = name in GATES or name == "ttc"
        out[name] = value.min(1) if worst else value[:, -1] if name == "progress" else value.mean(1)
    return out


def total(terms: RewardTerms, weights: Mapping[str, float] = WEIGHTS) -> F64:
    """Product of the worst gates times the weighted mean of the other terms; float64 (P,) in [0, 1]."""
    one = reduce(terms)
    gate = np.prod([one[g] for g in GATES], axis=0)
    mean = sum(weights[k] * one[k] for k in WEIGHTED) / sum(weights[k] for k in WEIGHTED)
    return np.asarray(gate * mean, np.float64)


def _contacts(pose: F64, speed: F64, scene: FrozenScene) -> Bool:
    """At-fault contacts, bool (P, N, T)."""
    hit = collisions(pose, scene.agent_pose_ego, scene.agent_size_m, scene.agent_valid, scene.ego_size)
    return at_fault(hit, pose, speed, scene.agent_pose_ego, scene.ego_size)


def _closing(pose: F64, speed: F64, scene: FrozenScene) -> Bool:
    """Would going on as now lead to an at-fault contact within TTC_S?  bool (P, T).

    Agents move as recorded; beyond the last recorded step they keep their last velocity.
    """
    close = np.zeros(pose.shape[:2], bool)
    for ahead_s in TTC_S:
        k = round(ahead_s / scene.dt_s)
        ahead = pose.copy()
        ahead[..., 0] += speed * ahead_s * np.cos(pose[..., 2])
        ahead[..., 1] += speed * ahead_s * np.sin(pose[..., 2])
        agents, valid = _shifted(scene.agent_pose_ego, scene.agent_valid, k)
        hit = collisions(ahead, agents, scene.agent_size_m, valid, scene.ego_size)
        close |= (hit & _in_front(pose, agents, scene)).any(1) & (speed > STOPPED_MPS)
    return close


def _in_front(pose: F64, agents: F64, scene: FrozenScene) -> Bool:
    """Is the agent's centre ahead of the ego's rear axle?  bool (P, N, T)."""
    gap = agents[None, ..., :2] - pose[:, None, :, :2]
    yaw = pose[:, None, :, 2]
    return np.asarray(gap[..., 0] * np.cos(yaw) + gap[..., 1] * np.sin(yaw) > 0.0)


def _shifted(pose: F64, valid: Bool, k: int) -> tuple[F64, Bool]:
    """Agents k steps later, (N, T, 3) and (N, T); beyond the end they keep their last velocity."""
    t = valid.shape[1]
    index = np.minimum(np.arange(t) + k, t - 1)
    beyond = (np.arange(t) + k - index)[None, :, None]
    last = pose[:, -1:] - pose[:, -2:-1] if t > 1 else np.zeros_like(pose[:, -1:])
    both = valid[:, -1:] & valid[:, -2:-1] if t > 1 else np.zeros_like(valid[:, -1:])
    step = np.where(both[..., None], last, 0.0)
    step[..., 2] = wrap(step[..., 2])
    return pose[:, index] + beyond * step, valid[:, index]


def _progress(pose: F64, scene: FrozenScene, passes: Bool, best_m: float | None) -> F64:
    """Share of the best progress reached by each step's end, float64 (P, T)."""
    gained = road.along(pose[..., :2], scene.route_ego)
    limit = scene.speed_limit_mps * scene.dt_s * np.arange(1, pose.shape[1] + 1)
    gained = np.clip(gained, 0.0, np.maximum(limit, 0.0))
    if best_m is None:
        best_m = float(gained[passes, -1].max()) if passes.any() else 0.0
    if best_m < PROGRESS_FLOOR_M:
        return np.ones_like(gained)
    share = gained / best_m * (pose.shape[1] / np.arange(1, pose.shape[1] + 1))
    return np.clip(share, 0.0, 1.0)
