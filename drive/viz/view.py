"""A pinhole camera in the world, and the look of everything that is not a quad."""

from dataclasses import dataclass

import numpy as np

from drive.contracts import F64, expect


@dataclass(frozen=True)
class View:
    """Where the picture is taken from.

    Attributes:
        intrinsics: float64 (3, 3), pixels; square pixels are not required, skew is ignored.
        camera_from_world: float64 (4, 4), rigid transform.
        size_px: (width, height).
    """

    intrinsics: F64
    camera_from_world: F64
    size_px: tuple[int, int]

    def __post_init__(self) -> None:
        expect("intrinsics", self.intrinsics, (3, 3), np.float64)
        expect("camera_from_world", self.camera_from_world, (4, 4), np.float64)

    @property
    def centre_world(self) -> F64:
        """Optical centre, float64 (3,)."""
        rotation, shift = self.camera_from_world[:3, :3], self.camera_from_world[:3, 3]
        return np.asarray(-rotation.T @ shift, np.float64)

    @property
    def pinhole(self) -> tuple[float, float, float, float]:
        """(fx, fy, cx, cy) [pixels]."""
        k = self.intrinsics
        return float(k[0, 0]), float(k[1, 1]), float(k[0, 2]), float(k[1, 2])

    @property
    def horizon_row(self) -> int:
        """First image row below the horizon, within 0..height."""
        # A level ray along the viewing direction; up in camera coordinates is column 2.
        up = self.camera_from_world[:3, 2]
        forward_z = max(1e-6, float(np.hypot(up[0], up[1])))
        row = self.intrinsics[1, 2] + self.intrinsics[1, 1] * (
            -up[1] * up[2] / forward_z / max(1e-6, -up[1]) if up[1] else 0
        )
        return int(min(max(round(row), 0), self.size_px[1]))


@dataclass(frozen=True)
class Style:
    """Colours of everything that is not a quad, and how far one sees [m]."""

    range_m: float = 90.0
    zenith: tuple[int, int, int] = (128, 172, 224)
    horizon: tuple[int, int, int] = (188, 212, 236)
    ground: tuple[int, int, int] = (112, 124, 92)
    haze: tuple[int, int, int] = (186, 200, 214)
    underside: tuple[int, int, int] = (92, 92, 94)


DAYLIGHT = Style()
