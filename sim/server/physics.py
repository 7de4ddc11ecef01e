"""Motion of vehicles (kinematic bicycle with pedal and steering lag) and walkers; CARLA frame."""

import math
from functools import lru_cache

from sim.server.actors import Mover, Vehicle, Walker

MAX_WHEEL_RAD = math.radians(60)
STEERING_CURVE = ((0.0, 1.0), (20.0, 0.9), (60.0, 0.8), (120.0, 0.7))  # km/h -> share of the full wheel angle
STEERING_LAG_S, STEERING_RATE_RADPS = 0.12, 2.1
PEDAL_LAG_S = 0.10
BRAKE_MPS2, HAND_BRAKE_MPS2 = 8.0, 6.0
ROLLING_MPS2, DRAG_1PM, ENGINE_BRAKE_MPS2 = 0.1, 0.0005, 0.6
FULL_TORQUE_BELOW_MPS = 10.0
GRIP_MPS2 = 7.5
_LAUNCH_MPS2 = {"car": 5.0, "van": 4.0, "truck": 2.5, "bus": 2.5, "motorcycle": 5.0, "bicycle": 2.0}


@lru_cache
def _axles_m(half_length_m: float) -> tuple[float, float]:
    """(distance between the axles, from the rear axle forward to the vehicle centre)."""
    base = max(0.9, 1.17 * half_length_m)
    return base, 0.49 * base


def wheelbase_m(vehicle: Vehicle) -> float:
    """Distance between the axles, about 58 % of the length (2.86 m for the Lincoln MKZ)."""
    return _axles_m(vehicle.body[0])[0]


def rear_axle_m(vehicle: Vehicle) -> float:
    """Distance from the rear axle forward to the vehicle centre (1.40 m for the Lincoln MKZ)."""
    return _axles_m(vehicle.body[0])[1]


@lru_cache
def _lag_share(dt: float, lag_s: float) -> float:
    """Share of the way to its target that a first-order lag goes in dt seconds."""
    return 1.0 - math.exp(-dt / lag_s)


def drive(vehicle: Vehicle, dt: float) -> None:
    """Advance one vehicle by dt seconds; exactly zero velocity at standstill."""
    old_vx, old_vy = vehicle.vx, vehicle.vy
    speed = _next_speed(vehicle, dt)
    steer = vehicle.ackermann[0] / MAX_WHEEL_RAD if vehicle.ackermann else vehicle.control[1]
    _turn_wheels(vehicle, steer, dt)
    vehicle.speed, vehicle.target_velocity = speed, None
    if speed == 0.0 and vehicle.constant_velocity is None:
        vehicle.vx = vehicle.vy = vehicle.wz = 0.0
    else:
        _move(vehicle, speed, dt)
    vehicle.ax, vehicle.ay = (vehicle.vx - old_vx) / dt, (vehicle.vy - old_vy) / dt


def _move(vehicle: Vehicle, speed: float, dt: float) -> None:
    base, lever = _axles_m(vehicle.body[0])
    turn = speed * math.tan(vehicle.wheel_rad) / base
    grip = GRIP_MPS2 / max(abs(speed), 1e-3)
    turn = max(-grip, min(grip, turn))
    yaw = math.radians(vehicle.yaw)
    rear_x, rear_y = vehicle.x - lever * math.cos(yaw), vehicle.y - lever * math.sin(yaw)
    middle = yaw + 0.5 * turn * dt
    ahead, aside = math.cos(middle), math.sin(middle)
    side = vehicle.constant_velocity[1] if vehicle.constant_velocity else 0.0
    rear_x += (speed * ahead - side * aside) * dt
    rear_y += (speed * aside + side * ahead) * dt
    yaw += turn * dt
    c, s = math.cos(yaw), math.sin(yaw)
    vehicle.x, vehicle.y = rear_x + lever * c, rear_y + lever * s
    side += turn * lever
    vehicle.vx, vehicle.vy = speed * c - side * s, speed * s + side * c
    vehicle.wz = math.degrees(turn)
    vehicle.yaw = (math.degrees(yaw) + 180) % 360 - 180


