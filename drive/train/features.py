"""The image part of a trained planner, kept as it is, and what it sees on all samples computed once."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from drive.contracts import UserError
from drive.data.samples import Samples
from drive.files import new_folder, sha256_json
from drive.model import model_folder
from drive.model.folder import load_model
from drive.model.network import PlannerNetwork, Seen
from drive.progress import track

EYES = ("fine", "coarse", "squeeze", "pool", "ground", "agents", "perception")
_SHAPING = (
    "camera", "mount_m", "crop_rows", "channels", "map_channels", "ground_channels", "width", "use_motion",
    "use_image",
)  # fmt: skip
_BATCH = 128
_POOLED, _GROUND = "pooled.f16", "ground.f16"

Features = dict[str, NDArray[Any]]


def give_eyes(network: PlannerNetwork, model: Path) -> str:
    """Put the image part of a model (a folder, or "base") into `network`, in place, and freeze it.

    Returns:
        The model's id.

    Raises:
        UserError: the model sees other images, or has an image part of another shape.
    """
    eyes, meta = load_model(model_folder(str(model)))
    other = [name for name in _SHAPING if getattr(eyes.config, name) != getattr(network.config, name)]
    if other:
        raise UserError(
            f"eyes_from {model}: its {other[0]} is {getattr(eyes.config, other[0])}, "
            f"model.{other[0]} is {getattr(network.config, other[0])}; they have to be the same"
        )
    for name in EYES:
        part = getattr(network, name)
        part.load_state_dict(getattr(eyes, name).state_dict())
        part.requires_grad_(False)
    return meta.model_id


def seen_features(network: PlannerNetwork, samples: Samples, key: str, cache: Path) -> Features:
    """What the network's image part sees on all samples, undisturbed: computed once, then read from `cache`.

    Args:
        network: With the eyes of a trained model.
        samples: N of them.
        key: Of model and samples.
        cache: Folder of such features.

    Returns:
        "pooled" (N, width) and "ground_features" (N, ground_channels, rows, columns), float16, memory-mapped.
    """
    folder = cache / f"features-{sha256_json([key])[:16]}"
    one = _see(network, samples, slice(0, 1))
    shapes = {_POOLED: one.pooled.shape[1:], _GROUND: one.ground.shape[1:]}
    if not (folder / _GROUND).exists():
        starts = range(0, len(samples), _BATCH)
        with new_folder(folder) as temp, (temp / _POOLED).open("wb") as a, (temp / _GROUND).open("wb") as b:
            for first in track(starts, "see samples", len(starts)):
                seen = _see(network, samples, slice(first, first + _BATCH))
                a.write(seen.pooled.half().numpy().tobytes())
                b.write(seen.ground.half().numpy().tobytes())
    names = {"pooled": _POOLED, "ground_features": _GROUND}
    return {
        name: np.memmap(folder / file, np.float16, "r", shape=(len(samples), *shapes[file]))
        for name, file in names.items()
    }


@torch.inference_mode()
def _see(network: PlannerNetwork, samples: Samples, rows: slice) -> Seen:
    training = network.training
    seen = network.eval().see(torch.from_numpy(np.array(samples.image[rows])))
    network.train(training)
    return seen
