"""LoRA adapters on the planner's heads: attach, save with the hash of their base, load, merge."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from drive.contracts import UserError
from drive.files import new_folder, read_json, sha256_file, write_json
from drive.model.folder import ModelMeta
from drive.model.network import PlannerNetwork

if TYPE_CHECKING:
    from peft import LoraModel

TARGETS = (
    "fuse.1", "fuse.3", "command.0", "command.2", "intent.0", "intent.2", "decode_condition", "decode_anchor",
    "decode_noisy", "decode_ground", "decode.1", "decode.3", "decode_offset",
    "score_condition", "score_state", "score_ground", "judge.1", "judge.3",
)  # fmt: skip
_ADAPTER, _ABOUT, _NAME = "adapter.safetensors", "adapter.json", "default"


@dataclass(frozen=True)
class AdapterMeta:
    """What an adapter belongs to: hash of the base weights, its shape, and its own hash."""

    base_sha256: str
    rank: int
    alpha: int
    targets: tuple[str, ...]
    sha256: str


def attach(network: PlannerNetwork, rank: int, alpha: int, targets: Sequence[str] = TARGETS) -> "LoraModel":
    """Put fresh adapters (no effect yet) on `network`, in place; only they stay trainable."""
    from peft import LoraConfig, LoraModel

    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(targets), lora_dropout=0.0, bias="none")
    lora = LoraModel(network, config, _NAME)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_("lora_" in name)
    return lora


def adapter_tensors(network: PlannerNetwork) -> dict[str, Tensor]:
    """The adapters' tensors by name."""
    return {name: value for name, value in network.state_dict().items() if "lora_" in name}


def save_adapter(folder: Path, network: PlannerNetwork, base: ModelMeta, rank: int, alpha: int) -> None:
    """Write the adapters of `network` with the hash of the weights they were trained on."""
    from safetensors.torch import save_file

    with new_folder(folder) as temp:
        save_file(
            {n: v.detach().contiguous() for n, v in adapter_tensors(network).items()}, str(temp / _ADAPTER)
        )
        about = AdapterMeta(base.sha256, rank, alpha, TARGETS, sha256_file(temp / _ADAPTER))
        write_json(temp / _ABOUT, asdict(about))


def load_adapter(folder: Path, network: PlannerNetwork, base: ModelMeta) -> "LoraModel":
    """Attach saved adapters to their base, in place.

    Raises:
        UserError: damaged, made for other weights, or with missing or foreign tensors.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    values = read_json(folder / _ABOUT)
    try:
        about = AdapterMeta(**{**values, "targets": tuple(values["targets"])})
    except (TypeError, KeyError) as error:
        raise UserError(f"{folder / _ABOUT}: not an adapter description ({error}); restore it") from None
    if about.base_sha256 != base.sha256:
        raise UserError(
            f"{folder}: was trained on base {about.base_sha256[:12]}, not {base.model_id}; load that base"
        )
    if not (folder / _ADAPTER).is_file() or sha256_file(folder / _ADAPTER) != about.sha256:
        raise UserError(f"{folder / _ADAPTER}: missing or damaged (checksum differs); restore it")
    try:
        tensors = load_file(str(folder / _ADAPTER))
    except SafetensorError as error:
        raise UserError(f"{folder / _ADAPTER}: not a safetensors file ({error}); restore it") from None
    lora = attach(network, about.rank, about.alpha, about.targets)
    expected = adapter_tensors(network).keys()
    if tensors.keys() != expected:
        odd = ", ".join(sorted(tensors.keys() ^ expected)[:3])
        raise UserError(f"{folder}: adapter tensors do not match its description ({odd}); restore it")
    network.load_state_dict(tensors, strict=False)
    assert_active(network)
    return lora


def assert_active(network: PlannerNetwork) -> None:
    """Raise RuntimeError unless at least one adapter changes its layer's output."""
    change = max(
        (float(v.abs().max()) for n, v in adapter_tensors(network).items() if "lora_B" in n), default=0.0
    )
    if not change > 0.0:
        raise RuntimeError("the adapters have no effect: every lora_B is zero")


def merge(lora: "LoraModel") -> PlannerNetwork:
    """Fold the adapters into the weights, in float32; returns the plain network.

    Raises:
        RuntimeError: the merged weights are not finite.
    """
    with torch.no_grad():
        network = lora.merge_and_unload(safe_merge=True)
    bad = [name for name, value in network.state_dict().items() if not torch.isfinite(value).all()]
    if bad:
        raise RuntimeError(f"merging gave values that are not finite in {bad[0]}")
    return network.requires_grad_(True).eval()  # type: ignore[no-any-return]
