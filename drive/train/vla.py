"""Training of a VLA from recorded drives: every weight of a small one, or LoRA adapters."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drive.config import config_sha, dump_config
from drive.contracts import I64, UserError
from drive.data.batches import Batches
from drive.data.bundle import find_drives, load_bundle, split_rows
from drive.data.samples import thin_standing
from drive.files import new_folder, sha256_json, write_json
from drive.model.vla.build import make_speaker, parameters, weights_sha
from drive.model.vla.folder import load_vla, save_vla
from drive.model.vla.network import VlaNetwork
from drive.model.vla.speaker import Speaker
from drive.train.fit import fit
from drive.train.hardware import check_hardware, end_others, first, in_turn
from drive.train.vla_config import LoraConfig, VlaTrainConfig
from drive.train.vla_evaluate import evaluate_vla
from drive.train.vla_learner import VlaLearner

if TYPE_CHECKING:
    from peft import LoraModel

MODEL, ADAPTER = "model", "adapter"
_ADAPTER_NAME = "default"


def train_vla(config: VlaTrainConfig, out_dir: Path) -> Path:
    """Train a VLA; run again after an interruption to continue exactly where it stopped.

    Args:
        config: What to train on and how.
        out_dir: Receives config.yaml, checkpoints/, the sample cache (unless configured), adapter/ (with
            LoRA) and model/, the VLA folder with adapters merged.

    Returns:
        The VLA folder, `out_dir/model`.

    Raises:
        UserError: no data, several cameras, no such model, a folder with another run, or a loss that is not
            finite.
        drive.train.fit.Interrupted: SIGTERM; state saved.
    """
    if not config.data:
        raise UserError("data: no log root given; use `drive vla train --data LOGROOT`")
    check_hardware(config.hardware, config.loop.batch_size)
    speaker, parent = _start(config)
    config = replace(config, vla=speaker.config)
    if len(config.vla.cameras) > 1:
        raise UserError(f"vla.cameras: training reads one camera, {len(config.vla.cameras)} are given")
    cache = config.cache or out_dir / "cache"
    with in_turn(cache):
        bundle = load_bundle(find_drives(config.data, config.exclude_towns), config.vla.cameras[0], cache)
    rows, held = split_rows(bundle, config.validation_share, config.loop.seed)
    rows = thin_standing(bundle.samples, rows, config.standing_share, config.loop.seed)
    if first():
        dump_config(config, out_dir / "config.yaml")
    base = weights_sha(speaker.network)
    lora = attach(speaker.network, config)
    trained = sum(value.numel() for value in speaker.network.parameters() if value.requires_grad)
    loop = config.loop
    batches = Batches(bundle.samples, rows, loop.batch_size, loop.seed, config.vla.cameras[0], config.augment)
    learner = VlaLearner(speaker, loop, config.loss)
    speaker.network.train()
    fit(learner, batches, out_dir, _fingerprint(config, bundle.key, base), "train vla", config.hardware)
    end_others()
    if lora is not None:
        _save_adapter(out_dir / ADAPTER, speaker.network, base, config.lora)
        speaker.network.vlm = lora.merge_and_unload(safe_merge=True)
    speaker.network.requires_grad_(True).eval()
    provenance = {
        "kind": "vla",
        "steps": loop.max_steps,
        "parameters": parameters(speaker.network),
        "trained_parameters": trained,
        "data_key": bundle.key,
        "drives": len(bundle.drives),
        "train_samples": len(rows),
        "validation_samples": len(chosen := _spread(held, config.validation_samples)),
        "parent_id": parent,
        "config_sha": config_sha(config),
        "validation": evaluate_vla(speaker, bundle.samples, chosen, rows),
    }
    save_vla(out_dir / MODEL, speaker, provenance)
    return out_dir / MODEL


def _start(config: VlaTrainConfig) -> tuple[Speaker, str | None]:
    """The given VLA, which brings its own config, or the configured model with fresh heads."""
    if config.init_from is None:
        return make_speaker(config.vla, config.loop.seed), None
    speaker, meta = load_vla(config.init_from)
    return speaker, meta.vla_id


def attach(network: VlaNetwork, config: VlaTrainConfig) -> "LoraModel | None":
    """Put fresh adapters on the vision-language model, in place; only they and the heads stay trainable.

    What is trained is float32 whatever the model is: steps of AdamW are lost in the rounding of bfloat16.
    """
    lora = config.lora
    if not lora.rank:
        network.float()
        return None
    from peft import LoraConfig as PeftConfig
    from peft import LoraModel

    settings = PeftConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=lora.targets, lora_dropout=0.0, bias="none"
    )
    try:
        model = LoraModel(network.vlm, settings, _ADAPTER_NAME)
    except ValueError as error:
        raise UserError(f"lora.targets: {' '.join(str(error).split())[:120]}; name other layers") from None
    for name, value in network.named_parameters():
        value.requires_grad_("lora_" in name or name.startswith("heads."))
        if value.requires_grad:
            value.data = value.data.float()
    return model


def _save_adapter(folder: Path, network: VlaNetwork, base: str, lora: LoraConfig) -> None:
    """Adapters and heads, with the hash of the weights they were trained on."""
    from safetensors.torch import save_file

    tensors = {n: v.detach().cpu().contiguous() for n, v in network.named_parameters() if v.requires_grad}
    with new_folder(folder) as temp:
        save_file(tensors, str(temp / "adapter.safetensors"))
        about = {"base_sha256": base, "rank": lora.rank, "alpha": lora.alpha, "targets": lora.targets}
        write_json(temp / "adapter.json", about)


def _spread(rows: I64, most: int) -> I64:
    """At most so many rows, evenly spread."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(np.int64)] if most else rows[:0]


def _fingerprint(config: VlaTrainConfig, data_key: str, base: str) -> str:
    """Hash of what decides the weights: not of where data, cache and output lie."""
    parts = [config_sha(part) for part in (config.vla, config.loop, config.augment, config.loss, config.lora)]
    return sha256_json([parts, config.validation_share, config.standing_share, data_key, base])[:16]
