"""OpenCV painter: coloured quads in the world, seen by a pinhole camera, as a colour image.

Knows nothing about simulators, maps or logs.
"""

from collections.abc import Sequence

import numpy as np

from drive.contracts import F64, U8
from drive.viz.faces import Faces, fill, visible_faces
from drive.viz.quads import Quads, TiledQuads
from drive.viz.view import DAYLIGHT, Style, View

_CLEAREST, _HAZE_REACH = 0.35, 1.6


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
    return _picture(view, visible_faces(view, static, groups, style), style, [0, 1, 2])


def paint_bgra(view: View, static: TiledQuads | None, groups: Sequence[Quads], style: Style = DAYLIGHT) -> U8:
    """The picture of `paint` as uint8 (H, W, 4): blue, green, red and 255."""
    return _picture(view, visible_faces(view, static, groups, style), style, [2, 1, 0, 3])


def shades(faces: Faces, style: Style) -> U8:
    """Colour of each face after haze, uint8 (M, 3), RGB."""
    clear = np.clip(1 - faces.distance / (style.range_m * _HAZE_REACH), _CLEAREST, 1)[:, None]
    shade: U8 = (faces.colour * clear + np.array(style.haze) * (1 - clear)).astype(np.uint8)
    return shade


def background(view: View, style: Style) -> U8:
    """Sky and bare ground, one colour per image row: uint8 (H, 3), RGB."""
    rows = np.empty((view.size_px[1], 3), np.uint8)
    sky = view.horizon_row
    blend: F64 = np.linspace(0, 1, max(sky, 1))[:sky, None]
    rows[:sky] = (1 - blend) * np.array(style.zenith) + blend * np.array(style.horizon)
    rows[sky:] = style.ground
    return rows


def _picture(view: View, faces: Faces, style: Style, channels: list[int]) -> U8:
    width = view.size_px[0]
    image = np.repeat(_opaque(background(view, style))[:, None, channels], width, 1)
    fill(image, view, faces, _opaque(shades(faces, style))[:, channels])
    return image


def _opaque(rgb: U8) -> U8:
    """RGB with a fourth channel of 255."""
    return np.concatenate([rgb, np.full((*rgb.shape[:-1], 1), 255, np.uint8)], -1)
