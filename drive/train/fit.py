"""The one training loop: Lightning's fit with exact resume, EMA, cosine schedule and clean stops."""

import copy
import logging
import math
import signal
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from drive.contracts import UserError
from drive.data.batches import Batches
from drive.data.samples import Batch
from drive.progress import Progress
from drive.train.checkpoint import newest_checkpoint, save_checkpoint
from drive.train.config import HardwareConfig, LoopConfig
from drive.train.hardware import (
    alike,
    check_hardware,
    even,
    first,
    recompute,
    shard,
    share,
    trainer_arguments,
    whole,
)
from drive.train.losslog import LossLog

INTERRUPTED = 75
_EMA_WARMUP = 10


class Interrupted(SystemExit):
    """SIGTERM arrived; the state is saved and the same command continues. Exit code 75 (EX_TEMPFAIL)."""

    def __init__(self) -> None:
        super().__init__(INTERRUPTED)


class Learner(pl.LightningModule, ABC):
    """What a training job defines: a network, its trainable parameters, and a loss.

    Subclasses set `network` (its floating-point state is averaged) and implement `terms`.
    """

    def __init__(self, network: nn.Module, loop: LoopConfig) -> None:
        super().__init__()
        self.network = network
        self.loop = loop
        self.hardware = HardwareConfig()
        self.first_step = 0
        self.average: dict[str, Tensor] = {}
        self.moments: dict[str, Tensor] = {}
        self._plain: tuple[nn.Module, ...] = ()  # in a tuple: not trained
        self._prepared = False

    @abstractmethod
    def terms(self, batch: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """Weighted loss terms of a batch; random numbers come from `generator` or torch's global one."""

    def blocks(self) -> list[nn.Module]:
        """Parts that are compiled, and whose activations are computed twice to save memory."""
        return [part for part in self.network.children() if any(True for _ in part.children())]

    def save_memory(self) -> None:
        """Switch gradient checkpointing on."""
        for block in self.blocks():
            recompute(block)

    def configure_model(self) -> None:
        """Lightning's hook before the optimiser is made, the processes being connected: shard and compile.

        A sharded network is a copy: `network` is whole again after the training.
        """
        if self._prepared:
            return
        self._prepared = True
        if self.hardware.ranks > 1 and self.hardware.strategy == "fsdp":
            self._plain = (self.network,)
            self.network = copy.deepcopy(self.network)
            if self.hardware.accelerator == "gpu":
                self.network = nn.SyncBatchNorm.convert_sync_batchnorm(self.network)
            shard(self, self.network, self.device_mesh["data_parallel"])
        if self.hardware.compile != "off":
            for block in self.blocks():
                block.compile(backend=self.hardware.compile)

    def on_train_end(self) -> None:
        """Make all processes agree, and the network whole."""
        if self.hardware.ranks == 1:
            return
        even(self.trained())
        even(self.average)
        trained = {name: whole(value).cpu() for name, value in self.trained().items()}
        self.average = {name: whole(value).cpu() for name, value in self.average.items()}
        if self._plain:
            self.network, self._plain = self._plain[0], ()
            self.load_trained(trained)

    @property
    def step(self) -> int:
        """Optimiser steps done since the very start, resumed runs included."""
        return self.first_step + int(self.global_step)

    def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
        """Loss of one batch; randomness depends on (seed, step, rank) only."""
        seed = self.loop.seed * 1_000_003 + self.step + (int(self.global_rank) << 40)
        torch.manual_seed(seed)
        device = next(iter(batch.values())).device
        generator = torch.Generator(device).manual_seed(seed + 500_000)
        with nullcontext() if device.type == "cpu" else device:  # what a job draws is made where its batch is
            terms = self.terms(batch, generator)
        loss = torch.stack([value.float() for value in terms.values()]).sum()
        if not torch.isfinite(loss):
            bad = ", ".join(f"{name} {float(value.detach()):.3g}" for name, value in terms.items())
            raise UserError(f"step {self.step}: the loss is not finite ({bad}); lower `lr` or check the data")
        self.last_terms = {name: float(value.detach()) for name, value in terms.items()}
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW over what requires a gradient."""
        trainable = [p for p in self.network.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trainable, lr=self.loop.lr, weight_decay=self.loop.weight_decay)
        if self.moments:
            optimizer.load_state_dict(_unflatten(self.moments, optimizer, trainable))
        return optimizer

    def trained(self) -> dict[str, Tensor]:
        """What training changes: kept by checkpoints, and averaged. The whole network unless overridden."""
        return self.network.state_dict()

    def load_trained(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `trained` gave."""
        self.network.load_state_dict(tensors)

    def state_tensors(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, by name."""
        state = {f"network/{name}": value for name, value in self.trained().items()}
        state |= {f"average/{name}": value for name, value in self.average.items()}
        return state | _flatten(self.optimizers(use_pl_optimizer=False))  # type: ignore[arg-type]

    def restore(self, step: int, tensors: dict[str, Tensor]) -> None:
        """Continue after `step` steps."""
        self.first_step = step
        self.load_trained(_below("network/", tensors))
        self.average = _below("average/", tensors)
        self.moments = _below("optimizer/", tensors)

    def update_average(self) -> None:
        """Exponential moving average of the network's floating-point state, with a warm-up."""
        if not self.loop.ema_decay:
            return
        decay = min(self.loop.ema_decay, (1 + self.step) / (_EMA_WARMUP + self.step))
        for name, value in self.trained().items():
            if name in self.average and value.is_floating_point():
                kept = self.average[name] = alike(self.average[name], value)
                kept.lerp_(value.detach(), 1 - decay)
            else:
                self.average[name] = value.detach().clone()

    def finish(self) -> None:
        """Put the averaged weights into the network."""
        if self.average:
            self.load_trained(self.average)


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value.clone() for name, value in tensors.items() if name.startswith(prefix)}


def _flatten(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {f"optimizer/{i}/{name}": value for i, entry in state.items() for name, value in entry.items()}


def _unflatten(
    moments: dict[str, Tensor], optimizer: torch.optim.Optimizer, trainable: list[nn.Parameter]
) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in moments.items():
        index, name = key.split("/")
        own = alike(value, trainable[int(index)]) if value.ndim else value
        state.setdefault(int(index), {})[name] = own
    return {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}


def learning_rate(loop: LoopConfig, step: int) -> float:
    """Linear warm-up, then a cosine down to 1 % at `max_steps`."""
    warm = min(1.0, (step + 1) / loop.warmup_steps) if loop.warmup_steps else 1.0
    return loop.lr * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / loop.max_steps)))


