"""Training a VLA: exact resume, LoRA through peft, what is learned, and refusals."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drive.config import load_config
from drive.contracts import UserError
from drive.data.batches import Batches
from drive.data.camera import CameraSpec
from drive.model.vla.build import make_speaker, weights_sha
from drive.model.vla.config import VlaConfig, VlmSpec
from drive.model.vla.folder import load_vla
from drive.train.vla import ADAPTER, train_vla
from drive.train.vla_config import LoraConfig, VlaTrainConfig
from drive.train.vla_learner import VlaLearner
from tests.unit.train.drives import write_drives


@pytest.fixture(scope="module")
def config(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> VlaTrainConfig:
    """Four steps on six small drives."""
    debug = load_config(VlaTrainConfig, repo_root / "configs" / "vla" / "debug.yaml")
    logs = write_drives(tmp_path_factory.mktemp("logs"))
    return replace(debug, data=(logs,), cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def straight(config: VlaTrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_vla(config, tmp_path_factory.mktemp("straight"))


class KilledError(Exception):
    pass


def test_a_killed_run_continues_to_the_same_weights(
    config: VlaTrainConfig, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = Batches.__getitem__

    def failing(self: Batches, step: int) -> Any:
        if step == 3:
            raise KilledError
        return fetch(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "__getitem__", failing)
        with pytest.raises(KilledError):
            train_vla(config, tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()
    resumed = train_vla(config, tmp_path / "run")
    assert weights_sha(load_vla(resumed)[0].network) == weights_sha(load_vla(straight)[0].network)
    with pytest.raises(UserError, match="another config or other data"):
        train_vla(replace(config, loop=replace(config.loop, seed=1)), tmp_path / "run")


def test_what_was_reached_is_kept_with_the_model(straight: Path) -> None:
    _, meta = load_vla(straight)
    numbers = meta.provenance["validation"]
    assert meta.provenance["trained_parameters"] == meta.provenance["parameters"]
    assert set(numbers) >= {"command", "majority_command", "well_formed", "passes", "reasoning_well_formed"}
    assert all(0 <= value <= 5 for value in numbers.values())


def test_lora_trains_adapters_and_heads_only(config: VlaTrainConfig, tmp_path: Path) -> None:
    lora = replace(config, lora=LoraConfig(rank=2, alpha=4))
    folder = train_vla(lora, tmp_path / "run")
    trained, meta = load_vla(folder)
    assert meta.provenance["trained_parameters"] < meta.provenance["parameters"]
    fresh: Any = make_speaker(config.vla, config.loop.seed).network
    before, after = fresh.state_dict(), trained.network.state_dict()
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    for name in changed:
        assert name.startswith("heads.") or ("text_model" in name and "_proj" in name), name
    about = json.loads((tmp_path / "run" / ADAPTER / "adapter.json").read_text())
    assert about["base_sha256"] == weights_sha(fresh)
    with pytest.raises(UserError, match=r"lora.targets: .*name other layers"):
        train_vla(replace(lora, lora=LoraConfig(rank=2, targets="nothing")), tmp_path / "other")


def test_training_goes_on_from_a_vla(config: VlaTrainConfig, straight: Path, tmp_path: Path) -> None:
    folder = train_vla(replace(config, init_from=straight), tmp_path / "run")
    assert load_vla(folder)[1].provenance["parent_id"] == load_vla(straight)[1].vla_id


def batch_of(samples: int = 6) -> dict[str, torch.Tensor]:
    """Braking on dark pictures, going on on bright ones."""
    from drive.data.batches import collate
    from drive.data.samples import samples_of
    from tests.unit.train.drives import picture_drive

    drawn = samples_of(picture_drive(1), 0, CameraSpec(), list(range(samples)))
    batch = {
        name: torch.from_numpy(np.ascontiguousarray(v))
        for name, v in collate(drawn, np.arange(samples)).items()
    }
    for name in ("speed_mps", "speed_limit_mps", "turn", "targets_ego"):  # so that only the pictures differ
        batch[name] = batch[name][:1].expand_as(batch[name]).clone()
    dark = torch.arange(samples) % 2 == 0
    batch["image"] = (
        torch.where(dark[:, None, None, None], 20, 200).to(torch.uint8).expand_as(batch["image"]).clone()
    )
    batch["command"] = torch.where(dark[:, None], torch.tensor([0, 0]), torch.tensor([0, 3]))
    return batch


def test_the_terms_are_those_of_the_samples_and_fall(config: VlaTrainConfig) -> None:
    speaker = make_speaker(VlaConfig(vlm=VlmSpec(shape=config.vla.vlm.shape)))
    learner = VlaLearner(speaker, config.loop, config.loss)
    speaker.network.train()
    batch, generator = batch_of(), torch.Generator()
    optimizer = torch.optim.Adam(speaker.network.parameters(), lr=1e-2)
    first = {name: float(value.detach()) for name, value in learner.terms(batch, generator).items()}
    assert set(first) == {"command", "goal", "drafts", "reasoning"}
    for _ in range(50):
        terms = learner.terms(batch, generator)
        optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimizer.step()
    for name, value in terms.items():
        assert float(value.detach()) < 0.5 * first[name], name
    assert float(terms["command"].detach()) < 0.3  # the picture alone tells the two commands apart


def test_further_channels_of_an_image_are_not_shown(config: VlaTrainConfig) -> None:
    learner = VlaLearner(make_speaker(config.vla), config.loop, config.loss)
    batch = batch_of(2)
    colours = batch["image"][..., :3]
    deeper = batch | {"image": torch.cat([colours, torch.full_like(colours[..., :1], 9)], -1)}
    want, got = (learner.terms(one, torch.Generator()) for one in (batch, deeper))
    assert all(torch.equal(got[name], want[name]) for name in want)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data": ()}, "no log root given"),
        (
            {"vla": VlaConfig(cameras=(CameraSpec(), CameraSpec(name="left")))},
            "training reads one camera, 2 are given",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(
    config: VlaTrainConfig, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        train_vla(replace(config, **change), tmp_path / "run")
    assert not (tmp_path / "run").exists()
