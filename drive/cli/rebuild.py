"""`drive rebuild`: train a registered model again from its lineage and compare the weights."""

import argparse
from pathlib import Path

from drive.cli import output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive rebuild`."""
    parser.add_argument("version", type=int, metavar="VERSION", help="number of a registered version")
    parser.add_argument(
        "--workspace", default="runs", metavar="DIR", help="registry and nights; default: runs"
    )
    parser.add_argument(
        "--tracking-uri", default=None, metavar="URI", help="MLflow store; default: the workspace's"
    )
    parser.add_argument(
        "--model", default="nightdrive", metavar="NAME", help="registered model; default: nightdrive"
    )
    parser.add_argument("--out", default=None, metavar="DIR", help="default: WORKSPACE/rebuild/VERSION")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 if the weights are equal bit for bit, 1 if not, 2 for bad input."""
    from data_engine.rebuild import rebuild
    from data_engine.registry import open_registry

    workspace = Path(args.workspace)
    registry = open_registry(workspace, args.tracking_uri, args.model)
    out = Path(args.out) if args.out else workspace / "rebuild" / str(args.version)
    output.check_folder("--out", out)
    made = rebuild(registry, args.version, out)
    word = "equal" if made.same else "NOT equal"
    print(f"version {made.version}: weights {word} ({made.registered[:12]} and {made.rebuilt[:12]})")
    print(f"model: {made.folder}")
    numbers = {"registered": made.registered, "rebuilt": made.rebuilt, "same": made.same}
    output.finish(args, {"rebuilt_version": made.version, "model": str(made.folder), **numbers})
    return 0 if made.same else 1