def _next_speed(vehicle: Vehicle, dt: float) -> float:
    if vehicle.constant_velocity is not None:
        vehicle.accel = 0.0
        return vehicle.constant_velocity[0]
    speed = vehicle.speed
    lag = _lag_share(dt, PEDAL_LAG_S)
    if vehicle.ackermann is not None:
        wanted = max(-BRAKE_MPS2, min(4.0, (vehicle.ackermann[2] - speed) / max(dt, 0.3)))
        vehicle.accel += (wanted - vehicle.accel) * lag
        return speed + vehicle.accel * dt
    throttle, _, brake, hand_brake, reverse = vehicle.control[:5]
    launch = _LAUNCH_MPS2.get(vehicle.spec.base_type, 5.0)
    push = 0.0 if hand_brake else throttle * launch * min(1.0, FULL_TORQUE_BELOW_MPS / max(abs(speed), 1e-3))
    hold = brake * BRAKE_MPS2 + (HAND_BRAKE_MPS2 if hand_brake else 0.0)
    hold += ROLLING_MPS2 + DRAG_1PM * speed * speed + (ENGINE_BRAKE_MPS2 if throttle == 0 else 0.0)
    direction = math.copysign(1.0, speed) if speed else (-1.0 if reverse else 1.0)
    wanted = (-push if reverse else push) - direction * hold
    if speed == 0.0 and wanted * direction <= 0.0:
        vehicle.accel = 0.0
        return 0.0
    vehicle.accel += (wanted - vehicle.accel) * lag
    new = speed + vehicle.accel * dt
    if new * direction < 0.0:  # brakes and drag stop a vehicle, they never push it backwards
        vehicle.accel = 0.0
        return 0.0
    return new


def _turn_wheels(vehicle: Vehicle, steer: float, dt: float) -> None:
    target = max(-1.0, min(1.0, steer)) * _steering_share(abs(vehicle.speed) * 3.6) * MAX_WHEEL_RAD
    change = (target - vehicle.wheel_rad) * _lag_share(dt, STEERING_LAG_S)
    most = STEERING_RATE_RADPS * dt
    vehicle.wheel_rad += max(-most, min(most, change))


def _steering_share(kmh: float) -> float:
    low_v, low = STEERING_CURVE[0]
    for high_v, high in STEERING_CURVE[1:]:
        if kmh < high_v:
            return low + (high - low) * (kmh - low_v) / (high_v - low_v)
        low_v, low = high_v, high
    return low


def walk(walker: Walker, dt: float) -> None:
    """Advance one walker by dt seconds in the direction of its control."""
    direction, speed, _ = walker.control
    norm = math.hypot(direction[0], direction[1])
    walker.speed = speed if norm else 0.0
    old_vx, old_vy = walker.vx, walker.vy
    walker.vx, walker.vy = (
        (direction[0] / norm * speed, direction[1] / norm * speed) if walker.speed else (0.0, 0.0)
    )
    if walker.target_velocity is not None:
        walker.vx, walker.vy = walker.target_velocity[:2]
        walker.target_velocity = None
    walker.x += walker.vx * dt
    walker.y += walker.vy * dt
    walker.ax, walker.ay = (walker.vx - old_vx) / dt, (walker.vy - old_vy) / dt
    if walker.vx or walker.vy:
        walker.yaw = math.degrees(math.atan2(walker.vy, walker.vx))


def set_velocity(mover: Mover, velocity: list[float]) -> None:
    """Give a mover a world velocity [m/s]; vehicles keep only the part along their heading."""
    mover.target_velocity = velocity
    mover.vx, mover.vy = velocity[0], velocity[1]
    if isinstance(mover, Vehicle):
        yaw = math.radians(mover.yaw)
        mover.speed = velocity[0] * math.cos(yaw) + velocity[1] * math.sin(yaw)
        mover.accel = 0.0


def spin(mover: Mover, dt: float) -> None:
    """Turn a mover about its middle for one tick, on top of its own motion."""
    mover.wz += mover.spin_dps
    mover.yaw = (mover.yaw + mover.spin_dps * dt + 180) % 360 - 180
    mover.spin_dps, mover.ground_at = 0.0, None
