"""`drive score`: driving score, success and abilities of any leaderboard results file."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.logs.smoothness import Smoothness
    from drive.score.abilities import AbilityRow
    from drive.score.leaderboard import Results, RunScore

MOST_PLANNED = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive score`."""
    parser.add_argument(
        "results", metavar="FILE.json", help="results of the leaderboard, Bench2Drive or drive sim"
    )
    parser.add_argument("--routes", metavar="FILE.xml", help="the route file that was driven")
    parser.add_argument(
        "--planned", type=int, metavar="N", help="number of planned routes, if no file says it"
    )
    parser.add_argument(
        "--drives",
        metavar="DIR",
        help="recorded drives, for the smoothness (default: logs beside the results)",
    )
    parser.add_argument(
        "--min-speed", action="store_true", help="driving slower than the traffic costs points (leaderboard)"
    )


def run(args: argparse.Namespace) -> int:
    """Score and print; 1 if planned routes have no record."""
    from drive.cli import output
    from drive.files import read_json
    from drive.score.leaderboard import parse_results, score_run

    path = Path(args.results)
    results = parse_results(read_json(path), str(path))
    planned, shares = planned_routes(results, str(path), args.routes, args.planned)
    score = score_run(results.records, planned, junction_share=shares, min_speed=args.min_speed)
    smooth = run_smoothness_of(args.drives, path, results)
    _print(path, results, score, smooth, args)
    output.finish(args, {"results": str(path), **payload(results, score, smooth)})
    if score.suite.missing:
        print(f"exit code 1: {score.suite.missing} of {score.suite.planned} planned routes have no record")
    return 1 if score.suite.missing else 0


def planned_routes(
    results: "Results", where: str, routes_file: str | None, number: int | None
) -> tuple[int | Mapping[str, str], Mapping[str, float] | None]:
    """Planned routes: how many, or which, by scenario type; and where their first junction ends.

    Args:
        results: Records that were made; their ids say how often each route was driven.
        where: Name of the file or files, for messages.
        routes_file: The route file that was driven, if it is at hand.
        number: Number of planned routes, if neither the route file nor the results say it.

    Raises:
        UserError: Nobody says how many routes were planned, or two do.
    """
    if number is not None and number < 1:
        raise UserError(f"--planned must be at least 1, got {number}")
    if routes_file is None:
        planned = number or results.planned
        if planned is None:
            raise UserError(f"{where}: names no number of planned routes; give --routes FILE or --planned N")
        if planned > MOST_PLANNED:
            raise UserError(f"{planned} planned routes; at most {MOST_PLANNED} are counted: give --planned N")
        return planned, None
    if number is not None:
        raise UserError("--planned and --routes exclude each other; the route file says how many there are")
    from drive.score.leaderboard import repetitions
    from sim.file_suites import plan_routes, record_id
    from sim.route_files import read_routes

    routes = read_routes(routes_file).routes
    times = range(repetitions(results.records))
    ids = {record_id(route.route_id, k): route for route in routes for k in times}
    wanted = {
        id(ids[str(r["route_id"])]) for r in results.records if _undecided(r) and str(r["route_id"]) in ids
    }
    plans, _, _ = plan_routes([route for route in routes if id(route) in wanted])
    shares = {
        name: plans[route.route_id].junction_share for name, route in ids.items() if route.route_id in plans
    }
    return {name: route.kind for name, route in ids.items()}, shares


def _undecided(record: Mapping[str, Any]) -> bool:
    """Does the ability of a failed route hang on whether it passed the first junction?"""
    from drive.score.abilities import ABILITIES, SIGNS, scenario_type
    from drive.score.closedloop import is_success, record_counts

    counts = record_counts(record)
    failed = not is_success(str(record["status"]), counts)
    return (
        failed
        and scenario_type(record) in ABILITIES[SIGNS]
        and not any(counts.get(key) for key in ("stop_infraction", "red_light"))
    )


def run_smoothness_of(drives: str | None, path: Path, results: "Results") -> "Smoothness | None":
    """Smoothness of the recorded drives in a folder, by default `logs` beside the results; None without."""
    folder = Path(drives) if drives else path.parent / "logs"
    if not drives and not folder.is_dir():
        return None
    from drive.logs.smoothness import run_smoothness

    return run_smoothness(folder, results.records)


def payload(results: "Results", score: "RunScore", smooth: "Smoothness | None") -> dict[str, Any]:
    """Numbers for --json."""
    from drive.score.leaderboard import ability_mean

    return {
        "protocol": results.protocol,
        **asdict(score.suite),
        "unplanned": score.unplanned,
        "completion": score.completion,
        "recomputed": score.recomputed,
        "misfits": score.misfits,
        "stated": results.stated,
        "efficiency": score.efficiency,
        "smoothness": smooth,
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
    }


def _print(
    path: Path, results: "Results", score: "RunScore", smooth: "Smoothness | None", args: argparse.Namespace
) -> None:
    from drive.cli.output import print_table

    suite = score.suite
    stated = {key: f"the file says {value:.4f}" for key, value in results.stated.items()}
    speed = "slow driving counted" if args.min_speed else "slow driving not counted"
    rows = [
        ["driving score, as recorded", f"{suite.driving_score:.3f}", stated.get("driving_score", "")],
        *(
            [f"driving score {rule}, recomputed", f"{value:.3f}", speed]
            for rule, value in score.recomputed.items()
        ),
        [
            "success rate",
            f"{suite.success_rate:.4f}",
            stated.get("success_rate", f"{suite.succeeded} routes"),
        ],
        ["route completion %", f"{score.completion:.2f}", ""],
    ]
    if score.efficiency is not None:
        rows.append(["efficiency %", f"{score.efficiency:.2f}", "speed against the traffic, Bench2Drive"])
    if smooth is not None:
        note = (
            f"{smooth.drives} drives; {100 * smooth.radians:.2f} with the yaw rate in radians, "
            f"{100 * smooth.corrected:.2f} with the yaw acceleration bounded too"
        )
        rows.append(["smoothness %", f"{100 * smooth.bench2drive:.2f}", note])
    print_table(f"{path.name} ({results.protocol})", ["metric", "value", "note"], rows)
    left = {"missing": suite.missing, "duplicate": suite.duplicate, "unplanned": score.unplanned}
    counts = ", ".join(f"{count} {name}" for name, count in left.items() if count)
    print(
        f"  over {suite.planned} planned routes, {suite.recorded} recorded{', ' + counts if counts else ''}"
    )
    if score.misfits:
        print(f"  recorded and recomputed 2.0 scores differ on {len(score.misfits)} routes")
    print_abilities(score.abilities)


def print_abilities(rows: "Sequence[AbilityRow]") -> None:
    """Table of the abilities that the routes ask for; nothing if they ask for none."""
    from drive.cli.output import print_table
    from drive.score.leaderboard import ability_mean

    asked = [row for row in rows if row.recorded or row.planned]
    if not asked:
        return
    mean = ability_mean(rows), ability_mean(rows, of_recorded=True)
    table: list[Sequence[Any]] = [
        [
            row.ability,
            row.planned,
            row.recorded,
            row.mastered,
            _percent(row.rate),
            _percent(row.rate_of_recorded),
        ]
        for row in asked
    ]
    table.append(["mean", None, None, None, *(_percent(value) for value in mean)])
    columns = ["ability", "planned", "recorded", "mastered", "% of planned", "% of recorded"]
    print_table("abilities", columns, table)
    print("  Bench2Drive publishes the last column")
    if any(row.mastered is None for row in asked):
        print("  traffic signs need --routes FILE.xml: where the first junction of each route is")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"
