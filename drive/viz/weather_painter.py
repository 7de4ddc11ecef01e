"""The painter in any weather and at any hour: the same faces in other light, below another sky.

Solids are lit face by face. Where there are lamps, fog or a wet road, level ground is lit pixel by pixel.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from drive.contracts import F32, I32, I64, U8, Bool
from drive.viz.air import Air, Look, crop, weather_tiles
from drive.viz.faces import Faces, fill, visible_faces
from drive.viz.lamps import Lamps, lamps_around
from drive.viz.painter import haze_clearness, paint_bgra, whole_pixels
from drive.viz.quads import Landscape, Layer, Quads, Tag
from drive.viz.sky import Rays, sky
from drive.viz.view import DAYLIGHT, Style, View

_SOLID, _GROUND, _LAMP = 255, 1, 2  # what is seen at a pixel, kept in the fourth channel while painting
_LIT_M = 90.0
_PANE = np.array([255.0, 214.0, 150.0], np.float32)
_LEAST, _MOST = 0.5, 1.45
_WET_DARK, _GLOSS = 0.38, 0.75
_OFF_PLANE_M, _OFF_PLANE = 0.35, 0.05
_REFLEX = 2.2  # signs throw light back
_GAIN_STEPS = 96.0  # of the gain of light on the ground, in one byte
_BLOOM, _WIDE_BLOOM, _STREAK = 2.6, 1.6, 9.0
_GRAIN_DARK, _GRAIN_RAIN = 2.2, 1.6


def paint_look(
    view: View,
    static: Landscape | None,
    groups: Sequence[Quads],
    look: Look | None,
    style: Style = DAYLIGHT,
) -> U8:
    """One picture as uint8 (H, W, 4), BGRA; without a look that of `paint_bgra`."""
    if look is None:
        return paint_bgra(view, static, groups, style)
    air = look.air
    faces = visible_faces(view, static, groups, style)
    rays = Rays.of(view, faces)
    lamps = lamps_around(view, static, groups, look.own, air.lamps) if air.dark > 0 else None
    pixelwise = lamps is not None or air.wet > 0 or air.fog_1pm > 0
    bgra = _backdrop(rays, air, style, pixelwise)
    waiting = _on_plane(faces, rays) if pixelwise else np.zeros(len(faces.tag), np.bool_)
    pixels = _marked(faces, waiting, _shades(faces, rays, air, lamps, waiting, style))
    fill(bgra.view(np.int32)[..., 0], view, faces, pixels)
    ground = _seen(bgra, _GROUND)
    if pixelwise:
        _light_ground(bgra, ground, rays, air, lamps, style)
    if lamps is not None:
        _shine(bgra, ground, air)
    if air.rain > 0 or air.dark > 0:
        _add_rain(bgra, view, look)
    bgra[..., 3] = 255
    return bgra


def _clearness(distance: F32, height: F32, air: Air, style: Style) -> F32:
    """How much of a thing is seen through haze and fog, float32 0..1; height is over the road."""
    clear = haze_clearness(distance, style)
    if air.fog_1pm > 0:
        thin = np.exp(-air.fog_fall_1pm * np.maximum(height, 0) / 2)
        clear = clear * np.exp(-air.fog_1pm * thin * np.maximum(distance - air.fog_from_m, 0))
    whole: F32 = np.asarray(clear, np.float32)
    return whole


def _veil(air: Air) -> F32:
    """Colour of what hides the distance: haze, or fog where there is some."""
    share = min(1.0, air.fog_1pm * 90.0)
    veil: F32 = np.array(air.haze, np.float32) * (1 - share) + np.array(air.fog, np.float32) * share
    return veil


def _gloss(steep: F32, air: Air) -> F32:
    """Share of a wet surface's look that is mirrored sky, after Schlick's formula for water."""
    share: F32 = _GLOSS * air.wet * (0.04 + 0.96 * (1 - steep) ** 5)
    return share


def _mirrored(air: Air) -> F32:
    """Colour of the sky in a wet road."""
    horizon, cloud = np.array(air.horizon, np.float32), np.array(air.cloud, np.float32)
    mirrored: F32 = horizon + (cloud - horizon) * np.float32(air.clouds)
    return mirrored


def _on_plane(faces: Faces, rays: Rays) -> Bool:
    """Flat faces that lie about on the plane of the road below the camera, bool (M,)."""
    off = np.abs(faces.height + rays.eye_m)
    level: Bool = ~faces.solid & (off < _OFF_PLANE_M + _OFF_PLANE * faces.distance)
    return level


def _shades(faces: Faces, rays: Rays, air: Air, lamps: Lamps | None, waiting: Bool, style: Style) -> U8:
    """Colour of each face, uint8 (M, 3); of those that wait to be lit, their own."""
    rotation = rays.view.camera_from_world[:3, :3].astype(np.float32)
    albedo = faces.colour.astype(np.float32)
    flat = ~faces.solid
    glowing, pane = faces.layer == Layer.LAMP, faces.layer == Layer.PANE
    if air.wet > 0:
        albedo[flat] *= np.float32(1 - _WET_DARK * air.wet)
    light = np.repeat(np.array([air.light], np.float32), len(albedo), 0)
    lit = np.flatnonzero(~waiting)
    normal = _normals(faces, lit) @ rotation
    light[lit] *= np.where(flat[lit], 1, _sunlit(normal, air))[:, None]
    if lamps is not None:
        middle = (faces.points[..., lit].sum(1) / np.float32(4)).T @ rotation
        facing = np.abs((normal * middle).sum(1)) / np.maximum(faces.distance[lit], 0.1)
        share = (0.45 + 0.55 * facing) * np.where(faces.tag[lit] == Tag.TRAFFIC_SIGNS, _REFLEX, 1)
        light[lit] += air.dark * lamps.light(middle) * share[:, None].astype(np.float32)
    shade = albedo * light
    shade[glowing] = np.maximum(shade[glowing], albedo[glowing] * np.float32(0.3 + 0.9 * air.dark))
    if air.lamps > 0:
        shade[pane] += (_PANE - shade[pane]) * np.float32(0.8 * air.lamps)
    if air.wet > 0:
        steep = np.clip(-faces.height[flat] / np.maximum(faces.distance[flat], 0.1), 0, 1)
        shade[flat] += (_mirrored(air) - shade[flat]) * _gloss(steep, air)[:, None]
    clear = _clearness(faces.distance, faces.height + rays.eye_m, air, style)
    clear = np.where(glowing, np.sqrt(clear), clear)[:, None]
    seen = np.where(waiting[:, None], albedo, shade * clear + _veil(air) * (1 - clear))
    out: U8 = np.clip(seen, 0, 255).astype(np.uint8)
    return out


def _normals(faces: Faces, rows: I64) -> F32:
    """Unit normals of faces towards their front, camera frame, float32 (N, 3)."""
    points = faces.points[..., rows]
    ax, ay, az = points[:, 2] - points[:, 0]
    bx, by, bz = points[:, 3] - points[:, 1]
    normal = np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], 1)
    unit: F32 = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), np.float32(1e-9))
    return unit


def _sunlit(normal: F32, air: Air) -> F32:
    """Light of faces against that of a level one, float32 (N,)."""
    if air.direct <= 0:
        return np.ones(len(normal), np.float32)
    sun = np.array(air.sun_world, np.float32)
    towards = np.maximum(normal @ sun, 0) / max(float(sun[2]), 0.45)
    lit: F32 = np.clip(1 - air.direct + air.direct * towards, _LEAST, _MOST).astype(np.float32)
    return lit


def _marked(faces: Faces, waiting: Bool, rgb: U8) -> I32:
    """Whole pixels whose fourth byte says what is seen."""
    pixels = whole_pixels(rgb)
    mark = np.where(waiting, _GROUND, np.where(faces.layer == Layer.LAMP, _LAMP, _SOLID))
    pixels.view(np.uint8).reshape(-1, 4)[:, 3] = mark
    return pixels


def _backdrop(rays: Rays, air: Air, style: Style, pixelwise: bool) -> U8:
    """Sky and bare ground, uint8 (H, W, 4)."""
    picture = rays.whole(sky(rays, air))
    ground = np.array(style.ground, np.float32) * np.float32(1 - _WET_DARK * air.wet)
    if not pixelwise:  # bare ground has no haze
        ground = ground * np.array(air.light, np.float32)
    below = picture[rays.view.horizon_row :]
    below[..., :3] = np.clip(ground[::-1], 0, 255).astype(np.uint8)
    below[..., 3] = _GROUND if pixelwise else _SOLID
    return picture


def _light_ground(bgra: U8, ground: U8, rays: Rays, air: Air, lamps: Lamps | None, style: Style) -> None:
    """Light what lies on the ground by sky and lamps, and lay fog over it; changes the picture."""
    light = np.zeros_like(rays.direction) + np.array(air.light, np.float32)
    if lamps is not None:
        near = rays.ground_m < _LIT_M
        light[near] += air.dark * lamps.light(rays.direction[near] * rays.ground_m[near][:, None])
    clear = _clearness(rays.ground_m, np.zeros_like(rays.ground_m), air, style)[..., None]
    gain, add = light * clear, _veil(air) * (1 - clear)
    if air.wet > 0:
        gloss = _gloss(np.clip(-rays.direction[..., 2:], 0, 1), air)
        gain, add = gain * (1 - gloss), add + _mirrored(air) * clear * gloss
    lit = cv2.multiply(bgra, rays.whole(gain * _GAIN_STEPS), scale=1 / _GAIN_STEPS)
    lit = cv2.add(lit, rays.whole(add))
    cv2.copyTo(lit, ground, bgra)


def _seen(bgra: U8, mark: int) -> U8:
    """Mask of the pixels with a mark, uint8 (H, W), 0 or 255."""
    mask: U8 = np.asarray(cv2.inRange(cv2.extractChannel(bgra, 3), mark, mark), np.uint8)
    return mask


def _shine(bgra: U8, ground: U8, air: Air) -> None:
    """Light that lamps in view scatter around them, and mirrored streaks of it on a wet road."""
    lit = _seen(bgra, _LAMP)
    if not lit.any():
        return
    height, width = lit.shape
    small_px = (max(1, width // 3), max(1, height // 3))
    source = cv2.copyTo(bgra, lit)
    small = cv2.resize(source, small_px, interpolation=cv2.INTER_AREA).astype(np.float32)
    small[..., 3] = 0
    sigma = height / 160
    bloom = cv2.GaussianBlur(small, (0, 0), sigma) * _BLOOM
    bloom += cv2.GaussianBlur(small, (0, 0), 3.5 * sigma) * (_WIDE_BLOOM + 60 * min(air.fog_1pm, 0.1))
    _add(bgra, bloom * air.dark, None)
    if air.wet > 0:
        long = max(3, height // 9)
        drop = cv2.blur(small, (max(1, round(sigma)), long), anchor=(-1, long - 1))
        _add(bgra, drop * (_STREAK * air.wet * air.dark), ground)


def _add(bgra: U8, small: F32, mask: U8 | None) -> None:
    """Add a coarse picture where the mask lets it; lamps keep their hue."""
    coarse = _within_range(small).astype(np.uint8)
    whole = cv2.resize(coarse, bgra.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    lamps = bgra[..., 3] == _LAMP
    lit = bgra[lamps].astype(np.float32) + whole[lamps]
    cv2.add(bgra, whole, bgra, mask)
    bgra[lamps, :3] = _within_range(lit[:, :3])


def _within_range(colour: F32) -> F32:
    """What is too bright for a byte, darker but of the same hue."""
    limited: F32 = colour * np.minimum(1, 255 / np.maximum(colour.max(-1, keepdims=True), 1))
    return limited


def _add_rain(bgra: U8, view: View, look: Look) -> None:
    """Streaks of rain, and the grain of a camera that sees little."""
    air = look.air
    level = air.rain * (0.35 + 0.65 * min(1.0, 1.6 * max(air.light)))
    grain = _GRAIN_DARK * air.dark + _GRAIN_RAIN * air.rain
    more, less = weather_tiles(view.size_px, round(32 * level), round(4 * grain))
    cv2.add(bgra, crop(more, view.size_px, look.seed), bgra)
    cv2.subtract(bgra, crop(less, view.size_px, look.seed // 7), bgra)