class _Steps(IterableDataset[Batch]):
    """Batches of steps first ... last - 1; a thread prepares the next one meanwhile."""

    def __init__(self, batches: Batches, learner: Learner) -> None:
        self._batches, self._learner = batches, learner
        self._first, self._last = learner.first_step, learner.loop.max_steps

    def __len__(self) -> int:
        return self._last - self._first

    def __iter__(self) -> Iterator[Batch]:
        with ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(self._batches.__getitem__, self._first)
            for step in range(self._first + 1, self._last + 1):
                ready = ahead.result()
                if step < self._last:
                    ahead = pool.submit(self._batches.__getitem__, step)
                yield share(ready, int(self._learner.global_rank), self._learner.hardware.ranks)


class _Keeper(pl.Callback):
    """Schedule, average, progress, checkpoints and the orderly stop."""

    def __init__(self, out_dir: Path, fingerprint: str, bar: Progress | None) -> None:
        self._out_dir, self._fingerprint, self._bar = out_dir, fingerprint, bar
        self._losses: LossLog | None = None
        self.stop_asked = False

    def on_train_start(self, _trainer: pl.Trainer, learner: Any) -> None:
        self._losses = LossLog(self._out_dir, learner.first_step) if first() else None
        if threading.current_thread() is threading.main_thread():  # after Lightning has set its own handler
            signal.signal(signal.SIGTERM, self._ask_to_stop)

    def _ask_to_stop(self, *_: Any) -> None:
        self.stop_asked = True

    def on_train_batch_start(self, trainer: pl.Trainer, learner: Any, *_: Any) -> None:
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = learning_rate(learner.loop, learner.step)

    def on_train_batch_end(self, trainer: pl.Trainer, learner: Any, *_: Any) -> None:
        learner.update_average()
        if self._bar is not None:
            note = " ".join(f"{name} {value:.3f}" for name, value in learner.last_terms.items())
            self._bar.advance(note=note)
        step = learner.step
        if self._losses is not None:
            self._losses.add(step, learner.last_terms)
        if learner.hardware.ranks > 1:  # a signal to one process stops all of them after the same step
            self.stop_asked = trainer.strategy.reduce_boolean_decision(self.stop_asked, all=False)
        if step % learner.loop.checkpoint_every == 0 or step == learner.loop.max_steps or self.stop_asked:
            state = {name: whole(value) for name, value in learner.state_tensors().items()}
            if first():
                save_checkpoint(self._out_dir, step, state, self._fingerprint)
        if self.stop_asked:
            trainer.should_stop = True


