"""Deterministic trajectory -> command classifier: the one meaning of "command and trajectory agree"."""

from typing import Any, NamedTuple

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
# Commands that `agree` takes for one another, by group, at index command + 1; -1 at both ends = no command.
_SIDE = np.array([-1, 0, 1, 2, 1, 2, 3, -1])  # lateral: keep, to the left, to the right, U-turn
_PACE = np.array([-1, 0, 0, 1, 1, 2, -1])  # longitudinal: slowing, steady, gaining


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
    return _name(_motion(pose_ego, speed_mps, dt_s), lead_gap_m, 1.0)


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
    axes = len(np.broadcast_shapes(want.shape[:-1], finite.shape))
    scale = np.reshape(MARGINS, (-1, *[1] * axes))  # one leading axis: every margin in one pass
    return _same(want, _name(_motion(pose, speed, dt_s), np.inf, scale)).any(0) & finite


def kind_of(command: Any) -> Any:
    """Number of each command's kind, (..., 2) -> int (...); `agree` takes one of a kind for another."""
    want = np.asarray(command)
    return _of(_SIDE, want[..., 0]) * 4 + _of(_PACE, want[..., 1])


class _Motion(NamedTuple):
    """What a trajectory does, each (...): speed now and at its end, heading change, offset, moved at all?"""

    start_mps: Any
    end_mps: Any
    turn_rad: Any
    aside_m: Any
    moved: Any


def _motion(pose_ego: Any, speed_mps: Any, dt_s: float) -> _Motion:
    pose = np.asarray(pose_ego, np.float64)
    tail = max(1, round(0.5 / dt_s))
    end = pose[..., -1, :]
    v1 = np.hypot(*(np.moveaxis(end[..., :2] - pose[..., -1 - tail, :2], -1, 0))) / (tail * dt_s)
    turn = np.unwrap(np.concatenate([np.zeros_like(pose[..., :1, 2]), pose[..., 2]], -1), axis=-1)[..., -1]
    moved = np.hypot(pose[..., 0], pose[..., 1]).max(-1) > MOVED_M
    return _Motion(np.asarray(speed_mps, np.float64), v1, turn, end[..., 1], moved)


def _name(motion: _Motion, lead_gap_m: Any, scale: Any) -> I32:
    """Command of a motion with all thresholds times `scale`, broadcast; later rules win."""
    v0, v1, turn, aside, moved = motion
    turns, slides = scale * TURN_RAD, scale * LANE_CHANGE_M
    side = np.where(aside > slides, int(Lateral.LANE_LEFT), int(Lateral.KEEP))
    side = np.where(aside < -slides, int(Lateral.LANE_RIGHT), side)
    side = np.where(turn < -turns, int(Lateral.TURN_RIGHT), side)
    side = np.where(turn > turns, int(Lateral.TURN_LEFT), side)
    side = np.where(np.abs(turn) > scale * U_TURN_RAD, int(Lateral.U_TURN), side)
    lateral = np.where(moved, side, int(Lateral.KEEP))
    change = scale * SPEED_CHANGE_MPS
    steady = np.where(np.asarray(lead_gap_m) < LEAD_GAP_M, int(Longitudinal.FOLLOW), int(Longitudinal.CRUISE))
    pace = np.where(v1 > v0 + change, int(Longitudinal.ACCELERATE), steady)
    pace = np.where(v1 < v0 - change, int(Longitudinal.YIELD), pace)
    longitudinal = np.where(v1 < scale * STOP_MPS, int(Longitudinal.STOP), pace)
    return np.asarray(np.stack(np.broadcast_arrays(lateral, longitudinal), -1), np.int32)


def _same(want: Any, have: I32) -> Any:
    """Is `want` what a trajectory classified as `have` does?  int (..., 2) each -> bool (...)."""
    pace = _of(_PACE, want[..., 1]) == _of(_PACE, have[..., 1])
    waiting = (have[..., 1] == int(Longitudinal.STOP)) & (have[..., 0] == int(Lateral.KEEP))
    return pace & (waiting | (_of(_SIDE, want[..., 0]) == _of(_SIDE, have[..., 0])))


def _of(groups: Any, command: Any) -> Any:
    """Group of each command; a number that is not a command is in none that a trajectory can be in."""
    return groups.take(command + 1, mode="clip")
