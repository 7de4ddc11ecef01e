"""`drive check`: say what is missing or wrong in a folder of logs before any work starts on it."""

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drive.logs import CheckReport, Fault

SHOWN = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive check`."""
    parser.add_argument("root", metavar="LOGROOT", help="folder of logs, or a raw nuScenes folder")
    parser.add_argument("--all", action="store_true", help=f"print every finding, not the first {SHOWN}")


def run(args: argparse.Namespace) -> int:
    """Print missing files first, then other faults, then what is tolerated; 1 if there are faults."""
    from drive.cli import output
    from drive.logs import check_logs

    report = check_logs(Path(args.root))
    _print(report, None if args.all else SHOWN)
    output.finish(args, payload(report))
    return 0 if report.clean else 1


def payload(report: "CheckReport") -> dict[str, Any]:
    """The report with its totals, as written by --json."""
    return {
        "root": report.root,
        "kind": report.kind,
        "clean": report.clean,
        "totals": {
            "logs": len(report.logs),
            "faults": len(report.faults),
            "notes": len(report.notes),
            "by_kind": dict(Counter(fault.kind for fault in (*report.faults, *report.notes))),
        },
        "faults": report.faults,
        "notes": report.notes,
        "logs": report.logs,
    }


def _print(report: "CheckReport", limit: int | None) -> None:
    from drive.cli.ingest import short
    from drive.cli.output import print_table

    channels = sorted({name for log in report.logs for name in log.channels})
    rows = [[log.log_id, *(_share(log.channels.get(name)) for name in channels)] for log in report.logs]
    print_table("stored/declared", ["log", *(short(name) for name in channels)], rows[:limit])
    missing = [fault for fault in report.faults if fault.kind == "missing_files"]
    others = [fault for fault in report.faults if fault.kind != "missing_files"]
    if missing:
        _print_missing(report, missing)
    for title, found in (("faults", others), ("tolerated", report.notes)):
        if found:
            table = [[f.log_id, f.channel, f.kind, f.row if f.row >= 0 else None, f.detail, Path(f.file).name]
                     for f in found[:limit]]  # fmt: skip
            print_table(f"{title}: {len(found)}", ["log", "channel", "kind", "row", "detail", "file"], table)
            if limit and len(found) > limit:
                print(f"  ... and {len(found) - limit} more; --all prints them, --json FILE writes them")
    kinds = Counter(fault.kind for fault in report.faults)
    summary = ", ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "clean"
    print(f"\n{report.root} ({report.kind}): {len(report.logs)} logs; {summary}")


def _print_missing(report: "CheckReport", missing: list["Fault"]) -> None:
    from drive.cli.output import print_table

    rows = []
    for channel in sorted({fault.channel for fault in missing}):
        faults = [fault for fault in missing if fault.channel == channel]
        rows.append([channel, len(faults), len(report.logs), faults[0].detail])
    print_table(
        "missing sensor files", ["channel", "logs with gaps", "logs", f"in {missing[0].log_id}"], rows
    )


def _share(pair: tuple[int, int] | None) -> str:
    return "-" if pair is None else f"{pair[0]}/{pair[1]}"
