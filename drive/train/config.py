"""Configs of training jobs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from drive.config import AtLeastOne, Bounds, Count, NotNegative, Positive, Share
from drive.contracts import UserError
from drive.data.augment import AugmentConfig
from drive.model.config import ModelConfig
from drive.train.weights import LossWeights

HELD_OUT_TOWNS = ("Town02", "Town10HD")
Strengths = Annotated[AugmentConfig, Bounds(0, within={"speed_drop": Bounds(0, 1)})]
Weights = Annotated[
    LossWeights,
    Bounds(
        0,
        within={
            "score_scale_m": Bounds(0, above=True),
            "dream_share": Bounds(0, 1),
            "critic_share": Bounds(0, 1),
        },
    ),
]


@dataclass(frozen=True)
class LoopConfig:
    """The optimisation loop.

    Attributes:
        max_steps: Budget in optimiser steps.
        batch_size: Samples per step.
        lr: Peak learning rate (AdamW, cosine).
        weight_decay: AdamW's.
        warmup_steps: Linear warm-up.
        clip_norm: Largest gradient norm.
        ema_decay: Of the averaged weights that are shipped; 0 = off.
        checkpoint_every: Steps between checkpoints.
        precision: "bf16" runs the convolutions in bfloat16: twice as fast on CPUs with AMX, far slower
            without; "auto" takes it where there is AMX. Weights are reproducible for a fixed one.
        threads: torch threads; results are reproducible for a fixed number.
        seed: Of initial weights, order, augmentation and noise.
    """

    max_steps: AtLeastOne = 600
    batch_size: AtLeastOne = 96
    lr: Annotated[float, Bounds(0, 10, above=True)] = 1.2e-3
    weight_decay: NotNegative = 0.05
    warmup_steps: Count = 60
    clip_norm: Positive = 2.0
    ema_decay: Share = 0.998
    checkpoint_every: AtLeastOne = 200
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    threads: Annotated[int, Bounds(1, 1024)] = 1
    seed: Count = 0


@dataclass(frozen=True)
class HardwareConfig:
    """What a training runs on. It is no part of a run's identity: a stopped run may go on on another machine.

    Attributes:
        accelerator: "gpu" = CUDA.
        devices: GPUs per machine, or processes on the CPU; each takes its share of every batch.
        nodes: Machines.
        strategy: With several devices: "ddp" keeps the whole model on each, "fsdp" a part of every weight,
            gradient and moment.
        gradient_checkpointing: Less memory for more time.
        compile: torch.compile of the network's blocks; "aot_eager" makes nothing faster, it checks that they
            can be compiled.
    """

    accelerator: Literal["cpu", "gpu"] = "cpu"
    devices: Annotated[int, Bounds(1, 1024)] = 1
    nodes: Annotated[int, Bounds(1, 1024)] = 1
    strategy: Literal["ddp", "fsdp"] = "ddp"
    gradient_checkpointing: bool = False
    compile: Literal["off", "inductor", "aot_eager"] = "off"

    @property
    def ranks(self) -> int:
        """Processes that train together."""
        return self.devices * self.nodes


@dataclass(frozen=True)
class TrainConfig:
    """Training from scratch or from a given model.

    Attributes:
        data: Log roots.
        cache: Folder of decoded samples; default: `cache` in the output folder.
        init_from: Model whose weights and frozen statistics to start from; null = from scratch.
        eyes_from: Model whose image part to take over, frozen: what it sees on the samples is computed once,
            and training the rest takes a fraction of the time; null = train the image part too.
        part: "critic" trains the critic of the model `init_from` alone, and gives it one if it has none; the
            planner stays as it is.
        exclude_towns: Never trained on.
        validation_share: Share of routes held out for the numbers at the end.
        split_seed: Which routes these are: the same for all training seeds.
        standing_share: Share kept of the samples in which nothing happens: standing, and to stay so.
        model: Architecture.
        loop: Optimisation.
        augment: Disturbance of inputs.
        loss: Weights of the loss terms.
        hardware: What it runs on.
    """

    data: tuple[Path, ...] = ()
    cache: Path | None = None
    init_from: Path | None = None
    eyes_from: Path | None = None
    part: Literal["all", "critic"] = "all"
    exclude_towns: tuple[str, ...] = HELD_OUT_TOWNS
    validation_share: Annotated[float, Bounds(0, 0.9)] = 0.1
    split_seed: Count = 0
    standing_share: Share = 0.35
    model: ModelConfig = field(default_factory=ModelConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    augment: Strengths = field(default_factory=AugmentConfig)
    loss: Weights = field(default_factory=LossWeights)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)


@dataclass(frozen=True)
class FinetuneConfig:
    """Fine-tuning of a champion.

    Attributes:
        loop: Optimisation.
        method: "lora" trains adapters on the heads; "heads" the same layers themselves; "full" everything.
        rank, alpha: Of the adapters; the update is scaled by alpha / rank.
        look_once: What the image part, which "lora" and "heads" leave as it is, sees on the samples is
            computed once, on undisturbed images: fewer seconds a step.
        distill: Weight of staying close to the champion on replay samples.
        ewc: Weight of elastic weight consolidation (drive/train/continual.py); 0 = off.
        agem: Project gradients that would raise the loss on replay samples (A-GEM).
        augment: Disturbance of inputs.
        loss: Weights of the imitation terms.
        exclude_towns: A manifest that touches these is refused.
    """

    loop: LoopConfig = field(
        default_factory=lambda: LoopConfig(
            max_steps=300,
            batch_size=64,
            lr=1e-4,
            weight_decay=0.0,
            warmup_steps=20,
            ema_decay=0.0,
            checkpoint_every=50,
        )
    )
    rank: Annotated[int, Bounds(1, 1024)] = 16
    alpha: AtLeastOne = 32
    method: Literal["lora", "heads", "full"] = "lora"
    look_once: bool = False
    distill: NotNegative = 1.0
    ewc: NotNegative = 0.0
    agem: bool = False
    augment: Strengths = field(default_factory=AugmentConfig)
    loss: Weights = field(default_factory=LossWeights)
    exclude_towns: tuple[str, ...] = HELD_OUT_TOWNS

    def __post_init__(self) -> None:
        if self.look_once and self.method == "full":
            raise UserError('look_once: method "full" changes what the images show; choose lora or heads')
        if self.look_once and self.augment.yaw_rad:
            raise UserError("look_once: images that are looked at once cannot turn; set augment.yaw_rad to 0")
