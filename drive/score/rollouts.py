"""Kinematic roll-outs: what the ego could do along simple paths, independent of any planner."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from drive.contracts import DT_S, F64, I64, STEPS, Bool

SPACING_M, LENGTH_M = 1.0, 80.0
ACCEL_MPS2 = (-6.0, -3.0, -1.5, -0.6, 0.0, 0.2, 0.7, 1.4, 2.4)
LAT_ACCEL_MPS2, CURVATURE_1PM = 5.0, 0.25
_POINTS = round(LENGTH_M / SPACING_M) + 1
_BEFORE_M = (0.0, 3.0, 6.0, 9.0, 12.0, 16.0, 20.0, 26.0)
_RADII_M = (5.5, 8.0, 12.0, 18.0)
_BENDS_M = (30.0, 50.0, 80.0, 150.0)
_EASE_M, _FINE_M = 3.0, 0.05
_LANE_M, _LANE_LENGTHS_M = 3.5, (12.0, 20.0, 32.0)
_U_RADIUS_M = 5.5
_BLENDS_M = (6.0, 12.0, 25.0)


class Paths(NamedTuple):
    """Paths from the ego's place and heading.

    Attributes:
        pose_ego: float64 (M, S, 3), every SPACING_M, first row the ego's own pose; headings are continuous.
        curvature_1pm: float64 (M, S).
    """

    pose_ego: F64
    curvature_1pm: F64


@cache
def simple_paths() -> Paths:
    """Straight on, bends, turns by 90 degrees after some metres, lane changes, U-turns; both sides alike."""
    arcs = [_arc(0.0, radius, np.pi / 3) for radius in _BENDS_M]
    arcs += [_arc(before, radius, np.pi / 2) for before in _BEFORE_M for radius in _RADII_M]
    arcs += [_arc(before, _U_RADIUS_M, np.pi) for before in _BEFORE_M[:3]]
    arcs += [_lane_change(_LANE_M, length) for length in _LANE_LENGTHS_M]
    left = np.stack(arcs)
    straight = np.zeros((1, _POINTS, 3))
    straight[0, :, 0] = np.arange(_POINTS) * SPACING_M
    pose = np.concatenate([straight, left, left * [1.0, -1.0, -1.0]])
    return Paths(pose, _curvature(pose))


def paths_along(ways_ego: Sequence[F64]) -> Paths:
    """Paths that lead smoothly, within three distances each, onto polylines (K, 2) that begin at the ego."""
    pose = [path for way in ways_ego for path in _onto(way)]
    made = np.stack(pose) if pose else np.zeros((0, _POINTS, 3))
    return Paths(made, _curvature(made))


def distances(speed_mps: F64, dt_s: float = DT_S, steps: int = STEPS) -> F64:
    """Distance driven under each constant acceleration until standstill: (...) -> float64 (..., A, T) [m]."""
    v = np.maximum(np.asarray(speed_mps, np.float64), 0.0)[..., None, None]
    accel = np.array(ACCEL_MPS2)[:, None]
    stop_s = np.where(accel < 0, v / np.maximum(-accel, 1e-9), np.inf)
    t = np.minimum((np.arange(steps) + 1) * dt_s, stop_s)
    return np.asarray(np.minimum(v * t + accel * t**2 / 2, LENGTH_M))


def joined(*parts: Paths) -> Paths:
    """Several sets of paths as one."""
    return Paths(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def possible(paths: Paths, along_m: F64, dt_s: float = DT_S) -> Bool:
    """Can a car follow each path in this way?  Distances (A, T) from `distances` -> bool (M, A).

    Lateral acceleration up to 5 m/s^2, and no turn tighter than 4 m.
    """
    speed = np.diff(along_m, axis=1, prepend=0.0) / dt_s
    bent = np.abs(paths.curvature_1pm[:, index_at(along_m)])  # (M, A, T)
    return np.asarray(
        ((speed**2 * bent <= LAT_ACCEL_MPS2) & ((bent <= CURVATURE_1PM) | (along_m < 0.1))).all(-1)
    )


def index_at(along_m: F64) -> I64:
    """Row of a path's points at or before each distance."""
    return np.asarray(np.minimum((along_m / SPACING_M).astype(np.int64), _POINTS - 2))


