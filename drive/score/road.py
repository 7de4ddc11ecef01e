"""Road terms: on the road, on the right side, in the lane, red lights, and distance along the route."""

from dataclasses import dataclass

import numpy as np

from drive.contracts import F32, F64, Bool, EgoSize
from drive.geometry.boxes import centre_pose, corners

EDGE_M = 0.3
JUNCTION_EDGE_M = 2.0
AGAINST_HALF_M, AGAINST_FULL_M, AGAINST_S = 2.0, 6.0, 1.0
OFF_CENTRE_M, OFF_CENTRE_S = 0.5, 2.0
NEARBY_M = 12.0
ROUTE_AHEAD_M = 150.0
CHUNK = 250_000


@dataclass(frozen=True)
class Lanes:
    """Lanes around the ego: centre (L, P, 2) in driving direction, width_m (L,), in_junction (L,)."""

    centre: F64
    width_m: F32
    in_junction: Bool


@dataclass(frozen=True)
class _Segments:
    """Centre-line segments near a set of points, each (S, ...)."""

    start: F64
    step: F64
    half_m: F64
    in_junction: Bool


def lane_terms(pose: F64, ego_size: EgoSize, lanes: Lanes, dt_s: float) -> dict[str, F64]:
    """Terms on_road, right_way and lane of poses (P, T, 3), each float64 (P, T); see `reward_terms`."""
    near = _near_segments(lanes, pose[..., :2].reshape(-1, 2))
    box = corners(centre_pose(pose, ego_size.centre_from_axle_m), [ego_size.length_m, ego_size.width_m])
    edge = near.half_m + np.where(near.in_junction, JUNCTION_EDGE_M, EDGE_M)
    on_road = _inside_any(box.reshape(-1, 2), near, edge).reshape(*pose.shape[:2], 4).all(-1)
    against, off_centre = _side(pose.reshape(-1, 3), near)
    step = np.diff(pose[..., :2], axis=1, prepend=0.0)
    moved = np.hypot(step[..., 0], step[..., 1]) * against.reshape(pose.shape[:2])
    recent = _window_sum(moved, round(AGAINST_S / dt_s))
    right_way = np.where(recent < AGAINST_HALF_M, 1.0, np.where(recent < AGAINST_FULL_M, 0.5, 0.0))
    stray = (off_centre.reshape(pose.shape[:2]) > OFF_CENTRE_M).astype(np.float64)
    window = round(OFF_CENTRE_S / dt_s)
    lane = 1.0 - (_window_sum(stray, window) >= window)
    return {"on_road": on_road.astype(np.float64), "right_way": right_way, "lane": lane.astype(np.float64)}


def against_way(pose: F64, lanes: Lanes) -> Bool:
    """Is each pose (P, T, 3) only in lanes that lead the other way?  bool (P, T); never so in a junction."""
    flat = pose.reshape(-1, 3)
    return _side(flat, _near_segments(lanes, flat[:, :2]))[0].reshape(pose.shape[:2])


