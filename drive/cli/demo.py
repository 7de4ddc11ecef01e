"""`drive demo`: several nights in a row, unattended; continues after an interruption."""

import argparse
from dataclasses import replace
from pathlib import Path

from drive.cli import output

DEMOS = {"seven-nights": "configs/demo/seven_nights.yaml"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive demo`."""
    parser.add_argument("name", choices=sorted(DEMOS), help="which one")
    parser.add_argument("--config", default=None, metavar="YAML", help="default: the one of its name")
    parser.add_argument(
        "--workspace", default="runs/demo", metavar="DIR", help="own registry and nights; default: runs/demo"
    )
    parser.add_argument("--nights", type=int, default=None, metavar="N", help="only the first N nights")
    parser.add_argument(
        "--base-model", default=None, metavar="MODEL", help="default: the config's, i.e. the shipped one"
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings that win over the YAML")


def run(args: argparse.Namespace) -> int:
    """Run the nights that are not finished yet and print the table; exit code 0."""
    from data_engine.demo import DemoConfig, run_demo, table
    from drive.config import load_config
    from drive.contracts import UserError

    if args.nights is not None and args.nights < 1:
        raise UserError(f"--nights must be at least 1, got {args.nights}")
    place = Path(args.config) if args.config else Path(__file__).parents[2] / DEMOS[args.name]
    config = load_config(DemoConfig, place, args.overrides)
    if args.base_model is not None:
        config = replace(config, night=replace(config.night, base_model=args.base_model))
    workspace = Path(args.workspace)
    output.check_folder("--workspace", workspace)
    results = run_demo(config, workspace, args.nights)
    print(table(results))
    print(f"table: {workspace / 'demo.md'}")
    output.finish(args, {**results, "table": str(workspace / "demo.md")})
    return 0