def poses_at(path_ego: F64, along_m: F64) -> F64:
    """Poses at distances along paths: (P, S, 3) and (P, T) -> float64 (P, T, 3)."""
    low = index_at(along_m)
    share = (along_m / SPACING_M - low)[..., None]
    row = np.arange(len(path_ego))[:, None]
    return np.asarray(path_ego[row, low] * (1 - share) + path_ego[row, low + 1] * share)


def _arc(before_m: float, radius_m: float, angle_rad: float) -> F64:
    """Poses (S, 3) of a left turn by `angle_rad` after `before_m`; it sets in and fades out over 3 m."""
    fine = round(SPACING_M / _FINE_M)
    s = np.arange((_POINTS - 1) * fine + 1) * _FINE_M - before_m
    length = radius_m * angle_rad + _EASE_M
    curvature = np.clip(np.minimum(s, length - s) / _EASE_M, 0.0, 1.0) / radius_m
    yaw = np.append(0.0, np.cumsum((curvature[1:] + curvature[:-1]) / 2 * _FINE_M))
    middle = (yaw[1:] + yaw[:-1]) / 2
    x, y = (np.append(0.0, np.cumsum(f(middle) * _FINE_M)) for f in (np.cos, np.sin))
    return np.asarray(np.stack([x, y, yaw], -1)[::fine])


def _lane_change(offset_m: float, length_m: float) -> F64:
    x = np.arange(0.0, LENGTH_M + length_m, 0.125)
    u = np.clip(x / length_m, 0.0, 1.0)
    return _even(np.stack([x, offset_m * u**2 * (3 - 2 * u)], -1))


def _onto(way: F64) -> Iterator[F64]:
    """A path per blend: a cubic curve from the ego to the way, then along it, then straight on."""
    gap = np.append(0.0, np.cumsum(np.hypot(*np.diff(way, axis=0).T)))
    for blend in _BLENDS_M:
        if gap[-1] <= blend + 1.0:
            continue
        at = np.arange(blend, gap[-1], 0.5)
        rest = np.stack([np.interp(at, gap, way[:, axis]) for axis in range(2)], -1)
        if len(rest) < 2 or rest[0, 0] < 1.0:
            continue
        ahead = (rest[1] - rest[0]) / max(float(np.hypot(*(rest[1] - rest[0]))), 1e-9)
        reach = float(np.hypot(*rest[0]))
        u = np.linspace(0.0, 1.0, 24)[:-1, None]
        h10, h01, h11 = u * (1 - u) ** 2, u**2 * (3 - 2 * u), u**2 * (u - 1)
        curve = h10 * np.array([reach, 0.0]) + h01 * rest[0] + h11 * reach * ahead
        last = rest[-1] - rest[-2]
        beyond = (
            rest[-1] + last / max(float(np.hypot(*last)), 1e-9) * np.arange(SPACING_M, LENGTH_M, 2.0)[:, None]
        )
        yield _even(np.concatenate([curve, rest, beyond]))


def _even(points: F64) -> F64:
    """A polyline from the origin as poses every SPACING_M, float64 (S, 3)."""
    gap = np.append(0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T)))
    s = np.arange(_POINTS + 1) * SPACING_M
    xy = np.stack([np.interp(s, gap, points[:, axis]) for axis in range(2)], -1)
    step = np.diff(xy, axis=0)
    yaw = np.unwrap(np.arctan2(step[:, 1], step[:, 0]))
    yaw = np.append(0.0, (yaw[1:] + yaw[:-1]) / 2)
    return np.concatenate([xy[:-1], yaw[:, None]], -1)


def _curvature(pose: F64) -> F64:
    return np.asarray(np.gradient(pose[..., 2], SPACING_M, axis=-1))
