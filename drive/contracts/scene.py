"""Ground truth: what scorers, experts, miners and renderers may see, and policies may not."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from drive.contracts.arrays import F32, F64, I32, I64, Bool, expect


class AgentKind(IntEnum):
    """Road-user class; OBSTACLE is a static thing one must not hit (cone, barrier)."""

    CAR = 0
    TRUCK = 1
    CYCLIST = 2
    PEDESTRIAN = 3
    OBSTACLE = 4


@dataclass(frozen=True)
class EgoSize:
    """Ego box: length and width [m], and the distance from the rear axle forward to the box centre [m]."""

    length_m: float
    width_m: float
    centre_from_axle_m: float


EGO_MKZ = EgoSize(4.89, 1.84, 1.40)
EGO_NUSCENES = EgoSize(4.084, 1.85, 0.985793)


@dataclass(frozen=True)
class EgoTrack:
    """Ego over T steps.

    Attributes:
        t_us: int64 (T,).
        pose_world: float64 (T, 3), rear axle [x_m, y_m, yaw_rad].
        speed_mps, accel_mps2, yaw_rate_radps: float32 (T,).
    """

    t_us: I64
    pose_world: F64
    speed_mps: F32
    accel_mps2: F32
    yaw_rate_radps: F32

    def __post_init__(self) -> None:
        n = len(self.t_us)
        expect("t_us", self.t_us, (n,), np.int64)
        expect("pose_world", self.pose_world, (n, 3), np.float64)
        for name in ("speed_mps", "accel_mps2", "yaw_rate_radps"):
            expect(name, getattr(self, name), (n,), np.float32)


@dataclass(frozen=True)
class AgentTracks:
    """N road users over the same T steps as the ego; rows with valid = False hold zeros.

    Attributes:
        ids: int32 (N,).
        kind: int32 (N,), AgentKind.
        size_m: float32 (N, 2), [length, width].
        pose_world: float64 (N, T, 3), box centre [x_m, y_m, yaw_rad].
        speed_mps: float32 (N, T).
        valid: bool (N, T).
    """

    ids: I32
    kind: I32
    size_m: F32
    pose_world: F64
    speed_mps: F32
    valid: Bool

    def __post_init__(self) -> None:
        n, t = self.valid.shape
        expect("ids", self.ids, (n,), np.int32)
        expect("kind", self.kind, (n,), np.int32)
        expect("size_m", self.size_m, (n, 2), np.float32)
        expect("pose_world", self.pose_world, (n, t, 3), np.float64)
        expect("speed_mps", self.speed_mps, (n, t), np.float32)
        expect("valid", self.valid, (n, t), np.bool_)


@dataclass(frozen=True)
class RoadPatch:
    """Lanes around a drive, for scoring and pictures.

    Attributes:
        centre_world: float64 (L, P, 2), driving-lane centre lines in driving direction, P points each [m].
        width_m: float32 (L,).
        in_junction: bool (L,).
        stop_line_world: float64 (G, 2, 2), one segment per signalled stop line.
    """

    centre_world: F64
    width_m: F32
    in_junction: Bool
    stop_line_world: F64

    def __post_init__(self) -> None:
        n = len(self.centre_world)
        expect("centre_world", self.centre_world, (n, None, 2), np.float64)
        expect("width_m", self.width_m, (n,), np.float32)
        expect("in_junction", self.in_junction, (n,), np.bool_)
        expect("stop_line_world", self.stop_line_world, (None, 2, 2), np.float64)
