"""Bodies made of quads: boxes, vehicles, pedestrians, traffic lights; right-handed, metres, radians."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from drive.contracts import F64
from drive.viz.quads import Layer, Quads, Tag, concatenate

Colour = tuple[int, int, int]
_FACES = np.array([[0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7], [4, 5, 6, 7]])
_SHADE = np.array([0.74, 0.9, 0.66, 0.82, 1.0])  # right, front, left, back, top
HEADLAMP: Colour = (250, 245, 220)
LAMP: dict[str, Colour] = {"red": (235, 40, 30), "yellow": (250, 190, 30), "green": (40, 225, 70)}


def solid(corners: F64, colour: F64, tag: Tag) -> Quads:
    """Solid quads (N, 4, 3) of colours (N, 3)."""
    n = len(corners)
    return Quads(
        np.asarray(corners, np.float32),
        np.clip(colour, 0, 255).astype(np.uint8),
        np.full(n, Layer.SOLID, np.uint8),
        np.full(n, tag, np.uint8),
    )


def box(
    centre: tuple[float, float, float],
    half: tuple[float, float],
    height: float,
    colour: Colour,
    tag: Tag = Tag.STATIC,
) -> Quads:
    """Box on its base centre (x, y, z) with half length and half width; four shaded sides and a top."""
    x, y, z = centre
    base = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * np.array(half) + np.array([x, y])
    low = np.c_[base, np.full(4, z)]
    high = np.c_[base, np.full(4, z + height)]
    return solid(np.r_[low, high][_FACES], _SHADE[:, None] * np.array(colour), tag)


def _lamp(plate: Quads) -> Quads:
    """The same plate, shining in the dark."""
    return replace(plate, layer=np.full(len(plate.layer), Layer.LAMP, np.uint8))


def _plate(
    x: float, y: float, z: float, half_y: float, height: float, side: int, colour: Colour, tag: Tag
) -> Quads:
    """Upright plate across x, facing forward (side 1) or back (side -1); (x, y, z) is its lower middle."""
    a, b = y - half_y * side, y + half_y * side
    return solid(
        np.array([[[x, a, z], [x, b, z], [x, b, z + height], [x, a, z + height]]]), np.array([colour]), tag
    )


def _side_plate(
    x: float, y: float, z: float, half_x: float, height: float, side: int, colour: Colour, tag: Tag
) -> Quads:
    """Upright plate along x that faces left (side 1) or right (side -1)."""
    a, b = x + half_x * side, x - half_x * side
    return solid(
        np.array([[[a, y, z], [b, y, z], [b, y, z + height], [a, y, z + height]]]), np.array([colour]), tag
    )


@lru_cache(maxsize=512)
def vehicle(
    half: tuple[float, float, float], colour: Colour, braking: bool = False, tag: Tag = Tag.CAR
) -> Quads:
    """Vehicle around its ground centre, x forward: shadow, body, cabin, wheels, head lamps, brake lamps.

    Args:
        half: Half length, width and height [m].
        colour: Body colour.
        braking: Bright or dim rear lamps.
        tag: What it is; the shadow counts as road, and whoever rides a two-wheeler as rider.
    """
    hx, hy, hz = half
    floor, waist, roof = 0.25, 0.25 + 1.05 * hz - 0.12, 2 * hz
    shadow = np.array(
        [[-1.05 * hx, -1.1 * hy], [1.05 * hx, -1.1 * hy], [1.05 * hx, 1.1 * hy], [-1.05 * hx, 1.1 * hy]]
    )
    parts = [solid(np.c_[shadow, np.full(4, 0.03)][None], np.array([[38, 38, 40]]), Tag.ROADS)]
    if hx < 1.3:  # two wheels and a rider
        parts.append(box((0, 0, 0.05), (hx, 0.12), 0.75, (44, 44, 48), tag))
        parts.append(box((-0.1, 0, 0.75), (0.25, max(0.22, hy)), 0.65, colour, Tag.RIDER))
        parts.append(box((-0.05, 0, 1.4), (0.13, 0.13), 0.26, (205, 165, 140), Tag.RIDER))
        return concatenate(parts)
    boxy = hz > 1.05
    if boxy:
        parts.append(box((0, 0, floor), (hx, hy), roof - floor, colour, tag))
        parts.append(_plate(hx + 0.02, 0, roof * 0.5, hy * 0.85, roof * 0.32, 1, (60, 72, 86), tag))
        for side in (1, -1):
            parts.append(
                _side_plate(
                    hx * 0.72, side * (hy + 0.02), roof * 0.5, hx * 0.2, roof * 0.3, side, (60, 72, 86), tag
                )
            )
    else:
        parts.append(box((0, 0, floor), (hx, hy), waist - floor, colour, tag))
    for side in (1, -1):
        for x in (0.6 * hx, -0.6 * hx):
            parts.append(_side_plate(x, side * (hy + 0.02), 0.02, 0.33, 0.62, side, (26, 26, 28), tag))
    if not boxy:
        parts.append(box((-0.1 * hx, 0, waist), (hx * 0.56, hy * 0.86), roof - waist, (60, 72, 86), tag))
        parts.append(box((-0.12 * hx, 0, roof - 0.06), (hx * 0.45, hy * 0.84), 0.07, colour, tag))
    rear: Colour = (255, 48, 30) if braking else (150, 20, 18)
    for side in (1, -1):
        parts.append(_lamp(_plate(-hx - 0.03, side * hy * 0.7, waist - 0.3, 0.22, 0.24, -1, rear, tag)))
        parts.append(_lamp(_plate(hx + 0.03, side * hy * 0.7, waist - 0.32, 0.22, 0.2, 1, HEADLAMP, tag)))
    return concatenate(parts)


@lru_cache(maxsize=512)
def pedestrian(height_m: float, shirt: Colour, stride: int = 0) -> Quads:
    """Pedestrian on its ground point, x forward; `stride` 0 stands, 1 and 2 are the phases of a step."""
    h = height_m / 1.8
    swing = {0: 0.0, 1: 0.16, 2: -0.16}[stride] * h
    return concatenate(
        [
            box((swing, 0.1 * h, 0), (0.1 * h, 0.09 * h), 0.85 * h, (46, 48, 58), Tag.PEDESTRIANS),
            box((-swing, -0.1 * h, 0), (0.1 * h, 0.09 * h), 0.85 * h, (46, 48, 58), Tag.PEDESTRIANS),
            box((0, 0, 0.8 * h), (0.17 * h, 0.27 * h), 0.65 * h, shirt, Tag.PEDESTRIANS),
            box((0, 0, 1.46 * h), (0.12 * h, 0.12 * h), 0.3 * h, (205, 165, 140), Tag.PEDESTRIANS),
        ]
    )


@lru_cache(maxsize=16)
def traffic_light(state: str, head_z_m: float, pole: bool) -> Quads:
    """Light head facing -x (towards traffic driving along +x), with a pole to the ground if wanted."""
    parts = [box((0.15, 0, 0), (0.09, 0.09), head_z_m, (70, 72, 74), Tag.POLES)] if pole else []
    parts.append(box((0, 0, head_z_m), (0.2, 0.36), 1.5, (28, 28, 30), Tag.TRAFFIC_LIGHT))
    lamp = {"red": 1.2, "yellow": 0.75, "green": 0.3}
    for name, z in lamp.items():
        lit = name == state
        half = 0.34 if lit else 0.16
        if not lit:
            parts.append(
                _plate(-0.22, 0, head_z_m + z - half, half, 2 * half, -1, (52, 52, 54), Tag.TRAFFIC_LIGHT)
            )
    if state in lamp:
        z = head_z_m + lamp[state] - 0.34
        parts.append(_lamp(_plate(-0.24, 0, z, 0.34, 0.68, -1, LAMP[state], Tag.TRAFFIC_LIGHT)))
    return concatenate(parts)


def place(figure: Quads, x_m: float, y_m: float, z_m: float, yaw_rad: float, pitch_rad: float = 0.0) -> Quads:
    """Figure in the world frame; positive pitch lifts the front."""
    cy, sy, cp, sp = math.cos(yaw_rad), math.sin(yaw_rad), math.cos(pitch_rad), math.sin(pitch_rad)
    world_from_figure = np.array(
        [[cy * cp, -sy, -cy * sp], [sy * cp, cy, -sy * sp], [sp, 0.0, cp]],
        np.float32,
    )
    corners = figure.corners @ world_from_figure.T + np.array([x_m, y_m, z_m], np.float32)
    return Quads(corners, figure.colour, figure.layer, figure.tag)
