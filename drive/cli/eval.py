"""`drive eval planner`: train planners and baselines alike, drive held-out suites with them, compare."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.cli import output
from drive.contracts import UserError

if TYPE_CHECKING:
    from data_engine.planner_config import PlannerEvalConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive eval`."""
    parser.add_argument("what", choices=("planner",), help="what to compare")
    parser.add_argument("--config", required=True, metavar="FILE", help="e.g. configs/eval/planner.yaml")
    parser.add_argument(
        "--data", action="append", default=[], metavar="LOGROOT", help="folder of drive logs; repeatable"
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the comparison (default: the config's `out`)")
    parser.add_argument(
        "--into", metavar="FILE.md", help="also put the tables between the markers in this Markdown file"
    )
    parser.add_argument(
        "--tables-only", action="store_true", help="train and drive nothing: tables of what is there already"
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="change a config value, e.g. seeds=[0] routes=20"
    )


def run(args: argparse.Namespace) -> int:
    """Compare and print; 1 if the simulator failed on a drive or something is missing."""
    from data_engine.planner_table import TABLE, check_markers, insert, write_tables

    config = _config(args)
    if args.into is not None:
        check_markers(Path(args.into))
    if args.tables_only:
        from data_engine.planner_eval import planned_suites
        from data_engine.planner_summary import summarise

        output.check_folder("--out", config.out)
        summary = summarise(config, planned_suites(config))
        write_tables(config, summary)
    else:
        summary = _compare(config)
    if args.into is not None:
        insert(Path(args.into), summary)
        print(f"tables put into {args.into}")
    _print(summary)
    print(f"\ntables: {config.out / TABLE}")
    output.finish(args, payload(config, summary))
    spoilt = sum(row["simulator_failed"] for row in summary["closed_loop"])
    if spoilt:
        print(f"the simulator failed on {spoilt} drives; the same command drives them again")
    return 1 if spoilt or summary["missing"] else 0


def _compare(config: "PlannerEvalConfig") -> dict[str, Any]:
    from drive.cli.policies import driver

    for name, entry in config.models.items():
        if entry.policy == "ego_mlp":
            raise UserError(
                f"models.{name}.policy: ego_mlp is fitted to nuScenes; train an ego-status MLP with change: "
                "[model.head=regression, model.use_command=false, model.use_image=false]"
            )
    drivers = {
        name: driver(entry.policy) for name, entry in config.models.items() if entry.policy is not None
    }
    output.check_folder("out", config.out)
    from data_engine.planner_eval import compare

    return compare(config, drivers)


def _config(args: argparse.Namespace) -> "PlannerEvalConfig":
    from data_engine.planner_config import PlannerEvalConfig, training
    from drive.cli.policies import model_folder
    from drive.config import load_config

    config = load_config(PlannerEvalConfig, args.config, args.overrides)
    if args.out:
        config = replace(config, out=Path(args.out))
    if args.data:
        roots = tuple(Path(root) for root in args.data)
        config = replace(config, train=replace(config.train, data=roots))
    if config.train.eyes_from is not None:
        model_folder(str(config.train.eyes_from))
    for name, entry in config.models.items():
        if entry.policy is None:
            training(config, name, config.seeds[0])  # refuses a wrong change now
    return config


def payload(config: "PlannerEvalConfig", summary: Mapping[str, Any]) -> dict[str, Any]:
    """What --json writes."""
    from data_engine.planner_table import PICTURE, TABLE

    return {"tables": config.out / TABLE, "picture": config.out / PICTURE, **summary}


def _print(summary: Mapping[str, Any]) -> None:
    rows = [
        [
            row["suite"],
            row["model"],
            row["drives"],
            100 * row["success"]["mean"],
            row["driving_score"]["mean"],
            f"{row['driving_score']['low']:.1f}-{row['driving_score']['high']:.1f}",
        ]
        for row in summary["closed_loop"]
    ]
    columns = ["suite", "model", "drives", "success %", "driving score", "95 %"]
    output.print_table("closed loop, light simulator", columns, rows or [["(nothing yet)", *[None] * 5]])
    rows = [
        [
            row["suite"],
            row["baseline"],
            row["pairs"],
            row["driving_score_change"]["mean"],
            f"{row['driving_score_change']['low']:+.1f} to {row['driving_score_change']['high']:+.1f}",
            row["verdict"],
        ]
        for row in summary["paired"]
    ]
    columns = ["suite", "against", "pairs", "driving score", "95 %", "is"]
    output.print_table(
        f"{summary['ours']} against the others", columns, rows or [["(nothing yet)", *[None] * 5]]
    )
