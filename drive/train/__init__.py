"""Training and fine-tuning of the planner; both continue exactly after any interruption."""

from collections.abc import Sequence
from pathlib import Path

from drive.contracts import Manifest
from drive.train.config import FinetuneConfig, LoopConfig, TrainConfig

__all__ = ["FinetuneConfig", "LoopConfig", "TrainConfig", "finetune", "train"]


def train(config: TrainConfig, out_dir: Path) -> Path:
    """Train a planner, see drive.train.training; imports Lightning (seconds) only when called."""
    from drive.train.training import train as run

    return run(config, out_dir)


def finetune(
    config: FinetuneConfig, champion: Path, manifest: Manifest, log_root: Path | Sequence[Path], out_dir: Path
) -> Path:
    """Fine-tune a champion, see drive.train.finetuning; imports Lightning and peft only when called."""
    from drive.train.finetuning import finetune as run

    return run(config, champion, manifest, log_root, out_dir)
