"""Training and fine-tuning of the planner; both continue exactly after any interruption."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drive.contracts import Manifest, Policy
from drive.train.config import FinetuneConfig, LoopConfig, TrainConfig

if TYPE_CHECKING:
    from drive.train.evaluate import OpenLoopResult

__all__ = ["FinetuneConfig", "LoopConfig", "TrainConfig", "evaluate_open_loop", "finetune", "train"]


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


def evaluate_open_loop(
    policy: Policy, log_root: Path | Sequence[Path], plan_indices: Mapping[str, Sequence[int]], seed: int = 0
) -> "OpenLoopResult":
    """Compare plans with labels, see drive.train.evaluate."""
    from drive.train.evaluate import evaluate_open_loop as run

    return run(policy, log_root, plan_indices, seed)
