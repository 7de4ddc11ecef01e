"""Stand-in pictures for logs without images: boxes and drivable area seen by the planner's camera.

Always labelled "rendered". Drawn in the ego frame of the key frame on flat ground; there are no lane
markings, traffic lights or buildings, since the nuScenes tables hold none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drive.bench.map_mask import Window, png_size, read_windows
from drive.bench.nuscenes_tables import SceneTrack
from drive.contracts import F32, F64, U8, AgentKind, Bool, CameraModel, UserError
from drive.data.camera import CameraSpec
from drive.geometry.se2 import to_local, to_world
from drive.progress import Progress
from drive.viz.figures import Colour, box, pedestrian, place, vehicle
from drive.viz.painter import paint
from drive.viz.quads import Layer, Quads, Tag, TiledQuads, concatenate
from drive.viz.view import View

MOUNT_M = (1.9, 0.0, 1.7)
CELL_M = 0.1
AHEAD_M, ASIDE_M, BEHIND_M = 85.0, 70.0, 3.0
SIDEWALK_M, KERB_M = 2.5, 0.2
_ROAD: Colour = (74, 74, 78)
_KERB: Colour = (184, 180, 172)
_SIDEWALK: Colour = (150, 146, 140)
_BANDS: tuple[tuple[Colour, Layer, float], ...] = (
    (_SIDEWALK, Layer.VERGE, SIDEWALK_M),
    (_KERB, Layer.TERRAIN, KERB_M),
    (_ROAD, Layer.ROAD, 0.0),
)
_PAINTS: tuple[Colour, ...] = (
    (170, 170, 176),
    (40, 60, 130),
    (150, 30, 30),
    (32, 32, 36),
    (235, 235, 235),
    (40, 110, 60),
    (200, 160, 40),
)
_SHIRTS: tuple[Colour, ...] = ((140, 60, 60), (60, 90, 140), (200, 180, 90), (80, 120, 80))
_HALF_HEIGHT_M = {AgentKind.CAR: 0.78, AgentKind.TRUCK: 1.5, AgentKind.CYCLIST: 0.8}
_OBSTACLE: Colour = (214, 106, 40)


@dataclass(frozen=True)
class _Crop:
    """Part of a drivable-area mask, bool (H, W); (x0_m, y0_m) is its upper left corner in the world."""

    value: Bool
    x0_m: float
    y0_m: float

    def at(self, xy_world: F64) -> Bool:
        """Value at points (..., 2); False outside."""
        column = np.floor((xy_world[..., 0] - self.x0_m) / CELL_M).astype(np.int64)
        row = np.floor((self.y0_m - xy_world[..., 1]) / CELL_M).astype(np.int64)
        inside = (row >= 0) & (row < self.value.shape[0]) & (column >= 0) & (column < self.value.shape[1])
        return np.asarray(inside & self.value[np.where(inside, row, 0), np.where(inside, column, 0)])


class StandIn:
    """Draws the front camera's picture of any key frame of the given scenes."""

    def __init__(
        self, dataroot: str | Path, scenes: Sequence[SceneTrack], spec: CameraSpec | None = None
    ) -> None:
        spec = spec or CameraSpec()
        camera_from_ego = np.eye(4)
        camera_from_ego[:3, :3] = spec.rotation
        camera_from_ego[:3, 3] = -spec.rotation @ np.array(MOUNT_M)
        self.camera = CameraModel(spec.intrinsics, camera_from_ego, (spec.width_px, spec.height_px))
        self._crops = _read_crops(Path(dataroot), scenes)

    def __call__(self, scene: SceneTrack, k: int) -> tuple[U8, CameraModel]:
        """Picture uint8 (H, W, 3) RGB of key frame k from what is there at that moment, and its camera."""
        view = View(self.camera.intrinsics, self.camera.camera_from_ego, self.camera.size_px)
        ground = concatenate(
            [_area(self._crops[scene.name, band], scene.pose_world[k], band) for band in range(3)]
        )
        return paint(view, TiledQuads(ground), _bodies(scene, k)), self.camera


def _read_crops(root: Path, scenes: Sequence[SceneTrack]) -> dict[tuple[str, int], _Crop]:
    """The mask around each scene, grown by each band's width.

    Raises:
        UserError: A map file is missing or damaged.
    """
    maps = sorted({scene.map_file for scene in scenes})
    absent = [m for m in maps if not m or not (root / m).is_file()]
    if absent:
        names = ", ".join(m or "map.json" for m in absent)
        raise UserError(f"--images rendered needs the map masks, missing under {root}: {names}")
    crops = {}
    with Progress("map masks", len(maps)) as bar:
        for name in maps:
            width, height = png_size(root / name)
            mine = [scene for scene in scenes if scene.map_file == name]
            windows = [_window(scene.pose_world[:, :2], width, height) for scene in mine]
            for scene, window, mask in zip(mine, windows, read_windows(root / name, windows), strict=True):
                x0_m, y0_m = window.left * CELL_M, (height - window.top) * CELL_M
                for band, (_, _, width_m) in enumerate(_BANDS):
                    crops[scene.name, band] = _Crop(_grow(mask > 0, width_m), x0_m, y0_m)
            bar.advance(1, name)
    return crops


