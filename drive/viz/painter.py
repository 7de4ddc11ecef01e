"""OpenCV painter: coloured quads in the world, seen by a pinhole camera, as a colour image.

Knows nothing about simulators, maps or logs.
"""

from collections.abc import Sequence

import numpy as np

from drive.contracts import F32, F64, I32, U8
from drive.viz.faces import Faces, fill, visible_faces
from drive.viz.quads import Landscape, Layer, Quads
from drive.viz.view import DAYLIGHT, Style, View

_CLEAREST, _CLEAREST_LAMP, _HAZE_REACH = 0.35, 0.85, 1.6


def paint(view: View, static: Landscape | None, groups: Sequence[Quads], style: Style = DAYLIGHT) -> U8:
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
    return np.ascontiguousarray(paint_bgra(view, static, groups, style)[..., 2::-1])


def paint_bgra(view: View, static: Landscape | None, groups: Sequence[Quads], style: Style = DAYLIGHT) -> U8:
    """The picture of `paint` as uint8 (H, W, 4): blue, green, red and 255."""
    faces = visible_faces(view, static, groups, style)
    # One whole number per pixel: OpenCV takes four channels at almost twice the cost of one.
    image: I32 = np.repeat(whole_pixels(background(view, style))[:, None], view.size_px[0], 1)
    fill(image, view, faces, whole_pixels(shades(faces, style)))
    bgra: U8 = image.view(np.uint8).reshape(*image.shape, 4)
    return bgra


def shades(faces: Faces, style: Style) -> U8:
    """Colour of each face after haze, uint8 (M, 3), RGB."""
    clear = haze_clearness(faces.distance, style)
    clear = np.where(faces.layer == Layer.LAMP, np.maximum(clear, _CLEAREST_LAMP), clear)[:, None]
    shade: U8 = (faces.colour * clear + np.array(style.haze) * (1 - clear)).astype(np.uint8)
    return shade


def haze_clearness(distance: F32, style: Style) -> F32:
    """How much of a thing at a distance is seen through the haze of a clear day, 0..1."""
    clear: F32 = np.clip(1 - distance / (style.range_m * _HAZE_REACH), _CLEAREST, 1)
    return clear


def background(view: View, style: Style) -> U8:
    """Sky and bare ground, one colour per image row: uint8 (H, 3), RGB."""
    rows = np.empty((view.size_px[1], 3), np.uint8)
    sky = view.horizon_row
    blend: F64 = np.linspace(0, 1, max(sky, 1))[:sky, None]
    rows[:sky] = (1 - blend) * np.array(style.zenith) + blend * np.array(style.horizon)
    rows[sky:] = style.ground
    return rows


def whole_pixels(rgb: U8) -> I32:
    """Colours (N, 3) as int32 (N,), whose bytes are blue, green, red and 255."""
    bgra = np.full((len(rgb), 4), 255, np.uint8)
    bgra[:, :3] = rgb[:, ::-1]
    whole: I32 = bgra.view(np.int32)[:, 0]
    return whole
