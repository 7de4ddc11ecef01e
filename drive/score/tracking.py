"""A trajectory as a car would drive it: kinematic bicycle, tracked by a linear-quadratic regulator."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from drive.contracts import F64, Bool
from drive.geometry.se2 import wrap

HORIZON = 10
Q_SPEED, R_ACCEL = 10.0, 1.0
Q_LATERAL, Q_HEADING, R_STEER_RATE = 1.0, 10.0, 1.0
ACCEL_PENALTY, CURVATURE_RATE_PENALTY, CURVATURE_PENALTY = 1e-4, 1e-2, 1e-10
STOPPING_MPS, STOPPING_GAIN = 0.2, 0.5
ACCEL_LAG_S, STEER_LAG_S = 0.2, 0.05
MAX_STEER_RAD = np.pi / 3
SLOW_MPS = 1.0


@dataclass(frozen=True)
class Driven:
    """What the car did, each at (i + 1) * dt_s: pose float64 (N, T, 3), the others float64 (N, T)."""

    pose: F64
    speed_mps: F64
    accel_mps2: F64
    yaw_rate_radps: F64


def track(
    reference: F64,
    speed_mps: F64,
    accel_mps2: F64,
    yaw_rate_radps: F64,
    wheelbase_m: F64,
    dt_s: float,
) -> Driven:
    """Drive reference trajectories, all at once.

    The regulator looks 1 s (10 steps) ahead with constant inputs: acceleration from the speed error, steering
    rate from the predicted lateral and heading error. Reference speed and curvature are fitted to the poses
    with penalties on acceleration and on the change of curvature; acceleration and steering follow with a
    lag. Weights and lags are those published with nuPlan's tracker and bicycle and kept by NAVSIM.

    Args:
        reference: float64 (N, T, 3) rear-axle poses in the ego frame, row i at (i + 1) * dt_s; below 1e6.
        speed_mps: float64 (N,), now; as the next three.
        accel_mps2: Now.
        yaw_rate_radps: Now; gives the steering angle.
        wheelbase_m: Of each car.
        dt_s: Step.
    """
    path = np.concatenate([np.zeros((len(reference), 1, 3)), reference], 1)
    speed_ref = _speed_profile(path, dt_s)
    bends = _bends(_curvature_profile(path, speed_ref, dt_s))
    longways = _speeds(speed_ref.T, speed_mps, accel_mps2, dt_s)
    steer = _steering_angle(longways.speed[0], yaw_rate_radps, wheelbase_m)
    plan = _steering_plan(path.transpose(2, 1, 0), longways, bends, wheelbase_m, dt_s)
    state, tangent = _steer(plan, steer, np.zeros((3, len(path))))
    speed = longways.speed[1:]
    pose = np.ascontiguousarray(state[1:].transpose(2, 0, 1))
    pose[..., 2] = wrap(pose[..., 2])
    rate = speed * tangent[1:] / wheelbase_m
    return Driven(pose, *(np.ascontiguousarray(one.T) for one in (speed, longways.accel, rate)))


class _Longways(NamedTuple):
    """Speed float64 (T + 1, N) from now on, acceleration (T, N), command (T, N), is it stopping?  (T, N)."""

    speed: F64
    accel: F64
    command: F64
    stopping: Bool


class _SteeringPlan(NamedTuple):
    """What steering needs to know of each step; all of it follows from path and speeds alone.

    Attributes:
        push: float64 (T, 6, N), weights of [x, y, steering angle, heading error, heading error after the
            horizon, 1] in the change of the steering angle within the step.
        share: (T, 2, N), weight of the steering angle in the two heading errors.
        against: (T, 2, N), what the heading is compared with.
        moved: (T, N), metres within the step.
        per_m: (T, N), the same over the wheelbase.
    """

    push: F64
    share: F64
    against: F64
    moved: F64
    per_m: F64


def _speeds(targets: F64, speed_mps: F64, accel_mps2: F64, dt_s: float) -> _Longways:
    """The part of the regulator that no steering changes; targets (T, N)."""
    steps, n = targets.shape
    ahead = np.minimum(np.arange(steps) + HORIZON, steps - 1)
    wanted, span = np.ascontiguousarray(targets[ahead]), HORIZON * dt_s
    gain = Q_SPEED * span / (Q_SPEED * span * span + R_ACCEL)
    slow = wanted <= STOPPING_MPS
    maybe = slow.any(1).tolist()
    stopping = np.zeros((steps, n), bool)
    lag = dt_s / (dt_s + ACCEL_LAG_S)
    # Speed and acceleration after a step are linear in those before it and in the wanted speed.
    change = np.array([[1 - dt_s * lag * gain, dt_s * (1 - lag)], [-lag * gain, 1 - lag]])
    pull = np.stack([wanted * (dt_s * lag * gain), wanted * (lag * gain)], 1)
    state = np.empty((steps + 1, 2, n))
    state[0] = speed_mps, accel_mps2
    for k, (now, then) in enumerate(pairwise(state)):
        np.dot(change, now, out=then)
        then += pull[k]
        if maybe[k]:
            stopping[k] = stops = slow[k] & (now[0] <= STOPPING_MPS)
            accel = now[1] + lag * (STOPPING_GAIN * (wanted[k] - now[0]) - now[1])
            then[:] = np.where(stops, (now[0] + dt_s * accel, accel), then)
    return _Longways(state[:, 0], state[1:, 1], gain * (wanted - state[:-1, 0]), stopping)


def _steering_angle(v: F64, yaw_rate: F64, wheelbase_m: F64) -> F64:
    """From the yaw rate; 0 for a car that hardly moves."""
    angle = np.arctan(yaw_rate * wheelbase_m / np.maximum(v, SLOW_MPS))
    return np.asarray(np.where(np.abs(v) > SLOW_MPS, angle, 0.0))


# The regulator predicts HORIZON steps with a steering rate that stays. In step i the car moves a + b i, with
# a = v dt and b = acceleration dt^2, so each sum over the horizon is a polynomial in a and b. The rows are
# the weights of 1 and i, and of a^2, a b, b^2 in (distance of step i) x (distance of the later steps).
_STEP: F64 = np.arange(HORIZON, dtype=np.float64)
_LATER: F64 = np.array([[HORIZON - 1 - i, sum(range(i + 1, HORIZON))] for i in range(HORIZON)], np.float64).T
_PAIRS: F64 = np.stack([_LATER[0], _LATER[1] + _STEP * _LATER[0], _STEP * _LATER[1]])
_WEIGHTS: F64 = np.concatenate([np.ones((1, HORIZON)), _STEP[None], _PAIRS])
# Rows: distance, distance x later distance, and what a unit of steering rate does to the lateral error and
# to the heading, over step / wheelbase.
_SUMS: F64 = np.zeros((4, 5))
_SUMS[0, :2] = HORIZON, _STEP.sum()
_SUMS[1, 2:], _SUMS[2, 2:] = _PAIRS.sum(1), _PAIRS @ _STEP
_SUMS[3, :2] = _STEP.sum(), _STEP @ _STEP


def _bends(curvature: F64) -> F64:
    """Sums of the curvature (N, T) ahead by the rows of _WEIGHTS, float64 (T, 5, N)."""
    padded = np.concatenate([curvature, np.repeat(curvature[:, -1:], HORIZON - 1, 1)], 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, HORIZON, axis=1)
    return np.ascontiguousarray((windows @ _WEIGHTS.T).transpose(1, 2, 0))


def _steering_plan(
    here: F64, longways: _Longways, bends: F64, wheelbase_m: F64, dt_s: float
) -> _SteeringPlan:
    """The regulator of all steps; here (3, T + 1, N) reference poses, bends from `_bends`.

    The steering rate is -(weight x lateral error + weight x heading error), both at the end of the horizon,
    which are linear in the state now.
    """
    moved, more = longways.speed[:-1] * dt_s, longways.command * (dt_s * dt_s)
    basis = np.stack([moved, more, moved * moved, moved * more, more * more])
    far, pairs, lateral_gain, heading_gain = (_SUMS @ basis.reshape(5, -1)).reshape(4, *moved.shape)
    by_road = bends.transpose(1, 0, 2) * basis
    lateral_gain, heading_gain = lateral_gain * (dt_s / wheelbase_m), heading_gain * (dt_s / wheelbase_m)
    lateral, heading = Q_LATERAL * lateral_gain, Q_HEADING * heading_gain
    cost = lateral * lateral_gain + heading * heading_gain + R_STEER_RATE
    scale = np.where(longways.stopping, 0.0, -dt_s * dt_s / (dt_s + STEER_LAG_S) / cost)
    lateral, heading = lateral * scale, heading * scale
    x, y, yaw = here[:, :-1]
    sine, cosine = np.sin(yaw), np.cos(yaw)
    offset = y * cosine - x * sine + by_road[2] + by_road[3] + by_road[4]
    rows = (-sine * lateral, cosine * lateral, pairs / wheelbase_m * lateral, far * lateral, heading)
    return _SteeringPlan(
        push=np.stack([*rows, -offset * lateral], 1),
        share=np.stack([np.zeros_like(far), far / wheelbase_m], 1),
        against=np.stack([yaw, yaw + by_road[0] + by_road[1]], 1),
        moved=moved,
        per_m=moved / wheelbase_m,
    )


def _steer(plan: _SteeringPlan, steer: F64, start: F64) -> tuple[F64, F64]:
    """Drive from start (3, N) on: x, y, yaw (T + 1, 3, N) and the steering angle's tangent (T + 1, N)."""
    steps, n = plan.moved.shape
    state, tangent = np.empty((steps + 1, 3, n)), np.empty((steps + 1, n))
    known = np.ones((6, n))  # x, y, steering angle, heading errors, 1
    place, angle, error = known[:2], known[2], known[3:5]
    place[:], angle[:], state[0] = start[:2], steer, start
    np.tan(steer, out=tangent[0])
    turns, step, weighed, change = np.empty((2, n)), np.empty((2, n)), np.empty((6, n)), np.empty(n)
    cosine, sine = step
    yaws, places = state[:, 2], state[:, :2]
    for k, (push, share, against, moved, per_m) in enumerate(zip(*plan, strict=True)):
        yaw = yaws[k]
        np.multiply(share, angle, out=error)
        error += yaw
        error -= against
        _shorten(error, turns)
        np.multiply(push, known, out=weighed)
        np.add.reduce(weighed, 0, out=change)
        angle += change
        np.minimum(np.maximum(angle, -MAX_STEER_RAD, out=angle), MAX_STEER_RAD, out=angle)
        np.cos(yaw, out=cosine)
        np.sin(yaw, out=sine)
        step *= moved
        place += step
        places[k + 1] = place
        np.add(yaw, per_m * tangent[k], out=yaws[k + 1])
        np.tan(angle, out=tangent[k + 1])
    return state, tangent


