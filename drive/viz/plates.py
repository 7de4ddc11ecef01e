"""Traffic signs made of quads: a post and a plate with its letters, facing traffic along +x."""

import math
from functools import lru_cache

import numpy as np

from drive.contracts import F64
from drive.viz.figures import Colour, box, solid
from drive.viz.quads import Quads, Tag, concatenate

_RED: Colour = (188, 22, 30)
_WHITE: Colour = (240, 240, 236)
_BLACK: Colour = (24, 24, 26)
_BACK: Colour = (120, 122, 124)
_POST: Colour = (128, 130, 132)
_CENTRE_M, _STEP_M, _BURIED_M = 2.25, 0.012, 0.4
_STOP_M, _YIELD_M, _SPEED_M = 0.46, 0.58, 0.42  # circumradius of the plates
STOP_LETTER_M = 0.3
_STROKES = {
    "0": "abcdef", "1": "bc", "2": "abged", "3": "abgcd", "4": "fgbc", "5": "afgcd", "6": "afgedc",
    "7": "abc", "8": "abcdefg", "9": "abcdfg", "S": "afgcd", "T": "am", "O": "abcdef", "P": "abgef",
}  # fmt: skip
_THICK = 0.24  # of a stroke, against the width of a letter


def stop_sign(letters: bool = True) -> Quads:
    """Red octagon with a white rim and the word STOP, unless it is too far away to be read."""
    return _sign("stop", "STOP" if letters else "")


def yield_sign() -> Quads:
    """White triangle on its tip with a red rim."""
    return _sign("yield", "")


def speed_sign(limit: int) -> Quads:
    """White disc with a red rim and the limit, as numbers say it in the map."""
    return _sign("speed", str(limit))


@lru_cache(maxsize=64)
def _sign(kind: str, text: str) -> Quads:
    parts = [box((0.05, 0, -_BURIED_M), (0.035, 0.035), _CENTRE_M + _BURIED_M, _POST, Tag.POLES)]
    if kind == "stop":
        corners, start, radius = 8, math.pi / 8, _STOP_M
        layers = ((_WHITE, 1.0), (_RED, 0.92))
    elif kind == "yield":
        corners, start, radius = 3, -math.pi / 2, _YIELD_M
        layers = ((_RED, 1.0), (_WHITE, 0.62))
    else:
        corners, start, radius = 12, 0.0, _SPEED_M
        layers = ((_RED, 1.0), (_WHITE, 0.78))
    parts.append(_polygon(corners, start, radius, 0.02, _BACK, back=True))
    for step, (colour, share) in enumerate(layers):
        parts.append(_polygon(corners, start, radius * share, -_STEP_M * step, colour))
    if text:
        height, ink = (STOP_LETTER_M, _WHITE) if kind == "stop" else (0.32, _BLACK)
        width = min(0.6 * height, 1.2 * radius / (1.35 * len(text)))
        parts += _letters(text, width, height, -_STEP_M * len(layers), ink)
    return concatenate(parts)


def _polygon(n: int, start: float, radius: float, x: float, colour: Colour, back: bool = False) -> Quads:
    """Regular polygon in the plane across x around the plate's middle; its front, or what is seen behind."""
    turn = start + 2 * math.pi * np.arange(n) / n
    rim = np.stack([np.full(n, x), -radius * np.cos(turn), _CENTRE_M + radius * np.sin(turn)], 1)
    if back:
        rim = rim[::-1]
    fan = [(0, i, i + 1, min(i + 2, n - 1)) for i in range(1, n - 1, 2)]
    return _plates(rim[np.array(fan)], colour)


def _plates(corners: F64, colour: Colour) -> Quads:
    return solid(corners, np.tile(np.array(colour, float), (len(corners), 1)), Tag.TRAFFIC_SIGNS)


def _letters(text: str, width: float, height: float, x: float, colour: Colour) -> list[Quads]:
    """Letters of seven strokes each, in the middle of the plate."""
    pitch = 1.35 * width
    left = -pitch * (len(text) - 1) / 2
    bars = [
        bar
        for i, letter in enumerate(text)
        for bar in (_stroke(name, left + i * pitch, width, height) for name in _STROKES[letter])
    ]
    corners = [[[x, -u0, v0], [x, -u1, v0], [x, -u1, v1], [x, -u0, v1]] for u0, v0, u1, v1 in bars]
    return [_plates(np.array(corners), colour)] if corners else []


def _stroke(name: str, middle: float, width: float, height: float) -> tuple[float, float, float, float]:
    """One bar of a letter: from (right, up) to (right, up) [m]."""
    w, h, t = width / 2, height / 2, _THICK * width
    low, mid, high = _CENTRE_M - h, _CENTRE_M, _CENTRE_M + h
    place = {
        "a": (-w, high - t, w, high), "g": (-w, mid - t / 2, w, mid + t / 2), "d": (-w, low, w, low + t),
        "f": (-w, mid, -w + t, high), "b": (w - t, mid, w, high), "e": (-w, low, -w + t, mid),
        "c": (w - t, low, w, mid), "m": (-t / 2, low, t / 2, high),
    }  # fmt: skip
    u0, v0, u1, v1 = place[name]
    return middle + u0, v0, middle + u1, v1
