"""What a smooth trajectory earns that is at each place ahead in four seconds."""

from typing import NamedTuple

import numpy as np

from drive.contracts import DT_S, F64, STEPS
from drive.geometry.se2 import yaw_from_path
from drive.score.scene import FrozenScene
from drive.score.terms import reward_terms, total

HORIZON_S = STEPS * DT_S
ENDS_X_M: F64 = np.arange(0.5, 42.0, 1.5)
ENDS_Y_M: F64 = np.arange(-10.0, 10.01, 1.0)


class TrialField(NamedTuple):
    """Rewards float64 (X, Y) in [0, 1] of trajectories that end at x_m (X,), y_m (Y,) in the ego frame."""

    x_m: F64
    y_m: F64
    reward: F64


def trial_field(scene: FrozenScene) -> TrialField:
    """Reward (drive.score.terms) of one smooth trajectory to every place of a grid ahead."""
    x, y = np.meshgrid(ENDS_X_M, ENDS_Y_M, indexing="ij")
    poses = smooth_to(np.stack([x.ravel(), y.ravel()], -1), scene.speed_mps)
    return TrialField(ENDS_X_M, ENDS_Y_M, total(reward_terms(poses, scene)).reshape(x.shape))


def smooth_to(ends_ego: F64, speed_mps: float) -> F64:
    """Trajectories float64 (P, 40, 3) from the ego's place and speed to places (P, 2), x > 0, in 4 s.

    Along x the acceleration is constant (until standstill, where the ego would stop before), across it is a
    smooth step in the distance covered.
    """
    end, v = ends_ego[:, :1], max(speed_mps, 0.0)
    t = (np.arange(STEPS) + 1) * DT_S
    accel = 2 * (end - v * HORIZON_S) / HORIZON_S**2
    stops = v + accel * HORIZON_S < 0
    brake = -(v**2) / (2 * end)
    held = np.minimum(t, -v / np.where(stops, brake, -1.0))
    along = np.where(stops, v * held + brake * held**2 / 2, v * t + accel * t**2 / 2)
    share = along / end
    xy = np.stack([along, ends_ego[:, 1:] * share**2 * (3 - 2 * share)], -1)
    return np.concatenate([xy, yaw_from_path(xy)[..., None]], -1)
