"""`drive ingest`: bring nuScenes, or logs that py123d has converted, into the log store."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.logs import IngestReport

SHOWN_SCENES = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive ingest`."""
    parser.add_argument("source", choices=["nuscenes", "py123d"], help="where the logs come from")
    parser.add_argument(
        "--dataroot", metavar="DIR", help="nuscenes: folder that holds v1.0-mini/, samples/, can_bus/"
    )
    parser.add_argument("--version", metavar="NAME", help="nuscenes: table folder, e.g. v1.0-mini")
    parser.add_argument(
        "--out", metavar="DIR", default="runs/logs", help="nuscenes: root of logs (default: runs/logs)"
    )
    parser.add_argument(
        "--root", metavar="DIR", help="py123d: folder with the converted logs, used where they are"
    )


def run(args: argparse.Namespace) -> int:
    """Ingest, say what is missing, then what arrived; 1 if less arrived than the tables declare."""
    _check(args)
    from drive.cli import output
    from drive.logs import ingest_nuscenes, ingest_py123d

    if args.source == "nuscenes":
        report = ingest_nuscenes(Path(args.dataroot), args.version, Path(args.out))
    else:
        report = ingest_py123d(Path(args.root))
    _print(report)
    output.finish(args, payload(report))
    return 0 if all(scene.complete for scene in report.scenes) else 1


def _check(args: argparse.Namespace) -> None:
    needed = {"nuscenes": ("dataroot", "version"), "py123d": ("root",)}[args.source]
    absent = [f"--{name}" for name in needed if not getattr(args, name)]
    if absent:
        raise UserError(f"drive ingest {args.source}: needs {' and '.join(absent)}")
    foreign = [
        f"--{name}" for name in ("dataroot", "version", "root") if name not in needed and getattr(args, name)
    ]
    if foreign:
        raise UserError(f"drive ingest {args.source}: does not take {' and '.join(foreign)}")


def payload(report: "IngestReport") -> dict[str, Any]:
    """The report with its totals, as written by --json."""
    present, declared = report.sensor_files
    return {
        "dataset": report.dataset,
        "version_of_dataset": report.version,
        "dataroot": report.dataroot,
        "log_root": report.out_root,
        "totals": {
            "scenes": len(report.scenes),
            "samples": report.samples,
            "boxes": report.boxes,
            "sensor_files_present": present,
            "sensor_files_declared": declared,
            "converted": report.converted,
        },
        "missing_sensor_files": [
            {"log_id": scene.log_id, "channel": channel, "present": have, "declared": want}
            for scene in report.scenes
            for channel, (have, want) in scene.sensor_files.items()
            if have < want
        ],
        "without_can_bus": list(report.without_can_bus),
        "map_expansion": report.map_expansion,
        "absent_tables": list(report.absent_tables),
        "scenes": report.scenes,
    }


def _print(report: "IngestReport") -> None:
    from drive.cli.output import print_table

    present, declared = report.sensor_files
    channels = sorted({channel for scene in report.scenes for channel in scene.sensor_files})
    gaps = [
        scene for scene in report.scenes if any(have < want for have, want in scene.sensor_files.values())
    ]
    if gaps:
        rows = [
            [scene.log_id, *(_gap(scene.sensor_files.get(channel)) for channel in channels)] for scene in gaps
        ]
        title = f"missing sensor files (missing/declared): {declared - present} of {declared}"
        print_table(title, ["log", *(short(channel) for channel in channels)], rows[:SHOWN_SCENES])
        if len(rows) > SHOWN_SCENES:
            print(f"  ... and {len(rows) - SHOWN_SCENES} more logs; --json FILE lists them all")
    if report.without_can_bus:
        names = ", ".join(report.without_can_bus[:20])
        count = f"{len(report.without_can_bus)} of {len(report.scenes)}"
        print(f"\nno CAN bus in {count} logs (ego speed from earlier poses): {names}")
    if report.dataset == "nuscenes" and report.version != "py123d" and not report.map_expansion:
        print("no map expansion: the logs carry no lanes")
    if report.absent_tables:
        print(f"optional tables absent: {', '.join(report.absent_tables)}")
    table = [[s.log_id, s.split, s.samples, s.boxes, "yes" if s.can_bus else "no"] for s in report.scenes]
    print_table("logs", ["log", "split", "samples", "boxes", "measured motion"], table)
    for scene in report.scenes:
        if not scene.complete:
            print(f"error: {scene.log_id}: {scene.samples} of {scene.declared_samples} samples, "
                  f"{scene.boxes} of {scene.declared_boxes} boxes")  # fmt: skip
    totals = f"{len(report.scenes)} scenes / {report.samples:,} samples / {report.boxes:,} boxes"
    print(f"\n{totals} in {report.out_root} ({report.converted} converted now)")


def _gap(pair: tuple[int, int] | None) -> str:
    return "-" if pair is None else f"{pair[1] - pair[0]}/{pair[1]}"


def short(channel: str) -> str:
    """Short column head, e.g. "CAM FL" for CAM_FRONT_LEFT."""
    sensor, _, place = channel.partition("_")
    return f"{sensor} {''.join(word[0] for word in place.split('_'))}" if place else channel
