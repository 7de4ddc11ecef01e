"""Training of a planner from recorded drives."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from drive.config import config_sha, dump_config
from drive.contracts import I64, UserError
from drive.data.batches import Batches
from drive.data.bundle import Bundle, find_drives, load_bundle, split_rows
from drive.data.samples import thin_standing
from drive.files import sha256_json
from drive.model.anchors import InputStatistics, fit_statistics
from drive.model.folder import load_model, save_model
from drive.model.horizon import KNOTS, knots_from_poses
from drive.model.network import PlannerNetwork
from drive.train.config import TrainConfig
from drive.train.evaluate import evaluate_samples
from drive.train.features import give_eyes, seen_features
from drive.train.fit import fit
from drive.train.hardware import check_hardware, end_others, first, in_turn
from drive.train.learner import CriticLearner, PlannerLearner

MODEL = "model"


def train(config: TrainConfig, out_dir: Path) -> Path:
    """Train a planner; run again after an interruption to continue exactly where it stopped.

    Args:
        config: What to train on and how.
        out_dir: Receives config.yaml, checkpoints/, the sample cache (unless configured) and model/.

    Returns:
        The model folder, `out_dir/model`.

    Raises:
        UserError: no data, zero steps, a folder with another run, or a loss that is not finite.
        drive.train.fit.Interrupted: SIGTERM; state saved.
    """
    if not config.data:
        raise UserError("data: no log root given; use `drive train --data LOGROOT`")
    if config.loop.max_steps < 1:
        raise UserError("loop.max_steps: 0 training steps asked for; give at least 1")
    check_hardware(config.hardware, config.loop.batch_size)
    _check_combination(config)
    torch.set_num_threads(config.loop.threads)
    cache = config.cache or out_dir / "cache"
    with in_turn(cache):
        bundle = load_bundle(find_drives(config.data, config.exclude_towns), config.model.camera, cache)
    rows, held = split_rows(bundle, config.validation_share, config.split_seed)
    rows = thin_standing(bundle.samples, rows, config.standing_share, config.loop.seed)
    if first():
        dump_config(config, out_dir / "config.yaml")
    network, parent = _start(config, bundle, rows)
    eyes, features = None, None
    look = config.eyes_from or (config.init_from if config.part == "critic" else None)
    if look is not None and network.config.use_image:
        eyes = give_eyes(network, look)
        with in_turn(cache):
            features = seen_features(network, bundle.samples, f"{eyes}/{bundle.key}", cache)
    learner_of = CriticLearner if config.part == "critic" else PlannerLearner
    learner = learner_of(network, config.loop, config.loss)
    batches = Batches(
        bundle.samples, rows, config.loop.batch_size, config.loop.seed,
        config.model.camera, config.augment, features=features,
    )  # fmt: skip
    fit(learner, batches, out_dir, _fingerprint(config, bundle, parent, eyes), "train", config.hardware)
    end_others()
    provenance = {
        "kind": "train",
        "eyes": eyes,
        "steps": config.loop.max_steps,
        "data_key": bundle.key,
        "drives": len(bundle.drives),
        "train_samples": len(rows),
        "validation_samples": len(held),
        "validation": evaluate_samples(network.eval(), bundle.samples, held),
    }
    save_model(
        out_dir / MODEL, network, parent_id=parent, config_sha=config_sha(config), provenance=provenance
    )
    return out_dir / MODEL


def _check_combination(config: TrainConfig) -> None:
    if config.hardware.accelerator == "gpu" and (config.loss.dream or config.loss.dream_unsafe):
        raise UserError("loss.dream: dreams are judged on the CPU only; set it to 0, or accelerator=cpu")
    if config.part == "critic" and config.init_from is None:
        raise UserError("part: a critic is trained for a planner that there is; give --init-from MODEL")
    if config.part == "critic" and config.eyes_from is not None:
        raise UserError("eyes_from: with part=critic the planner keeps its own image part; leave it out")
    if (config.eyes_from is not None or config.part == "critic") and config.augment.yaw_rad:
        raise UserError(
            "augment.yaw_rad: with eyes_from, or part=critic, images are looked at once and cannot turn; "
            "set it to 0"
        )


def _start(config: TrainConfig, bundle: Bundle, rows: I64) -> tuple[PlannerNetwork, str | None]:
    """Fresh network with statistics of the training rows, or the given one with its own frozen statistics."""
    if config.init_from is not None:
        network, meta = load_model(config.init_from)
        if network.config.camera != config.model.camera:
            raise UserError(
                f"{config.init_from}: was trained on {network.config.camera}; set model.camera to it"
            )
        if config.model.critic_width and not network.config.critic_width:
            network = _with_critic(network, config.model.critic_width, config.loop.seed)
        return network.train(), meta.model_id
    knots = knots_from_poses(bundle.samples.label_ego[rows])
    moving = int((knots[:, -1, 0] > 1.0).sum())
    if moving < config.model.kmeans_anchors:
        raise UserError(
            f"data: only {moving} samples move, {config.model.kmeans_anchors} anchors need as many"
        )
    torch.manual_seed(config.loop.seed)
    return PlannerNetwork(
        config.model, fit_statistics(knots, config.model.kmeans_anchors, config.loop.seed)
    ), None


def _with_critic(network: PlannerNetwork, width: int, seed: int) -> PlannerNetwork:
    """The same planner with a fresh critic."""
    torch.manual_seed(seed)
    size = (KNOTS, 2)
    mean, std = (part.reshape(size).numpy() for part in (network.mean, network.std))
    statistics = InputStatistics(mean, std, network.anchors.numpy())
    larger = PlannerNetwork(replace(network.config, critic_width=width), statistics)
    larger.load_state_dict({**larger.state_dict(), **network.state_dict()})
    return larger


def _fingerprint(config: TrainConfig, bundle: Bundle, parent: str | None, eyes: str | None) -> str:
    """Hash of what decides the weights: not of where data, cache and output lie."""
    parts: Mapping[str, Any] = {
        "model": config.model, "loop": config.loop, "augment": config.augment, "loss": config.loss,
        "validation_share": config.validation_share, "standing_share": config.standing_share,
        "split_seed": str(config.split_seed),
        "data": bundle.key, "parent": parent, "eyes": eyes, "part": config.part,
    }  # fmt: skip
    return sha256_json({name: part if isinstance(part, str | float | None) else config_sha(part)
                        for name, part in parts.items()})[:16]  # fmt: skip
