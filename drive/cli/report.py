"""`drive report`: build a night's report.html again from its folder, and say where it is."""

import argparse
from pathlib import Path

from drive.cli import output
from drive.contracts import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive report`."""
    parser.add_argument(
        "--date", default=None, metavar="NIGHT", help="e.g. 2026-11-30 or 2026-11-30-2; default: the newest"
    )
    parser.add_argument(
        "--workspace", default="runs", metavar="DIR", help="registry and nights; default: runs"
    )


def run(args: argparse.Namespace) -> int:
    """Write the report; exit code 2 if there is no such finished night."""
    from data_engine.night import NIGHTS, SUMMARY, latest_night, open_night

    workspace = Path(args.workspace)
    folder = workspace / NIGHTS / args.date if args.date else latest_night(workspace)
    if folder is None or not (folder / SUMMARY).exists():
        wanted = args.date or "any night"
        raise UserError(f"{workspace / NIGHTS}: no finished night ({wanted}); run `drive nightly` first")
    from data_engine.nightly import write_report

    night = open_night(folder)
    summary = night.summary() or {}
    path = write_report(night, summary)
    print(f"night {summary['night']}: {summary['headline']}\nreport: {path}")
    output.finish(args, {"night": summary["night"], "decision": summary["decision"], "report": str(path)})
    return 0
