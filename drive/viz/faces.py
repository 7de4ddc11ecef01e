"""Which quads a pinhole camera sees, in which order they are drawn, and the drawing itself.

No depth buffer: flat layers (road, sidewalks, markings) are drawn bottom-up, solids from far to near. Every
kind of picture is drawn by `fill`, so that all of them show the same quad at the same pixel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from drive.contracts import F32, F64, I32, I64, U8, Bool
from drive.viz.quads import Landscape, Layer, Quads, Surroundings, Tag, concatenate
from drive.viz.view import Style, View

NEAR_M = 0.3
_PIXEL_LIMIT = 16000.0  # far outside any image, inside OpenCV's fixed-point range
_SUBPIXEL_BITS = 4
_LOWER_DECK_M = 4.0  # surfaces this far below the camera belong to a lower road
_LOWER_SOLID_M = 6.0
_DECK_OVERLAP = 1.04  # closes the cracks between the parts of a deck


@dataclass(frozen=True)
class Faces:
    """M quads in front of the camera. Arrays run along quads last, where numpy is fastest.

    Attributes:
        points: float32 (3, 4, M), coordinates and corners in the camera frame [m].
        colour: uint8 (M, 3), RGB before haze.
        layer, tag: uint8 (M,), Layer and Tag.
        body: int64 (M,), index of the body a quad belongs to, -1 for the static surroundings.
        solid: bool (M,), drawn by distance rather than by layer.
        height: float32 (M,), lowest corner over the camera [m].
    """

    points: F32
    colour: U8
    layer: U8
    tag: U8
    body: I64
    solid: Bool
    height: F32

    @cached_property
    def distance(self) -> F32:
        """Distance of each face's middle from the camera, float32 (M,) [m]."""
        x, y, z = _middle(self.points)
        away: F32 = np.sqrt(x * x + y * y + z * z)
        return away


def _middle(points: F32) -> F32:
    """Mean corner, float32 (3, M)."""
    middle: F32 = points.sum(1) / np.float32(4)
    return middle


def visible_faces(view: View, static: Landscape | None, groups: Sequence[Quads], style: Style) -> Faces:
    """Faces of the surroundings and of all bodies that reach into the view and show their front."""
    parts, body = [], []
    if static is not None:
        x, y, _ = view.centre_world
        found = static.near(float(x), float(y), style.range_m)
        parts.append(found.quads.take(_within_view(found, view, style.range_m)))
        body.append(np.full(len(parts[0].corners), -1))
    for index, group in enumerate(groups):
        parts.append(group)
        body.append(np.full(len(group.corners), index))
    bodies = np.concatenate(body) if body else np.empty(0, np.int64)
    return _facing(view, concatenate(parts), bodies, style)


def _within_view(found: Surroundings, view: View, range_m: float) -> I64:
    """Rows whose bounding sphere reaches into the view."""
    rotation = view.camera_from_world[:3, :3].astype(np.float32)
    centre = (found.centre - view.centre_world.astype(np.float32)) @ rotation.T
    width, height = view.size_px
    fx, fy, cx, cy = view.pinhole
    depth, radius = centre[:, 2], found.radius
    inside = (depth > NEAR_M - radius) & (depth < range_m + radius)
    for axis, focal, middle, size in ((0, fx, cx, width), (1, fy, cy, height)):
        for edge, sign in ((middle, -1.0), (size - middle, 1.0)):
            slope = edge / focal
            beyond = (sign * centre[:, axis] - slope * depth) / np.sqrt(1 + slope * slope)
            inside &= beyond < radius
    return np.flatnonzero(inside)


def _facing(view: View, quads: Quads, body: I64, style: Style) -> Faces:
    """Quads that show their front; surfaces seen from below become plain solids."""
    rotation = view.camera_from_world[:3, :3].astype(np.float32)
    origin = view.centre_world.astype(np.float32)
    from_eye = (quads.corners - origin).reshape(-1, 3) @ rotation.T
    points = np.ascontiguousarray(from_eye.reshape(-1, 4, 3).transpose(2, 1, 0))
    rows = _in_front(points, view, np.where(body < 0, style.range_m, np.inf))
    points, layer = points[..., rows], quads.layer[rows]
    height = quads.corners[rows, :, 2].min(1) - origin[2]
    middle = _middle(points)
    # The diagonals give a normal even where two corners coincide (tapering lanes).
    ax, ay, az = points[:, 2] - points[:, 0]
    bx, by, bz = points[:, 3] - points[:, 1]
    normal = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    away = normal[0] * middle[0] + normal[1] * middle[1] + normal[2] * middle[2] >= 0
    deck = (layer < Layer.CROSSWALK) & (layer != Layer.KERB)
    below = away & deck & (height > 0)
    shown = np.flatnonzero(~away | below)
    rows, below = rows[shown], below[shown]
    points, layer, colour, tag = points[..., shown], layer[shown], quads.colour[rows], quads.tag[rows]
    if below.any():
        centre = middle[:, None, shown]
        points = np.where(below, centre + (points - centre) * _DECK_OVERLAP, points)
        colour = np.where(below[:, None], np.array(style.underside, np.uint8), colour)
        tag = np.where(below, np.uint8(Tag.BRIDGE), tag)
    solid = (layer >= Layer.SOLID) | below
    return Faces(points, colour, layer, tag, body[rows], solid, height[shown])


def _in_front(points: F32, view: View, range_m: F64) -> I64:
    """Indices of quads whose corners are not all on the outer side of one edge of the view, or too far."""
    width, height = view.size_px
    fx, fy, cx, cy = view.pinhole
    x, y, depth = points
    inside = (depth.max(0) > NEAR_M) & (depth.min(0) < range_m)
    inside &= (x * fx + cx * depth).max(0) > 0
    inside &= (x * fx - (width - cx) * depth).min(0) < 0
    inside &= (y * fy + cy * depth).max(0) > 0
    inside &= (y * fy - (height - cy) * depth).min(0) < 0
    return np.flatnonzero(inside)


def _order(faces: Faces) -> I64:
    """Lower decks, then flat layers bottom-up, then solids from far to near, each body in one go."""
    distance = faces.distance
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


def fill(image: NDArray[Any], view: View, faces: Faces, value: NDArray[Any]) -> None:
    """Draw every face in its order.

    Args:
        image: (H, W) or (H, W, C), any type OpenCV draws on; changed in place.
        view: The camera that the faces were made for.
        faces: What to draw.
        value: (M,) or (M, C), pixel value of each face.
    """
    order = _order(faces)
    crossing = (faces.points[2].min(0) < NEAR_M)[order].tolist()
    pixels = list(_to_pixels(faces.points, view)[order])
    values = value[order].tolist()
    draw = cv2.fillConvexPoly
    for i, polygon, colour, cut_off in zip(order.tolist(), pixels, values, crossing, strict=True):
        if cut_off:
            cut = _clip_near(faces.points[..., i].T)
            if len(cut) >= 3:
                draw(image, _to_pixels(cut.T, view), colour, cv2.LINE_8, _SUBPIXEL_BITS)
        else:
            draw(image, polygon, colour, cv2.LINE_8, _SUBPIXEL_BITS)


def _to_pixels(points: F32, view: View) -> I32:
    """Fixed-point pixel coordinates int32 (..., 4, 2) of camera points (3, 4, ...)."""
    fx, fy, cx, cy = view.pinhole
    x, y, z = points
    depth = np.maximum(z, NEAR_M)
    # OpenCV's integer coordinates are pixel centres.
    pixels = np.stack([(x / depth * fx + (cx - 0.5)).T, (y / depth * fy + (cy - 0.5)).T], -1)
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
