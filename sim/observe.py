"""What a policy is shown, and its answer on our time grid."""

from collections.abc import Mapping, Sequence

import numpy as np

from drive.contracts import DT_S, F32, F64, U8, CameraModel, Observation, Plan, RouteHint
from drive.geometry.se2 import resample_poses, to_local
from sim.situation import EgoState

HISTORY_S = (-2.0, -1.5, -1.0, -0.5, 0.0)


def observation(
    t_s: float,
    ego: EgoState,
    hint: RouteHint,
    history_ego: F32,
    images: Mapping[str, U8],
    cameras: Mapping[str, CameraModel],
) -> Observation:
    """Observation at t_s; `images` are uint8 (H, W, 3) RGB by camera name, `cameras` their models."""
    return Observation(
        t_us=round(t_s * 1e6),
        images={name: image[None] for name, image in images.items()},
        cameras={name: cameras[name] for name in images},
        history_ego=history_ego,
        speed_mps=ego.speed_mps,
        accel_mps2=ego.accel_mps2,
        yaw_rate_radps=ego.yaw_rate_radps,
        route=hint,
    )


def history_ego(trail_t_s: Sequence[float], trail_world: Sequence[F64], t_s: float, ego: EgoState) -> F32:
    """Past poses (5, 3) at 2 Hz in the current ego frame.

    Args:
        trail_t_s: Times of the trail, ascending, the last one now.
        trail_world: Poses (3,) at these times; before the first one the ego drove straight as fast as now.
        t_s: Now.
        ego: Motion now.
    """
    t = np.array(trail_t_s)
    wanted = t_s + np.array(HISTORY_S)
    local = to_local(np.array(trail_world), ego.pose_world)
    poses = resample_poses(local, t, wanted)
    early = wanted < t[0] - 1e-6
    first = local[0]
    for k in np.flatnonzero(early):
        back = ego.speed_mps * (t[0] - wanted[k])
        poses[k] = [first[0] - back * np.cos(first[2]), first[1] - back * np.sin(first[2]), first[2]]
    return poses.astype(np.float32)


def chosen_poses(plan: Plan) -> F32:
    """The chosen trajectory on the 0.1 s grid."""
    best = plan.best
    if abs(best.dt_s - DT_S) < 1e-9 or not np.isfinite(best.pose_ego).all():
        return best.pose_ego
    t = np.arange(len(best.pose_ego) + 1) * best.dt_s
    poses = np.concatenate([np.zeros((1, 3)), best.pose_ego])
    return resample_poses(poses, t, np.arange(1, round(t[-1] / DT_S) + 1) * DT_S).astype(np.float32)
