"""The model folder: config.json, model.safetensors and meta.json; no pickle, every file checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drive.contracts import UserError
from drive.data.camera import CameraSpec
from drive.files import new_folder, read_json, sha256_file, write_json
from drive.model.anchors import InputStatistics, explicit_anchors
from drive.model.config import ModelConfig
from drive.model.horizon import KNOTS
from drive.model.network import PlannerNetwork

FORMAT = 1
WEIGHTS, CONFIG, META = "model.safetensors", "config.json", "meta.json"


@dataclass(frozen=True)
class ModelMeta:
    """Identity and origin of a model.

    Attributes:
        sha256: Of the weights file; model_id is its first 12 digits.
        parent_id: Model this one was fine-tuned from.
        manifest_id: Samples it was fine-tuned on.
        config_sha: Hash of the training config.
        provenance: How it was trained: kind, steps, data key, numbers reached.
        format: Layout version.
    """

    sha256: str
    parent_id: str | None = None
    manifest_id: str | None = None
    config_sha: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def model_id(self) -> str:
        """Short name, unique to the weights."""
        return self.sha256[:12]


def save_model(
    folder: Path,
    network: PlannerNetwork,
    *,
    parent_id: str | None = None,
    manifest_id: str | None = None,
    config_sha: str = "",
    provenance: Mapping[str, Any] | None = None,
) -> ModelMeta:
    """Write a model folder; it appears whole or not at all."""
    from safetensors.torch import save_file

    with new_folder(folder) as temp:
        tensors = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
        save_file(tensors, str(temp / WEIGHTS))
        sha = sha256_file(temp / WEIGHTS)
        meta = ModelMeta(sha, parent_id, manifest_id, config_sha, dict(provenance or {}))
        write_json(temp / CONFIG, asdict(network.config))
        write_json(temp / META, {"model_id": meta.model_id, **asdict(meta)})
    return meta


def read_meta(folder: Path) -> ModelMeta:
    """Identity of a model folder without loading its weights.

    Raises:
        UserError: not a model folder, or of another format.
    """
    if not (folder / META).is_file():
        raise UserError(f"{folder}: not a model folder (no {META}); give a folder made by `drive train`")
    values = read_json(folder / META)
    names = ModelMeta.__dataclass_fields__
    if (
        not isinstance(values, dict)
        or values.get("format") != FORMAT
        or not isinstance(values.get("sha256"), str)
        or not isinstance(values.get("model_id"), str)
    ):
        raise UserError(
            f"{folder / META}: unknown format; this version reads format {FORMAT}, train the model again"
        )
    return ModelMeta(**{name: value for name, value in values.items() if name in names})


def load_model(folder: Path) -> tuple[PlannerNetwork, ModelMeta]:
    """Load a model folder in eval mode.

    Raises:
        UserError: a missing or damaged file, or weights that do not belong to config.json.
    """
    meta = read_meta(folder)
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise UserError(f"{weights}: missing; restore the model folder")
    if sha256_file(weights) != meta.sha256:
        raise UserError(f"{weights}: does not match the checksum in {META}; the file is damaged, restore it")
    config = _read_config(folder / CONFIG)
    tensors = _read_tensors(weights)
    network = PlannerNetwork(config, _empty_statistics(config))
    try:
        network.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{folder}: weights do not fit {CONFIG} ({reason}); restore both from one folder"
        ) from None
    return network.eval(), meta


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(str(path))
    except SafetensorError as error:
        raise UserError(f"{path}: not a safetensors file ({error}); restore it") from None


def _read_config(path: Path) -> ModelConfig:
    values = read_json(path)
    try:
        camera = CameraSpec(**values.pop("camera"))
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return ModelConfig(camera=camera, **{**values, **lists})
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: not a planner config ({error}); restore the model folder") from None


def _empty_statistics(config: ModelConfig) -> InputStatistics:
    count = config.kmeans_anchors + len(explicit_anchors())
    zeros = np.zeros((KNOTS, 2), np.float32)
    return InputStatistics(zeros, zeros + 1, np.zeros((count, KNOTS, 2), np.float32))
