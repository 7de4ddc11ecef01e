"""`drive bench nuscenes`: L2 and collisions of a policy or of predictions, beside blind floors."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.cli import output
from drive.cli.bench_save import save
from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.bench.cases import SampleSet
    from drive.bench.predictions import Coverage
    from drive.bench.report import BenchReport, PolicyRow
    from drive.score.openloop import HorizonValues

OPTIONS = (
    "dataroot", "version", "policy", "predictions", "split", "samples", "images", "command_hint", "off_road",
    "ego_state",
)  # fmt: skip
VERSION, STANDARD = "v1.0-mini", "standard"
HORIZONS = ("1 s", "2 s", "3 s")
FAILED, EXIT_PARTIAL = 1, 3


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
        "--predictions", metavar="FILE", help="nuscenes: .json, .npz or .parquet of any planner, see the docs"
    )
    parser.add_argument(
        "--split", help="nuscenes: mini_val (default), mini_train, all; val (default) or train of trainval"
    )
    parser.add_argument(
        "--samples",
        metavar="SET",
        help="nuscenes: standard (default), stp3, every, or a JSON file with sample tokens",
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
    parser.add_argument(
        "--ego-state",
        choices=("auto", "can", "poses"),
        help="nuscenes: speed, acceleration and yaw rate of now: auto (default) = CAN bus in scenes that "
        "have it, else key-frame poses; can, poses = one of them everywhere",
    )
    parser.add_argument(
        "--off-road",
        action="store_true",
        help="nuscenes: also count steps off the drivable area (reads maps/, some seconds a map)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the benchmark; 0 if every sample has a prediction, 1 if a policy failed, 3 if some are missing."""
    from drive.bench.nuscenes_tables import check_request

    if args.dataroot is None:
        raise UserError("drive bench nuscenes: give --dataroot (see drive bench --help)")
    if (args.policy is None) == (args.predictions is None):
        raise UserError("drive bench nuscenes: give either --policy or --predictions")
    version = args.version or VERSION
    split = check_request(args.dataroot, version, args.split)
    report = _policy(args, version, split) if args.policy else _predictions(args, version, split)
    _print_report(report)
    if args.out is not None:
        from drive.bench.result import open_loop_table

        table = open_loop_table(report)
        save(args, replace(table, model=args.name or table.model))
    output.finish(args, payload(report))
    failed = report.rows[0].failed
    if failed:
        print(f"incomplete: {failed} of {report.evaluated} predictions failed or are missing")
    if report.coverage is None:
        partial = report.sample_set.absent > 0
        return FAILED if failed else EXIT_PARTIAL if partial and not args.allow_partial else 0
    partial = report.coverage.covered < report.coverage.planned or report.sample_set.absent > 0
    return EXIT_PARTIAL if partial and not args.allow_partial else 0


def _policy(args: argparse.Namespace, version: str, split: str) -> "BenchReport":
    from drive.cli.policies import policy_factory

    policy = policy_factory(args.policy)
    from drive.bench.nuscenes import bench_nuscenes

    return bench_nuscenes(
        args.dataroot,
        version,
        policy(),
        split,
        images=args.images or "camera",
        route=args.command_hint or "oracle",
        announce=lambda missing: _print_missing(args.dataroot, missing),
        samples=args.samples or STANDARD,
        families=True,
        off_road=args.off_road,
        ego_state=args.ego_state or "auto",
    )


def _predictions(args: argparse.Namespace, version: str, split: str) -> "BenchReport":
    from drive.bench.predictions import read_predictions

    for option in ("images", "command_hint"):
        if getattr(args, option) is not None:
            raise UserError(
                f"--{option.replace('_', '-')} is for --policy; a file says what it was made with"
            )
    predictions = read_predictions(Path(args.predictions))
    from drive.bench.nuscenes import bench_predictions

    return bench_predictions(
        args.dataroot,
        version,
        predictions,
        split,
        samples=args.samples or STANDARD,
        allow_partial=args.allow_partial,
        announce=_print_coverage,
        off_road=args.off_road,
        ego_state=args.ego_state or "auto",
    )


def _print_coverage(chosen: "SampleSet", found: "Coverage") -> None:
    partial = found.covered < found.planned or chosen.absent > 0
    print(
        f"{'PARTIAL: ' if partial else ''}{found.covered} of {found.planned} samples have a prediction: "
        f"{found.missing} missing and {found.non_finite} not finite (each counts as failed); left out: "
        f"{found.outside} of samples outside the set, {found.foreign} foreign tokens"
    )


def _print_missing(dataroot: str, missing: Mapping[str, tuple[int, int]]) -> None:
    gone = {channel: counts for channel, counts in missing.items() if counts[0]}
    if not gone:
        print(f"sensor files: all {sum(n for _, n in missing.values())} key-frame files present")
        return
    print(f"sensor files missing under {dataroot} (key frames of the evaluated scenes):")
    for channel, (absent, expected) in gone.items():
        print(f"  {channel:<17} {absent} of {expected}")


