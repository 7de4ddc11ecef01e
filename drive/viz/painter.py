"""OpenCV painter: coloured quads in the world, seen by a pinhole camera, as an RGB image.

No depth buffer: flat layers (road, sidewalks, markings) are drawn bottom-up, solids from far to near. Knows
nothing about simulators, maps or logs. World: right-handed, z up. Camera: x right, y down, z forward.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import cv2
import numpy as np

from drive.contracts import F32, F64, I32, I64, U8, Bool, expect

NEAR_M = 0.3
_PIXEL_LIMIT = 16000.0  # far outside any image, inside OpenCV's fixed-point range
_SUBPIXEL_BITS = 4
_CELL_M = 8.0
_LOWER_DECK_M = 4.0  # surfaces this far below the camera belong to a lower road
_LOWER_SOLID_M = 6.0
_DECK_OVERLAP = 1.04  # closes the cracks between the parts of a deck


class Layer(IntEnum):
    """Drawing order of surfaces; all but SOLID lie on the ground with their front side up."""

    VERGE = 0
    TERRAIN = 1
    SHOULDER = 2
    ROAD = 3
    KERB = 4
    SIDEWALK = 5
    CROSSWALK = 6
    MARKING = 7
    SOLID = 8


@dataclass(frozen=True)
class Quads:
    """N coloured quads.

    Attributes:
        corners: float32 (N, 4, 3), world frame (or a figure's own frame) [m]. Seen from its front side, the
            corners run counter-clockwise; solids are invisible from behind.
        colour: uint8 (N, 3), RGB.
        layer: uint8 (N,), Layer.
    """

    corners: F32
    colour: U8
    layer: U8

    def __post_init__(self) -> None:
        n = len(self.corners)
        expect("corners", self.corners, (n, 4, 3), np.float32)
        expect("colour", self.colour, (n, 3), np.uint8)
        expect("layer", self.layer, (n,), np.uint8)


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


def concatenate(parts: Sequence[Quads]) -> Quads:
    """All quads of all parts, in order."""
    if not parts:
        return Quads(np.empty((0, 4, 3), np.float32), np.empty((0, 3), np.uint8), np.empty(0, np.uint8))
    return Quads(
        np.concatenate([p.corners for p in parts]),
        np.concatenate([p.colour for p in parts]),
        np.concatenate([p.layer for p in parts]),
    )


class TiledQuads:
    """Static quads sorted into square tiles, so that only the surroundings of a camera are looked at."""

    def __init__(self, quads: Quads, tile_m: float = 32.0) -> None:
        self._tile_m = tile_m
        self._cached: tuple[tuple[int, int, float], _Surroundings] | None = None
        whole = _Surroundings.of(quads)
        self._largest_m = float(whole.radius.max(initial=0.0))
        key = np.floor(whole.centre[:, :2] / tile_m).astype(np.int64)
        order = np.lexsort((key[:, 1], key[:, 0]))
        cuts = np.flatnonzero(np.any(np.diff(key[order], axis=0), axis=1)) + 1
        rows = [part for part in np.split(order, cuts) if len(part)]
        self._tiles = [whole.take(part) for part in rows]
        self._corner_m = np.array([key[part[0]] for part in rows]).reshape(-1, 2) * tile_m

    def near(self, x_m: float, y_m: float, range_m: float) -> "_Surroundings":
        """Quads within range of a point; one answer for a whole 8 m cell, kept until the cell changes."""
        cell = (int(x_m // _CELL_M), int(y_m // _CELL_M))
        key = (*cell, range_m)
        if self._cached is None or self._cached[0] != key:
            centre = (np.array(cell) + 0.5) * _CELL_M
            reach = range_m + _CELL_M
            offset = self._corner_m + self._tile_m / 2 - centre
            close = np.abs(offset).max(1, initial=0.0) < reach + self._largest_m + self._tile_m
            found = _Surroundings.join([self._tiles[i] for i in np.flatnonzero(close)])
            self._cached = (key, found.within(centre, reach))
        return self._cached[1]


@dataclass(frozen=True)
class _Surroundings:
    """Quads with their bounding spheres: centre float32 (N, 3) and radius float32 (N,)."""

    quads: Quads
    centre: F32
    radius: F32

    @staticmethod
    def of(quads: Quads) -> "_Surroundings":
        centre = quads.corners.mean(1)
        offset = quads.corners - centre[:, None]
        return _Surroundings(quads, centre, np.sqrt((offset * offset).sum(-1).max(-1, initial=0.0)))

    @staticmethod
    def join(parts: Sequence["_Surroundings"]) -> "_Surroundings":
        centres, radii = [p.centre for p in parts], [p.radius for p in parts]
        return _Surroundings(
            concatenate([p.quads for p in parts]),
            np.concatenate([np.empty((0, 3), np.float32), *centres]),
            np.concatenate([np.empty(0, np.float32), *radii]),
        )

    def within(self, centre_xy: F64, range_m: float) -> "_Surroundings":
        distance = np.hypot(self.centre[:, 0] - centre_xy[0], self.centre[:, 1] - centre_xy[1])
        return self.take(np.flatnonzero(distance - self.radius < range_m))

    def take(self, rows: I64) -> "_Surroundings":
        q = self.quads
        return _Surroundings(
            Quads(q.corners[rows], q.colour[rows], q.layer[rows]), self.centre[rows], self.radius[rows]
        )


def paint(view: View, static: TiledQuads | None, groups: Sequence[Quads], style: Style = DAYLIGHT) -> U8:
    """Draw one picture.

    Args:
        view: Camera.
        static: The immobile surroundings, None for an empty world.
        groups: Bodies (vehicles, walkers, lamps) in the world frame; the quads of one body are drawn in the
            order given, so list inner parts first.
        style: Colours and range.

    Returns:
        uint8 (H, W, 3), RGB; equal inputs give equal bytes.
    """
    image = _background(view, style)
    parts, body = [], []
    if static is not None:
        x, y, _ = view.centre_world
        found = static.near(float(x), float(y), style.range_m)
        parts.append(found.take(_visible(found, view, style.range_m)).quads)
        body.append(np.full(len(parts[0].corners), -1))
    for index, group in enumerate(groups):
        parts.append(group)
        body.append(np.full(len(group.corners), index))
    if parts:
        _draw(image, view, concatenate(parts), np.concatenate(body), style)
    return image


def _background(view: View, style: Style) -> U8:
    width, height = view.size_px
    # Image row of the horizon: a level ray along the viewing direction, up in camera coordinates is column 2.
    up = view.camera_from_world[:3, 2]
    forward_z = max(1e-6, float(np.hypot(up[0], up[1])))
    row = view.intrinsics[1, 2] + view.intrinsics[1, 1] * (
        -up[1] * up[2] / forward_z / max(1e-6, -up[1]) if up[1] else 0
    )
    sky = min(max(round(row), 0), height)
    image = np.empty((height, width, 3), np.uint8)
    blend = np.linspace(0, 1, max(sky, 1))[:sky, None, None]
    image[:sky] = (1 - blend) * np.array(style.zenith) + blend * np.array(style.horizon)
    image[sky:] = style.ground
    return image


def _visible(found: _Surroundings, view: View, range_m: float) -> I64:
    """Rows whose bounding sphere reaches into the view."""
    rotation = view.camera_from_world[:3, :3].astype(np.float32)
    centre = (found.centre - view.centre_world.astype(np.float32)) @ rotation.T
    width, height = view.size_px
    fx, fy, cx, cy = _pinhole(view)
    depth, radius = centre[:, 2], found.radius
    inside = (depth > NEAR_M - radius) & (depth < range_m + radius)
    for axis, focal, middle, size in ((0, fx, cx, width), (1, fy, cy, height)):
        for edge, sign in ((middle, -1.0), (size - middle, 1.0)):
            slope = edge / focal
            beyond = (sign * centre[:, axis] - slope * depth) / np.sqrt(1 + slope * slope)
            inside &= beyond < radius
    return np.flatnonzero(inside)


def _pinhole(view: View) -> tuple[float, float, float, float]:
    k = view.intrinsics
    return float(k[0, 0]), float(k[1, 1]), float(k[0, 2]), float(k[1, 2])


@dataclass(frozen=True)
class _Faces:
    """Quads in front of the camera: corners in the camera frame, what they are, and where they are."""

    points: F32
    colour: U8
    layer: U8
    body: I64
    solid: Bool
    height: F32  # lowest corner over the camera

    def take(self, rows: I64) -> "_Faces":
        return _Faces(*(getattr(self, f.name)[rows] for f in fields(self)))


def _draw(image: U8, view: View, quads: Quads, body: I64, style: Style) -> None:
    faces = _visible_faces(view, quads, body, style)
    middle = faces.points.mean(1)
    distance = np.sqrt((middle * middle).sum(1))
    clear = np.clip(1 - distance / (style.range_m * 1.6), 0.35, 1)[:, None]
    shade = (faces.colour * clear + np.array(style.haze) * (1 - clear)).astype(np.uint8).tolist()
    crossing = faces.points[..., 2].min(1) < NEAR_M
    pixels = _to_pixels(faces.points, view)
    fill = cv2.fillConvexPoly
    for i in _order(faces, distance).tolist():
        if crossing[i]:
            cut = _clip_near(faces.points[i])
            if len(cut) >= 3:
                fill(image, _to_pixels(cut, view), shade[i], cv2.LINE_8, _SUBPIXEL_BITS)
        else:
            fill(image, pixels[i], shade[i], cv2.LINE_8, _SUBPIXEL_BITS)


def _visible_faces(view: View, quads: Quads, body: I64, style: Style) -> _Faces:
    """Quads that reach into the view and show their front; surfaces seen from below become plain solids."""
    rotation = view.camera_from_world[:3, :3].astype(np.float32)
    origin = view.centre_world.astype(np.float32)
    points = (quads.corners - origin) @ rotation.T
    layer = quads.layer
    height = quads.corners[..., 2].min(1) - origin[2]
    faces = _Faces(points, quads.colour, layer, body, layer == Layer.SOLID, height)
    faces = faces.take(_in_front(points, view, style.range_m))
    points = faces.points
    # The diagonals give a normal even where two corners coincide (tapering lanes).
    normal = np.cross(points[:, 2] - points[:, 0], points[:, 3] - points[:, 1])
    middle = points.mean(1, keepdims=True)
    away = (normal * middle[:, 0]).sum(1) >= 0
    deck = (faces.layer < Layer.CROSSWALK) & (faces.layer != Layer.KERB)
    below = away & deck & (faces.height > 0)
    grown = np.where(below[:, None, None], middle + (points - middle) * _DECK_OVERLAP, points)
    plain = np.where(below[:, None], np.array(style.underside, np.uint8), faces.colour)
    faces = replace(faces, points=grown, colour=plain, solid=faces.solid | below)
    return faces.take(np.flatnonzero(~away | below))


def _in_front(points: F32, view: View, range_m: float) -> I64:
    """Rows whose corners are not all on the outer side of one edge of the view."""
    width, height = view.size_px
    fx, fy, cx, cy = _pinhole(view)
    x, y, depth = points[..., 0], points[..., 1], points[..., 2]
    inside = (depth.max(1) > NEAR_M) & (depth.min(1) < range_m)
    inside &= (x * fx + cx * depth).max(1) > 0
    inside &= (x * fx - (width - cx) * depth).min(1) < 0
    inside &= (y * fy + cy * depth).max(1) > 0
    inside &= (y * fy - (height - cy) * depth).min(1) < 0
    return np.flatnonzero(inside)


def _order(faces: _Faces, distance: F32) -> I64:
    """Lower decks, then flat layers bottom-up, then solids from far to near, each body in one go."""
    lowest = np.where(faces.solid, -_LOWER_SOLID_M, -_LOWER_DECK_M)
    rank = np.where(faces.solid, int(Layer.SOLID), faces.layer.astype(np.int64))
    rank = np.where(faces.height < lowest, rank - len(Layer), rank)
    far = distance.copy()
    bodies = faces.body >= 0
    if bodies.any():
        nearest = np.full(faces.body.max() + 1, np.inf, distance.dtype)
        np.minimum.at(nearest, faces.body[bodies], distance[bodies])
        far[bodies] = nearest[faces.body[bodies]]
    within = np.where(bodies, np.arange(len(bodies)), 0)
    order: I64 = np.lexsort((within, -far * faces.solid, rank))
    return order


def _to_pixels(points: F32, view: View) -> I32:
    """Fixed-point pixel coordinates int32 (..., 2) of camera points (..., 3)."""
    fx, fy, cx, cy = _pinhole(view)
    depth = np.maximum(points[..., 2], NEAR_M)
    pixels = np.empty((*points.shape[:-1], 2), np.float32)
    # OpenCV's integer coordinates are pixel centres.
    pixels[..., 0] = points[..., 0] / depth * fx + (cx - 0.5)
    pixels[..., 1] = points[..., 1] / depth * fy + (cy - 0.5)
    fixed: I32 = (pixels.clip(-_PIXEL_LIMIT, _PIXEL_LIMIT) * (1 << _SUBPIXEL_BITS)).astype(np.int32)
    return fixed


def _clip_near(quad: F32) -> F32:
    """The part of one quad (4, 3) beyond the near plane, (0..5, 3)."""
    out = []
    for i in range(4):
        p, q = quad[i], quad[(i + 1) % 4]
        if p[2] >= NEAR_M:
            out.append(p)
        if (p[2] >= NEAR_M) != (q[2] >= NEAR_M):
            out.append(p + (NEAR_M - p[2]) / (q[2] - p[2]) * (q - p))
    return np.array(out, np.float32).reshape(-1, 3)
