"""`drive train`: train a planner from recorded drives; the same command continues a stopped run."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.train.config import TrainConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive train`."""
    parser.add_argument("--config", required=True, metavar="FILE", help="e.g. configs/train/quickstart.yaml")
    parser.add_argument(
        "--data", action="append", default=[], metavar="LOGROOT", help="folder of drive logs; repeatable"
    )
    parser.add_argument("--out", metavar="DIR", help="output folder (default: runs/train/<config name>)")
    parser.add_argument(
        "--init-from",
        metavar="MODEL",
        help="start from this model: base, a model folder, or models:/nightdrive@champion",
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="change a config value, e.g. loop.max_steps=50"
    )


def run(args: argparse.Namespace) -> int:
    """Train and print what was reached; exit code 75 when stopped by SIGTERM with the state saved."""
    from drive.cli import output

    config = _config(args)
    out_dir = Path(args.out) if args.out else Path("runs") / "train" / Path(args.config).stem
    output.check_folder("--out", out_dir)
    from drive.model.folder import read_meta
    from drive.train import train

    folder = train(config, out_dir)
    meta = read_meta(folder)
    numbers = meta.provenance["validation"]
    rows = [[name, value] for name, value in numbers.items()]
    title = f"validation: {meta.provenance['validation_samples']} samples of routes not trained on"
    output.print_table(title, ["number", "value"], rows or [["(no route was held out)", None]])
    print(f"\nmodel {meta.model_id} in {folder}")
    output.finish(args, payload(folder, meta.model_id, meta.parent_id, meta.provenance))
    return 0


def payload(folder: Path, model_id: str, parent_id: str | None, provenance: Any) -> dict[str, Any]:
    """What --json writes."""
    return {"model": folder, "model_id": model_id, "parent_id": parent_id, **provenance}


def _config(args: argparse.Namespace) -> "TrainConfig":
    from drive.cli.policies import model_folder
    from drive.config import load_config
    from drive.train.config import TrainConfig

    config = load_config(TrainConfig, args.config, args.overrides)
    if args.data:
        config = replace(config, data=tuple(Path(root) for root in args.data))
    parent = args.init_from or config.init_from
    if parent:
        config = replace(config, init_from=model_folder(str(parent)))
    if config.eyes_from:
        config = replace(config, eyes_from=model_folder(str(config.eyes_from)))
    if not config.data:
        raise UserError(f"{args.config}: no training data; give --data LOGROOT")
    for root in config.data:
        if not root.is_dir():
            raise UserError(
                f"--data {root}: no such log folder; record drives there first (drive sim --out DIR)"
            )
    return config
