"""Does a planned ego box leave the drivable area?  From the nuScenes map masks, kept as bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drive.bench.cases import Case
from drive.bench.map_mask import Window, png_size, read_bits
from drive.contracts import EGO_NUSCENES, F64, I64, U8, Bool, UserError
from drive.geometry.boxes import centre_pose, corners
from drive.geometry.se2 import to_world
from drive.progress import Progress

CELL_M = 0.1
MARGIN_M = 100.0


@dataclass(frozen=True)
class _Area:
    """Part of a mask: bits (H, W / 8), its left column, and the number of its top row from the south."""

    bits: U8
    columns: int
    left: int
    north: int


class DrivableArea:
    """The drivable area around the given samples."""

    def __init__(self, dataroot: str | Path, cases: Sequence[Case]) -> None:
        """Read the masks of the maps that the samples lie on.

        Raises:
            UserError: A mask is missing or damaged.
        """
        self._map = [case.scene.map_file for case in cases]
        self._origin = np.array([case.scene.pose_world[case.k] for case in cases])
        self._areas = _read(Path(dataroot), self._map, self._origin[:, :2])

    def left_by(self, pose_ego: F64) -> Bool:
        """Is a corner of the ego's box off the drivable area?

        Args:
            pose_ego: float64 (B, 6, 3), rear-axle poses in the ego frames of the samples.

        Returns:
            bool (B, 6); never where a pose is not finite.
        """
        finite = np.isfinite(pose_ego).all(-1)
        out = np.zeros(pose_ego.shape[:2], bool)
        size = np.array([EGO_NUSCENES.length_m, EGO_NUSCENES.width_m])
        for b in np.flatnonzero(finite.any(1)):
            pose = to_world(pose_ego[b, finite[b]], self._origin[b])
            box = corners(centre_pose(pose, EGO_NUSCENES.centre_from_axle_m), size)
            out[b, finite[b]] = ~_inside(self._areas[self._map[b]], box).all(-1)
        return out


def _read(root: Path, maps: Sequence[str], xy_world: F64) -> Mapping[str, _Area]:
    absent = [name for name in sorted(set(maps)) if not name or not (root / name).is_file()]
    if absent:
        names = ", ".join(name or "map.json" for name in absent)
        raise UserError(f"--off-road needs the map masks, missing under {root}: {names}")
    areas = {}
    with Progress("map masks", len(set(maps))) as bar:
        for name in sorted(set(maps)):
            width, height = png_size(root / name)
            mine = xy_world[[one == name for one in maps]]
            low, high = mine.min(0) - MARGIN_M, mine.max(0) + MARGIN_M
            window = Window(
                left=int(max(0, low[0] // CELL_M)),
                top=int(max(0, height - high[1] // CELL_M - 1)),
                right=int(min(width, high[0] // CELL_M + 1)),
                bottom=int(min(height, height - low[1] // CELL_M)),
            )
            columns = window.right - window.left
            areas[name] = _Area(read_bits(root / name, window), columns, window.left, height - window.top)
            bar.advance(1, name)
    return areas


def _inside(area: _Area, xy_world: F64) -> Bool:
    """Which points (..., 2) are drivable?  Outside of what was read nothing is."""
    cell: I64 = np.floor(xy_world / CELL_M).astype(np.int64)
    column, row = cell[..., 0] - area.left, area.north - 1 - cell[..., 1]
    known = (row >= 0) & (row < len(area.bits)) & (column >= 0) & (column < area.columns)
    row, column = np.where(known, row, 0), np.where(known, column, 0)
    return np.asarray(known & ((area.bits[row, column // 8] >> (7 - column % 8)) & 1 == 1))