def _shorten(angle: F64, turns: F64) -> None:
    """Angles the short way round, in place; `turns` is scratch of the same shape."""
    np.multiply(angle, 0.5 / np.pi, out=turns)
    np.rint(turns, out=turns)
    turns *= 2 * np.pi
    angle -= turns


def _speed_profile(path: F64, dt_s: float) -> F64:
    """Speed (N, T) of each interval: displacements along the heading, with a penalty on accelerations.

    nuPlan's tracker penalises the change of acceleration. NAVSIM's copy penalises the acceleration itself in
    all intervals but the last, and NAVSIM's published scores come from that: it is what is done here.
    """
    step = np.diff(path[..., :2], axis=1)
    yaw = path[:, :-1, 2]
    along = step[..., 0] * np.cos(yaw) + step[..., 1] * np.sin(yaw)
    return np.asarray(along @ _speed_fit(along.shape[1], dt_s))


@lru_cache(maxsize=16)
def _speed_fit(count: int, dt_s: float) -> F64:
    """Matrix (T, T) from displacements to speeds, multiplied from the right."""
    rough = np.diff(np.eye(count), axis=0)[:-1]
    rough[-1] -= np.diff(np.eye(count), axis=0)[-1]
    fit = np.linalg.inv(dt_s**2 * np.eye(count) + ACCEL_PENALTY / dt_s**2 * rough.T @ rough) * dt_s
    return np.asarray(fit.T)


def _curvature_profile(path: F64, speed: F64, dt_s: float) -> F64:
    """Curvature (N, T) [1/m] of each interval: turns over distance, with a penalty on its change.

    The normal equations are tridiagonal, so those of all cars are one tridiagonal system whose parts do not
    touch each other.
    """
    from scipy.linalg.lapack import dptsv

    moved = speed * dt_s
    turn = wrap(np.diff(path[..., 2], axis=1))
    weight = CURVATURE_RATE_PENALTY / dt_s**2
    diagonal = moved**2 + 2 * weight
    diagonal[:, 0] += CURVATURE_PENALTY - weight
    diagonal[:, -1] -= weight
    beside = np.full(diagonal.shape, -weight)
    beside[:, -1] = 0.0
    *_, out, fault = dptsv(diagonal.ravel(), beside.ravel()[:-1], (moved * turn).ravel())
    assert fault == 0  # positive definite by CURVATURE_PENALTY
    return np.asarray(out.reshape(diagonal.shape))
