"""From a plan to throttle, brake and steering: pure pursuit and a PI speed controller."""

import math
from dataclasses import dataclass

import numpy as np

from drive.contracts import DT_S, F32, F64
from drive.geometry.se2 import to_local, to_world
from sim.expert import MAX_STEER_RAD, WHEELBASE_M
from sim.vehicle_response import DRAG_MPS2, WHEEL_SHARE, brake_for, throttle_for

PREVIEW_S = 0.5
STOPPED_M = 0.6
INTEGRAL_GAIN = 0.25
INTEGRAL_LIMIT_MPS2 = 1.0
MOST_MPS2 = 3.5
HOLD_BRAKE = 0.6
SAFE_BRAKE = 0.8


@dataclass(frozen=True)
class VehicleGains:
    """How the wheel acts; the pedals act as sim.vehicle_response says.

    Attributes:
        max_wheel_rad: Angle of the bicycle model's wheel at full steer and standstill.
        curve: (speed km/h, share of max_wheel_rad available), ascending.
    """

    max_wheel_rad: float = WHEEL_SHARE * math.radians(70.0)
    curve: tuple[tuple[float, float], ...] = ((0.0, 1.0),)

    def steer(self, wheel_rad: float, speed_mps: float) -> float:
        """Steering input in [-1, 1] for a wheel angle."""
        kmh, share = zip(*self.curve, strict=True)
        most = self.max_wheel_rad * float(np.interp(abs(speed_mps) * 3.6, kmh, share))
        return max(-1.0, min(1.0, wheel_rad / most))


@dataclass(frozen=True)
class Pedals:
    """One control: throttle and brake in [0, 1], steer in [-1, 1], positive to the LEFT (not as in CARLA)."""

    throttle: float
    brake: float
    steer: float


class Tracker:
    """Follows the newest plan; between plans it keeps to the same path in the world.

    Args:
        gains: How the wheel acts.
        most_mps2: Acceleration that is not exceeded.
    """

    def __init__(self, gains: VehicleGains, most_mps2: float = MOST_MPS2) -> None:
        self._gains, self._most_mps2 = gains, most_mps2
        self._path_world: F64 | None = None
        self._t0_s = 0.0
        self._wheel_rad = 0.0
        self._integral_mps2 = 0.0
        self.unusable_plans = 0

    def set_plan(self, pose_ego: F32 | F64, ego_world: F64, t_s: float) -> bool:
        """Take over a plan (T, 3) made at pose `ego_world`; a non-finite one means braking and False."""
        if not np.isfinite(pose_ego).all():
            self._path_world = None
            self.unusable_plans += 1
            return False
        start = np.concatenate([np.zeros((1, 3)), np.asarray(pose_ego, np.float64)])
        self._path_world, self._t0_s = to_world(start, ego_world), t_s
        return True

    def control(self, ego_world: F64, speed_mps: float, t_s: float, dt_s: float) -> Pedals:
        """Pedals for the next tick."""
        if self._path_world is None:
            return Pedals(0.0, SAFE_BRAKE, 0.0)
        path = to_local(self._path_world, ego_world)
        age = t_s - self._t0_s
        self._steer(path, speed_mps)
        accel = self._accel(path, speed_mps, age, dt_s)
        steer = self._gains.steer(self._wheel_rad, speed_mps)
        if accel is None:
            return Pedals(0.0, HOLD_BRAKE, steer)
        if accel > -DRAG_MPS2:
            return Pedals(throttle_for(accel, speed_mps), 0.0, steer)
        return Pedals(0.0, brake_for(accel), steer)

    def _accel(self, path: F64, speed: float, age_s: float, dt_s: float) -> float | None:
        """Wanted acceleration, None to stand still."""
        i = min(len(path) - 1, max(1, round((age_s + PREVIEW_S) / DT_S)))
        low, high = max(0, i - 2), min(len(path) - 1, i + 2)
        step = path[high, :2] - path[low, :2]
        forward = step[0] * math.cos(path[low, 2]) + step[1] * math.sin(path[low, 2])
        wanted = max(0.0, float(forward)) / ((high - low) * DT_S)
        ahead = float(np.hypot(*(path[-1, :2] - path[0, :2])))
        if ahead < STOPPED_M and speed < 0.5:
            self._integral_mps2 = 0.0
            return None
        error = wanted - speed
        if speed > 0.3:
            change = INTEGRAL_GAIN * error * dt_s
            limit = INTEGRAL_LIMIT_MPS2
            self._integral_mps2 = max(-limit, min(limit, self._integral_mps2 + change))
        return max(-8.0, min(self._most_mps2, error / PREVIEW_S + self._integral_mps2))

    def _steer(self, path: F64, speed: float) -> None:
        """Pure pursuit of the point 3 + 0.45 v metres ahead; too short a plan keeps the wheel where it is."""
        look = 3.0 + 0.45 * max(0.0, speed)
        distance = np.hypot(path[:, 0], path[:, 1])
        near = int(np.argmin(distance))
        rest = path[near:, :2]
        length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(rest, axis=0).T))])
        if length[-1] < 0.3 and distance[-1] < 1.0:
            return
        if length[-1] >= look:
            k = int(np.searchsorted(length, look))
            f = (look - length[k - 1]) / max(length[k] - length[k - 1], 1e-6)
            x, y = rest[k - 1] + f * (rest[k] - rest[k - 1])
        else:
            extra = look - length[-1]
            x, y = rest[-1] + extra * np.array([math.cos(path[-1, 2]), math.sin(path[-1, 2])])
        if x < 0.5:
            return
        wheel = math.atan(2 * WHEELBASE_M * float(y) / max(float(x * x + y * y), 1.0))
        self._wheel_rad = max(-MAX_STEER_RAD, min(MAX_STEER_RAD, wheel))
