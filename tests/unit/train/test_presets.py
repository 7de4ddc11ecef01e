"""The presets: each has the size of its class, and a sample of each learns through the one training loop."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drive.config import load_config
from drive.model.anchors import InputStatistics
from drive.model.horizon import KNOTS
from drive.model.network import PlannerNetwork
from drive.model.vla.build import build_vlm, parameters
from drive.model.vla.network import VlaNetwork
from drive.model.vla.speaker import Speaker
from drive.train import TrainConfig
from drive.train.config import HardwareConfig
from drive.train.learner import PlannerLearner
from drive.train.vla import attach
from drive.train.vla_config import VlaTrainConfig
from drive.train.vla_learner import VlaLearner
from tests.unit.model.vla.speakers import tokenizer
from tests.unit.train.ranks import trained

PRESETS = {  # preset -> configs of planner and VLA, and their millions of parameters
    "tiny": ("train/base", 1.0, 4.0, "vla/tiny", 1.0, 1.5),
    "small": ("train/small", 5.0, 8.0, "vla/small", 230.0, 290.0),
    "base": ("train/large", 54.0, 66.0, "vla/base", 2000.0, 2400.0),
}


def planner_of(config: TrainConfig) -> PlannerNetwork:
    """With made-up statistics of the data."""
    rng = np.random.default_rng(0)
    anchors = rng.normal(0, 5, (config.model.kmeans_anchors + 4, KNOTS, 2)).astype(np.float32)
    shape = (KNOTS, 2)
    return PlannerNetwork(
        config.model, InputStatistics(np.zeros(shape, np.float32), np.ones(shape, np.float32), anchors)
    )


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_the_size_of_their_class(repo_root: Path, name: str) -> None:
    train, low, high, vla, least, most = PRESETS[name]
    planner = load_config(TrainConfig, repo_root / "configs" / f"{train}.yaml")
    speaker = load_config(VlaTrainConfig, repo_root / "configs" / f"{vla}.yaml")
    with torch.device("meta"):
        networks = planner_of(planner), VlaNetwork(build_vlm(speaker.vla.vlm, tokenizer()))
    assert all(next(network.parameters()).is_meta for network in networks)
    assert low < parameters(networks[0]) / 1e6 < high
    assert least < parameters(networks[1]) / 1e6 < most
    assert (
        planner.hardware.accelerator == speaker.hardware.accelerator == ("cpu" if name == "tiny" else "gpu")
    )


def on_this_cpu(loop: Any) -> Any:
    return replace(loop, max_steps=1, batch_size=2, warmup_steps=0, checkpoint_every=1000, threads=1)


@pytest.mark.parametrize("name", ["small", pytest.param("base", marks=pytest.mark.slow)])
def test_the_planner_of_a_preset_trains(repo_root: Path, tmp_path: Path, name: str) -> None:
    config = load_config(TrainConfig, repo_root / "configs" / f"{PRESETS[name][0]}.yaml")
    learner = PlannerLearner(planner_of(config).train(), on_this_cpu(config.loop), config.loss)
    before = {key: value.clone() for key, value in learner.trained().items()}
    after = trained(learner, tmp_path, replace(config.hardware, accelerator="cpu", devices=1))
    changed = [key for key in before if not torch.equal(before[key], after[key])]
    assert len(changed) > 0.9 * len([key for key, value in before.items() if value.is_floating_point()]) - 3
    assert all(torch.isfinite(value).all() for value in after.values())


@pytest.mark.parametrize("name", ["small", pytest.param("base", marks=pytest.mark.slow)])
def test_the_vla_of_a_preset_trains_in_few_layers(repo_root: Path, tmp_path: Path, name: str) -> None:
    """Widths, heads, dtype, adapters and switches of the preset; depth and vocabulary are cut."""
    config = load_config(VlaTrainConfig, repo_root / "configs" / f"{PRESETS[name][3]}.yaml")
    shape = replace(config.vla.vlm.shape, text_layers=1, vision_layers=1, vocabulary=0)
    vla = replace(config.vla, vlm=replace(config.vla.vlm, source=None, shape=shape), picture_px=(112, 56))
    network = VlaNetwork(build_vlm(vla.vlm, tokenizer()))
    attach(network, config)
    learner = VlaLearner(Speaker(network.train(), tokenizer(), vla), on_this_cpu(config.loop), config.loss)
    hardware: HardwareConfig = replace(config.hardware, accelerator="cpu")
    before = {key: value.detach().clone() for key, value in learner.trained().items()}
    frozen = next(value for value in network.parameters() if not value.requires_grad).clone()
    after = trained(learner, tmp_path, hardware)
    assert all("lora_" in key or key.startswith("heads.") for key in after)
    assert {value.dtype for value in after.values()} == {torch.float32}
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any(not torch.equal(before[key], after[key]) for key in before if "lora_B" in key)
    assert torch.equal(frozen, next(value for value in network.parameters() if not value.requires_grad))
