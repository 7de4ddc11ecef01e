"""Contacts of driven proposals with recorded road users: whose fault, and how soon (NC and TTC)."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from drive.bench.pdm_scene import PdmScene, astride, inside
from drive.contracts import F64, I64, Bool
from drive.geometry.boxes import centre_pose, corners, overlap

AHEAD_S = (0.0, 0.3, 0.6, 0.9)
STANDS_MPS, CREEPS_MPS = 0.05, 5e-3
BEHIND_COS, AHEAD_COS = float(np.cos(np.deg2rad(150.0))), float(np.cos(np.deg2rad(30.0)))


class _Looks(NamedTuple):
    """What is compared: the ego at step `now`, moved on by `ahead_s`, and road users at `then`; (E,) each.

    `column`: place in the steps x AHEAD_S table.
    """

    now: I64
    then: I64
    ahead_s: F64
    column: I64


class _Events(NamedTuple):
    """The first contact of each proposal with each road user it touches: proposal, road user, look; (Q,)."""

    p: I64
    a: I64
    look: I64


def contacts(scene: PdmScene, pose: F64, speed_mps: F64, dt_s: float) -> tuple[F64, F64]:
    """NC and TTC, float64 (P,) each; the rules are NAVSIM's.

    Only the first contact with a road user counts. NC: the ego answers for it if it moves and hits something
    that stands, or with its front bumper, or aside while it is in several lanes or off the drivable area; not
    if the other one comes from behind (more than 150 degrees from the heading, seen from the rear axle). TTC:
    it fails if going on as now would end within 0.9 s in a contact with somebody ahead (within 30 degrees),
    or not behind while the ego is in several lanes, off the drivable area or in a junction.

    Args:
        scene: Road users, as recorded.
        pose: float64 (P, T + 1, 3) rear-axle poses from now on.
        speed_mps: float64 (P, T + 1).
        dt_s: Step.
    """
    count = len(pose)
    if not len(scene.agent_pose):
        return np.ones(count), np.ones(count)
    looks = _looks(pose.shape[1], dt_s)
    hits = _hits(scene, pose, speed_mps, looks)
    nc, soon = np.ones(count), np.zeros(count, bool)
    touches = looks.ahead_s[hits.look] == 0.0
    first = _first(hits, touches)
    fault = _at_fault(scene, pose, speed_mps, looks, first, dt_s)
    static = scene.static[first.a]
    nc[first.p[fault & static]] = 0.5
    nc[first.p[fault & ~static]] = 0.0
    last = pose.shape[1] - 1 - round(AHEAD_S[-1] / dt_s)
    now = looks.now[hits.look]
    first = _first(hits, (now <= last) & (speed_mps[hits.p, now] >= CREEPS_MPS))
    soon[first.p[_closing(scene, pose, looks, first)]] = True
    return nc, 1.0 - soon


@lru_cache(maxsize=16)
def _looks(rows: int, dt_s: float) -> _Looks:
    """In order of time; looks further ahead than the record are left out."""
    now, which = (one.ravel() for one in np.mgrid[:rows, : len(AHEAD_S)])
    ahead = np.array(AHEAD_S)[which]
    use = (ahead == 0.0) | (now <= rows - 1 - round(AHEAD_S[-1] / dt_s))
    then = now + np.round(ahead / dt_s).astype(np.int64)
    return _Looks(now[use], then[use], ahead[use], np.flatnonzero(use))


def _hits(scene: PdmScene, pose: F64, speed: F64, looks: _Looks) -> _Events:
    """All contacts, ordered by proposal, road user and look."""
    size = scene.ego_size
    centre = centre_pose(pose, size.centre_from_axle_m)
    ahead = speed[..., None] * AHEAD_S
    yaw = centre[..., 2]
    ego_x, ego_y = (
        (centre[..., axis, None] + ahead * way[..., None]).reshape(len(pose), -1)[:, looks.column]
        for axis, way in enumerate((np.cos(yaw), np.sin(yaw)))
    )
    box = np.array([size.length_m, size.width_m])
    reach = (np.hypot(*box) + np.hypot(*scene.agent_size_m.T)) / 2
    # Boxes around all proposals first, over all time and per look: most road users are far from all of them.
    around = [(one.min(0), one.max(0)) for one in (ego_x, ego_y)]
    close = scene.agent_valid
    for axis, (low, high) in enumerate(around):
        place = scene.agent_pose[..., axis]
        close = close & (place >= low.min() - reach[:, None]) & (place <= high.max() + reach[:, None])
    rows = np.flatnonzero(close.any(1))
    users, near = scene.agent_pose[rows[:, None], looks.then], close[rows[:, None], looks.then]
    reach, size_m = reach[rows], scene.agent_size_m[rows]
    for axis, (low, high) in enumerate(around):
        place = users[..., axis]
        near &= (place >= low - reach[:, None]) & (place <= high + reach[:, None])
    a, look = np.nonzero(near)
    gap_x, gap_y = users[a, look, 0] - ego_x[:, look], users[a, look, 1] - ego_y[:, look]
    p, m = np.nonzero(gap_x * gap_x + gap_y * gap_y <= (reach * reach)[a])
    a, look = a[m], look[m]
    there = np.stack([ego_x[p, look], ego_y[p, look], yaw[p, looks.now[look]]], -1)
    hit = overlap(there, box, users[a, look], size_m[a])
    return _Events(p[hit], rows[a[hit]], look[hit])


def _first(hits: _Events, use: Bool) -> _Events:
    kept = _Events(*(field[use] for field in hits))
    _, rows = np.unique(kept.p * (kept.a.max(initial=0) + 1) + kept.a, return_index=True)
    return _Events(*(field[rows] for field in kept))


def _at_fault(scene: PdmScene, pose: F64, speed: F64, looks: _Looks, first: _Events, dt_s: float) -> Bool:
    p, a, k = first.p, first.a, looks.now[first.look]
    user, size = scene.agent_pose[a, k], scene.ego_size
    moves = speed[p, k] > STANDS_MPS
    stands = ~_moving(scene, dt_s)[a]
    behind = _bearing(pose[p, k], user) < BEHIND_COS
    bumper = centre_pose(pose[p, k], size.centre_from_axle_m + size.length_m / 2)
    front = overlap(bumper, np.array([0.0, size.width_m]), user, scene.agent_size_m[a])
    aside = moves & ~stands & ~behind & ~front
    aside[aside] = astride(scene.areas, _outline(scene, pose[p[aside], k[aside]]))
    return np.asarray(moves & (stands | (~behind & front) | aside))


def _closing(scene: PdmScene, pose: F64, looks: _Looks, first: _Events) -> Bool:
    k = looks.now[first.look]
    ego = pose[first.p, k]
    bearing = _bearing(ego, scene.agent_pose[first.a, looks.then[first.look]])
    ahead = bearing > AHEAD_COS
    aside = ~ahead & (bearing >= BEHIND_COS)
    if scene.areas is not None and aside.any():
        one = ego[aside]
        wide = astride(scene.areas, _outline(scene, one))
        aside[aside] = wide | inside(scene.areas.junction, one[..., :2])
    else:
        aside[:] = False
    return np.asarray(ahead | aside)


def _bearing(ego: F64, user: F64) -> F64:
    """Cosine of the angle (Q,) at which a road user's centre lies, from the rear axle and its heading."""
    x, y = user[:, 0] - ego[:, 0], user[:, 1] - ego[:, 1]
    along = x * np.cos(ego[:, 2]) + y * np.sin(ego[:, 2])
    return np.asarray(along / np.maximum(np.hypot(x, y), 1e-9))


def _moving(scene: PdmScene, dt_s: float) -> Bool:
    """Does a road user move when it is first seen?  bool (A,); obstacles never do."""
    seen = scene.agent_valid
    rows = np.arange(len(seen))
    k = np.minimum(seen.argmax(1), seen.shape[1] - 2)
    step = scene.agent_pose[rows, k + 1, :2] - scene.agent_pose[rows, k, :2]
    known = seen[rows, k] & seen[rows, k + 1]
    return np.asarray(known & (np.hypot(step[:, 0], step[:, 1]) > STANDS_MPS * dt_s) & ~scene.static)


def _outline(scene: PdmScene, pose: F64) -> Any:
    size = scene.ego_size
    return corners(centre_pose(pose, size.centre_from_axle_m), [size.length_m, size.width_m])
