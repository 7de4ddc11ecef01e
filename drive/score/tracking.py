"""A trajectory as a car would drive it: kinematic bicycle, tracked by a linear-quadratic regulator."""

from dataclasses import dataclass

import numpy as np

from drive.contracts import F64
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
        reference: float64 (N, T, 3) finite rear-axle poses in the ego frame, row i at (i + 1) * dt_s.
        speed_mps: float64 (N,), now; as the next three.
        accel_mps2: Now.
        yaw_rate_radps: Now; gives the steering angle.
        wheelbase_m: Of each car.
        dt_s: Step.
    """
    n, steps, _ = reference.shape
    path = np.concatenate([np.zeros((n, 1, 3)), reference], 1)
    speed_ref = _speed_profile(path, dt_s)
    bends = _bends(_curvature_profile(path, speed_ref, dt_s))
    targets = np.ascontiguousarray(speed_ref.T)
    here = np.ascontiguousarray(path.transpose(2, 1, 0))
    turn = np.sin(here[2]), np.cos(here[2])
    x, y, yaw = np.zeros(n), np.zeros(n), np.zeros(n)
    v, accel = speed_mps.astype(np.float64), accel_mps2.astype(np.float64)
    steer = _steering_angle(v, yaw_rate_radps, wheelbase_m)
    tangent, out = np.tan(steer), np.empty((steps, 6, n))
    per_m, slow, span = dt_s / wheelbase_m, targets <= STOPPING_MPS, HORIZON * dt_s
    gain = Q_SPEED * span / (Q_SPEED * span * span + R_ACCEL)
    basis = np.empty((5, n))
    for k in range(steps):
        ahead = min(k + HORIZON, steps - 1)
        lateral = (y - here[1, k]) * turn[1][k] - (x - here[0, k]) * turn[0][k]
        command = gain * (targets[ahead] - v)
        _fill(basis, v * dt_s, command * (dt_s * dt_s))
        rate = _steering_rate(lateral, yaw - here[2, k], steer / wheelbase_m, basis, bends[k], per_m)
        stopping = slow[ahead] & (v <= STOPPING_MPS)
        if stopping.any():
            command = np.where(stopping, -STOPPING_GAIN * (v - targets[ahead]), command)
            rate = np.where(stopping, 0.0, rate)
        accel = accel + dt_s / (dt_s + ACCEL_LAG_S) * (command - accel)
        moved = v * dt_s
        x, y = x + moved * np.cos(yaw), y + moved * np.sin(yaw)
        yaw = yaw + moved * tangent / wheelbase_m
        v = v + accel * dt_s
        steer = steer + dt_s * dt_s / (dt_s + STEER_LAG_S) * rate
        steer = np.minimum(np.maximum(steer, -MAX_STEER_RAD), MAX_STEER_RAD)
        tangent = np.tan(steer)
        row = out[k]
        row[0], row[1], row[2], row[3], row[4], row[5] = x, y, yaw, v, accel, v * tangent / wheelbase_m
    out = out.transpose(1, 2, 0)
    return Driven(np.stack([out[0], out[1], wrap(out[2])], -1), out[3].copy(), out[4].copy(), out[5].copy())


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


def _fill(basis: F64, a: F64, b: F64) -> None:
    basis[0], basis[1] = a, b
    np.multiply(a, a, out=basis[2])
    np.multiply(a, b, out=basis[3])
    np.multiply(b, b, out=basis[4])


def _steering_rate(lateral: F64, turned: F64, bent: F64, basis: F64, bend: F64, per_m: F64) -> F64:
    """Steering rate [rad/s] of each car, (N,).

    Args:
        lateral: Error now [m], to the left.
        turned: Heading error now [rad].
        bent: Steering angle over wheelbase.
        basis: a, b, a^2, a b, b^2 of the horizon, (5, N).
        bend: From `_bends`, (5, N).
        per_m: Step over wheelbase.
    """
    heading = _short_way(turned)
    moved, pairs, lateral_gain, heading_gain = _SUMS @ basis
    by_road = bend * basis
    heading_end = _short_way(heading + bent * moved - by_road[0] - by_road[1])
    lateral_end = lateral + moved * heading + bent * pairs - by_road[2] - by_road[3] - by_road[4]
    lateral_gain = lateral_gain * per_m
    heading_gain = heading_gain * per_m
    push = Q_LATERAL * lateral_gain * lateral_end + Q_HEADING * heading_gain * heading_end
    cost = Q_LATERAL * lateral_gain * lateral_gain + Q_HEADING * heading_gain * heading_gain + R_STEER_RATE
    return np.asarray(-push / cost)


def _short_way(angle: F64) -> F64:
    return np.asarray(angle - 2 * np.pi * np.rint(angle * (0.5 / np.pi)))


def _speed_profile(path: F64, dt_s: float) -> F64:
    """Speed (N, T) of each interval: displacements along the heading, with a penalty on accelerations.

    nuPlan's tracker penalises the change of acceleration. NAVSIM's copy penalises the acceleration itself in
    all intervals but the last, and NAVSIM's published scores come from that: it is what is done here.
    """
    step = np.diff(path[..., :2], axis=1)
    yaw = path[:, :-1, 2]
    along = step[..., 0] * np.cos(yaw) + step[..., 1] * np.sin(yaw)
    count = along.shape[1]
    rough = np.diff(np.eye(count), axis=0)[:-1]
    rough[-1] -= np.diff(np.eye(count), axis=0)[-1]
    fit = np.linalg.inv(dt_s**2 * np.eye(count) + ACCEL_PENALTY / dt_s**2 * rough.T @ rough) * dt_s
    return np.asarray(along @ fit.T)


def _curvature_profile(path: F64, speed: F64, dt_s: float) -> F64:
    """Curvature (N, T) [1/m] of each interval: turns over distance, with a penalty on its change.

    The normal equations are tridiagonal; they are solved for all cars at once by elimination.
    """
    moved = speed * dt_s
    turn = wrap(np.diff(path[..., 2], axis=1))
    weight = CURVATURE_RATE_PENALTY / dt_s**2
    diagonal = moved**2 + 2 * weight
    diagonal[:, 0] += CURVATURE_PENALTY - weight
    diagonal[:, -1] -= weight
    right = moved * turn
    for k in range(1, right.shape[1]):
        factor = weight / diagonal[:, k - 1]
        diagonal[:, k] -= factor * weight
        right[:, k] += factor * right[:, k - 1]
    out: F64 = np.empty_like(right)
    out[:, -1] = right[:, -1] / np.maximum(diagonal[:, -1], 1e-12)
    for k in range(right.shape[1] - 2, -1, -1):
        out[:, k] = (right[:, k] + weight * out[:, k + 1]) / diagonal[:, k]
    return out
