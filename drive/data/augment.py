"""Random disturbance of inputs in training; every sample draws from its own seed."""

from dataclasses import dataclass

import numpy as np

from drive.contracts import F32, U8

_STRIPES = 16


@dataclass(frozen=True)
class AugmentConfig:
    """Strengths; zero everywhere switches augmentation off.

    Attributes:
        gain: Half range of the random contrast per colour channel, as a share.
        offset: Half range of the random brightness, of 255.
        stripe: Standard deviation of random brightness per vertical stripe, of 255.
        target_m: Standard deviation of noise on route points.
        speed_mps: Standard deviation of noise on the speed.
        speed_drop: Share of samples whose speed is hidden, so that the planner looks at the road.
    """

    gain: float = 0.125
    offset: float = 15.0
    stripe: float = 6.0
    target_m: float = 0.1
    speed_mps: float = 0.3
    speed_drop: float = 0.1


@dataclass(frozen=True)
class Disturbance:
    """Draws for B samples: gain (B, 3), offset (B, 16, 3), target_m (B, 2, 2), speed_mps (B,), NaN = hide."""

    gain: F32
    offset: F32
    target_m: F32
    speed_mps: F32


def draw(config: AugmentConfig, seed: int, keys: list[tuple[int, int]]) -> Disturbance:
    """Draw for samples named by keys (step, place); a sample's draw does not depend on its batch."""
    draws = [_draw_one(config, np.random.default_rng([seed, *key])) for key in keys]
    return Disturbance(*(np.stack(column).astype(np.float32) for column in zip(*draws, strict=True)))


def _draw_one(config: AugmentConfig, rng: np.random.Generator) -> tuple[F32, F32, F32, F32]:
    gain = 1 + config.gain * rng.uniform(-1, 1, 3)
    offset = config.offset * rng.uniform(-1, 1) + config.stripe * rng.standard_normal((_STRIPES, 3))
    target = config.target_m * rng.standard_normal((2, 2))
    hidden = rng.random() < config.speed_drop
    speed = np.where(hidden, np.nan, config.speed_mps * rng.standard_normal())
    return gain, offset, target, speed


def disturb_images(images: U8, disturbance: Disturbance) -> U8:
    """Brightness and contrast, by one look-up table a stripe: uint8 (B, H, W, 3), W a multiple of 16."""
    import cv2

    levels = np.arange(256, dtype=np.float32)[:, None]
    out = np.empty_like(images)
    width = images.shape[2] // _STRIPES
    for image, result, gain, offset in zip(images, out, disturbance.gain, disturbance.offset, strict=True):
        table = np.clip(levels * gain + offset[:, None], 0, 255).astype(np.uint8)  # (16, 256, 3)
        for stripe in range(_STRIPES):
            columns = slice(stripe * width, (stripe + 1) * width)
            result[:, columns] = cv2.LUT(image[:, columns], table[stripe][None])
    return out
