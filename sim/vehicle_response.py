"""How CARLA's default ego answers pedals and wheel, as published fits of CARLA 0.9.15 drives say.

The expert PDM-Lite forecasts with a polynomial fit of the Lincoln MKZ 2020 at 20 Hz. Played forward it gives
0-50 km/h in 2.5 s at full throttle, 4.75 s at 0.75 and 9.6 s at 0.6; 11.3 m from 50 and 31.6 m from 80 km/h
at full brake; and, with the kinematic bicycle of World on Rails, circles of 36.0, 12.0 and 7.3 m at
steer 0.1, 0.3 and 0.5. The curves below are our own and meet those within a tenth: test_physics.py.
"""

import math

LAUNCH_MPS2 = 8.4  # engine at standstill and full throttle
FADE_1PS = 0.22  # what every m/s takes from it: less torque on the wheels in higher gears
LEAST_SHARE = 0.25  # of it that is left at any speed
DRAG_MPS2 = 1.0  # engine brake and rolling
BRAKE_MPS2 = 8.0  # full brake, without the drag
WHEEL_SHARE = 0.715  # angle of the bicycle model's wheel over the stated angle of the (inner) front wheel


def engine_mps2(throttle: float, speed_mps: float, share: float = 1.0) -> float:
    """Push [m/s2] of an engine, `share` of the default ego's, before drag; quadratic in the pedal."""
    full = max(LEAST_SHARE * LAUNCH_MPS2, LAUNCH_MPS2 - FADE_1PS * abs(speed_mps))
    return throttle * throttle * full * share


def throttle_for(accel_mps2: float, speed_mps: float) -> float:
    """Pedal in [0, 1] for an acceleration of the default ego, drag counted."""
    return min(1.0, math.sqrt(max(0.0, accel_mps2 + DRAG_MPS2) / engine_mps2(1.0, speed_mps)))


def brake_for(accel_mps2: float) -> float:
    """Pedal in [0, 1] for a deceleration; 0 where the drag alone is enough."""
    return min(1.0, max(0.0, -accel_mps2 - DRAG_MPS2) / BRAKE_MPS2)