def fits_lane(pose: F64, lanes: Lanes, cosine: float) -> Bool:
    """Is each pose (Q, 3) inside a lane, heading along it?  bool (Q,)."""
    out = np.zeros(len(pose), bool)
    near = _near_segments(lanes, pose[:, :2]) if len(pose) else None
    if near is None or not len(near.start):
        return out
    ahead = near.step / np.maximum(np.hypot(near.step[:, 0], near.step[:, 1]), 1e-9)[:, None]
    rows = max(1, CHUNK // len(near.start))
    for i in range(0, len(pose), rows):
        part = pose[i : i + rows]
        square, _ = _project(part[:, :2], near.start, near.step)
        along = np.cos(part[:, 2, None]) * ahead[:, 0] + np.sin(part[:, 2, None]) * ahead[:, 1]
        out[i : i + rows] = ((square <= near.half_m**2) & (along >= cosine)).any(1)
    return out


def crossed(pose: F64, ego_size: EgoSize, line: F64) -> Bool:
    """Has the front bumper's centre crossed any stop line (G, 2, 2) by each step?  (P, T, 3) -> bool (P, T).

    A line that lies behind the bumper at plan time cannot be crossed forwards any more.
    """
    front_m = ego_size.centre_from_axle_m + ego_size.length_m / 2
    bumper = centre_pose(pose, front_m)[..., :2]
    start = np.broadcast_to(np.array([front_m, 0.0]), (len(pose), 1, 2))
    path = np.concatenate([start, bumper], 1)
    a, b = path[:, :-1, None], path[:, 1:, None]
    c, d = line[:, 0], line[:, 1]
    before, after = _side_of(c, d, a), _side_of(c, d, b)
    meets = (before * after <= 0) & (before != after) & (_side_of(a, b, c) * _side_of(a, b, d) <= 0)
    return np.asarray(np.logical_or.accumulate(meets.any(-1), axis=1))


def along(xy: F64, route: F64) -> F64:
    """Distance [m] gained along a route (R, 2) by points (..., 2) from the ego's own place; float64 (...).

    Without a route (R < 2): distance from the origin. The ego's place is the nearest one where the route
    leads forwards, and only the next 150 m count, so a route that crosses itself cannot give a leap.
    """
    if len(route) < 2:
        return np.asarray(np.hypot(xy[..., 0], xy[..., 1]))
    start, step = route[:-1], np.diff(route, axis=0)
    length = np.hypot(step[:, 0], step[:, 1])
    begin = np.append(0.0, np.cumsum(length)[:-1])
    square, share = _project(np.zeros((1, 2)), start, step)
    own = int(np.where(step[:, 0] >= 0, square[0], square[0] + NEARBY_M**2).argmin())
    here = begin[own] + share[0, own] * length[own]
    use = (begin + length >= here - 5.0) & (begin <= here + ROUTE_AHEAD_M)
    points = xy.reshape(-1, 2)
    square, share = _project(points, start[use], step[use])
    best = square.argmin(1)
    reached = begin[use][best] + share[np.arange(len(points)), best] * length[use][best]
    return np.asarray((reached - here).reshape(xy.shape[:-1]))


def _near_segments(lanes: Lanes, points: F64) -> _Segments:
    """Segments within reach of the points' bounding box."""
    start, step = lanes.centre[:, :-1], np.diff(lanes.centre, axis=1)
    end = start + step
    low, high = points.min(0) - NEARBY_M, points.max(0) + NEARBY_M
    use = (np.minimum(start, end) <= high).all(-1) & (np.maximum(start, end) >= low).all(-1)
    lane = np.nonzero(use)[0]
    return _Segments(
        start=start[use],
        step=step[use],
        half_m=lanes.width_m[lane].astype(np.float64) / 2,
        in_junction=lanes.in_junction[lane],
    )


def _inside_any(points: F64, near: _Segments, reach_m: F64) -> Bool:
    """Is each point (Q, 2) within reach_m (S,) of any segment?  bool (Q,)."""
    out = np.zeros(len(points), bool)
    if not len(near.start):
        return out
    rows = max(1, CHUNK // len(near.start))
    for i in range(0, len(points), rows):
        square, _ = _project(points[i : i + rows], near.start, near.step)
        out[i : i + rows] = (square <= reach_m**2).any(1)
    return out


def _side(pose: F64, near: _Segments) -> tuple[Bool, F64]:
    """Is each pose (Q, 3) only in lanes leading the other way, and how far off the nearest fitting one?

    In a junction nothing is against the direction and the offset is 0; where no lane fits it is infinite.
    """
    against, off = np.zeros(len(pose), bool), np.full(len(pose), np.inf)
    if not len(near.start):
        return against, off
    rows = max(1, CHUNK // len(near.start))
    for i in range(0, len(pose), rows):
        part = pose[i : i + rows]
        square, _ = _project(part[:, :2], near.start, near.step)
        inside = square <= near.half_m**2
        fits = np.cos(part[:, 2, None]) * near.step[:, 0] + np.sin(part[:, 2, None]) * near.step[:, 1] > 0
        crossing = (inside & near.in_junction).any(1)
        against[i : i + rows] = inside.any(1) & ~(inside & fits).any(1) & ~crossing
        nearest = np.sqrt(np.where(fits, square, np.inf).min(1))
        off[i : i + rows] = np.where(crossing, 0.0, nearest)
    return against, off


def _project(points: F64, start: F64, step: F64) -> tuple[F64, F64]:
    """Squared distances of points (Q, 2) to segments (S, 2), and places on them in [0, 1]; (Q, S) each."""
    gap_x: F64 = points[:, 0, None] - start[:, 0]
    gap_y: F64 = points[:, 1, None] - start[:, 1]
    square = np.maximum(step[:, 0] ** 2 + step[:, 1] ** 2, 1e-12)
    share = np.clip((gap_x * step[:, 0] + gap_y * step[:, 1]) / square, 0.0, 1.0)
    gap_x -= share * step[:, 0]
    gap_y -= share * step[:, 1]
    return gap_x * gap_x + gap_y * gap_y, share


def _side_of(a: F64, b: F64, point: F64) -> F64:
    """Sign of the side of the line a-b on which a point lies; broadcasts over (..., 2)."""
    along_x, along_y = b[..., 0] - a[..., 0], b[..., 1] - a[..., 1]
    gap_x, gap_y = point[..., 0] - a[..., 0], point[..., 1] - a[..., 1]
    return np.asarray(np.sign(along_x * gap_y - along_y * gap_x))


def _window_sum(values: F64, window: int) -> F64:
    """Sum over the last `window` steps, (P, T) -> (P, T)."""
    total = np.cumsum(values, 1)
    total[:, window:] -= np.cumsum(values, 1)[:, :-window]
    return total
