"""What weather and time of day do to a picture, in numbers; and tiles of clouds, rain and grain."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from drive.contracts import F32, U8
from drive.viz.quads import Quads

Rgb = tuple[float, float, float]
TILE_MARGIN = 256
_STREAKS = 5.5


@dataclass(frozen=True)
class Air:
    """The air of one moment, the same for all cameras.

    Attributes:
        sun_world: Unit vector to the sun; right-handed, z up.
        light: Brightness of a level surface by day's standards, (red, green, blue), 1 = the default weather.
        direct: Share of the light that comes from the sun itself, 0..1; the rest comes from everywhere.
        zenith, horizon, haze, fog: Colours of the sky, of the distance, and of fog, 0..255.
        cloud: Colour of clouds; `clouds` is how much of the sky they cover, 0..1.
        glow: What the sky adds towards a low sun, 0..255.
        fog_1pm: Extinction of fog at the height of the road [1/m].
        fog_from_m: Distance from which on there is fog.
        fog_fall_1pm: Fog thins by exp(-fog_fall_1pm * height) upwards [1/m].
        dark: How much lamps matter, 0 by day, 1 at night.
        lamps: Are street lamps and windows lit, 0..1?
        rain: Falling rain, 0..1; `wet` is how wet the road is.
    """

    sun_world: Rgb
    light: Rgb
    direct: float
    zenith: Rgb
    horizon: Rgb
    haze: Rgb
    fog: Rgb
    cloud: Rgb
    clouds: float
    glow: Rgb
    fog_1pm: float
    fog_from_m: float
    fog_fall_1pm: float
    dark: float
    lamps: float
    rain: float
    wet: float


@dataclass(frozen=True)
class Look:
    """The air for one picture.

    Attributes:
        air: Weather and time of day.
        seed: Of rain and noise: equal seeds give equal pictures.
        own: Lamps of the camera's own vehicle, in the world; they light the scene and are not seen.
    """

    air: Air
    seed: int
    own: Quads | None = None


@lru_cache(maxsize=1)
def cloud_tile() -> F32:
    """Smooth noise that repeats seamlessly, float32 (256, 256) in 0..1."""
    rng = np.random.default_rng(11)
    total = np.zeros((256, 256), np.float32)
    for sigma, weight in ((24.0, 1.0), (9.0, 0.5), (3.5, 0.22)):
        wide = np.tile(rng.standard_normal((256, 256)).astype(np.float32), (3, 3))
        smooth = cv2.GaussianBlur(wide, (0, 0), sigma)[256:512, 256:512]
        total += weight * smooth / smooth.std()
    rank = total.ravel().argsort().argsort().reshape(total.shape)
    noise: F32 = (rank / rank.max()).astype(np.float32)
    return noise


@lru_cache(maxsize=8)
def weather_tiles(size_px: tuple[int, int], streaks: int, grain: int) -> tuple[U8, U8]:
    """What rain and grain add to a picture and take from it, two uint8 (H + 256, W + 256, 4), BGRA.

    Args:
        size_px: (width, height) of the pictures that are cut out of it.
        streaks: Brightness of the streaks, 0..32.
        grain: Standard deviation of the grain in quarters of a level.
    """
    width, height = size_px[0] + TILE_MARGIN, size_px[1] + TILE_MARGIN
    rng = np.random.default_rng(13)
    fall = np.zeros((height, width), np.uint8)
    if streaks:
        for _ in range(int(_STREAKS * width * height / size_px[1] ** 1.5)):
            near = float(rng.uniform(0.25, 1.0))
            x, y = int(rng.integers(0, width)), int(rng.integers(-40, height))
            long = max(2, round(near * size_px[1] / 11))
            shade = int((22 + 44 * near) * streaks / 32)
            cv2.line(fall, (x, y), (x + round(0.12 * long), y + long), shade, 1, cv2.LINE_AA)
    noise = rng.standard_normal((height, width)).astype(np.float32) * np.float32(grain / 4)
    return _grey(np.clip(noise, 0, 255) + fall), _grey(np.clip(-noise, 0, 255))


def _grey(level: NDArray[Any]) -> U8:
    """One level in all three colours and none in the fourth channel, uint8 (..., 4)."""
    rounded = np.clip(np.rint(level), 0, 255).astype(np.uint8)
    return np.stack([rounded, rounded, rounded, np.zeros_like(rounded)], -1)


def crop(tile: U8, size_px: tuple[int, int], seed: int) -> U8:
    """A picture-sized part of a tile, at a place that the seed decides."""
    across, down = seed % TILE_MARGIN, seed // TILE_MARGIN % TILE_MARGIN
    return tile[down : down + size_px[1], across : across + size_px[0]]
