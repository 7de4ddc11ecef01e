"""Finds recording faults in a drive: moments that say more about the recorder than about the driving."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from drive.contracts import DT_S, F64, I64, STEPS, U8, Bool, DriveLog
from drive.geometry.se2 import wrap

MARGIN_S = 1.0
HISTORY_S = 2.0
GAP_RATIO, GAP_S = 3.5, 0.15
SPEED_SLACK_MPS, SPEED_SLACK_SHARE = 3.0, 0.3
NEAR_SPEED_MPS, NEAR_SPEED_SHARE, NEAR_SPEED_MPS2 = 1.0, 0.15, 1.5
BACK_M, BACK_RAD = 1.5, 0.2
SIDEWAYS_M, SIDEWAYS_RAD = 0.3, 0.5
SPIKE_MPS, SPIKE_MPS2, SPIKE_ROWS = 6.0, 20.0, 5
YAW_SLACK_RAD, CURVATURE_1PM, LATERAL_MPS2 = 0.2, 0.6, 12.0
BLACK_LEVEL = 8
FROZEN_IMAGES, FROZEN_M = 3, 3.0
FOREIGN_LEVEL, FOREIGN_RATIO, THUMB = 25.0, 3.0, 16
AGENT_SLACK_MPS, AGENT_RATIO, AGENT_TOP_MPS = 15.0, 1.5, 80.0
FROZEN_ROWS, FROZEN_MPS = 3, 1.0
PERTURBATION, COLLISION = "perturbation", "collision"  # event kinds start so
PUSH_S = 0.5


@dataclass(frozen=True)
class Fault:
    """One recording fault.

    Attributes:
        kind: "time_backwards", "time_repeated", "time_gap", "pose_jump", "yaw_jump", "speed_mismatch",
            "non_finite", "agent_jump", "frozen_agents", "black_image", "frozen_image", "foreign_image",
            "no_history", "perturbation"; `check_logs` adds those of files.
        channel: "ego", "agents", a camera or a modality.
        row: First row of the channel it shows at; -1 if it concerns the whole channel.
        start_us, end_us: Span that must not be mined or trained on, wider than the fault by what is derived
            from neighbouring rows; (-1, -1) if it concerns the whole channel.
        detail: Readable.
        log_id: Log it is in.
        file: File it is in, "" when found in memory.
        level: "note" for what is tolerated, e.g. a first frame without history, or a displacement that the
            recorder made on purpose and noted as an event.
    """

    kind: str
    channel: str
    row: int
    start_us: int
    end_us: int
    detail: str
    log_id: str = ""
    file: str = ""
    level: Literal["fault", "note"] = "fault"


def find_faults(log: DriveLog) -> list[Fault]:
    """Recording faults of one drive in row order of each channel; hard driving is not among them.

    Ego time must increase without gaps; poses must be finite and within reach of the recorded speed; a spike
    in speed that lasts one row is a jump where speed itself comes from poses; images must be neither black
    nor frozen while the vehicle moves, nor show for one frame a place that is neither the one before nor the
    one after; road users must neither leap nor freeze while they are said to move. Braking and collisions
    only ever slow the vehicle down, so they never count as jumps.
    """
    found = [*_time_faults(log), *_finite_faults(log), *_motion_faults(log), *_agent_faults(log)]
    for camera, images in log.plans.images.items():
        found += _image_faults(log, camera, images)
    return found


def faulty_steps(log: DriveLog, faults: Iterable[Fault]) -> Bool:
    """Bool (T,), steps of the drive inside the span of any of `faults`."""
    bad = np.zeros(len(log.ego.t_us), bool)
    for fault in faults:
        bad |= (log.ego.t_us >= fault.start_us) & (log.ego.t_us <= fault.end_us)
    return bad


def _faults(log: DriveLog, kind: str, channel: str, rows: Any, steps: Any, detail: str) -> list[Fault]:
    """One fault per run of consecutive `rows`; `steps` are the drive's steps at these rows."""
    rows, steps = np.asarray(rows, np.int64), np.asarray(steps, np.int64)
    if not len(rows):
        return []
    # Labels of a real drive are its own future and inputs its own past: they carry a fault that far.
    derived = log.plans.provenance == "oracle" and channel == "ego"
    before, after = (STEPS * DT_S, HISTORY_S) if derived else (MARGIN_S, MARGIN_S)
    out = []
    for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows) > 1) + 1):
        first, last = steps[run[0]], steps[run[-1]]
        times = log.ego.t_us[max(0, first - 1) : last + 1]
        span = int(times.min() - before * 1e6), int(times.max() + after * 1e6)
        more = f" ({len(run)} rows)" if len(run) > 1 else ""
        out.append(Fault(kind, channel, int(rows[run[0]]), *span, detail + more, log.meta.log_id))
    return out


