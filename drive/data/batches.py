"""Batches as a pure function of the step: a resumed run sees the samples it would have seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive.contracts import F64, I64, Bool
from drive.data.augment import AugmentConfig, disturb_images, draw
from drive.data.samples import NO_LIGHT, Samples

Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Batches:
    """`batches[step]` is the batch of optimiser step `step`.

    Attributes:
        samples: What to draw from.
        rows: Rows of `samples` in use (the training split).
        batch_size: Samples per step.
        seed: Of order and augmentation.
        augment: Strength of augmentation; None = off.
        probability: Per row of `rows`, draw with replacement in this proportion; None = each once per epoch.
        replay: Per row of `rows`, True where the old model is to be kept (fine-tuning).
    """

    samples: Samples
    rows: I64
    batch_size: int
    seed: int
    augment: AugmentConfig | None = None
    probability: F64 | None = None
    replay: Bool | None = None

    def __getitem__(self, step: int) -> Batch:
        chosen = self.order(step)
        keys = [(step, int(i)) for i in range(len(chosen))]
        replay = self.replay[chosen] if self.replay is not None else np.zeros(len(chosen), bool)
        return collate(self.samples, self.rows[chosen], self.augment, self.seed, keys) | {"replay": replay}

    def order(self, step: int) -> I64:
        """Positions in `rows` of step `step`, int64 (batch_size,)."""
        if self.probability is not None:
            rng = np.random.default_rng([self.seed, 1, step])
            share = self.probability / self.probability.sum()
            return rng.choice(len(self.rows), self.batch_size, p=share).astype(np.int64)
        first = step * self.batch_size
        places = np.arange(first, first + self.batch_size)
        epoch, place = np.divmod(places, len(self.rows))
        shuffled = {int(e): _permutation(self.seed, int(e), len(self.rows)) for e in np.unique(epoch)}
        return np.array([shuffled[int(e)][p] for e, p in zip(epoch, place, strict=True)], np.int64)


def _permutation(seed: int, epoch: int, count: int) -> I64:
    return np.random.default_rng([seed, 0, epoch]).permutation(count)


def collate(
    samples: Samples,
    rows: I64,
    augment: AugmentConfig | None = None,
    seed: int = 0,
    keys: list[tuple[int, int]] | None = None,
) -> Batch:
    """Rows of samples as arrays named as the learner expects them; `augment` needs one key per row."""
    image: Any = samples.image[rows]
    speed, targets = samples.speed_mps[rows].copy(), samples.targets_ego[rows].copy()
    if augment is not None and keys is not None:
        disturbance = draw(augment, seed, keys)
        image = disturb_images(image, disturbance)
        targets += disturbance.target_m
        speed = np.maximum(speed + disturbance.speed_mps, 0.0)
    aux = samples.aux[rows]
    light = np.where(np.isfinite(aux[:, 0]), aux[:, 0], -1).astype(np.int64)
    return {
        "image": image,
        "speed_mps": speed.astype(np.float32),
        "true_speed_mps": samples.speed_mps[rows],
        "speed_limit_mps": samples.speed_limit_mps[rows],
        "turn": samples.turn[rows].astype(np.int64),
        "targets_ego": targets.astype(np.float32),
        "label_ego": samples.label_ego[rows],
        "command": samples.command[rows].astype(np.int64),
        "light": np.minimum(light, NO_LIGHT),
        "stop_m": aux[:, 1],
        "lead_m": aux[:, 2],
        "weight": samples.weight[rows],
    }
