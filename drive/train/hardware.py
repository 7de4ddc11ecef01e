"""What training runs on: one device or many, sharded or not, compiled, with less memory."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from drive.contracts import UserError
from drive.data.samples import Batch
from drive.train.config import HardwareConfig

_LAUNCHED = ("RANK", "LOCAL_RANK", "SLURM_PROCID")


def check_hardware(hardware: HardwareConfig, batch_size: int) -> None:
    """Refuse in one line what cannot run here.

    Raises:
        UserError: no such GPUs, or samples that cannot be shared out evenly.
    """
    if hardware.accelerator == "gpu":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not found:
            raise UserError("hardware: no GPU here that this PyTorch can use; set hardware.accelerator=cpu")
        if found < hardware.devices:
            raise UserError(f"hardware.devices: {hardware.devices} GPUs asked for, {found} are here")
    if batch_size % hardware.ranks:
        raise UserError(
            f"loop.batch_size: {batch_size} samples cannot be shared evenly by {hardware.ranks} processes "
            "(hardware.devices x hardware.nodes); give a multiple"
        )


def first() -> bool:
    """Is this the process that writes files? With one device it always is."""
    from pytorch_lightning.utilities import rank_zero_only

    return bool(rank_zero_only.rank == 0)


def end_others() -> None:
    """End the processes that only helped to train; the first one evaluates and writes the model."""
    if not first():
        raise SystemExit(0)


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """One process at a time, where several were launched: the first one builds what the others then open."""
    if not any(name in os.environ for name in _LAUNCHED):
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".turn.lock"):
        yield


def trainer_arguments(hardware: HardwareConfig) -> dict[str, Any]:
    """Lightning's Trainer arguments for this hardware."""
    arguments: dict[str, Any] = {"accelerator": hardware.accelerator, "devices": hardware.devices}
    if hardware.ranks == 1:
        return arguments
    arguments["num_nodes"] = hardware.nodes
    if hardware.strategy == "fsdp":
        from pytorch_lightning.strategies import ModelParallelStrategy

        arguments["strategy"] = ModelParallelStrategy(hardware.ranks, 1)
    else:
        arguments["strategy"] = "ddp"
        arguments["sync_batchnorm"] = hardware.accelerator == "gpu"  # PyTorch has none for CPUs
    return arguments


def share(batch: Batch, rank: int, ranks: int) -> Batch:
    """The samples of one process: every `ranks`-th one."""
    return batch if ranks == 1 else {name: column[rank::ranks] for name, column in batch.items()}


def shard(learner: nn.Module, network: nn.Module, mesh: Any) -> None:
    """Share the weights of `network` out over the processes, in place: each keeps a part of every one.

    Layers in lists are gathered one at a time, the rest for the whole of `learner.training_step`.
    """
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for parameter in network.parameters():
        parameter.data = parameter.data.contiguous()  # it shards no weights in channels_last
    for layers in reversed([module for module in network.modules() if isinstance(module, nn.ModuleList)]):
        for layer in layers:
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=mesh)
    fully_shard(learner, mesh=mesh)
    register_fsdp_forward_method(learner, "training_step")


def whole(value: Tensor) -> Tensor:
    """A sharded tensor put together (every process must ask), or the tensor itself; detached."""
    gather = getattr(value.detach(), "full_tensor", None)
    return gather() if gather is not None else value.detach()


def alike(value: Tensor, pattern: Tensor) -> Tensor:
    """A whole tensor on the device of `pattern`, sharded if that is."""
    value = value.to(pattern.device)
    if not hasattr(pattern, "full_tensor") or hasattr(value, "full_tensor"):
        return value
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = pattern
    return distribute_tensor(value, sharded.device_mesh, sharded.placements)


def even(tensors: Mapping[str, Tensor]) -> None:
    """Give every process what the first one has, in place: batch statistics differ between them."""
    for value in tensors.values():
        if not hasattr(value, "full_tensor"):
            torch.distributed.broadcast(value.data, 0)


def recompute(module: nn.Module) -> None:
    """Keep no activations of `module` for the backward pass, which computes them once more."""
    module.forward = partial(
        checkpoint, module.forward, use_reentrant=False, context_fn=partial(_twice, module)
    )


def _twice(module: nn.Module) -> tuple[Any, Any]:
    return nullcontext(), _statistics_kept(module)


@contextmanager
def _statistics_kept(module: nn.Module) -> Iterator[None]:
    """Batch norms take the batch's statistics as before, but do not count the batch a second time."""
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked = norm.num_batches_tracked.clone()
    try:
        yield
    finally:
        for norm, (momentum, count) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count