def _time_faults(log: DriveLog) -> list[Fault]:
    dt = np.diff(log.ego.t_us)
    usual = float(np.median(dt)) if len(dt) else 0.0
    out = []
    for kind, bad, text in (
        ("time_backwards", dt < 0, "time runs backwards"),
        ("time_repeated", dt == 0, "time stamp repeats"),
        ("time_gap", dt > max(GAP_RATIO * usual, usual + GAP_S * 1e6), "frames are missing before this row"),
    ):
        rows = np.flatnonzero(bad) + 1
        out += _faults(log, kind, "ego", rows, rows, text)
    return out


def _finite_faults(log: DriveLog) -> list[Fault]:
    ego, agents = log.ego, log.agents
    bad = ~np.isfinite(ego.pose_world).all(1)
    for values in (ego.speed_mps, ego.accel_mps2, ego.yaw_rate_radps):
        bad |= ~np.isfinite(values)
    rows = np.flatnonzero(bad)
    out = _faults(log, "non_finite", "ego", rows, rows, "pose or motion is not finite")
    poses = np.isfinite(agents.pose_world).all(2) & np.isfinite(agents.speed_mps)
    rows = np.flatnonzero((agents.valid & ~poses).any(0))
    return out + _faults(log, "non_finite", "agents", rows, rows, "pose or speed of an agent is not finite")


def _agent_faults(log: DriveLog) -> list[Fault]:
    """Rows in which a road user leaps, or in which all that should move stay where they were."""
    agents, steps = log.agents, len(log.ego.t_us)
    if steps < 2 or not len(agents.ids):
        return []
    dt = np.maximum(np.diff(log.ego.t_us) * 1e-6, 1e-3)
    known = agents.valid & np.isfinite(agents.pose_world).all(2)
    seen = known[:, 1:] & known[:, :-1]
    way = np.diff(np.where(known[..., None], agents.pose_world[..., :2], 0.0), axis=1)
    moved = np.where(seen, np.hypot(way[..., 0], way[..., 1]), 0.0)
    speed = np.nan_to_num(np.abs(agents.speed_mps.astype(np.float64)), posinf=0.0)
    top = np.maximum(speed[:, 1:], speed[:, :-1])
    leap = moved / dt > np.minimum(AGENT_RATIO * top + AGENT_SLACK_MPS, AGENT_TOP_MPS)
    rows = np.flatnonzero((leap & (np.diff(log.ego.t_us) > 0)).any(0)) + 1
    out = _faults(log, "agent_jump", "agents", rows, rows, "a road user leaps further than it can drive")
    should = seen & (speed[:, 1:] > FROZEN_MPS) & (speed[:, :-1] > FROZEN_MPS)
    still = should.any(0) & ~(should & (moved > 0)).any(0)
    rows = np.flatnonzero(still) + 1
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        if len(run) >= FROZEN_ROWS:
            out += _faults(
                log, "frozen_agents", "agents", run, run, "road users that move stay where they are"
            )
    return out


def _motion_faults(log: DriveLog) -> list[Fault]:
    ego = log.ego
    if len(ego.t_us) < 2:
        return []
    dt = np.diff(ego.t_us) * 1e-6
    finite = np.isfinite(ego.pose_world).all(1)
    known = (dt > 0) & finite[1:] & finite[:-1]
    dt = np.where(known, dt, 1.0)
    step = np.where(known[:, None], np.diff(np.where(finite[:, None], ego.pose_world, 0.0), axis=0), 0.0)
    moved = np.hypot(step[:, 0], step[:, 1]) / dt
    reported = np.nan_to_num(np.abs(ego.speed_mps.astype(np.float64)), posinf=0.0)
    jump = known & (_beyond_speed(moved, reported) | _spike(moved, reported, dt))
    jump &= _breaks_motion(jump, step[:, :2], dt)
    turned = np.abs(wrap(step[:, 2])) > _most_turn(moved, dt)
    turned |= ~jump & _sideways(np.where(finite, ego.pose_world[:, 2], 0.0)[:-1], step)
    meant = _perturbed(log)
    out = [
        replace(fault, level="note")
        for fault in _faults(log, "perturbation", "ego", meant, meant, "displaced")
    ]
    explained = np.isin(np.arange(1, len(ego.t_us)), meant) | _pushed(log)[1:]
    bad = jump & ~explained
    for rows in _until_undone(bad, step[:, :2], dt, BACK_M):
        out += _faults(
            log, "pose_jump", "ego", rows, rows, "position jumps further than the vehicle can drive"
        )
    for rows in _until_undone(turned & ~bad & ~explained, wrap(step[:, 2:]), dt, BACK_RAD):
        out += _faults(log, "yaw_jump", "ego", rows, rows, "heading jumps further than the vehicle can turn")
    return out + _speed_faults(log, moved, reported, dt, known & ~jump & ~explained)


