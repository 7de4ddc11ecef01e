"""EWC and A-GEM by hand, and fine-tuning without adapters on small drives."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from drive.config import load_config
from drive.contracts import UserError
from drive.model.folder import read_meta
from drive.train import TrainConfig, finetune, train
from drive.train.adapters import TARGETS
from drive.train.config import FinetuneConfig
from drive.train.continual import RememberingLearner, project
from tests.integration.test_train_finetune import CONFIG, manifest
from tests.unit.train.drives import write_drives


def with_gradient(*values: float) -> torch.Tensor:
    parameter = nn.Parameter(torch.zeros(len(values)))
    parameter.grad = torch.tensor(values)
    return parameter


def test_a_gradient_against_replay_loses_its_part_along_it() -> None:
    parameter = with_gradient(-2.0, 3.0)
    memory = [torch.tensor([1.0, 0.0])]
    assert project([parameter], memory) == pytest.approx(-2.0)
    assert parameter.grad is not None
    torch.testing.assert_close(parameter.grad, torch.tensor([0.0, 3.0]))
    assert float((parameter.grad * memory[0]).sum()) == pytest.approx(0.0)


def test_a_gradient_that_helps_replay_stays() -> None:
    parameter = with_gradient(2.0, 3.0)
    assert project([parameter], [torch.tensor([1.0, 1.0])]) == pytest.approx(5.0)
    torch.testing.assert_close(parameter.grad, torch.tensor([2.0, 3.0]))
    with_none = nn.Parameter(torch.zeros(2))
    assert project([with_none], [torch.ones(2)]) == 0.0


class Line(RememberingLearner):
    """y = w x with one weight; the loss of a sample is (w x - y)^2 / 2."""

    def __init__(self, ewc: float) -> None:
        network = nn.Linear(1, 1, bias=False)
        nn.init.constant_(network.weight, 2.0)
        super().__init__(network, FinetuneConfig(ewc=ewc))  # type: ignore[arg-type]

    def terms(self, batch: dict[str, torch.Tensor], generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"fit": (self.network(batch["x"]) - batch["y"]).square().mean() / 2}


def test_ewc_weighs_a_change_by_the_fisher_information_of_replay() -> None:
    learner = Line(ewc=10.0)
    x, y = np.array([[1.0], [2.0], [9.0]], np.float32), np.array([[1.0], [1.0], [0.0]], np.float32)
    learner.anchor_at([{"x": x, "y": y, "replay": np.array([True, True, False])}])
    # gradients (w x - y) x at w = 2: 1 and 6; the third sample is not replay
    torch.testing.assert_close(learner.fisher["weight"], torch.tensor([[(1.0 + 36.0) / 2]]))
    assert float(learner.penalty().detach()) == 0.0
    with torch.no_grad():
        learner.network.weight += 0.5
    assert float(learner.penalty().detach()) == pytest.approx(10.0 * 18.5 * 0.25)


def test_without_weight_nothing_is_remembered() -> None:
    learner = Line(ewc=0.0)
    learner.anchor_at([])
    assert learner.fisher == {}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drives(tmp_path_factory.mktemp("logs"), 5)


@pytest.fixture(scope="module")
def champion(logs: Path, repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = load_config(TrainConfig, repo_root / "configs/train/debug.yaml", ["loop.max_steps=2"])
    return train(replace(config, data=(logs,)), tmp_path_factory.mktemp("champion"))


def changed(champion: Path, model: Path) -> set[str]:
    old, new = (load_file(str(folder / "model.safetensors")) for folder in (champion, model))
    return {name for name in old if not torch.equal(old[name], new[name])}


@pytest.mark.parametrize("method", ["heads", "full"])
def test_without_adapters_the_layers_themselves_change(
    logs: Path, champion: Path, tmp_path: Path, method: str
) -> None:
    loop = replace(CONFIG.loop, max_steps=2, checkpoint_every=1)
    config = replace(CONFIG, loop=loop, method=method, ewc=1.0, agem=True)  # type: ignore[arg-type]
    model = finetune(config, champion, manifest(), logs, tmp_path)
    names = changed(champion, model)
    heads = {name for name in names if name.rpartition(".")[0] in TARGETS}
    assert heads
    assert (names == heads) == (method == "heads")
    assert not [name for name in names if "running_" in name or "num_batches" in name]  # frozen statistics
    assert read_meta(model).provenance["method"] == method
    assert not (tmp_path / "adapter").exists()


@pytest.mark.parametrize("method", ["heads", "lora"])
def test_images_may_be_looked_at_once(logs: Path, champion: Path, tmp_path: Path, method: str) -> None:
    """The image part is the champion's, and training takes what it saw."""
    loop = replace(CONFIG.loop, max_steps=2, checkpoint_every=1)
    calm = replace(CONFIG.augment, gain=0.0, offset=0.0, stripe=0.0)
    looks, once = (
        finetune(
            replace(CONFIG, loop=loop, method=method, augment=calm, look_once=flag),  # type: ignore[arg-type]
            champion, manifest(), logs, tmp_path / str(flag),
        )
        for flag in (False, True)
    )  # fmt: skip
    assert {name.rpartition(".")[0] for name in changed(champion, once)} <= set(TARGETS)
    first, second = (load_file(str(folder / "model.safetensors")) for folder in (looks, once))
    assert changed(champion, once) == changed(champion, looks)
    for name in changed(champion, once):  # what was seen is kept in half precision
        torch.testing.assert_close(first[name], second[name], atol=2e-3, rtol=0.1)


def test_looking_once_is_refused_where_images_or_eyes_change() -> None:
    with pytest.raises(UserError, match="look_once: method"):
        FinetuneConfig(method="full", look_once=True)
    with pytest.raises(UserError, match="cannot turn"):
        FinetuneConfig(look_once=True, augment=replace(CONFIG.augment, yaw_rad=0.1))
