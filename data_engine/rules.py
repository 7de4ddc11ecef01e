"""Mining rules: each looks at one drive and returns the moments that went wrong.

A new rule is a function and a line in RULES; its keyword parameters are the keys that the YAML may set.
All times are in the log's clock [us]; all poses in the world frame unless the name says otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drive.contracts import DT_S, F64, Bool, DriveLog, Event
from drive.contracts.log import Simulator
from drive.geometry.boxes import centre_pose, overlap
from drive.geometry.commands import agree
from drive.geometry.se2 import to_local

TTC_HORIZON_S = 3.0
NEAR_M = 45.0
JOIN_S = 1.0
ONCOMING = "oncoming lane"
REAL: Simulator = "real world"


@dataclass(frozen=True)
class Finding:
    """One moment a rule found: span, severity in [0, 1] and the numbers behind it."""

    start_us: int
    end_us: int
    severity: float
    terms: Mapping[str, float] = field(default_factory=dict)


Rule = Callable[..., list[Finding]]


def hard_brake(
    log: DriveLog, decel_mps2: float = 4.0, real_decel_mps2: float = 2.0, window_s: float = 0.5
) -> list[Finding]:
    """Mean deceleration over `window_s` above a bound: the same measure for 2 Hz and 10 Hz logs.

    Real logs have their own bound: trained drivers of data sets brake gently, and what stands out is lower.
    The jump to standstill of a collision is not braking, so nothing after the first collision counts.
    """
    bound = real_decel_mps2 if log.meta.simulator == REAL else decel_mps2
    t_s = _seconds(log)
    decel = _mean_decel(t_s, log.ego.speed_mps.astype(np.float64), window_s)
    mask = (decel > bound) & (t_s < _first_collision_s(log) - window_s)
    return [
        _finding(log, run, decel[run].max() / (2 * decel_mps2), decel_mps2=decel[run].max())
        for run in _runs(mask, t_s)
    ]


def near_miss(log: DriveLog, ttc_s: float = 1.5, min_speed_mps: float = 2.0) -> list[Finding]:
    """Time to collision below a bound with a road user ahead, without contact."""
    ttc = time_to_collision(log)
    t_s = _seconds(log)
    moving = log.ego.speed_mps > min_speed_mps
    mask = (ttc < ttc_s) & moving & (t_s < _first_collision_s(log) - TTC_HORIZON_S)
    return [
        _finding(log, run, 1 - ttc[run].min() / (2 * ttc_s), ttc_s=ttc[run].min()) for run in _runs(mask, t_s)
    ]


def collision(log: DriveLog) -> list[Finding]:
    """Contact with anything, as the criteria saw it."""
    return _from_events(log, ("collision",), 1.0)


def off_road(log: DriveLog) -> list[Finding]:
    """The car left the drivable lanes."""
    return _from_events(log, ("outside_route_lanes",), 0.9, lambda e: ONCOMING not in e.detail)


def wrong_lane(log: DriveLog) -> list[Finding]:
    """The car drove in a lane of oncoming traffic."""
    return _from_events(log, ("outside_route_lanes",), 0.9, lambda e: ONCOMING in e.detail)


def red_light(log: DriveLog) -> list[Finding]:
    """The car passed a red light."""
    return _from_events(log, ("red_light",), 0.9)


def stuck(
    log: DriveLog, min_s: float = 4.0, max_speed_mps: float = 0.2, label_moves_m: float = 4.0
) -> list[Finding]:
    """The car stands although the expert, from the same state, would drive on."""
    step, t_s = log.plans.step, _seconds(log)
    if not len(step):
        return []
    reach_m = np.linalg.norm(log.plans.label_ego[:, -1, :2], axis=-1)  # NaN = no label: compares false
    stands = (log.ego.speed_mps[step] < max_speed_mps) & (reach_m > label_moves_m)
    found = []
    for run in _runs(stands, t_s[step]):
        span_s = float(t_s[step][run[-1]] - t_s[step][run[0]])
        if span_s >= min_s:
            found.append(_finding(log, step[run], span_s / (4 * min_s), standing_s=span_s))
    return found


def disagreement(log: DriveLog, distance_m: float = 2.0, horizon_s: float = 3.0) -> list[Finding]:
    """Mean distance between plan and expert (or human) trajectory over `horizon_s` above a bound."""
    error_m = plan_error(log, horizon_s)
    step = log.plans.step
    return [
        _finding(log, step[run], error_m[run].max() / (4 * distance_m), ade_m=error_m[run].max())
        for run in _runs(error_m > distance_m, _seconds(log)[step])
    ]


def split_brain(log: DriveLog) -> list[Finding]:
    """The emitted driving command and the chosen trajectory contradict each other."""
    step, command = log.plans.step, log.plans.command
    told = (command >= 0).all(-1) & np.isfinite(log.plans.plan_ego).all((-2, -1))
    mask = np.zeros(len(step), bool)
    if told.any():
        speed = log.ego.speed_mps[step[told]]
        mask[told] = ~agree(command[told], log.plans.plan_ego[told], speed)
    mask |= log.plans.split_brain
    return [_finding(log, step[run], 0.5, steps=len(run)) for run in _runs(mask, _seconds(log)[step])]


RULES: dict[str, Rule] = {
    "hard_brake": hard_brake,
    "near_miss": near_miss,
    "collision": collision,
    "off_road": off_road,
    "wrong_lane": wrong_lane,
    "red_light": red_light,
    "stuck": stuck,
    "disagreement": disagreement,
    "split_brain": split_brain,
}
REAL_LOG_RULES = ("hard_brake", "near_miss", "disagreement", "split_brain")
VIOLATION_EVENTS = ("collision", "outside_route_lanes", "red_light")


def plan_error(log: DriveLog, horizon_s: float) -> F64:
    """Mean distance [m] of plan and label over the horizon, float64 (D,); NaN = unknown."""
    rows = max(1, round(horizon_s / DT_S))
    gap = log.plans.plan_ego[:, :rows, :2].astype(np.float64) - log.plans.label_ego[:, :rows, :2]
    return np.asarray(np.linalg.norm(gap, axis=-1).mean(-1))


def time_to_collision(log: DriveLog) -> F64:
    """Time until the oriented boxes of ego and a road user ahead touch if both keep speed and turn rate.

    Agents behind the ego's rear axle are left out (being hit from behind is not the ego's choice).

    Returns:
        float64 (T,), seconds; inf where nothing is hit within 3 s.
    """
    ego, agents = log.ego, log.agents
    ttc = np.full(len(ego.t_us), np.inf)
    if not len(agents.ids):
        return ttc
    ahead_s = np.arange(1, round(TTC_HORIZON_S / DT_S) + 1) * DT_S
    size = np.array([log.ego_size.length_m, log.ego_size.width_m])
    for t in range(len(ttc)):
        local = to_local(agents.pose_world[:, t], ego.pose_world[t])
        near = agents.valid[:, t] & (np.hypot(local[:, 0], local[:, 1]) < NEAR_M) & (local[:, 0] > 0)
        if not near.any():
            continue
        path = _constant_turn(float(ego.speed_mps[t]), float(ego.yaw_rate_radps[t]), ahead_s)
        mine = centre_pose(path, log.ego_size.centre_from_axle_m)
        reach = agents.speed_mps[near, t, None] * ahead_s  # (n, H)
        theirs = np.repeat(local[near, None, :], len(ahead_s), axis=1)
        theirs[..., 0] += reach * np.cos(theirs[..., 2])
        theirs[..., 1] += reach * np.sin(theirs[..., 2])
        hit = overlap(mine[None], size, theirs, agents.size_m[near, None, :]).any(0)
        if hit.any():
            ttc[t] = ahead_s[int(hit.argmax())]
    return ttc


def _constant_turn(speed_mps: float, yaw_rate_radps: float, at_s: F64) -> F64:
    """Ego poses (H, 3) in the ego frame after `at_s` at constant speed and yaw rate."""
    yaw = yaw_rate_radps * at_s
    if abs(yaw_rate_radps) < 1e-4:
        return np.stack([speed_mps * at_s, np.zeros_like(at_s), yaw], -1)
    radius = speed_mps / yaw_rate_radps
    return np.stack([radius * np.sin(yaw), radius * (1 - np.cos(yaw)), yaw], -1)


def _mean_decel(t_s: F64, speed_mps: F64, window_s: float) -> F64:
    """Loss of speed over the last `window_s` [m/s2] at each step; 0 where the window is not covered."""
    before = np.searchsorted(t_s, t_s - window_s - 1e-3)
    span = t_s - t_s[before]
    full = span > 0.8 * window_s
    return np.where(full, (speed_mps[before] - speed_mps) / np.where(full, span, 1.0), 0.0)


def _seconds(log: DriveLog) -> F64:
    return (log.ego.t_us - log.ego.t_us[0]) / 1e6 if len(log.ego.t_us) else np.zeros(0)


def _first_collision_s(log: DriveLog) -> float:
    hits = [e.t_us for e in log.events if e.kind.startswith("collision")]
    return (min(hits) - int(log.ego.t_us[0])) / 1e6 if hits else np.inf


def _runs(mask: Bool | Any, t_s: F64, join_s: float = JOIN_S) -> list[Any]:
    """Index arrays of the stretches where `mask` holds; gaps up to `join_s` do not split one."""
    hits = np.flatnonzero(mask)
    if not len(hits):
        return []
    return np.split(hits, np.flatnonzero(np.diff(t_s[hits]) > join_s) + 1)


def _finding(log: DriveLog, at: Any, severity: float, **terms: float) -> Finding:
    start, end = int(log.ego.t_us[at[0]]), int(log.ego.t_us[at[-1]])
    return Finding(start, end, float(np.clip(severity, 0, 1)), {k: float(v) for k, v in terms.items()})


def _from_events(
    log: DriveLog,
    prefixes: tuple[str, ...],
    severity: float,
    wanted: Callable[[Event], bool] = lambda _: True,
) -> list[Finding]:
    """One finding per event whose kind starts with one of `prefixes`; repeats within JOIN_S are joined."""
    times = sorted(e.t_us for e in log.events if e.kind.startswith(prefixes) and wanted(e))
    found: list[Finding] = []
    for t_us in times:
        if found and t_us - found[-1].end_us <= JOIN_S * 1e6:
            found[-1] = Finding(found[-1].start_us, t_us, severity)
        else:
            found.append(Finding(t_us, t_us, severity))
    return found