def _breaks_motion(jump: Bool, step: F64, dt_s: F64) -> Bool:
    """Suspected jumps (T - 1,) that do not just go on as before; where they do, the speed is wrong."""
    out, usual = jump.copy(), np.zeros(2)
    for i in range(len(jump)):
        out[i] &= np.hypot(*(step[i] - usual * dt_s[i])) > SPEED_SLACK_MPS * dt_s[i]
        usual = usual if out[i] else step[i] / dt_s[i]
    return out


def _most_turn(moved_mps: F64, dt_s: F64) -> F64:
    """Largest credible heading change between rows [rad]: by steering when slow, by tyres when fast."""
    rate = np.minimum(CURVATURE_1PM * moved_mps, LATERAL_MPS2 / np.maximum(moved_mps, 0.1))
    return np.asarray(YAW_SLACK_RAD + rate * dt_s)


def _sideways(yaw_rad: F64, step: F64) -> Bool:
    """The way from row to row (T - 1,) leads across the heading; a rear axle cannot do that."""
    heading = yaw_rad + wrap(step[:, 2]) / 2
    across = np.abs(step[:, 1] * np.cos(heading) - step[:, 0] * np.sin(heading))
    length = np.hypot(step[:, 0], step[:, 1])
    return np.asarray((length > SIDEWAYS_M) & (across > np.sin(SIDEWAYS_RAD) * length))


def _until_undone(jump: Bool, step: F64, dt_s: F64, near: float) -> list[I64]:
    """Rows from each jump to the one that undoes it, else to the end: what lies between is displaced.

    Args:
        jump: bool (T - 1,), the way to row i + 1 is a jump.
        step: float64 (T - 1, k), change from row to row.
        dt_s: float64 (T - 1,).
        near: The jumps so far have undone each other if their sum is shorter than this.
    """
    out: list[I64] = []
    usual, offset, first = np.zeros(step.shape[1]), np.zeros(step.shape[1]), -1
    for i in range(len(jump)):
        if not jump[i]:
            usual = step[i] / dt_s[i]
            continue
        first = i if first < 0 else first
        offset = offset + step[i] - usual * dt_s[i]
        if np.hypot(*offset) < near if len(offset) > 1 else abs(offset[0]) < near:
            out.append(np.arange(first, i + 1) + 1)
            offset, first = np.zeros(step.shape[1]), -1
    return [*out, np.arange(first, len(jump)) + 1] if first >= 0 else out


def _perturbed(log: DriveLog) -> I64:
    """Rows that are the first ones after a displacement made on purpose."""
    times = [event.t_us for event in log.events if event.kind.startswith(PERTURBATION)]
    rows = np.unique(np.searchsorted(log.ego.t_us, np.array(times, np.int64)))
    return rows[rows < len(log.ego.t_us)]


def _pushed(log: DriveLog) -> Bool:
    """Bool (T,), a collision was seen within half a second, and it may push the vehicle any way."""
    out = np.zeros(len(log.ego.t_us), bool)
    for event in log.events:
        if event.kind.startswith(COLLISION):
            out |= np.abs(log.ego.t_us - event.t_us) <= PUSH_S * 1e6
    return out


def _beyond_speed(moved: F64, reported: F64) -> Bool:
    """The way from row to row (T - 1,) needs more than the higher of the two reported speeds.

    The first row of a real drive may have no speed yet, so the second row alone is not held against it.
    """
    top = np.maximum(reported[:-1], reported[1:])
    return np.asarray(moved > top * (1 + SPEED_SLACK_SHARE) + SPEED_SLACK_MPS)


