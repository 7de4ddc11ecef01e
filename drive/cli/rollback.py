"""`drive rollback`: make the previous champion the champion again."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from drive.cli import output

if TYPE_CHECKING:
    from data_engine.registry import Version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive rollback`."""
    parser.add_argument(
        "--workspace", default="runs", metavar="DIR", help="registry and nights; default: runs"
    )
    parser.add_argument(
        "--tracking-uri", default=None, metavar="URI", help="MLflow store; default: the workspace's"
    )
    parser.add_argument(
        "--model", default="nightdrive", metavar="NAME", help="registered model; default: nightdrive"
    )


def run(args: argparse.Namespace) -> int:
    """Move the alias; exit code 2 if there is nothing to go back to or a nightly is running."""
    from data_engine.lock import nightly_lock
    from data_engine.registry import open_registry

    workspace = Path(args.workspace)
    registry = open_registry(workspace, args.tracking_uri, args.model)
    with nightly_lock(workspace):
        old, new = registry.rollback()
    print(f"champion: version {old.version} ({old.model_id}) -> version {new.version} ({new.model_id})")
    output.finish(args, {"champion_before": _plain(old), "champion_after": _plain(new)})
    return 0


def _plain(version: "Version") -> dict[str, object]:
    return {"version": version.version, "id": version.model_id}
