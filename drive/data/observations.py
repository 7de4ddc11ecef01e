"""What a policy saw at a planning step of a recorded drive."""

import numpy as np

from drive.contracts import F32, DriveLog, Observation, RouteHint, Turn
from drive.geometry.se2 import resample_poses, to_local

HISTORY_S = 2.0
HISTORY_STEP_S = 0.5


def observation_at(log: DriveLog, plan_index: int) -> Observation:
    """Rebuild the observation of planning step `plan_index`; uses nothing recorded later."""
    plans, row = log.plans, int(log.plans.step[plan_index])
    return Observation(
        t_us=int(log.ego.t_us[row]),
        images={name: images[plan_index : plan_index + 1] for name, images in plans.images.items()},
        cameras={name: plans.cameras[name] for name in plans.images},
        history_ego=_history(log, row),
        speed_mps=float(log.ego.speed_mps[row]),
        accel_mps2=float(log.ego.accel_mps2[row]),
        yaw_rate_radps=float(log.ego.yaw_rate_radps[row]),
        route=RouteHint(
            Turn(int(plans.turn[plan_index])),
            plans.target_points_ego[plan_index],
            float(plans.speed_limit_mps[plan_index]),
            plans.provenance,
        ),
    )


def _history(log: DriveLog, row: int) -> F32:
    """Poses float32 (5, 3) at -2.0 ... 0 s; before the start of the drive the first pose is repeated."""
    t_s = (log.ego.t_us[: row + 1] - log.ego.t_us[row]) * 1e-6
    at_s = np.arange(-HISTORY_S, HISTORY_STEP_S / 2, HISTORY_STEP_S)
    poses = resample_poses(log.ego.pose_world[: row + 1], t_s, at_s)
    return to_local(poses, log.ego.pose_world[row]).astype(np.float32)
