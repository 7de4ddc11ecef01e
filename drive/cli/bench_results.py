"""`drive bench results`: results files of one run merged and scored over planned routes."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.cli import output
from drive.cli.bench_save import save

if TYPE_CHECKING:
    from drive.bench.closed_loop import ClosedLoop
    from drive.logs.smoothness import Smoothness
    from drive.score.bootstrap import Interval
    from drive.score.merge import Merged, ResultFile

OPTIONS = ("routes", "planned", "drives", "duplicates")
EXIT_PARTIAL = 3
LABELS = {
    "driving_score": "driving score, as recorded",
    "ds_2_0": "driving score 2.0, recomputed",
    "ds_2_1": "driving score 2.1, recomputed",
    "ds_2_0_min_speed": "driving score 2.0, slow driving counted",
    "ds_2_1_min_speed": "driving score 2.1, slow driving counted",
    "success_rate": "success rate",
    "completion": "route completion %",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive bench results`."""
    parser.add_argument("--routes", metavar="FILE.xml", help="results: the route file that was driven")
    parser.add_argument(
        "--planned", type=int, metavar="N", help="results: number of planned routes, if no file says it"
    )
    parser.add_argument(
        "--drives", metavar="DIR", help="results: recorded drives, for the comfort (default: logs beside)"
    )
    parser.add_argument(
        "--duplicates",
        choices=("best", "worst"),
        help="results: which of several different records of a route counts (default: refuse them)",
    )


def run(args: argparse.Namespace) -> int:
    """Merge, score, print; 3 if a planned route has no record or a file is cut, unless that is allowed."""
    from drive.bench.closed_loop import closed_loop
    from drive.cli.score import planned_routes, run_smoothness_of
    from drive.score.merge import merge, read_result_file

    files = [read_result_file(Path(name), salvage=args.allow_partial) for name in args.files]
    merged = merge(files, args.duplicates or "refuse")
    where = ", ".join(args.files)
    planned, shares = planned_routes(merged.results, where, args.routes, args.planned)
    result = closed_loop(merged, planned, shares)
    smooth = run_smoothness_of(args.drives, Path(args.files[0]), merged.results)
    print_coverage(files, merged, result)
    _print(merged, result, smooth)
    if args.out is not None:
        from drive.bench.cases import token_hash
        from drive.bench.result import closed_loop_table

        known = {} if isinstance(planned, int) else planned
        suite = f"{result.score.suite.planned} planned routes" + (
            f" {token_hash(list(known))}" if known else ""
        )
        name = args.name or Path(args.files[0]).stem
        save(args, closed_loop_table(result, merged.results.protocol, name, suite, bool(known)))
    output.finish(args, payload(files, merged, result, smooth))
    partial = bool(result.score.suite.missing or merged.cut)
    return EXIT_PARTIAL if partial and not args.allow_partial else 0


def print_coverage(files: "list[ResultFile]", merged: "Merged", result: "ClosedLoop") -> None:
    """What was planned, run, failed, missing, doubled, unplanned, cut: before any score."""
    suite = result.score.suite
    partial = "PARTIAL: " if suite.missing or merged.cut else ""
    print(
        f"{partial}{suite.recorded} of {suite.planned} planned routes have a record: {result.failed} failed, "
        f"{suite.missing} missing (each counts 0), {result.score.unplanned} unplanned (left out), "
        f"{merged.copies} copies, {len(merged.conflicts)} with different records"
    )
    for file in files:
        note = ", CUT: the records before the cut count" if file.cut else ""
        print(f"  {file.name}: {len(file.results.records)} records{note}")


def _print(merged: "Merged", result: "ClosedLoop", smooth: "Smoothness | None") -> None:
    from drive.cli.score import print_abilities

    stated, rows = merged.results.stated, []
    for name, label in LABELS.items():
        value = result.means[name]
        note = f"the file says {stated[name]:.5f}" if name in stated else ""
        digits = 5 if name == "success_rate" else 3
        rows.append([label, *(f"{v:.{digits}f}" for v in (value.mean, value.low, value.high)), note])
    if result.score.efficiency is not None:
        note = "Bench2Drive, over routes with a measured speed"
        rows.append(["efficiency %", f"{result.score.efficiency:.2f}", "", "", note])
    if smooth is not None:
        for label, value_ in (
            ("comfort %, as published", smooth.bench2drive),
            ("comfort %, yaw rate in radians", smooth.radians),
            ("comfort %, yaw acceleration bounded too", smooth.corrected),
        ):
            rows.append([label, f"{100 * value_:.2f}", "", "", f"{smooth.drives} drives"])
    output.print_table(
        f"{merged.results.protocol}, over planned routes", ["metric", "value", "95 % low", "high", ""], rows
    )
    print(
        f"  the 2.0 and the 2.1 rule differ on {result.rules_differ} of {result.score.suite.recorded} routes"
    )
    if result.score.misfits:
        print(f"  recorded and recomputed 2.0 scores differ on {len(result.score.misfits)} routes")
    if result.not_numbers:
        print(f"  recorded scores that are no number: {result.not_numbers} (each counts 0)")
    print_abilities(result.score.abilities)


def payload(
    files: "list[ResultFile]", merged: "Merged", result: "ClosedLoop", smooth: "Smoothness | None"
) -> dict[str, Any]:
    """Numbers for --json."""
    from drive.score.leaderboard import ability_mean

    score = result.score
    return {
        "protocol": merged.results.protocol,
        "files": [{"file": f.name, "records": len(f.results.records), "cut": f.cut} for f in files],
        **{k: v for k, v in asdict(score.suite).items() if k not in ("driving_score", "success_rate")},
        "failed": result.failed,
        "unplanned": score.unplanned,
        "copies": merged.copies,
        "conflicts": merged.conflicts,
        "stated": merged.results.stated,
        "means": {name: _interval(value) for name, value in result.means.items()},
        "rules_differ": result.rules_differ,
        "not_numbers": result.not_numbers,
        "misfits": score.misfits,
        "efficiency": score.efficiency,
        "comfort": smooth,
        "abilities": [
            {**asdict(row), "rate": row.rate, "rate_of_recorded": row.rate_of_recorded}
            for row in score.abilities
        ],
        "ability_mean": ability_mean(score.abilities),
        "ability_mean_of_recorded": ability_mean(score.abilities, of_recorded=True),
        "scenarios": [
            {"type": kind, "planned": planned, "recorded": recorded, "succeeded": succeeded}
            for kind, (planned, recorded, succeeded) in score.scenarios.items()
        ],
        "statuses": score.statuses,
        "infractions": score.infractions,
        "routes": [asdict(row) for row in result.rows],
    }


def _interval(value: "Interval") -> dict[str, float]:
    return {"mean": value.mean, "low": value.low, "high": value.high}
