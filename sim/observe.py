"""What a policy is shown, and its answer on our time grid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from drive.contracts import (
    DT_S,
    F32,
    F64,
    FRAME_GAP_RANGE_S,
    U8,
    CameraModel,
    Observation,
    Plan,
    RouteHint,
    earlier_frame,
)
from drive.geometry.se2 import resample_poses, to_local
from sim.situation import EgoState

HISTORY_S = (-2.0, -1.5, -1.0, -0.5, 0.0)


@dataclass(frozen=True)
class _Shot:
    t_us: int
    pose_world: F64
    images: Mapping[str, U8]


@dataclass
class Shots:
    """Images of the last planning steps, and the one that goes with the newest."""

    kept: list[_Shot] = field(default_factory=list)

    def add(self, t_s: float, pose_world: F64, images: Mapping[str, U8]) -> tuple[Mapping[str, U8], F32]:
        """Add the images (H, W, 3) of now.

        Returns:
            Camera name -> (K, H, W, 3), oldest first, and the ego poses (K - 1, 3) of the earlier ones in the
            ego frame of now; K is 2 where a fitting earlier image is known, else 1.
        """
        now = _Shot(round(t_s * 1e6), pose_world, images)
        oldest = now.t_us - FRAME_GAP_RANGE_S[1] * 1e6
        self.kept = [s for s in self.kept if oldest <= s.t_us < now.t_us and s.images.keys() == images.keys()]
        self.kept.append(now)
        at = earlier_frame(np.array([shot.t_us for shot in self.kept]))
        shots = [now] if at is None else [self.kept[at], now]
        stacked = {name: np.stack([shot.images[name] for shot in shots]) for name in images}
        before = [to_local(shot.pose_world[None], pose_world)[0] for shot in shots[:-1]]
        return stacked, np.array(before, np.float32).reshape(-1, 3)


def observation(
    t_s: float,
    ego: EgoState,
    hint: RouteHint,
    history_ego: F32,
    seen: tuple[Mapping[str, U8], F32],
    cameras: Mapping[str, CameraModel],
) -> Observation:
    """Observation at t_s; `seen` comes from `Shots.add`, `cameras` are the models by camera name."""
    images, before_ego = seen
    return Observation(
        t_us=round(t_s * 1e6),
        images=images,
        before_ego=before_ego,
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
