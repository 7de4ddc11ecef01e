"""What a policy saw at a planning step of a recorded drive."""

import numpy as np

from drive.contracts import F32, DriveLog, Observation, RouteHint, Turn, earlier_frame
from drive.geometry.se2 import resample_poses, to_local

HISTORY_S = 2.0
HISTORY_STEP_S = 0.5
_FRAMES_BACK = 20


def observation_at(log: DriveLog, plan_index: int) -> Observation:
    """Rebuild the observation of planning step `plan_index`; uses nothing recorded later."""
    plans, row = log.plans, int(log.plans.step[plan_index])
    frames = [plan_index] if (at := earlier_step(log, plan_index)) is None else [at, plan_index]
    before = log.ego.pose_world[plans.step[frames[:-1]]]
    return Observation(
        t_us=int(log.ego.t_us[row]),
        images={name: images[frames] for name, images in plans.images.items()},
        before_ego=to_local(before, log.ego.pose_world[row]).astype(np.float32),
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


def earlier_step(log: DriveLog, plan_index: int) -> int | None:
    """The planning step whose image goes with that of `plan_index`, None if there is none."""
    first = max(0, plan_index - _FRAMES_BACK)
    at = earlier_frame(log.ego.t_us[log.plans.step[first : plan_index + 1]])
    return None if at is None else first + at


def _history(log: DriveLog, row: int) -> F32:
    """Poses float32 (5, 3) at -2.0 ... 0 s; before the start of the drive the first pose is repeated."""
    t_s = (log.ego.t_us[: row + 1] - log.ego.t_us[row]) * 1e-6
    at_s = np.arange(-HISTORY_S, HISTORY_STEP_S / 2, HISTORY_STEP_S)
    poses = resample_poses(log.ego.pose_world[: row + 1], t_s, at_s)
    return to_local(poses, log.ego.pose_world[row]).astype(np.float32)
