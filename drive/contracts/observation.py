"""What a policy may see. Nothing privileged belongs here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

import numpy as np

from drive.contracts.arrays import F32, F64, I64, U8, expect


class Turn(IntEnum):
    """Route instruction at the next branch."""

    FOLLOW = 0
    LEFT = 1
    STRAIGHT = 2
    RIGHT = 3
    LANE_LEFT = 4
    LANE_RIGHT = 5


Provenance = Literal["navigation", "oracle"]
FRAME_GAP_S = 0.4  # between the newest image and the earlier one that shows what moves
FRAME_GAP_RANGE_S = (0.25, 0.6)


@dataclass(frozen=True)
class RouteHint:
    """Where the route goes, as a navigation system would say it.

    Attributes:
        turn: Instruction at the next branch.
        target_points_ego: float32 (2, 2), route points about 10 m and 25 m ahead [m].
        speed_limit_mps: Posted limit here.
        provenance: "navigation" (a route known beforehand) or "oracle" (derived from the recorded future).
    """

    turn: Turn
    target_points_ego: F32
    speed_limit_mps: float
    provenance: Provenance = "navigation"

    def __post_init__(self) -> None:
        expect("target_points_ego", self.target_points_ego, (2, 2), np.float32)


@dataclass(frozen=True)
class CameraModel:
    """Pinhole camera.

    Attributes:
        intrinsics: float64 (3, 3), pixels.
        camera_from_ego: float64 (4, 4), rigid transform.
        size_px: (width, height).
    """

    intrinsics: F64
    camera_from_ego: F64
    size_px: tuple[int, int]

    def __post_init__(self) -> None:
        expect("intrinsics", self.intrinsics, (3, 3), np.float64)
        expect("camera_from_ego", self.camera_from_ego, (4, 4), np.float64)


@dataclass(frozen=True)
class Observation:
    """One decision's input.

    Attributes:
        t_us: Time of the newest image.
        images: Camera name -> uint8 (K, H, W, 3) RGB, oldest first; may be empty for blind policies.
        cameras: Camera name -> model, same keys as images.
        before_ego: float32 (K - 1, 3), ego poses at the earlier images, in the current ego frame.
        history_ego: float32 (H, 3), past poses [x_m, y_m, yaw_rad] in the current ego frame at 2 Hz,
            oldest first, last row 0.
        speed_mps, accel_mps2, yaw_rate_radps: Ego motion now.
        route: Route instruction.
    """

    t_us: int
    images: Mapping[str, U8]
    cameras: Mapping[str, CameraModel]
    history_ego: F32
    speed_mps: float
    accel_mps2: float
    yaw_rate_radps: float
    route: RouteHint
    before_ego: F32 = field(default_factory=lambda: np.zeros((0, 3), np.float32))

    def __post_init__(self) -> None:
        expect("history_ego", self.history_ego, (None, 3), np.float32)
        expect("before_ego", self.before_ego, (None, 3), np.float32)
        if self.images.keys() != self.cameras.keys():
            raise ValueError(f"images {sorted(self.images)} and cameras {sorted(self.cameras)} differ")
        for name, image in self.images.items():
            expect(f"images[{name}]", image, (1 + len(self.before_ego), None, None, 3), np.uint8)


def earlier_frame(t_us: I64) -> int | None:
    """Which of the images taken at t_us (K,), ascending, is about FRAME_GAP_S older than the last one.

    None if there is none within FRAME_GAP_RANGE_S.
    """
    age_s = (t_us[-1] - t_us) * 1e-6
    nearest = int(np.abs(age_s - FRAME_GAP_S).argmin())
    low, high = FRAME_GAP_RANGE_S
    return nearest if low <= age_s[nearest] <= high else None