def fit(
    learner: Learner,
    batches: Batches,
    out_dir: Path,
    fingerprint: str,
    label: str,
    hardware: HardwareConfig | None = None,
) -> None:
    """Train up to `loop.max_steps`, continuing from the newest checkpoint in `out_dir` if there is one.

    Interrupted and continued runs end with the weights of an uninterrupted one (same machine and threads, one
    process on the CPU). Of several processes each trains on its share of a batch; losses.csv tells those of
    the first one.

    Args:
        learner: Job; on return its network holds the final (averaged) weights.
        batches: Pure function of the step.
        out_dir: Folder of the run.
        fingerprint: Hash of config and data; a checkpoint with another one is refused.
        label: Word shown in front of the progress bar.
        hardware: What to run on; default: this process on the CPU.

    Raises:
        UserError: zero steps asked for, a loss that is not finite, or a foreign checkpoint.
        Interrupted: SIGTERM; the state is saved.
    """
    loop = learner.loop
    if loop.max_steps < 1:
        raise UserError("max_steps: 0 training steps asked for; give at least 1")
    learner.hardware = hardware or HardwareConfig()
    check_hardware(learner.hardware, loop.batch_size)
    torch.set_num_threads(loop.threads)
    saved = newest_checkpoint(out_dir, fingerprint)
    if saved is not None:
        learner.restore(*saved)
    if learner.hardware.gradient_checkpointing:
        learner.save_memory()
    if learner.first_step < loop.max_steps:
        _run(learner, batches, out_dir, fingerprint, label)
    learner.finish()


def _run(learner: Learner, batches: Batches, out_dir: Path, fingerprint: str, label: str) -> None:
    loop = learner.loop
    steps = _Steps(batches, learner)
    loader: DataLoader[Batch] = DataLoader(steps, batch_size=None)
    with Progress(label, loop.max_steps, "steps") if first() else nullcontext() as bar:
        if bar is not None:
            bar.advance(learner.first_step)
        keeper = _Keeper(out_dir, fingerprint, bar)
        with _quiet(), _signals_restored():
            _trainer(learner, keeper, out_dir).fit(learner, loader)
    if keeper.stop_asked and learner.step < loop.max_steps:
        raise Interrupted


def _trainer(learner: Learner, keeper: _Keeper, out_dir: Path) -> pl.Trainer:
    return pl.Trainer(
        **trainer_arguments(learner.hardware),
        max_epochs=1,
        callbacks=[keeper],
        gradient_clip_val=learner.loop.clip_norm,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        default_root_dir=out_dir,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Lightning's advice (worker counts, absent loggers); errors still come through."""
    logger = logging.getLogger("pytorch_lightning")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", module="pytorch_lightning|lightning_fabric|torch.utils.data|torch.jit"
        )
        warnings.filterwarnings("ignore", message=".*does not have many workers.*|.*isinstance\\(treespec.*")
        # Dynamo's own doing.
        warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
        try:
            yield
        finally:
            logger.setLevel(level)


@contextmanager
def _signals_restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
