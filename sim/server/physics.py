"""Motion of vehicles (dynamic bicycle with tyre, engine and pedal limits) and walkers; CARLA frame."""

import math
from functools import lru_cache

from sim import vehicle_response as response
from sim.server.actors import Mover, Vehicle, Walker

MAX_WHEEL_RAD = math.radians(70)  # stated for the default ego's inner front wheel
STEERING_CURVE = ((0.0, 1.0), (20.0, 0.9), (60.0, 0.8), (120.0, 0.7))  # km/h -> share of the full wheel angle
STEERING_LAG_S, STEERING_RATE_RADPS = 0.12, 2.1
PEDAL_LAG_S = 0.10
HAND_BRAKE_MPS2 = 6.0
AIR_1PM = 0.0004
GRAVITY_MPS2 = 9.81
FRICTION_FRONT, FRICTION_REAR = 0.95, 1.15  # the front slides first: a car that plows, and never spins
CORNERING_FRONT_1PRAD, CORNERING_REAR_1PRAD = 15.0, 16.5  # force over load per slip angle: mild understeer
LEAST_LATERAL_SHARE = 0.3  # of the grip, whatever braking takes
# Share of the default ego's engine; none is published, these follow weight and use.
_ENGINE_SHARE = {"van": 0.75, "truck": 0.5, "bus": 0.5, "bicycle": 0.35}


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
    steer = (
        vehicle.ackermann[0] / (MAX_WHEEL_RAD * response.WHEEL_SHARE)
        if vehicle.ackermann
        else vehicle.control[1]
    )
    _turn_wheels(vehicle, steer, dt)
    vehicle.speed, vehicle.target_velocity = speed, None
    if vehicle.constant_velocity is not None:
        _move(vehicle, *_forced(vehicle), dt)
    elif speed == 0.0:
        vehicle.vx = vehicle.vy = vehicle.wz = vehicle.side = 0.0
    else:
        _move(vehicle, *_slip(vehicle, dt), dt)
    vehicle.ax, vehicle.ay = (vehicle.vx - old_vx) / dt, (vehicle.vy - old_vy) / dt


def _slip(vehicle: Vehicle, dt: float) -> tuple[float, float]:
    """Sideways velocity of the centre [m/s] and turn rate [rad/s] after dt, from both axles' side forces.

    Forces grow with the slip of the tyre and saturate at what friction leaves beside braking. They are
    linearised at the present slip (secant) and solved implicitly, which holds at any speed and step: the
    slower, the closer to the kinematic bicycle, which is its limit at standstill.
    """
    base, rear = _axles_m(vehicle.body[0])
    front = base - rear
    speed, side, turn = vehicle.speed, vehicle.side, math.radians(vehicle.wz)
    pace = max(abs(speed), 0.05)
    wheel = math.tan(vehicle.wheel_rad) * speed
    left = max(LEAST_LATERAL_SHARE, math.sqrt(max(0.0, 1.0 - (vehicle.accel / GRAVITY_MPS2) ** 2)))
    stiff_front = _stiffness(
        CORNERING_FRONT_1PRAD, (side + front * turn - wheel) / pace, FRICTION_FRONT * left
    )
    stiff_rear = _stiffness(CORNERING_REAR_1PRAD, (side - rear * turn) / pace, FRICTION_REAR * left)
    share = dt * GRAVITY_MPS2 / (pace * base)
    a, b = share * rear * stiff_front, share * front * stiff_rear  # each axle carries its share of the weight
    spin = 1.0 / (front * rear)  # mass over yaw inertia: as if the mass were split between the axles
    m11, m12 = 1.0 + a + b, dt * speed + a * front - b * rear
    m21, m22 = spin * (a * front - b * rear), 1.0 + spin * (a * front * front + b * rear * rear)
    r1, r2 = side + a * wheel, turn + spin * front * a * wheel
    det = m11 * m22 - m12 * m21
    return (r1 * m22 - m12 * r2) / det, (m11 * r2 - m21 * r1) / det


def _stiffness(cornering: float, slip: float, grip: float) -> float:
    """Secant cornering stiffness: full at small slip, force at most `grip` times the load."""
    demand = cornering * slip / grip
    return cornering / math.sqrt(1.0 + demand * demand)


def _forced(vehicle: Vehicle) -> tuple[float, float]:
    """Sideways velocity and turn rate under a constant velocity, which overrides the tyres."""
    assert vehicle.constant_velocity is not None
    turn = vehicle.speed * math.tan(vehicle.wheel_rad) / wheelbase_m(vehicle)
    most = FRICTION_FRONT * GRAVITY_MPS2 / max(abs(vehicle.speed), 1e-3)
    turn = max(-most, min(most, turn))
    return vehicle.constant_velocity[1] + turn * rear_axle_m(vehicle), turn


def _move(vehicle: Vehicle, side: float, turn: float, dt: float) -> None:
    """Move the centre with the speed, sideways velocity and turn rate at the end of the step."""
    yaw = math.radians(vehicle.yaw)
    middle, end = yaw + 0.5 * turn * dt, yaw + turn * dt
    speed = vehicle.speed
    vehicle.x += (speed * math.cos(middle) - side * math.sin(middle)) * dt
    vehicle.y += (speed * math.sin(middle) + side * math.cos(middle)) * dt
    c, s = math.cos(end), math.sin(end)
    vehicle.vx, vehicle.vy = speed * c - side * s, speed * s + side * c
    vehicle.side, vehicle.wz = side, math.degrees(turn)
    vehicle.yaw = (math.degrees(end) + 180) % 360 - 180


def _next_speed(vehicle: Vehicle, dt: float) -> float:
    if vehicle.constant_velocity is not None:
        vehicle.accel = 0.0
        return vehicle.constant_velocity[0]
    speed = vehicle.speed
    lag = _lag_share(dt, PEDAL_LAG_S)
    if vehicle.ackermann is not None:
        wanted = max(-response.BRAKE_MPS2, min(4.0, (vehicle.ackermann[2] - speed) / max(dt, 0.3)))
        vehicle.accel += (wanted - vehicle.accel) * lag
        return speed + vehicle.accel * dt
    throttle, _, brake, hand_brake, reverse = vehicle.control[:5]
    engine = _ENGINE_SHARE.get(vehicle.spec.base_type, 1.0)
    push = 0.0 if hand_brake else response.engine_mps2(throttle, speed, engine)
    hold = brake * response.BRAKE_MPS2 + (HAND_BRAKE_MPS2 if hand_brake else 0.0)
    hold += response.DRAG_MPS2 + AIR_1PM * speed * speed
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
    share = _steering_share(abs(vehicle.speed) * 3.6) * response.WHEEL_SHARE
    target = max(-1.0, min(1.0, steer)) * share * MAX_WHEEL_RAD
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
        mover.accel = mover.side = 0.0


def spin(mover: Mover, dt: float) -> None:
    """Turn a mover about its middle for one tick, on top of its own motion."""
    mover.wz += mover.spin_dps
    mover.yaw = (mover.yaw + mover.spin_dps * dt + 180) % 360 - 180
    mover.spin_dps, mover.ground_at = 0.0, None
