"""A trajectory as a car would drive it: kinematic bicycle, tracked by a linear-quadratic regulator."""

from dataclasses import dataclass

import numpy as np

from drive.contracts import F64
from drive.geometry.se2 import wrap

HORIZON = 10
Q_SPEED, R_ACCEL = 10.0, 1.0
Q_LATERAL, Q_HEADING, R_STEER_RATE = 1.0, 10.0, 1.0
JERK_PENALTY, CURVATURE_RATE_PENALTY, CURVATURE_PENALTY = 1e-4, 1e-2, 1e-10
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
    with penalties on jerk and on the change of curvature; acceleration and steering follow with a lag.
    Weights and lags are those published with nuPlan's tracker and bicycle.

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
    curvature = _curvature_profile(path, speed_ref, dt_s)
    x, y, yaw = np.zeros(n), np.zeros(n), np.zeros(n)
    v, accel = speed_mps.astype(np.float64), accel_mps2.astype(np.float64)
    steer = np.where(
        np.abs(v) > SLOW_MPS, np.arctan(yaw_rate_radps * wheelbase_m / np.maximum(v, SLOW_MPS)), 0.0
    )
    padded = np.concatenate([curvature, np.repeat(curvature[:, -1:], HORIZON, 1)], 1)
    out = np.empty((6, n, steps))
    for k in range(steps):
        target = speed_ref[:, min(k + HORIZON, steps - 1)]
        command, rate = _command(
            x, y, yaw, v, steer, path[:, k], target, padded[:, k : k + HORIZON], wheelbase_m, dt_s
        )
        accel = accel + dt_s / (dt_s + ACCEL_LAG_S) * (command - accel)
        wanted = np.clip(steer + rate * dt_s, -MAX_STEER_RAD, MAX_STEER_RAD)
        x, y = x + v * np.cos(yaw) * dt_s, y + v * np.sin(yaw) * dt_s
        yaw = yaw + v * np.tan(steer) / wheelbase_m * dt_s
        v = v + accel * dt_s
        steer = steer + dt_s / (dt_s + STEER_LAG_S) * (wanted - steer)
        out[:, :, k] = x, y, yaw, v, accel, v * np.tan(steer) / wheelbase_m
    pose = np.stack([out[0], out[1], wrap(out[2])], -1)
    return Driven(pose, out[3], out[4], out[5])


def _command(
    x: F64,
    y: F64,
    yaw: F64,
    v: F64,
    steer: F64,
    here: F64,
    target: F64,
    curvature: F64,
    wheelbase_m: F64,
    dt_s: float,
) -> tuple[F64, F64]:
    """Acceleration [m/s2] and steering rate [rad/s] of each car, (N,); curvature (N, HORIZON)."""
    span = HORIZON * dt_s
    command = Q_SPEED * span * (target - v) / (Q_SPEED * span * span + R_ACCEL)
    j = np.arange(HORIZON)
    moved = (v[:, None] + command[:, None] * dt_s * j) * dt_s
    lateral = (y - here[:, 1]) * np.cos(here[:, 2]) - (x - here[:, 0]) * np.sin(here[:, 2])
    turned = yaw - here[:, 2]
    heading = turned - 2 * np.pi * np.round(turned / (2 * np.pi))
    free = np.cumsum(moved * ((steer / wheelbase_m)[:, None] - curvature), 1)
    forced = np.cumsum(moved * (j * dt_s) / wheelbase_m[:, None], 1)
    lateral_end = lateral + moved.sum(1) * heading + (moved[:, 1:] * free[:, :-1]).sum(1)
    lateral_gain = (moved[:, 1:] * forced[:, :-1]).sum(1)
    heading_end, heading_gain = heading + free[:, -1], forced[:, -1]
    rate = -(Q_LATERAL * lateral_gain * lateral_end + Q_HEADING * heading_gain * heading_end) / (
        Q_LATERAL * lateral_gain**2 + Q_HEADING * heading_gain**2 + R_STEER_RATE
    )
    stopping = (target <= STOPPING_MPS) & (v <= STOPPING_MPS)
    return np.where(stopping, -STOPPING_GAIN * (v - target), command), np.where(stopping, 0.0, rate)


def _speed_profile(path: F64, dt_s: float) -> F64:
    """Speed (N, T) of each interval: displacements along the heading, with a penalty on jerk."""
    step = np.diff(path[..., :2], axis=1)
    yaw = path[:, :-1, 2]
    along = step[..., 0] * np.cos(yaw) + step[..., 1] * np.sin(yaw)
    count = along.shape[1]
    jerk = np.diff(np.eye(count), 2, axis=0) / dt_s**2
    fit = np.linalg.inv(dt_s**2 * np.eye(count) + JERK_PENALTY * jerk.T @ jerk) * dt_s
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
