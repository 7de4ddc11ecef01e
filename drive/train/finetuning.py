"""Nightly fine-tuning: LoRA (or heads, or everything), replay, distillation, frozen statistics."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from drive.config import config_sha, dump_config
from drive.contracts import F64, I64, Bool, Manifest, UserError
from drive.data.batches import Batches
from drive.data.bundle import Bundle, DriveSource, bundle_key, find_drives, load_bundle
from drive.files import sha256_json
from drive.model.folder import load_model, read_meta, save_model
from drive.model.network import PlannerNetwork
from drive.train.adapters import assert_active, attach, merge, save_adapter
from drive.train.config import FinetuneConfig
from drive.train.continual import DirectLearner, RememberingLearner, distance, first_batches
from drive.train.features import seen_features
from drive.train.fit import fit
from drive.train.learner import FROZEN, seen_of
from drive.train.losses import hide_commands, imitation_loss, inputs_of, knots_of, noise_and_denoise

if TYPE_CHECKING:
    from peft import LoraModel

MODEL, ADAPTER, CACHE = "model", "adapter", "cache"


class AdapterLearner(RememberingLearner):
    """Trains adapters only; replay samples also hold the network to what the champion says about them."""

    def __init__(self, lora: "LoraModel", network: PlannerNetwork, config: FinetuneConfig) -> None:
        super().__init__(network, config)
        self.lora = (lora,)  # in a tuple: not registered as a second path to the same parameters
        self.distill = config.distill

    def terms(self, batch: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """Weighted loss terms; noise and hidden commands are the same for student and champion."""
        command = hide_commands(batch["command"], self.network.config.command_drop, generator)
        before = generator.get_state()
        inputs = inputs_of(batch)
        with torch.no_grad():
            seen = seen_of(self.network, batch, self.loop.precision)  # frozen: the same for both
            self.lora[0].disable_adapter_layers()
            old_scene = self.network.interpret(seen, inputs)
            old = noise_and_denoise(self.network, old_scene, command, knots_of(batch), generator)
            self.lora[0].enable_adapter_layers()
        generator.set_state(before)
        scene = self.network.interpret(seen, inputs)
        done = noise_and_denoise(self.network, scene, command, knots_of(batch), generator)
        terms = imitation_loss(self.network, scene, done, batch, self.weights)
        for name in FROZEN:
            terms.pop(name, None)
        terms |= self.dreams(scene, batch, generator)
        terms["distill"] = self.distill * distance(old_scene, old, scene, done, batch["replay"])
        return terms


@dataclass(frozen=True)
class _Picked:
    """Manifest entries as rows of a bundle, with sampling probability and the replay mark."""

    rows: I64
    probability: F64
    replay: Bool
    dropped: int


def finetune(
    config: FinetuneConfig, champion: Path, manifest: Manifest, log_root: Path | Sequence[Path], out_dir: Path
) -> Path:
    """Fine-tune the champion on a manifest; run again after an interruption to continue where it stopped.

    Args:
        config: How.
        champion: Model folder; its input statistics and batch-norm statistics stay frozen.
        manifest: Samples with sampling weights; entries marked "replay" are distilled to the champion.
        log_root: Where the drives lie.
        out_dir: Receives checkpoints/, adapter/ and model/.

    Returns:
        The candidate's model folder, `out_dir/model`.

    Raises:
        UserError: an empty manifest, drives missing or from held-out towns, or a loss that is not finite.
        drive.train.fit.Interrupted: SIGTERM; state saved.
    """
    base = read_meta(champion)
    drives, select = _drives(manifest, log_root, config.exclude_towns)
    network, _ = load_model(champion)
    key = bundle_key(drives, network.config.camera, select)
    fingerprint = sha256_json([config_sha(config), base.sha256, manifest.manifest_id, key])[:16]
    done = out_dir / MODEL
    if (done / "meta.json").is_file() and read_meta(done).provenance.get("fingerprint") == fingerprint:
        return done
    bundle = load_bundle(drives, network.config.camera, out_dir / CACHE, select)
    picked = _pick(bundle, manifest)
    dump_config(config, out_dir / "config.yaml")
    torch.manual_seed(config.loop.seed)
    lora = attach(network, config.rank, config.alpha) if config.method == "lora" else None
    features = seen_features(network, bundle.samples, key, out_dir / CACHE) if config.look_once else None
    learner = AdapterLearner(lora, network, config) if lora is not None else DirectLearner(network, config)
    batches = Batches(
        bundle.samples, picked.rows, config.loop.batch_size, config.loop.seed,
        network.config.camera, config.augment,
        picked.probability, picked.replay, features=features,
    )  # fmt: skip
    learner.anchor_at(first_batches(batches) if config.ewc else ())
    fit(learner, batches, out_dir, fingerprint, "fine-tune")
    if lora is not None:
        assert_active(network)
        save_adapter(out_dir / ADAPTER, network, base, config.rank, config.alpha)
    provenance = _provenance(config, fingerprint, picked)
    save_model(
        done, network if lora is None else merge(lora),
        parent_id=base.model_id, manifest_id=manifest.manifest_id,
        config_sha=config_sha(config), provenance=provenance,
    )  # fmt: skip
    shutil.rmtree(out_dir / CACHE, ignore_errors=True)
    return done


def _provenance(config: FinetuneConfig, fingerprint: str, picked: _Picked) -> dict[str, Any]:
    """Where a candidate comes from."""
    return {
        "kind": "finetune",
        "method": config.method,
        "fingerprint": fingerprint,
        "steps": config.loop.max_steps,
        "samples": len(picked.rows),
        "dropped": picked.dropped,
        "replay_share": float(picked.probability[picked.replay].sum()),
    }


def _drives(
    manifest: Manifest, log_root: Path | Sequence[Path], exclude_towns: Sequence[str]
) -> tuple[list[DriveSource], dict[str, list[int]]]:
    """The manifest's drives and planning steps."""
    if not manifest.entries:
        raise UserError(f"manifest {manifest.manifest_id}: has no entries; nothing to train on")
    roots = [Path(log_root)] if isinstance(log_root, str | Path) else [Path(root) for root in log_root]
    select: dict[str, list[int]] = {}
    for entry in manifest.entries:
        select.setdefault(entry.log_id, []).append(entry.plan_index)
    drives = [drive for drive in find_drives(roots, exclude_towns) if drive.log_id in select]
    missing = sorted(select.keys() - {drive.log_id for drive in drives})
    if missing:
        raise UserError(
            f"manifest {manifest.manifest_id}: drive {missing[0]!r} is not below {roots[0]}, "
            f"has no images, or is from a held-out town ({len(missing)} such drives); rebuild the manifest"
        )
    return drives, select


def _pick(bundle: Bundle, manifest: Manifest) -> _Picked:
    """Entries without a usable label are dropped and counted; a sample listed twice gets both weights."""
    samples = bundle.samples
    row_of = {
        (bundle.drives[drive].log_id, int(plan)): row
        for row, (drive, plan) in enumerate(zip(samples.drive, samples.plan_index, strict=True))
    }
    weight = np.zeros(len(samples))
    replay = np.ones(len(samples), bool)
    dropped = 0
    for entry in manifest.entries:
        row = row_of.get((entry.log_id, entry.plan_index))
        if row is None:
            dropped += 1
            continue
        weight[row] += entry.weight
        replay[row] &= entry.reason == "replay"
    rows = np.flatnonzero(weight > 0)
    if not len(rows):
        raise UserError(
            f"manifest {manifest.manifest_id}: no entry has a label, an image and a positive weight"
        )
    return _Picked(rows, weight[rows] / weight[rows].sum(), replay[rows], dropped)
