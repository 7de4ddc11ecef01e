"""Oriented-box collisions of planned ego trajectories with road users at the same times."""

from typing import Any

import numpy as np

from drive.contracts import F64, Bool, EgoSize
from drive.geometry.boxes import centre_pose, overlap

STOPPED_MPS = 5e-3
ROWS = 16_384  # road users at once, so that what is compared stays in the processor's cache
BEHIND_CONE_COS = -0.7071067811865476


def collisions(
    ego_pose: Any, agent_pose: Any, agent_size_m: Any, agent_valid: Any, ego_size: EgoSize
) -> Bool:
    """Which agents does each proposal touch at each step?

    Args:
        ego_pose: (P, T, 3) rear-axle poses.
        agent_pose: (N, T, 3) box centres at the same times and in the same frame.
        agent_size_m: (N, 2) length and width.
        agent_valid: bool (N, T); an invalid or non-finite agent, or a non-finite ego pose, never collides.
        ego_size: Ego box.

    Returns:
        bool (P, N, T).
    """
    ego = np.asarray(ego_pose, np.float64)
    agents = np.asarray(agent_pose, np.float64)
    size = np.asarray(agent_size_m, np.float64)
    steps = (len(ego), len(agents), ego.shape[1])
    ego_ok = np.isfinite(ego).all(-1)
    there = np.asarray(agent_valid, bool) & np.isfinite(agents).all(-1) & np.isfinite(size).all(-1)[:, None]
    possible = ego_ok[:, None, :] & there[None]
    centre = centre_pose(np.where(ego_ok[..., None], ego, 0.0), ego_size.centre_from_axle_m)
    box = np.array([ego_size.length_m, ego_size.width_m])
    reach = (np.hypot(*box) + np.hypot(size[:, 0], size[:, 1])) / 2
    gap = centre[:, None, :, :2] - np.where(there[..., None], agents, 0.0)[None, :, :, :2]
    p, n, t = np.nonzero(possible & (gap[..., 0] ** 2 + gap[..., 1] ** 2 <= (reach**2)[None, :, None]))
    hit = np.zeros(steps, bool)
    hit[p, n, t] = overlap(centre[p, t], box, agents[n, t], size[n])
    return hit


def touched(
    ego_pose: F64, agent_pose: F64, agent_size_m: F64, agent_valid: Bool, case: Any, ego_size: EgoSize
) -> Bool:
    """Does the ego of each of many independent cases touch any road user of its case at each step?

    Args:
        ego_pose: float64 (B, T, 3) rear-axle poses, one per case.
        agent_pose: float64 (M, T, 3) box centres of the road users of all cases.
        agent_size_m: float64 (M, 2) length and width.
        agent_valid: bool (M, T); an invalid or non-finite agent, or a non-finite ego pose, never collides.
        case: int64 (M,), case of each road user.
        ego_size: Ego box.

    Returns:
        bool (B, T).
    """
    ego_ok = np.isfinite(ego_pose).all(-1)
    centre = centre_pose(np.where(ego_ok[..., None], ego_pose, 0.0), ego_size.centre_from_axle_m)
    box = np.array([ego_size.length_m, ego_size.width_m])
    reach = (np.hypot(*box) + np.hypot(agent_size_m[:, 0], agent_size_m[:, 1])) / 2
    out = np.zeros(ego_pose.shape[:2], bool)
    for first in range(0, len(agent_pose), ROWS):
        rows = slice(first, first + ROWS)
        mine, users = case[rows], agent_pose[rows]
        gap_x = users[..., 0] - centre[mine, :, 0]
        gap_y = users[..., 1] - centre[mine, :, 1]
        near = gap_x * gap_x + gap_y * gap_y <= (reach[rows] ** 2)[:, None]  # false where not finite
        m, t = np.nonzero(near & agent_valid[rows] & ego_ok[mine])
        hit = overlap(centre[mine[m], t], box, users[m, t], agent_size_m[rows][m])
        out[mine[m[hit]], t[hit]] = True
    return out


def at_fault(hit: Bool, ego_pose: F64, ego_speed_mps: F64, agent_pose: F64, ego_size: EgoSize) -> Bool:
    """Keep the contacts the ego answers for, as NAVSIM's no-at-fault-collision does.

    An agent whose FIRST contact comes while the ego stands still, or from behind (the agent's centre lies
    behind the ego's rear end, within 45 degrees of its axis), is dropped for the whole proposal: replayed
    agents do not react, so they would run into every ego that brakes.

    Args:
        hit: bool (P, N, T) from `collisions`.
        ego_pose: (P, T, 3) rear-axle poses.
        ego_speed_mps: (P, T) speed at each step.
        agent_pose: (N, T, 3) box centres.
        ego_size: Ego box.

    Returns:
        bool (P, N, T).
    """
    p, n = np.nonzero(hit.any(-1))
    out = hit.copy()
    if not len(p):
        return out
    first = hit[p, n].argmax(-1)
    centre = centre_pose(ego_pose[p, first], ego_size.centre_from_axle_m)
    gap = agent_pose[n, first, :2] - centre[:, :2]
    ahead = gap[:, 0] * np.cos(centre[:, 2]) + gap[:, 1] * np.sin(centre[:, 2])
    distance = np.hypot(gap[:, 0], gap[:, 1])
    behind = (ahead < -ego_size.length_m / 2) & (ahead <= BEHIND_CONE_COS * distance)
    excused = behind | (ego_speed_mps[p, first] < STOPPED_MPS)
    out[p[excused], n[excused]] = False
    return out
