"""Ways that lead on from the ego along the lanes of the true map."""

from typing import NamedTuple

import numpy as np

from drive.contracts import F64
from drive.score.road import Lanes
from drive.score.scene import FrozenScene

APART_M = 2.0
_REACH_M = 4.5  # the next lane to either side counts
_FITS, _GOES_ON = 0.7, 0.8  # cosines between ego and lane, and between a lane and the one it leads to
_JOINT_M = 0.7
_MOST = 24


class Way(NamedTuple):
    """Points float64 (K, 2) along lanes in driving direction, from about the ego on; `own`: from its lane."""

    points_ego: F64
    own: bool


def distinct_lanes(scene: FrozenScene) -> Lanes | None:
    """The scene's lanes without repetitions (maps list one per lane that leads to it); None without a map."""
    if scene.lane_ego is None:
        return None
    centimetres = np.rint(100 * scene.lane_ego).reshape(len(scene.lane_ego), -1)
    first = np.sort(np.unique(centimetres, axis=0, return_index=True)[1])
    return Lanes(scene.lane_ego[first], scene.lane_width_m[first], scene.in_junction[first])


def ways_ahead(known: Lanes | None, reach_m: float) -> list[Way]:
    """Every way through the lanes from the ego's lane and its neighbours, `reach_m` long where they go on."""
    if known is None or not len(known.centre):
        return []
    lanes = known.centre
    heads = _heading(lanes[:, 0], lanes[:, 1])
    tails = _heading(lanes[:, -2], lanes[:, -1])
    near = np.hypot(*(lanes[:, None, 0] - lanes[None, :, -1]).transpose(2, 0, 1)) < _JOINT_M  # [next, lane]
    leads_to = near & ((heads[:, None] * tails[None]).sum(-1) > _GOES_ON)
    found: list[Way] = []
    for lane, at, aside in _beginnings(lanes):
        own = abs(aside) <= known.width_m[lane] / 2
        found += [Way(points, own) for points in _walk(lanes, leads_to, lane, at, reach_m)]
    return found[:_MOST]


def branches(known: Lanes | None, reach_m: float) -> int:
    """How many ways lead on from the ego's own lane that are more than 2 m apart `reach_m` from here."""
    ends = [_end(way.points_ego, reach_m) for way in ways_ahead(known, reach_m) if way.own]
    kept: list[F64] = []
    for end in ends:
        if all(np.hypot(*(end - other)) > APART_M for other in kept):
            kept.append(end)
    return len(kept)


def _heading(a: F64, b: F64) -> F64:
    step = b - a
    return np.asarray(step / np.maximum(np.hypot(step[..., 0], step[..., 1]), 1e-9)[..., None])


def _beginnings(lanes: F64) -> list[tuple[int, int, float]]:
    """(lane, its first point ahead of the ego, its offset) for lanes beside the ego that lead its way."""
    found = []
    for lane, points in enumerate(lanes):
        step = np.diff(points, axis=0)
        share = -(points[:-1] * step).sum(-1) / np.maximum((step**2).sum(-1), 1e-12)
        foot = points[:-1] + np.clip(share, 0.0, 1.0)[:, None] * step
        gap = np.hypot(foot[:, 0], foot[:, 1])
        at = int(gap.argmin())
        ahead = _heading(points[at], points[at + 1])
        if gap[at] <= _REACH_M and ahead[0] > _FITS and share[at] <= 1.0:
            found.append((lane, at + 1, float(gap[at])))
    return sorted(found, key=lambda one: one[2])


def _walk(lanes: F64, leads_to: F64, lane: int, at: int, reach_m: float) -> list[F64]:
    """All chains of lanes from point `at` of `lane` on, cut off once they are `reach_m` long."""
    done: list[F64] = []
    open_: list[tuple[int, F64, tuple[int, ...]]] = [(lane, lanes[lane, at:], (lane,))]
    while open_ and len(done) < _MOST:
        last, points, seen = open_.pop(0)
        following = [int(n) for n in np.flatnonzero(leads_to[:, last]) if int(n) not in seen]
        if _length(points) >= reach_m or not following:
            if len(points) > 1:
                done.append(points)
            continue
        open_ += [(n, np.concatenate([points, lanes[n, 1:]]), (*seen, n)) for n in following]
    return done


def _length(points: F64) -> float:
    return float(np.hypot(*np.diff(points, axis=0).T).sum()) if len(points) > 1 else 0.0


def _end(points: F64, reach_m: float) -> F64:
    length = np.append(0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T)))
    return np.array([np.interp(reach_m, length, points[:, axis]) for axis in range(2)])
