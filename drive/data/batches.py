"""Batches as a pure function of the step: a resumed run sees the samples it would have seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive.contracts import F64, I64, Bool
from drive.data.augment import AugmentConfig, augmented
from drive.data.camera import CameraSpec
from drive.data.frames import CHANNELS
from drive.data.ground import unpack
from drive.data.samples import NO_LIGHT, Batch, Samples


@dataclass(frozen=True)
class Batches:
    """`batches[step]` is the batch of optimiser step `step`.

    Attributes:
        samples: What to draw from.
        rows: Rows of `samples` in use (the training split).
        batch_size: Samples per step.
        seed: Of order and augmentation.
        camera: The view of the images.
        augment: Strength of augmentation; None = off.
        probability: Per row of `rows`, draw with replacement in this proportion; None = each once per epoch.
        features: Arrays with a row per sample that stand for the images, which are then left out.
        replay: Per row of `rows`, True where the old model is to be kept (fine-tuning).
    """

    samples: Samples
    rows: I64
    batch_size: int
    seed: int
    camera: CameraSpec
    augment: AugmentConfig | None = None
    probability: F64 | None = None
    replay: Bool | None = None
    features: Mapping[str, NDArray[Any]] | None = None

    def __getitem__(self, step: int) -> Batch:
        chosen = self.order(step)
        replay = self.replay[chosen] if self.replay is not None else np.zeros(len(chosen), bool)
        rows = self.rows[chosen]
        batch = collate(self.samples, rows, images=self.features is None) | {"replay": replay}
        for name, values in (self.features or {}).items():
            batch[name] = values[rows].astype(np.float32)
        if self.augment is None:
            return batch
        keys = [(step, place) for place in range(len(chosen))]
        return augmented(batch, self.augment, float(self.camera.intrinsics[0, 0]), self.seed, keys)

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


def collate(samples: Samples, rows: I64, images: bool = True) -> Batch:
    """Rows of samples as arrays named as the learner expects them; one black pixel each without `images`."""
    aux = samples.aux[rows]
    ground, ground_known = unpack(samples.ground[rows])
    light = np.where(np.isfinite(aux[:, 0]), aux[:, 0], -1).astype(np.int64)
    return {
        "image": samples.image[rows] if images else np.zeros((len(rows), 1, 1, CHANNELS), np.uint8),
        "speed_mps": samples.speed_mps[rows],
        "true_speed_mps": samples.speed_mps[rows],
        "speed_limit_mps": samples.speed_limit_mps[rows],
        "turn": samples.turn[rows].astype(np.int64),
        "targets_ego": samples.targets_ego[rows],
        "label_ego": samples.label_ego[rows],
        "command": samples.command[rows].astype(np.int64),
        "light": np.minimum(light, NO_LIGHT),
        "stop_m": aux[:, 1],
        "lead_m": aux[:, 2],
        "weight": samples.weight[rows],
        "ground": ground,
        "ground_known": ground_known,
        "agents": samples.agents[rows],
    }
