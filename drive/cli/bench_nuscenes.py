"""`drive bench nuscenes`: L2 and collisions of a policy on recorded driving, beside blind floors."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drive.cli import output
from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.bench.report import BenchReport, PolicyRow
    from drive.score.openloop import HorizonValues

OPTIONS = ("dataroot", "version", "policy", "split", "images", "command_hint")
VERSION = "v1.0-mini"
HORIZONS = ("1 s", "2 s", "3 s")
PARTIAL = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive bench nuscenes`."""
    parser.add_argument("--dataroot", metavar="DIR", help="nuscenes: folder with v1.0-mini or v1.0-trainval")
    parser.add_argument("--version", help="nuscenes: table folder (default: v1.0-mini)")
    parser.add_argument(
        "--policy",
        help="nuscenes: constant_velocity, go_straight, ego_mlp, base (the shipped model), a model folder, "
        "or models:/nightdrive@champion",
    )
    parser.add_argument(
        "--split", help="nuscenes: mini_val (default), mini_train, all; val (default) or train of trainval"
    )
    parser.add_argument(
        "--images",
        choices=("camera", "rendered"),
        help="nuscenes: camera = recorded CAM_FRONT (default); rendered = stand-in pictures from boxes and "
        "drivable area",
    )
    parser.add_argument(
        "--command-hint",
        choices=("oracle", "none"),
        help="nuscenes: route hint for the policy: oracle = from the recorded future (default), none = "
        "straight on",
    )


def run(args: argparse.Namespace) -> int:
    """Run the benchmark; 0 when every sample has a prediction, 1 when some failed."""
    from drive.bench.nuscenes_tables import check_request
    from drive.cli.policies import policy_factory

    for option in ("dataroot", "policy"):
        if getattr(args, option) is None:
            raise UserError(f"drive bench nuscenes: give --{option} (see drive bench --help)")
    version = args.version or VERSION
    split = check_request(args.dataroot, version, args.split)
    policy = policy_factory(args.policy)
    from drive.bench.nuscenes import bench_nuscenes

    report = bench_nuscenes(
        args.dataroot,
        version,
        policy(),
        split,
        images=args.images or "camera",
        route=args.command_hint or "oracle",
        announce=lambda missing: _print_missing(args.dataroot, missing),
    )
    _print_report(report)
    output.finish(args, payload(report))
    failed = report.rows[0].failed
    if failed:
        print(f"incomplete: {failed} of {report.evaluated} predictions failed")
    return PARTIAL if failed else 0


def _print_missing(dataroot: str, missing: Mapping[str, tuple[int, int]]) -> None:
    gone = {channel: counts for channel, counts in missing.items() if counts[0]}
    if not gone:
        print(f"sensor files: all {sum(n for _, n in missing.values())} key-frame files present")
        return
    print(f"sensor files missing under {dataroot} (key frames of the evaluated scenes):")
    for channel, (absent, expected) in gone.items():
        print(f"  {channel:<17} {absent} of {expected}")


def _print_report(report: "BenchReport") -> None:
    print(
        f"\n{report.dataset} {report.version} {report.split}: {report.samples} samples, "
        f"{report.without_history} without an earlier key frame, "
        f"{report.without_future} without a full 3 s future, {report.evaluated} evaluated"
    )
    print(f"protocol: {report.protocol}")
    print(f"ego_mlp trained on: {report.floor_training}")
    at, up_to = [f"at {h}" for h in HORIZONS], [f"up to {h}" for h in HORIZONS]
    columns = ["policy", "command", "images", "n 1/2/3 s", "failed", *at, *up_to]
    _print_rows("L2 [m], strict", columns, report, lambda row: row.l2_m, 1.0)
    _print_rows("Collisions [% of steps], strict", columns, report, lambda row: row.collision, 100.0)
    print(
        f"\nthe recorded ego itself overlaps a box in {report.truth_collision_steps} of "
        f"{report.truth_steps} steps; without those steps:"
    )
    _print_rows(
        "Collisions [% of steps], strict, clean steps",
        columns,
        report,
        lambda row: row.collision_clean,
        100.0,
    )
    if any(row.failed for row in report.rows):
        _print_rows("L2 [m], valid predictions only", columns, report, lambda row: row.l2_valid_m, 1.0)
        _print_rows(
            "Collisions [%], valid predictions only", columns, report, lambda row: row.collision_valid, 100.0
        )
    else:
        print("\nno prediction failed: the means over valid predictions equal the strict ones")


def _print_rows(title: str, columns: list[str], report: "BenchReport", pick: Any, scale: float) -> None:
    def line(row: "PolicyRow") -> list[Any]:
        values: HorizonValues = pick(row)
        counts = "/".join(str(n) for n in values.n_at)
        numbers = [float(v) * scale for v in (*values.at, *values.up_to)]
        return [row.policy, row.command, row.images, counts, row.failed, *numbers]

    output.print_table(title, columns, [line(row) for row in report.rows])


def payload(report: "BenchReport") -> dict[str, Any]:
    """The report as stable JSON keys (docs/cli.md)."""
    return {
        "dataset": report.dataset,
        "dataset_version": report.version,
        "split": report.split,
        "protocol": report.protocol,
        "samples": {
            "total": report.samples,
            "without_history": report.without_history,
            "without_future": report.without_future,
            "evaluated": report.evaluated,
        },
        "missing_files": {c: {"missing": m, "expected": n} for c, (m, n) in report.missing_files.items()},
        "truth_collision_steps": report.truth_collision_steps,
        "truth_steps": report.truth_steps,
        "ego_mlp_trained_on": report.floor_training,
        "rows": [_row_payload(row) for row in report.rows],
        "columns": report.columns,
        "truth_collided": report.truth_collided,
    }


def _row_payload(row: "PolicyRow") -> dict[str, Any]:
    head = {k: getattr(row, k) for k in ("policy", "command", "images", "planned", "failed")}
    names = ("l2_m", "l2_valid_m", "collision", "collision_valid", "collision_clean")
    return head | {name: _horizons(getattr(row, name)) for name in names}


def _horizons(values: "HorizonValues") -> dict[str, dict[str, float]]:
    keys = [h.replace(" ", "") for h in HORIZONS]
    return {
        name: dict(zip(keys, getattr(values, name).tolist(), strict=True))
        for name in ("at", "up_to", "n_at", "n_up_to")
    }
