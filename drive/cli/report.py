"""`drive report`: build a night's report again, or one page about the last nights."""

import argparse
from pathlib import Path

from drive.cli import output
from drive.contracts import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive report`."""
    parser.add_argument(
        "--date", default=None, metavar="NIGHT", help="e.g. 2026-11-30 or 2026-11-30-2; default: the newest"
    )
    parser.add_argument("--last", type=int, default=None, metavar="N",
                        help="one page about the last N finished nights instead")  # fmt: skip
    parser.add_argument(
        "--workspace", default="runs", metavar="DIR", help="registry and nights; default: runs"
    )


def run(args: argparse.Namespace) -> int:
    """Write the report; exit code 2 if there is no such finished night."""
    from data_engine.night import NIGHTS, REPORT, SUMMARY, latest_night, open_night
    from data_engine.retention import NOTE

    workspace = Path(args.workspace)
    if args.last is not None:
        return _trend(args, workspace)
    folder = workspace / NIGHTS / args.date if args.date else latest_night(workspace)
    if folder is None or not (folder / SUMMARY).exists():
        wanted = args.date or "any night"
        raise UserError(f"{workspace / NIGHTS}: no finished night ({wanted}); run `drive nightly` first")
    if (folder / NOTE).exists():
        raise UserError(f"{folder}: its drives were pruned; {folder / REPORT} is the report of then")
    from data_engine.nightly import write_report

    night = open_night(folder)
    summary = night.summary() or {}
    path = write_report(night, summary)
    print(f"night {summary['night']}: {summary['headline']}\nreport: {path}")
    output.finish(args, {"night": summary["night"], "decision": summary["decision"], "report": str(path)})
    return 0


def _trend(args: argparse.Namespace, workspace: Path) -> int:
    """Write WORKSPACE/report.html about the last nights."""
    from data_engine.cases import load_store
    from data_engine.night import NIGHTS, REPORT, finished_nights
    from data_engine.trend import render_trend

    if args.last < 1 or args.date is not None:
        raise UserError("--last: give a number of nights, at least 1, and no --date with it")
    folders = finished_nights(workspace)[-args.last :]
    if not folders:
        raise UserError(f"{workspace / NIGHTS}: no finished night; run `drive nightly` first")
    out = workspace / REPORT
    rows = render_trend(folders, load_store(workspace), out)
    columns = ("night", "decision", "cases", "score_before", "score_after", "fix_rate", "nbt")
    output.print_table(f"{len(rows)} nights", columns, [[row[c] for c in columns] for row in rows])
    print(f"report: {out}")
    output.finish(args, {"nights": rows, "report": str(out)})
    return 0
