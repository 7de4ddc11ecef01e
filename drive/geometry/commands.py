"""Deterministic trajectory -> command classifier: the one meaning of "command and trajectory agree"."""

from typing import Any

import numpy as np

from drive.contracts import DT_S, I32, Lateral, Longitudinal

TURN_RAD = 0.35
U_TURN_RAD = 2.4
LANE_CHANGE_M = 1.75
STOP_MPS = 0.5
SPEED_CHANGE_MPS = 1.0
LEAD_GAP_M = 25.0


def classify(pose_ego: Any, speed_mps: Any, lead_gap_m: Any = np.inf, dt_s: float = DT_S) -> I32:
    """Name the command a trajectory carries out.

    Lateral: from the heading change over the trajectory (turn, U-turn) or, with little heading change, from the
    sideways offset at its end (lane change). Longitudinal: from the speed now and the mean speed of the last
    0.5 s. FOLLOW and CRUISE are the same motion; a lead vehicle nearer than 25 m makes it FOLLOW.

    Args:
        pose_ego: (..., T, 3) in the ego frame.
        speed_mps: (...), speed now.
        lead_gap_m: (...), gap to the lead vehicle; inf if none.
        dt_s: Spacing of the trajectory.

    Returns:
        int32 (..., 2): Lateral and Longitudinal values.
    """
    pose = np.asarray(pose_ego, np.float64)
    v0 = np.asarray(speed_mps, np.float64)
    tail = max(1, round(0.5 / dt_s))
    end = pose[..., -1, :]
    v1 = np.hypot(*(np.moveaxis(end[..., :2] - pose[..., -1 - tail, :2], -1, 0))) / (tail * dt_s)
    turn = np.unwrap(np.concatenate([np.zeros_like(pose[..., :1, 2]), pose[..., 2]], -1), axis=-1)[..., -1]
    moved = np.hypot(end[..., 0], end[..., 1]) > 1.0
    lateral = np.select(
        [~moved, np.abs(turn) > U_TURN_RAD, turn > TURN_RAD, turn < -TURN_RAD, end[..., 1] > LANE_CHANGE_M,
         end[..., 1] < -LANE_CHANGE_M],
        [Lateral.KEEP, Lateral.U_TURN, Lateral.TURN_LEFT, Lateral.TURN_RIGHT, Lateral.LANE_LEFT, Lateral.LANE_RIGHT],
        Lateral.KEEP,
    )
    follows = np.asarray(lead_gap_m) < LEAD_GAP_M
    longitudinal = np.select(
        [v1 < STOP_MPS, v1 < v0 - SPEED_CHANGE_MPS, v1 > v0 + SPEED_CHANGE_MPS, follows],
        [Longitudinal.STOP, Longitudinal.YIELD, Longitudinal.ACCELERATE, Longitudinal.FOLLOW],
        Longitudinal.CRUISE,
    )
    return np.stack(np.broadcast_arrays(lateral, longitudinal), -1).astype(np.int32)


def agree(command: Any, pose_ego: Any, speed_mps: Any, dt_s: float = DT_S) -> Any:
    """Does a trajectory carry out a command?  FOLLOW equals CRUISE; a small margin keeps borderline cases whole.

    STOP is also carried out by a trajectory that still slows down towards standstill within the horizon (YIELD),
    but never by one that keeps or gains speed.

    Args:
        command: int (..., 2).
        pose_ego: (..., T, 3).
        speed_mps: (...).
        dt_s: Spacing of the trajectory.

    Returns:
        bool (...).
    """
    want, have = np.asarray(command), classify(pose_ego, speed_mps, dt_s=dt_s)
    steady = (Longitudinal.FOLLOW, Longitudinal.CRUISE)
    same = (want[..., 1] == have[..., 1]) | (np.isin(want[..., 1], steady) & np.isin(have[..., 1], steady))
    slowing = (Longitudinal.STOP, Longitudinal.YIELD)
    same |= np.isin(want[..., 1], slowing) & np.isin(have[..., 1], slowing)
    speed_gap = np.abs(want[..., 1] - have[..., 1]) <= 1
    neighbours = speed_gap & ~np.isin(want[..., 1], slowing) & ~np.isin(have[..., 1], slowing)
    turning = (Lateral.TURN_LEFT, Lateral.LANE_LEFT), (Lateral.TURN_RIGHT, Lateral.LANE_RIGHT)
    side = want[..., 0] == have[..., 0]
    for group in turning:  # a turn that has only begun looks like a lane change
        side |= np.isin(want[..., 0], group) & np.isin(have[..., 0], group)
    side |= have[..., 1] == Longitudinal.STOP  # a standing vehicle shows no lateral intention
    return side & (same | neighbours)
