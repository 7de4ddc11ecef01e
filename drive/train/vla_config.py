"""Config of training a VLA."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from drive.config import AtLeastOne, Bounds, Count, NotNegative, Share
from drive.data.augment import AugmentConfig
from drive.model.vla.config import VlaConfig
from drive.train.config import HELD_OUT_TOWNS, HardwareConfig, LoopConfig, Strengths

LANGUAGE_LAYERS = r".*(text_model|language_model)\..*(q|k|v|o|gate|up|down)_proj"


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank adapters.

    Attributes:
        rank: 0 = none: every weight is trained.
        alpha: The update is scaled by alpha / rank.
        targets: Regular expression of the layers' full names.
    """

    rank: Annotated[int, Bounds(0, 1024)] = 0
    alpha: AtLeastOne = 32
    targets: str = LANGUAGE_LAYERS


@dataclass(frozen=True)
class VlaLoss:
    """Weights of the loss terms.

    Attributes:
        command: Cross entropy of the lateral and the longitudinal letter.
        goal: Of the three letters of target speed and goal.
        drafts: Of what the multi-token heads say; the head k tokens ahead counts
            drafts * draft_decay^(k - 1).
        draft_decay: See above.
        reasoning: Of the tokens of the reasoning.
        reasoning_share: Share of a batch that is asked for the reasoning, the rest for the command.
    """

    command: NotNegative = 1.0
    goal: NotNegative = 0.3
    drafts: NotNegative = 0.2
    draft_decay: Share = 0.8
    reasoning: NotNegative = 0.5
    reasoning_share: Annotated[float, Bounds(0, 0.9)] = 0.25


@dataclass(frozen=True)
class VlaTrainConfig:
    """Training of a VLA from recorded drives.

    Attributes:
        data: Log roots.
        cache: Folder of decoded samples; default: `cache` in the output folder.
        init_from: VLA folder to start from; null = the model of `vla.vlm`.
        exclude_towns: Never trained on.
        validation_share: Share of routes held out for the numbers at the end.
        validation_samples: At most so many of their samples are asked about, evenly spread.
        standing_share: Share kept of the samples in which nothing happens: standing, and to stay so.
        vla: The model; training takes the images of its one camera.
        lora: Adapters.
        loop: Optimisation; precision "bf16" is automatic mixed precision here.
        loss: Weights of the loss terms.
        augment: Disturbance of inputs.
        hardware: What it runs on.
    """

    data: tuple[Path, ...] = ()
    cache: Path | None = None
    init_from: Path | None = None
    exclude_towns: tuple[str, ...] = HELD_OUT_TOWNS
    validation_share: Annotated[float, Bounds(0, 0.9)] = 0.06
    validation_samples: Count = 1000
    standing_share: Share = 0.35
    vla: VlaConfig = field(default_factory=VlaConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    loop: LoopConfig = field(
        default_factory=lambda: LoopConfig(
            max_steps=600, batch_size=48, lr=1e-3, weight_decay=0.02, warmup_steps=40, ema_decay=0.99
        )
    )
    loss: VlaLoss = field(default_factory=VlaLoss)
    augment: Strengths = field(default_factory=AugmentConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)
