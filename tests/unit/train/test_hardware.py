"""Training on several processes, with less memory, in bfloat16, and compiled."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from drive.contracts import UserError
from drive.train.config import HardwareConfig
from drive.train.hardware import check_hardware, recompute, share
from tests.unit.model.networks import random_inputs
from tests.unit.train.ranks import LOOP, planner, trained, two_processes, vla
from tests.unit.train.test_losses import batch_of

Weights = dict[str, Tensor]


def movement(a: Weights, b: Weights) -> float:
    """Mean absolute difference of all weights."""
    assert a.keys() == b.keys()
    return float(torch.cat([(a[name] - b[name]).abs().flatten() for name in a]).mean())


def before() -> Weights:
    return {name: value.detach().clone() for name, value in vla().trained().items()}


def test_two_processes_train_one_model(tmp_path: Path) -> None:
    alone = trained(vla(), tmp_path / "alone")
    first, second = two_processes(tmp_path)
    assert first.keys() == {"planner", "ddp", "fsdp", "resumed", "low"}
    for name, weights in first.items():
        for key, value in weights.items():
            assert torch.isfinite(value).all(), (name, key)
            assert torch.equal(value, second[name][key]), (name, key)
    moved = movement(alone, before())
    assert moved > 0.2 * LOOP.lr
    for name in ("ddp", "fsdp", "resumed"):  # the same samples, half of them in each process
        assert movement(first[name], alone) < 0.05 * moved, name
    assert movement(first["low"], before()) > 0.2 * LOOP.lr
    assert (tmp_path / "ddp" / "losses.csv").read_text().count("\n") == 1 + LOOP.max_steps
    assert [path.name for path in sorted((tmp_path / "again" / "checkpoints").iterdir())] == [
        "step-00000002", "step-00000004",
    ]  # fmt: skip


@pytest.mark.parametrize("make", [planner, vla])
def test_gradient_checkpointing_changes_no_weight(tmp_path: Path, make: type) -> None:
    want = trained(make(), tmp_path / "kept")
    got = trained(make(), tmp_path / "twice", HardwareConfig(gradient_checkpointing=True))
    assert want.keys() == got.keys()
    for name in want:
        torch.testing.assert_close(got[name], want[name], atol=1e-6, rtol=1e-5, msg=name)


def test_gradient_checkpointing_computes_twice_and_counts_batches_once() -> None:
    class Counting(nn.Linear):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(x)

    layer, norm = Counting(4, 4), nn.BatchNorm1d(4)
    block = nn.Sequential(layer, norm, nn.ReLU())
    plain = nn.BatchNorm1d(4)
    x = torch.randn(6, 4)
    plain(layer(x))
    layer.calls = 0
    recompute(block)
    block(x).sum().backward()
    assert layer.calls == 2
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[name], value)
    assert norm.momentum == plain.momentum


@pytest.mark.parametrize("make", [planner, vla])
def test_blocks_can_be_compiled(tmp_path: Path, make: type) -> None:
    want = trained(make(), tmp_path / "eager")
    got = trained(make(), tmp_path / "compiled", HardwareConfig(compile="aot_eager"))
    assert sum(float((got[name].float() - want[name].float()).abs().mean()) for name in want) < 1e-2


def test_bf16_is_another_arithmetic(tmp_path: Path) -> None:
    start, full = before(), trained(vla(), tmp_path / "fp32")
    half = trained(vla(replace(LOOP, precision="bf16")), tmp_path / "bf16")
    assert 0 < movement(half, full) < movement(full, start)


def test_nothing_of_the_planners_loss_stays_behind_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes without data stand for a GPU: they refuse to meet tensors of another device, too."""

    def obeyed(command: Tensor, knots_ego: Tensor, _: Tensor) -> Tensor:  # the real one reads the data
        return torch.ones(knots_ego.shape[:2], dtype=torch.bool, device=command.device)

    monkeypatch.setattr("drive.train.losses.obedience", obeyed)
    # the critic's lessons are judged on the CPU, from data
    monkeypatch.setattr("drive.train.learner.critic_loss", lambda *_: {})
    batch = {name: value.to("meta") for name, value in (batch_of() | random_inputs(4)._asdict()).items()}
    learner = planner()
    learner.network.to("meta")
    with torch.device("meta"):  # as the training step does where the batch is not on the CPU
        terms = learner.terms(batch, torch.Generator())
        torch.stack([value.float() for value in terms.values()]).sum().backward()
    assert {value.device.type for value in terms.values()} == {"meta"}


def test_shares_are_disjoint_and_whole() -> None:
    batch = {"a": torch.arange(6), "b": torch.arange(12).reshape(6, 2)}
    parts = [share(batch, rank, 3) for rank in range(3)]
    assert sorted(torch.cat([part["a"] for part in parts]).tolist()) == list(range(6))
    assert all(torch.equal(part["b"][:, 0], 2 * part["a"]) for part in parts)


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        (HardwareConfig(devices=3), "loop.batch_size: 4 samples cannot be shared evenly by 3 processes"),
        (HardwareConfig(devices=2, nodes=3), "by 6 processes"),
    ],
)
def test_uneven_shares_are_refused(hardware: HardwareConfig, said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_hardware(hardware, 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no GPU here .* set hardware.accelerator=cpu"):
        trained(vla(), tmp_path, HardwareConfig(accelerator="gpu"))
