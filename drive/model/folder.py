"""The model folder: config.json, model.safetensors and meta.json; no pickle, every file checked."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drive.config import build_config, config_dict
from drive.contracts import UserError
from drive.files import new_folder, read_json, sha256_file, write_json
from drive.model.anchors import InputStatistics, explicit_anchors
from drive.model.config import ModelConfig
from drive.model.horizon import KNOTS

if TYPE_CHECKING:  # torch takes seconds: what is wrong with a folder's files is said without it
    from torch import Tensor

    from drive.model.network import PlannerNetwork

FORMAT = 4
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
    network: "PlannerNetwork",
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
    kinds = {"sha256": str, "model_id": str, "config_sha": str, "provenance": dict}
    if (
        not isinstance(values, dict)
        or values.get("format") != FORMAT
        or any(not isinstance(values.get(name), kind) for name, kind in kinds.items())
        or any(not isinstance(values.get(name), str | None) for name in ("parent_id", "manifest_id"))
    ):
        raise UserError(
            f"{folder / META}: unknown format; this version reads format {FORMAT}: train the model again, or "
            "go back to the version that made it"
        )
    meta = ModelMeta(**{k: v for k, v in values.items() if k in ModelMeta.__dataclass_fields__})
    if not re.fullmatch("[0-9a-f]{64}", meta.sha256) or values["model_id"] != meta.model_id:
        raise UserError(f"{folder / META}: sha256 and model_id do not belong together; restore the file")
    return meta


def read_config(folder: Path) -> ModelConfig:
    """Architecture of a model folder; every key has to be there, as a default may have changed since.

    Raises:
        UserError: config.json is missing, damaged, or says something that no planner can be made of.
    """
    path = folder / CONFIG
    values = read_json(path)
    config = build_config(ModelConfig, values, str(path))
    wanted = config_dict(config)
    absent = [key for key in wanted if key not in values]
    absent += [
        f"camera.{key}" for key in wanted["camera"] if key not in values.get("camera", wanted["camera"])
    ]
    if absent:
        raise UserError(f"{path}: {', '.join(absent)} missing; restore the model folder")
    return config


def load_model(folder: Path) -> tuple["PlannerNetwork", ModelMeta]:
    """Load a model folder in eval mode; its files are checked before torch is imported.

    Raises:
        UserError: a missing or damaged file, weights that do not belong to config.json, or weights that are
            not finite.
    """
    meta, config = read_meta(folder), read_config(folder)
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise UserError(f"{weights}: missing; restore the model folder")
    if sha256_file(weights) != meta.sha256:
        raise UserError(f"{weights}: does not match the checksum in {META}; the file is damaged, restore it")
    tensors = _read_tensors(weights)
    from drive.model.network import PlannerNetwork

    if problem := _misfit(config, tensors):
        raise UserError(f"{folder}: weights do not fit {CONFIG} ({problem}); restore both from one folder")
    network = PlannerNetwork(config, _empty_statistics(config))
    network.load_state_dict(tensors, strict=True)
    if unusable := [name for name, value in tensors.items() if not bool(value.isfinite().all())]:
        raise UserError(f"{weights}: {unusable[0]} is not finite; take an earlier model")
    if not bool((network.std > 0).all()):
        raise UserError(f"{weights}: std is not above 0; take an earlier model")
    return network.eval(), meta


def _misfit(config: ModelConfig, tensors: Mapping[str, "Tensor"]) -> str:
    """First difference between the tensors and those of a network of this config, "" if there is none."""
    from drive.model.network import PlannerNetwork

    with _shapes_only():  # a nonsense config may ask for more memory than there is
        wanted = PlannerNetwork(config, _empty_statistics(config)).state_dict()
    for name, value in wanted.items():
        have = tensors.get(name)
        if have is None:
            return f"{name} is missing"
        if have.shape != value.shape or have.dtype != value.dtype:
            return f"{name} is {_kind(have)}, not {_kind(value)}"
    surplus = sorted(tensors.keys() - wanted.keys())
    return f"{surplus[0]} is not part of the planner" if surplus else ""


def same_weights(one: ModelConfig, other: ModelConfig) -> bool:
    """Do networks of both configs have the same tensors, so that weights of one fit the other?"""
    from drive.model.network import PlannerNetwork

    with _shapes_only():
        first, second = (PlannerNetwork(c, _empty_statistics(c)).state_dict() for c in (one, other))
    return {k: v.shape for k, v in first.items()} == {k: v.shape for k, v in second.items()}


@contextmanager
def _shapes_only() -> Iterator[None]:
    """Modules made inside have no data; drawing it would load torch's compiler, which takes seconds."""
    import torch
    from torch.overrides import TorchFunctionMode

    class NoInit(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            if getattr(func, "__module__", "") == "torch.nn.init":
                return given.get("tensor", args[0] if args else None)
            return func(*args, **given)

    with torch.device("meta"), NoInit():
        yield


def _kind(tensor: "Tensor") -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _read_tensors(path: Path) -> dict[str, "Tensor"]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="np"):  # whether it is a safetensors file is known without torch
            pass
        from safetensors.torch import load_file

        return load_file(str(path))
    except SafetensorError as error:
        raise UserError(f"{path}: not a safetensors file ({error}); restore it") from None


def _empty_statistics(config: ModelConfig) -> InputStatistics:
    count = config.kmeans_anchors + len(explicit_anchors())
    zeros = np.zeros((KNOTS, 2), np.float32)
    return InputStatistics(zeros, zeros + 1, np.zeros((count, KNOTS, 2), np.float32))
