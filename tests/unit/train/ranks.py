"""Trainings of very small models, alone and by two processes that torchrun would have started."""

import multiprocessing
import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from drive.data.batches import Batches
from drive.data.camera import CameraSpec
from drive.data.samples import samples_of
from drive.model.vla.speaker import Speaker
from drive.train.checkpoint import FOLDER
from drive.train.config import HardwareConfig, LoopConfig
from drive.train.fit import Learner, fit
from drive.train.learner import PlannerLearner
from drive.train.vla_config import VlaLoss
from drive.train.vla_learner import VlaLearner
from drive.train.weights import LossWeights
from tests.unit.model.networks import tiny_network
from tests.unit.model.vla.speakers import CONFIG, tiny_speaker
from tests.unit.train.drives import picture_drive

LOOP = LoopConfig(max_steps=4, batch_size=4, lr=1e-3, warmup_steps=1, ema_decay=0.5, checkpoint_every=2)
DDP, FSDP = (HardwareConfig(devices=2, strategy=name) for name in ("ddp", "fsdp"))
LIMIT_S = 240


def batches(camera: CameraSpec) -> Batches:
    samples = samples_of(picture_drive(1), 0, camera)
    return Batches(samples, np.arange(len(samples)), LOOP.batch_size, LOOP.seed, camera)


def planner() -> PlannerLearner:
    network = tiny_network()
    return PlannerLearner(network.train(), LOOP, LossWeights())


def vla(loop: LoopConfig = LOOP, share: float = 0.0) -> VlaLearner:
    speaker = tiny_speaker()
    speaker = Speaker(speaker.network.train(), speaker.tokenizer, CONFIG)
    return VlaLearner(speaker, loop, VlaLoss(reasoning_share=share))


def trained(learner: Learner, out: Path, hardware: HardwareConfig | None = None) -> dict[str, Tensor]:
    """Fit, and give the weights."""
    camera = learner.network.config.camera if isinstance(learner, PlannerLearner) else CameraSpec()
    fit(learner, batches(camera), out, "test", "test", hardware)
    return {name: value.detach().clone() for name, value in learner.trained().items()}


def two_processes(folder: Path) -> list[dict[str, dict[str, Tensor]]]:
    """Weights of each process by name of the training."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_work, args=(folder, rank), daemon=True) for rank in (0, 1)]
    outside = dict(os.environ)
    try:
        for rank, process in enumerate(processes):
            os.environ |= launched(rank, port)
            process.start()
    finally:
        os.environ.clear()
        os.environ |= outside
    for process in processes:
        process.join(LIMIT_S)
        if process.is_alive():
            process.kill()
    assert [process.exitcode for process in processes] == [0, 0]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


def launched(rank: int, port: int) -> dict[str, str]:
    """What torchrun tells a process."""
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "test", "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip


def _work(folder: Path, rank: int) -> None:
    found = {
        "planner": trained(planner(), folder / "planner", DDP),
        "ddp": trained(vla(), folder / "ddp", DDP),
        "fsdp": trained(vla(), folder / "fsdp", FSDP),
    }
    torch.distributed.barrier()
    if rank == 0:  # as if stopped after the second step
        shutil.copytree(
            folder / "fsdp" / FOLDER / "step-00000002", folder / "again" / FOLDER / "step-00000002"
        )
    torch.distributed.barrier()
    low = replace(FSDP, gradient_checkpointing=True, compile="aot_eager")
    found["resumed"] = trained(vla(), folder / "again", FSDP)
    found["low"] = trained(vla(replace(LOOP, precision="bf16"), 0.5), folder / "low", low)
    torch.save(found, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()
