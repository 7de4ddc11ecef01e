"""Rules about road users: a cheap bound on all of them, exact boxes for the few that come near."""

from typing import Any

import numpy as np

from data_engine.rules.moments import Finding, before_hit, moments
from data_engine.tables import Tables
from drive.contracts import DT_S, F64, Bool
from drive.geometry.boxes import overlap

NEAR_M = 45.0
CHUNK = 1 << 18
SETTLE_S = 3.0  # an approach that ends in contact is the collision's, not a near miss


def near_miss(tables: Tables, ttc_s: float = 1.5, min_speed_mps: float = 2.0) -> list[Finding]:
    """Time to collision below a bound with a road user ahead, without contact."""
    clock = tables.clock_s()
    ttc = time_to_collision(tables, ttc_s, min_speed_mps)
    mask = (ttc < ttc_s - 1e-6) & before_hit(tables, clock, SETTLE_S)
    return moments(tables, clock, mask, 1 - ttc / (2 * ttc_s), lowest={"ttc_s": ttc})


def time_to_collision(tables: Tables, horizon_s: float = 3.0, min_speed_mps: float = 0.0) -> F64:
    """Time until the oriented boxes of ego and a road user ahead touch if both keep speed and turn rate.

    Agents behind the ego's rear axle are left out (being hit from behind is not the ego's choice).

    Returns:
        float64 (T,), seconds, in steps of 0.1 s; inf where nothing is hit within the horizon, or the ego is
        slower than `min_speed_mps`.
    """
    ttc = np.full(len(tables.ego["t_us"]), np.inf)
    row = tables.agents["row"]
    size = np.array([[d.length_m, d.width_m, d.centre_m] for d in tables.drives], np.float32).reshape(-1, 3)
    for k in range(0, len(row), CHUNK):
        part = {name: values[k : k + CHUNK] for name, values in tables.agents.items()}
        _chunk(tables, part, size, horizon_s, min_speed_mps, ttc)
    return ttc


def _chunk(
    tables: Tables, part: dict[str, Any], size: Any, horizon_s: float, min_speed_mps: float, ttc: F64
) -> None:
    """Lower `ttc` for one part of the road users."""
    ego, row = tables.ego, part["row"]
    dx = (part["x_m"] - ego["x_m"][row]).astype(np.float32)
    dy = (part["y_m"] - ego["y_m"][row]).astype(np.float32)
    speed = ego["speed_mps"][row]
    some = np.flatnonzero((dx * dx + dy * dy < NEAR_M**2) & (speed > min_speed_mps))
    row, dx, dy, speed = row[some], dx[some], dy[some], speed[some]
    c, s = np.cos(ego["yaw_rad"][row]), np.sin(ego["yaw_rad"][row])
    x, y = dx * c + dy * s, dy * c - dx * s
    yaw = part["yaw_rad"][some] - ego["yaw_rad"][row]
    own = size[ego["drive"][row]]
    their_speed, rate = part["speed_mps"][some], ego["yaw_rate_radps"][row]
    box = np.stack([part["length_m"][some], part["width_m"][some]], -1)
    near = (x > 0) & _may_touch(x, y, yaw, speed, their_speed, rate, own, box, horizon_s)
    if not near.any():
        return
    pick = np.flatnonzero(near)
    local = np.stack([x[pick], y[pick], yaw[pick]], -1).astype(np.float64)
    when = _first_touch(local, their_speed[pick], box[pick], speed[pick], rate[pick], own[pick], horizon_s)
    np.minimum.at(ttc, row[pick], when)


def _may_touch(
    x: Any, y: Any, yaw: Any, speed: Any, other: Any, rate: Any, own: Any, box: Any, horizon_s: float
) -> Bool:
    """Could circles around both boxes touch within the horizon?  Never False where the boxes would touch.

    Both go straight on; what a turning ego strays from that is added to the radius.
    """
    vx, vy = other * np.cos(yaw) - speed, other * np.sin(yaw)
    px = x - own[:, 2]
    at = np.clip(-(px * vx + y * vy) / np.maximum(vx * vx + vy * vy, 1e-6), 0.0, horizon_s)
    gap2 = (px + vx * at) ** 2 + (y + vy * at) ** 2
    radius = (np.hypot(own[:, 0], own[:, 1]) + np.hypot(box[:, 0], box[:, 1])) / 2
    stray = np.abs(rate) * (0.5 * np.abs(speed) * horizon_s + own[:, 2]) * horizon_s
    return np.asarray(gap2 <= (radius + stray + 0.05) ** 2)


def _first_touch(
    local: F64, their_speed: Any, box: Any, speed: Any, rate: Any, own: Any, horizon_s: float
) -> F64:
    """Time at which the boxes first overlap, float64 (n,); inf if they do not within the horizon."""
    ahead = np.arange(1, round(horizon_s / DT_S) + 1) * DT_S
    out = np.full(len(local), np.inf)
    for k in range(0, len(local), CHUNK // 16):
        part = slice(k, k + CHUNK // 16)
        mine = _constant_turn(speed[part, None], rate[part, None], ahead[None])
        mine[..., :2] += own[part, None, 2:3] * np.stack([np.cos(mine[..., 2]), np.sin(mine[..., 2])], -1)
        heading = local[part, None, 2]
        reach = their_speed[part, None] * ahead[None]
        x = local[part, None, 0] + reach * np.cos(heading)
        y = local[part, None, 1] + reach * np.sin(heading)
        round_m = (np.hypot(own[part, 0], own[part, 1]) + np.hypot(box[part, 0], box[part, 1]))[:, None] / 2
        n, h = np.nonzero((x - mine[..., 0]) ** 2 + (y - mine[..., 1]) ** 2 <= round_m**2)
        theirs = np.stack([x[n, h], y[n, h], local[part][n, 2]], -1)
        hit = overlap(mine[n, h], own[part][n, :2], theirs, box[part][n])
        np.minimum.at(out[part], n[hit], ahead[h[hit]])
    return out


def _constant_turn(speed_mps: Any, yaw_rate_radps: Any, at_s: Any) -> F64:
    """Ego poses (n, H, 3) in the ego frame after `at_s` at constant speed and yaw rate."""
    speed, rate = np.asarray(speed_mps, np.float64), np.asarray(yaw_rate_radps, np.float64)
    yaw = rate * at_s
    small = np.abs(yaw) < 1e-4
    safe = np.where(np.abs(rate) < 1e-6, 1e-6, rate)
    x = np.where(small, speed * at_s, speed / safe * np.sin(yaw))
    y = np.where(small, speed * at_s * yaw / 2, speed / safe * (1 - np.cos(yaw)))
    return np.stack(np.broadcast_arrays(x, y, yaw), -1)