def _spike(moved: F64, reported: F64, dt_s: F64) -> Bool:
    """Speed from poses exceeds the median around it, where the reported speed is itself from poses."""
    derived = np.isclose(moved, reported[1:], rtol=1e-3, atol=1e-3)
    if len(moved) < 3 or derived.mean() < 0.9:
        return np.zeros(len(moved), bool)
    padded = np.pad(moved, SPIKE_ROWS, mode="reflect" if len(moved) > SPIKE_ROWS else "edge")
    usual = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * SPIKE_ROWS + 1), axis=1)
    return np.asarray(moved - usual > SPIKE_MPS + SPIKE_MPS2 * dt_s)


def _speed_faults(log: DriveLog, moved: F64, reported: F64, dt_s: F64, usable: Bool) -> list[Fault]:
    """Reported speed is wrong where the ways before and after a row contradict it in the same sense.

    Where the way before is not usable (the first row, after a jump) the way after decides; never the other
    way round, because a drive often ends with a collision.
    """
    excess = moved - np.stack([reported[1:], reported[:-1]])  # way before row i + 1, way after row i
    slack = (
        NEAR_SPEED_MPS + NEAR_SPEED_SHARE * np.stack([reported[1:], reported[:-1]]) + NEAR_SPEED_MPS2 * dt_s
    )
    sense = np.where(usable, np.sign(excess) * (np.abs(excess) > slack), np.nan)
    before, after = np.append(np.nan, sense[0]), np.append(sense[1], np.nan)
    both = np.where(np.isnan(before), after, np.where(after == before, before, 0.0))
    rows = np.flatnonzero(np.nan_to_num(both))
    out = _faults(log, "speed_mismatch", "ego", rows[rows > 0], rows[rows > 0], "speed contradicts the poses")
    ego = log.ego
    if len(rows) and rows[0] == 0:
        detail = f"speed {reported[0]:.1f} m/s, poses say {moved[0]:.1f} m/s"
        oracle = log.plans.provenance == "oracle"
        first = Fault("speed_mismatch", "ego", 0, int(ego.t_us[0]), int(ego.t_us[0]), detail, log.meta.log_id)
        out.insert(0, replace(first, kind="no_history", level="note") if oracle else first)
    return out


def _image_faults(log: DriveLog, camera: str, images: U8) -> list[Fault]:
    steps = log.plans.step
    black = np.flatnonzero(images.reshape(len(images), -1).max(1, initial=0) < BLACK_LEVEL)
    out = _faults(log, "black_image", camera, black, steps[black], "image is black")
    same = np.array([np.array_equal(a, b) for a, b in zip(images[1:], images[:-1], strict=True)], bool)
    place = log.ego.pose_world[steps, :2]
    for run in np.split(np.arange(1, len(images)), np.flatnonzero(~same)):
        run = run[same[run - 1]]
        if len(run) >= FROZEN_IMAGES and np.hypot(*(place[run[-1]] - place[run[0] - 1])) > FROZEN_M:
            detail = "image does not change while the vehicle moves"
            out += _faults(log, "frozen_image", camera, run, steps[run], detail)
    foreign = _foreign(images)
    return out + _faults(log, "foreign_image", camera, foreign, steps[foreign], "image of another place")


def _foreign(images: U8) -> I64:
    """Frames that differ from both neighbours far more than these do from each other."""
    if len(images) < 3:
        return np.zeros(0, np.int64)
    rows = np.linspace(0, images.shape[1], THUMB + 1).astype(int)[:-1]
    columns = np.linspace(0, images.shape[2], THUMB + 1).astype(int)[:-1]
    thumbs = np.array([_thumbnail(image, rows, columns) for image in images])
    gap = np.abs(np.diff(thumbs, axis=0)).mean((1, 2))
    around = np.abs(thumbs[2:] - thumbs[:-2]).mean((1, 2))
    least = np.minimum(gap[:-1], gap[1:])
    lit = thumbs[1:-1].max((1, 2)) >= BLACK_LEVEL
    return np.flatnonzero((least > FOREIGN_LEVEL) & (least > FOREIGN_RATIO * around) & lit) + 1


def _thumbnail(image: U8, rows: I64, columns: I64) -> F64:
    """Mean grey value in THUMB x THUMB blocks, float64."""
    sums = np.add.reduceat(np.add.reduceat(image.sum(2, dtype=np.int64), rows, 0), columns, 1)
    area = np.outer(np.diff(np.append(rows, image.shape[0])), np.diff(np.append(columns, image.shape[1])))
    return np.asarray(sums / (3.0 * np.maximum(area, 1)), np.float64)
