"""Random disturbance of batches in training; every sample draws from its own seed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.contracts import F32, F64, I64, U8
from drive.data.frames import COLOURS
from drive.data.samples import Batch
from drive.geometry.commands import classify
from drive.geometry.se2 import wrap

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
        yaw_rad: Half range of a random turn of the vehicle: image, route and label turn together.
    """

    gain: float = 0.125
    offset: float = 15.0
    stripe: float = 6.0
    target_m: float = 0.1
    speed_mps: float = 0.3
    speed_drop: float = 0.1
    yaw_rad: float = 0.0


@dataclass(frozen=True)
class Disturbance:
    """Draws for B samples: gain (B, 3), offset (B, 16, 3), target_m (B, 2, 2), speed_mps, yaw_rad (B,)."""

    gain: F32
    offset: F32
    target_m: F32
    speed_mps: F32
    yaw_rad: F32


def augmented(
    batch: Batch, config: AugmentConfig, focal_px: float, seed: int, keys: list[tuple[int, int]]
) -> Batch:
    """Disturb a batch.

    Args:
        batch: From `collate`; not changed.
        config: Strengths.
        focal_px: Of the images.
        seed: Of the run.
        keys: (step, place) per sample: a sample's draw does not depend on the rest of its batch.

    Returns:
        The batch with other images, speeds (NaN = hidden), route points, labels and commands.
    """
    drawn = draw(config, seed, keys)
    shift_px = np.rint(focal_px * np.tan(drawn.yaw_rad)).astype(np.int64)
    yaw = np.arctan(shift_px / focal_px)
    label, speed = turned(batch["label_ego"], yaw), batch["speed_mps"]
    images = batch["image"]
    if images.shape[2] > 1:
        images = shifted(disturb_images(images, drawn), shift_px)
    return batch | {
        "image": images,
        "speed_mps": np.maximum(speed + drawn.speed_mps, 0.0).astype(np.float32),
        "targets_ego": (turned(batch["targets_ego"], yaw) + drawn.target_m).astype(np.float32),
        "label_ego": label,
        "command": _commands_after(batch["command"], batch["label_ego"], label, speed),
        "ground_known": batch["ground_known"] & (shift_px == 0)[:, None],  # the ground is not turned
    }


def draw(config: AugmentConfig, seed: int, keys: list[tuple[int, int]]) -> Disturbance:
    """Draw for the samples named by keys."""
    draws = [_draw_one(config, np.random.default_rng([seed, *key])) for key in keys]
    return Disturbance(*(np.stack(column).astype(np.float32) for column in zip(*draws, strict=True)))


def _draw_one(config: AugmentConfig, rng: np.random.Generator) -> tuple[F64, ...]:
    gain = 1 + config.gain * rng.uniform(-1, 1, 3)
    offset = config.offset * rng.uniform(-1, 1) + config.stripe * rng.standard_normal((_STRIPES, 3))
    target = config.target_m * rng.standard_normal((2, 2))
    hidden = rng.random() < config.speed_drop
    speed = np.where(hidden, np.nan, config.speed_mps * rng.standard_normal())
    return gain, offset, target, speed, np.array(config.yaw_rad * rng.uniform(-1, 1))


def disturb_images(images: U8, drawn: Disturbance) -> U8:
    """Brightness and contrast of the colours, by one look-up table a stripe.

    Args:
        images: uint8 (B, H, W, 4), W a multiple of 16; the fourth channel, a difference of two images, stays.
        drawn: Of the B samples.
    """
    import cv2

    levels = np.arange(256, dtype=np.float32)[:, None]
    out = images.copy()
    width = images.shape[2] // _STRIPES
    for image, result, gain, offset in zip(images, out, drawn.gain, drawn.offset, strict=True):
        table = np.clip(levels * gain + offset[:, None], 0, 255).astype(np.uint8)  # (16, 256, 3)
        for stripe in range(_STRIPES):
            columns = slice(stripe * width, (stripe + 1) * width)
            result[:, columns, :COLOURS] = cv2.LUT(image[:, columns, :COLOURS], table[stripe][None])
    return out


def shifted(images: U8, shift_px: I64) -> U8:
    """Move images right by `shift_px` (B,), repeating the edge column: what a camera turned left sees."""
    out = images.copy()
    for image, result, shift in zip(images, out, shift_px.tolist(), strict=True):
        if shift > 0:
            result[:, shift:], result[:, :shift] = image[:, :-shift], image[:, :1]
        elif shift < 0:
            result[:, :shift], result[:, shift:] = image[:, -shift:], image[:, -1:]
    return out


def turned(points_ego: Any, yaw_rad: Any) -> F32:
    """Points or poses (B, T, 2|3) seen by a vehicle turned left by `yaw_rad` (B,), about its rear axle."""
    points = np.asarray(points_ego, np.float64)
    c, s = np.cos(yaw_rad)[:, None], np.sin(yaw_rad)[:, None]
    out = points.copy()
    out[..., 0], out[..., 1] = (
        c * points[..., 0] + s * points[..., 1],
        c * points[..., 1] - s * points[..., 0],
    )
    if points.shape[-1] == 3:
        out[..., 2] = wrap(points[..., 2] - yaw_rad[:, None])
    return out.astype(np.float32)


def _commands_after(command: I64, before_ego: F32, after_ego: F32, speed_mps: F32) -> I64:
    """Where the recorded lateral command was what the label does, it is what the turned label does."""
    before, after = (classify(label, speed_mps)[:, 0] for label in (before_ego, after_ego))
    out = command.copy()
    out[:, 0] = np.where(command[:, 0] == before, after, command[:, 0])
    return out