def _window(xy_world: F64, width: int, height: int) -> Window:
    """Pixels within view of any of the positions; pixel rows count down from the northern edge."""
    margin = np.hypot(AHEAD_M, ASIDE_M) + SIDEWALK_M
    low, high = xy_world.min(0) - margin, xy_world.max(0) + margin
    return Window(
        left=int(max(0, low[0] // CELL_M)),
        top=int(max(0, height - high[1] // CELL_M - 1)),
        right=int(min(width, high[0] // CELL_M + 1)),
        bottom=int(min(height, height - low[1] // CELL_M)),
    )


def _grow(value: Bool, width_m: float) -> Bool:
    if width_m == 0.0:
        return value
    import cv2

    size = 2 * round(width_m / CELL_M) + 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
    return np.asarray(cv2.dilate(value.astype(np.uint8), kernel) > 0)


def _area(crop: _Crop, pose_world: F64, band: int) -> Quads:
    """The crop ahead of a pose as trapezoids in the ego frame."""
    colour, layer, _ = _BANDS[band]
    x = _rows_m()
    y = np.arange(-ASIDE_M, ASIDE_M, CELL_M)
    grid = np.stack(np.meshgrid(x, y + CELL_M / 2, indexing="ij"), -1)
    corners = _trapezoids(crop.at(to_world(grid, pose_world)), x, y)
    n = len(corners)
    tag = Tag.ROADS if layer == Layer.ROAD else Tag.SIDEWALKS
    colours = np.tile(np.array(colour, np.uint8), (n, 1))
    return Quads(corners, colours, np.full(n, layer, np.uint8), np.full(n, tag, np.uint8))


def _rows_m() -> F64:
    """Distances ahead at which the mask is sampled: every 0.25 m near the camera, up to 2 m far away."""
    out = [-BEHIND_M]
    while out[-1] < AHEAD_M:
        out.append(out[-1] + float(np.clip(0.03 * out[-1], 0.25, 2.0)))
    return np.array(out)


def _trapezoids(inside: Bool, x: F64, y: F64) -> F32:
    """Filled area between neighbouring rows of samples, float32 (N, 4, 3) on the ground.

    `inside` (R, C) is sampled at rows x (R,) and columns y (C,) + half a cell. Runs that overlap in both rows
    are joined by slanted edges; where a run begins, ends, splits or joins, only the part that is inside in
    both rows is filled.
    """
    runs = [_runs(row) for row in inside]
    quads = []
    for i in range(len(x) - 1):
        here, there = runs[i], runs[i + 1]
        for a, b in here:
            partners = [(c, d) for c, d in there if c < b and a < d]
            for c, d in partners:
                alone = len(partners) == 1 and sum(p < d and c < q for p, q in here) == 1
                low, high = max(a, c), min(b, d)
                right, left, far_right, far_left = (a, b, c, d) if alone else (low, high, low, high)
                quads.append([(i, right), (i + 1, far_right), (i + 1, far_left), (i, left)])
    if not quads:
        return np.zeros((0, 4, 3), np.float32)
    index = np.array(quads)
    corners = np.zeros((len(index), 4, 3), np.float32)
    corners[..., 0] = x[index[..., 0]]
    corners[..., 1] = y[0] + index[..., 1] * CELL_M
    return corners


def _runs(row: Bool) -> list[tuple[int, int]]:
    """Half-open index ranges in which a row is True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], row, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _bodies(scene: SceneTrack, k: int) -> list[Quads]:
    """Figures of the road users annotated at key frame k, in the ego frame."""
    agents = scene.agents
    here = np.flatnonzero(agents.valid[:, k])
    poses = to_local(agents.pose_world[here, k], scene.pose_world[k])
    near = (poses[:, 0] > -BEHIND_M) & (np.hypot(poses[:, 0], poses[:, 1]) < AHEAD_M)
    return [_figure(scene, int(i), p) for i, p in zip(here[near], poses[near], strict=True)]


def _figure(scene: SceneTrack, i: int, pose_ego: F64) -> Quads:
    kind = AgentKind(int(scene.agents.kind[i]))
    length, width = (float(v) for v in scene.agents.size_m[i])
    x, y, yaw = (float(v) for v in pose_ego)
    if kind == AgentKind.PEDESTRIAN:
        return place(pedestrian(1.75, _SHIRTS[i % len(_SHIRTS)]), x, y, 0.0, yaw)
    if kind == AgentKind.OBSTACLE:
        return place(box((0.0, 0.0, 0.0), (length / 2, width / 2), 0.9, _OBSTACLE), x, y, 0.0, yaw)
    half = (round(length / 2, 2), round(width / 2, 2), _HALF_HEIGHT_M[kind])
    return place(vehicle(half, _PAINTS[i % len(_PAINTS)]), x, y, 0.0, yaw)
