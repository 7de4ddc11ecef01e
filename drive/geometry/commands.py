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
MOVED_M = 1.0
MARGINS = (0.75, 1.0, 1.25)


def classify(pose_ego: Any, speed_mps: Any, lead_gap_m: Any = np.inf, dt_s: float = DT_S) -> I32:
    """Name the command a trajectory carries out.

    Lateral: from the heading change over the trajectory (turn, U-turn) or, with little heading change, from
    the sideways offset at its end (lane change). Longitudinal: from the speed now and the mean speed of the
    last 0.5 s. FOLLOW and CRUISE are the same motion; a lead vehicle nearer than 25 m makes it FOLLOW. A
    mirrored trajectory gives the mirrored command.

    Args:
        pose_ego: (..., T, 3) in the ego frame, finite, with T * dt_s > 0.5 s.
        speed_mps: (...), speed now.
        lead_gap_m: (...), gap to the lead vehicle; inf if none.
        dt_s: Spacing of the trajectory.

    Returns:
        int32 (..., 2): Lateral and Longitudinal values.
    """
    return _classify(pose_ego, speed_mps, lead_gap_m, dt_s, 1.0)


def agree(command: Any, pose_ego: Any, speed_mps: Any, dt_s: float = DT_S) -> Any:
    """Does a trajectory carry out a command?

    Yes, if the command is what `classify` names with its thresholds as they are, or 25 % lower or higher, so
    that borderline cases stay whole. FOLLOW equals CRUISE. STOP and YIELD stand for each other, since a stop
    may lie beyond the horizon, but neither is carried out by keeping or gaining speed. A turn that has only
    begun looks like a lane change to the same side, and one that stops straight ahead shows no lateral
    intention. A trajectory with a non-finite pose carries out nothing.

    Args:
        command: int (..., 2).
        pose_ego: (..., T, 3).
        speed_mps: (...).
        dt_s: Spacing of the trajectory.

    Returns:
        bool (...).
    """
    pose, want = np.asarray(pose_ego, np.float64), np.asarray(command)
    finite = np.isfinite(pose).all((-2, -1)) & np.isfinite(speed_mps)
    pose = np.where(finite[..., None, None], pose, 0.0)
    speed = np.where(finite, speed_mps, 0.0)
    same = np.zeros(np.broadcast_shapes(want.shape[:-1], finite.shape), bool)
    for scale in MARGINS:
        same |= _same(want, _classify(pose, speed, np.inf, dt_s, scale))
    return same & finite


def _classify(pose_ego: Any, speed_mps: Any, lead_gap_m: Any, dt_s: float, scale: float) -> I32:
    pose = np.asarray(pose_ego, np.float64)
    v0 = np.asarray(speed_mps, np.float64)
    tail = max(1, round(0.5 / dt_s))
    end = pose[..., -1, :]
    v1 = np.hypot(*(np.moveaxis(end[..., :2] - pose[..., -1 - tail, :2], -1, 0))) / (tail * dt_s)
    turn = np.unwrap(np.concatenate([np.zeros_like(pose[..., :1, 2]), pose[..., 2]], -1), axis=-1)[..., -1]
    moved = np.hypot(pose[..., 0], pose[..., 1]).max(-1) > MOVED_M
    turns, aside = scale * TURN_RAD, scale * LANE_CHANGE_M
    lateral_rules = (
        (~moved, Lateral.KEEP),
        (np.abs(turn) > scale * U_TURN_RAD, Lateral.U_TURN),
        (turn > turns, Lateral.TURN_LEFT),
        (turn < -turns, Lateral.TURN_RIGHT),
        (end[..., 1] > aside, Lateral.LANE_LEFT),
        (end[..., 1] < -aside, Lateral.LANE_RIGHT),
    )
    lateral = np.select(
        [rule for rule, _ in lateral_rules], [name for _, name in lateral_rules], Lateral.KEEP
    )
    change = scale * SPEED_CHANGE_MPS
    longitudinal = np.select(
        [v1 < scale * STOP_MPS, v1 < v0 - change, v1 > v0 + change, np.asarray(lead_gap_m) < LEAD_GAP_M],
        [Longitudinal.STOP, Longitudinal.YIELD, Longitudinal.ACCELERATE, Longitudinal.FOLLOW],
        Longitudinal.CRUISE,
    )
    return np.asarray(np.stack(np.broadcast_arrays(lateral, longitudinal), -1), np.int32)


def _same(want: Any, have: I32) -> Any:
    """Is `want` what a trajectory classified as `have` does?  int (..., 2) each -> bool (...)."""
    slowing, steady = (Longitudinal.STOP, Longitudinal.YIELD), (Longitudinal.FOLLOW, Longitudinal.CRUISE)
    speed = want[..., 1] == have[..., 1]
    for group in (slowing, steady):
        speed = speed | (np.isin(want[..., 1], group) & np.isin(have[..., 1], group))
    waiting = (have[..., 1] == Longitudinal.STOP) & (have[..., 0] == Lateral.KEEP)
    side = (want[..., 0] == have[..., 0]) | waiting
    for one_side in ((Lateral.TURN_LEFT, Lateral.LANE_LEFT), (Lateral.TURN_RIGHT, Lateral.LANE_RIGHT)):
        side = side | (np.isin(want[..., 0], one_side) & np.isin(have[..., 0], one_side))
    return speed & side