def _print_report(report: "BenchReport") -> None:
    chosen = report.sample_set
    print(
        f"\n{report.dataset} {report.version} {report.split}: {report.samples} samples, "
        f"{report.without_history} with too few earlier key frames, "
        f"{report.without_future} without a full 3 s future, {report.evaluated} evaluated"
    )
    absent = f", PARTIAL: {chosen.absent} of {chosen.planned} not in this split" if chosen.absent else ""
    print(f"samples: {chosen.name} ({chosen.words}), token hash {chosen.token_hash}{absent}")
    print(f"protocol: {report.protocol}")
    print(f"ego_mlp trained on: {report.floor_training}; ego state: {report.ego_state}")
    at, up_to = [f"at {h}" for h in HORIZONS], [f"up to {h}" for h in HORIZONS]
    columns = ["policy", "command", "images", "n 1/2/3 s", "failed", *at, *up_to]
    _print_rows("L2 [m], strict", columns, report, lambda row: row.l2_m, 1.0)
    _print_rows("Collisions [% of steps], strict", columns, report, lambda row: row.collision, 100.0)
    print(
        f"\nthe recorded ego itself overlaps a box in {report.truth_collision_steps} of "
        f"{report.truth_steps} steps; without those steps (recommended):"
    )
    title = "Collisions [% of steps], strict, clean steps"
    _print_rows(title, columns, report, lambda row: row.collision_clean, 100.0)
    _print_families(report)
    if report.truth_off_road is not None:
        own = int(report.truth_off_road[report.columns[report.rows[0].policy].counted].sum())
        print(f"\nthe recorded ego itself is off the drivable area in {own} steps; without those steps:")
        title = "Off the drivable area [% of steps], strict, clean steps"
        _print_rows(title, columns, report, lambda row: row.off_road_clean, 100.0)
    if any(row.failed for row in report.rows):
        _print_rows("L2 [m], valid predictions only", columns, report, lambda row: row.l2_valid_m, 1.0)
        title = "Collisions [%], valid predictions only"
        _print_rows(title, columns, report, lambda row: row.collision_valid, 100.0)
    else:
        print("\nno prediction failed: the means over valid predictions equal the strict ones")
    _print_intervals(report)
    _print_groups(report)


def _print_families(report: "BenchReport") -> None:
    """Published ways to count collisions, each in its own reading."""
    from drive.bench.occupancy import FAMILIES

    lines = []
    for row in report.rows:
        for name, family in FAMILIES.items():
            if name in row.families:
                both = [getattr(row.families[key], family.reading) for key in (name, f"{name}_all")]
                reading = "at" if family.reading == "at" else "up to"
                lines.append([row.policy, name, reading, *(100.0 * float(v) for v in (*both[0], *both[1]))])
    if lines:
        columns = ["policy", "metric", "reading", *HORIZONS, *(f"{h}, all" for h in HORIZONS)]
        output.print_table("Collisions [%] as published metrics count them", columns, lines)
        print('  the recorded ego\'s own collisions count as none, as published; "all" counts them')


def _print_intervals(report: "BenchReport") -> None:
    lines: list[list[Any]] = []
    for row in report.rows:
        for label, values, scale in (
            ("L2 up to 3 s [m]", row.l2_interval, 1.0),
            ("collisions up to 3 s [%], clean", row.collision_interval, 100.0),
        ):
            if "up_to_3s" in values:
                one = values["up_to_3s"]
                lines.append([row.policy, label, *(scale * v for v in (one.mean, one.low, one.high))])
    scenes = len({group.name for group in report.groups if group.kind == "scene"})
    output.print_table(
        f"95 % intervals, {scenes} scenes resampled", ["policy", "metric", "mean", "low", "high"], lines
    )


def _print_groups(report: "BenchReport") -> None:
    rows = [
        [
            group.kind,
            group.name,
            group.n,
            *(float(v) for v in group.l2_m.up_to),
            100.0 * float(group.collision_clean.up_to[-1]),
        ]
        for group in report.groups
    ]
    columns = ["by", "name", "n", *(f"L2 up to {h}" for h in HORIZONS), "collisions up to 3 s [%]"]
    output.print_table(f"{report.rows[0].policy}, by command and by scene", columns, rows)


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
        "ego_state": report.ego_state,
        "sample_set": report.sample_set,
        "coverage": report.coverage,
        "rows": [_row_payload(row) for row in report.rows],
        "groups": [
            {
                "kind": group.kind,
                "name": group.name,
                "n": group.n,
                "l2_m": _horizons(group.l2_m),
                "collision_clean": _horizons(group.collision_clean),
            }
            for group in report.groups
        ],
        "columns": report.columns,
        "truth_collided": report.truth_collided,
        "truth_off_road": report.truth_off_road,
    }


def _row_payload(row: "PolicyRow") -> dict[str, Any]:
    head = {k: getattr(row, k) for k in ("policy", "command", "images", "planned", "failed")}
    names = ("l2_m", "l2_valid_m", "collision", "collision_valid", "collision_clean")
    numbers: dict[str, Any] = {name: _horizons(getattr(row, name)) for name in names}
    for name in ("off_road", "off_road_clean"):
        value = getattr(row, name)
        numbers[name] = None if value is None else _horizons(value)
    numbers["families"] = {name: _horizons(values) for name, values in row.families.items()}
    for name in ("l2_interval", "collision_interval"):
        numbers[name] = {key: asdict(value) for key, value in getattr(row, name).items()}
    return head | numbers


def _horizons(values: "HorizonValues") -> dict[str, dict[str, float]]:
    keys = [h.replace(" ", "") for h in HORIZONS]
    return {
        name: dict(zip(keys, getattr(values, name).tolist(), strict=True))
        for name in ("at", "up_to", "n_at", "n_up_to")
    }
