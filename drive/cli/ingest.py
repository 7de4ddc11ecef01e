"""`drive ingest`: bring nuScenes, or logs that py123d has converted, into the log store."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.logs import IngestReport

SHOWN_SCENES = 40
OUT = "runs/logs"
OPTIONS = {"nuscenes": ("dataroot", "version", "out"), "py123d": ("root",)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive ingest`: one group per kind of source."""
    parser.usage = "drive ingest nuscenes --dataroot DIR --version NAME [--out DIR] [--json FILE]\n"
    parser.usage += "       drive ingest py123d --root DIR [--json FILE]"
    parser.add_argument("source", choices=tuple(OPTIONS), help="where the logs come from")
    nuscenes = parser.add_argument_group(
        "drive ingest nuscenes", "Converts nuScenes tables and sensor files into logs."
    )
    nuscenes.add_argument(
        "--dataroot", metavar="DIR", help="folder that holds v1.0-mini/, samples/, can_bus/ (needed)"
    )
    nuscenes.add_argument("--version", metavar="NAME", help="table folder, e.g. v1.0-mini (needed)")
    nuscenes.add_argument("--out", metavar="DIR", help=f"root of the new logs (default: {OUT})")
    py123d = parser.add_argument_group(
        "drive ingest py123d", "Reads logs that py123d has converted; they stay where they are."
    )
    py123d.add_argument("--root", metavar="DIR", help="folder with the logs (needed)")


def run(args: argparse.Namespace) -> int:
    """Ingest, say what is missing, then what arrived; 1 if less than declared or not all of it finite."""
    _check(args)
    from drive.cli import output
    from drive.logs import ingest_nuscenes, ingest_py123d

    if args.source == "nuscenes":
        out = Path(args.out or OUT)
        output.check_folder("--out", out)
        report = ingest_nuscenes(Path(args.dataroot), args.version, out)
    else:
        report = ingest_py123d(Path(args.root))
    _print(report)
    output.finish(args, payload(report))
    return 0 if all(scene.complete for scene in report.scenes) else 1


def _check(args: argparse.Namespace) -> None:
    own = OPTIONS[args.source]
    absent = [f"--{name}" for name in own if name != "out" and not getattr(args, name)]
    if absent:
        raise UserError(f"drive ingest {args.source}: needs {' and '.join(absent)}")
    others = {name for names in OPTIONS.values() for name in names} - set(own)
    foreign = sorted(f"--{name}" for name in others if getattr(args, name))
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
            "non_finite": sum(scene.non_finite for scene in report.scenes),
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
            samples = f"{scene.samples} of {scene.declared_samples} samples"
            boxes = f"{scene.boxes} of {scene.declared_boxes} boxes"
            print(f"error: {scene.log_id}: {samples}, {boxes}, {scene.non_finite} poses not finite")
    totals = f"{len(report.scenes)} scenes / {report.samples:,} samples / {report.boxes:,} boxes"
    print(f"\n{totals} in {report.out_root} ({report.converted} converted now)")


def _gap(pair: tuple[int, int] | None) -> str:
    return "-" if pair is None else f"{pair[1] - pair[0]}/{pair[1]}"


def short(channel: str) -> str:
    """Short column head, e.g. "CAM FL" for CAM_FRONT_LEFT."""
    sensor, _, place = channel.partition("_")
    return f"{sensor} {''.join(word[0] for word in place.split('_'))}" if place else channel
