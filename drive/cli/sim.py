"""`drive sim`: drive a suite of routes in closed loop and score it."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.cli.policies import PolicyFactory
    from drive.contracts import CaseScore, EvalResult
    from drive.score.abilities import AbilityRow
    from sim.route_files import Finding
    from sim.suites import Suite

SHORT = {
    "collisions_pedestrian": "pedestrian",
    "collisions_vehicle": "vehicle",
    "collisions_layout": "static",
    "red_light": "red light",
    "stop_infraction": "stop sign",
    "scenario_timeouts": "scenario timeout",
    "yield_emergency_vehicle_infractions": "no yielding",
    "outside_route_lanes": "off lane",
    "route_dev": "deviation",
    "vehicle_blocked": "blocked",
    "route_timeout": "timeout",
}
MOST_WORKERS = 1000
SHOWN_REASON = 160
SHOWN_WARNINGS = 3  # routes per kind of warning; all of them are in the JSON


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive sim`."""
    parser.add_argument("--suite", help="suite name or YAML file (default: quickstart)")
    parser.add_argument(
        "--routes", metavar="FILE.xml", help="instead of a suite: a route file (leaderboard, Bench2Drive)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only N routes, spread over the suite or file")
    parser.add_argument(
        "--limit-per-scenario", type=int, metavar="K", help="only K routes per scenario type of the file"
    )
    parser.add_argument(
        "--background",
        type=int,
        metavar="N",
        help="with --routes: N vehicles of the TrafficManager around each route (default: none)",
    )
    parser.add_argument(
        "--policy",
        default="expert",
        help="expert, constant_velocity, go_straight, base (the shipped model), a model folder, "
        "models:/nightdrive@champion, or vla:PLANNER+FOLDER (default: %(default)s)",
    )
    parser.add_argument(
        "--repetitions", type=int, default=1, metavar="N", help="drive every route N times (default: 1)"
    )
    parser.add_argument(
        "--carla",
        metavar="HOST:PORT,...",
        help="drive on this CARLA server, or on these in parallel, not on the light simulator",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="parallel drives (default: 1)")
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="drive on the machines of a Ray cluster: auto, HOST:PORT, ray://HOST:PORT (or local)",
    )
    parser.add_argument("--out", metavar="DIR", help="results and logs (default: runs/sim/SUITE-POLICY)")
    parser.add_argument("--video", action="store_true", help="an mp4 per drive: DIR/videos")
    parser.add_argument("--no-record", action="store_true", help="keep no drive logs")
    parser.add_argument(
        "--perturb", type=float, default=0.0, metavar="P", help="displace the ego (training data)"
    )
    parser.add_argument(
        "--dagger", action="store_true", help="let the expert take over when lost (training data)"
    )


def run(args: argparse.Namespace) -> int:
    """Drive, print the table per condition; 1 if the policy or the simulator failed on a route."""
    from drive.cli import output
    from sim.suites import repeat

    suite, warnings = choose_routes(args)
    suite = repeat(suite, args.repetitions)
    if not 1 <= args.workers <= MOST_WORKERS:
        raise UserError(f"--workers must be from 1 to {MOST_WORKERS}, got {args.workers}")
    if args.video and args.no_record:
        raise UserError("--video is made from the drive logs; leave --no-record out")
    if not 0 <= args.perturb <= 0.5:
        raise UserError(f"--perturb must be between 0 and 0.5, got {args.perturb}")
    from drive.cli.policies import driver
    from drive.cli.score import print_abilities
    from sim.latency import of_results
    from sim.report import write_report
    from sim.results import failures
    from sim.runner import preflight, run_suite

    preflight(suite, args.carla, args.cluster)
    if args.policy == "ego_mlp":
        raise UserError(
            "--policy ego_mlp: it is fitted to nuScenes; use `drive bench nuscenes`, or train "
            "one that drives: `drive train ... model.use_image=false`"
        )
    policy = driver(args.policy)
    name = _policy_name(args.policy, policy)
    out = Path(args.out) if args.out else Path("runs") / "sim" / f"{_safe(suite.name)}-{name}"
    output.check_folder("--out", out)
    result = run_suite(
        suite,
        policy,
        out,
        carla=args.carla,
        workers=args.workers,
        cluster=args.cluster,
        record=not args.no_record,
        perturb=args.perturb,
        dagger=args.dagger,
        policy_name=name,
    )
    summary = summarise(suite, result)
    failed, plan_ms = failures(out / "results.json"), of_results(out / "results.json")
    _print(suite, result, summary, out)
    abilities = abilities_of(suite, out)
    print_abilities(abilities)
    if plan_ms:
        shown = ", ".join(f"{name} {value:.1f}" for name, value in plan_ms.items())
        print(f"  time per plan on this machine [ms]: {shown}")
    _print_failures(failed)
    numbers = payload(suite, result, summary) | {"warnings": [asdict(finding) for finding in warnings]}
    rows = [asdict(row) | {"rate": row.rate} for row in abilities]
    videos = _videos(out, args.workers, result) if args.video else {}
    page = write_report(out / "results.json", abilities)
    print(f"  report: {page}")
    where = {"results": str(out / "results.json"), "report": str(page), "videos": videos}
    output.finish(args, {**where, **numbers, "plan_ms": plan_ms, "failures": failed, "abilities": rows})
    return 1 if failed or len(result.cases) < result.planned else 0


def choose_routes(args: argparse.Namespace) -> "tuple[Suite, list[Finding]]":
    """The suite or route file that was asked for, cut to the asked number, and what is odd about the file.

    Raises:
        UserError: Options that exclude each other, an unknown suite, or a file that cannot be driven.
    """
    from sim.suites import load_suite, take

    if args.routes is None:
        if args.limit_per_scenario is not None:
            raise UserError(
                "--limit-per-scenario counts the scenario types of a route file; give --routes FILE"
            )
        if args.background is not None:
            raise UserError(
                "--background adds traffic to a route file; suites have their own: give --routes FILE"
            )
        suite = load_suite(args.suite or "quickstart")
        return (suite if args.limit is None else take(suite, args.limit)), []
    if args.suite is not None:
        raise UserError("--suite and --routes exclude each other; give one of them")
    if args.routes.lstrip("-").isdigit():
        raise UserError(f"--routes {args.routes}: takes a route file; for that many routes use --limit")
    from sim.file_suites import file_suite
    from sim.route_files import grouped, read_routes

    file = read_routes(args.routes)
    suite, warnings = file_suite(file, args.limit, args.limit_per_scenario, args.background or 0)
    for phrase in grouped(warnings, SHOWN_WARNINGS):
        print(f"  note: {phrase}")
    return suite, warnings


def summarise(suite: "Suite", result: "EvalResult") -> list[dict[str, Any]]:
    """One row per condition and one over all: rates over PLANNED routes, intervals, infractions."""
    by_id = {case.case_id: case for case in result.cases}
    conditions = list(dict.fromkeys(route.condition for route in suite.routes))
    rows = []
    for condition in conditions + (["all"] if len(conditions) > 1 else []):
        planned = [r for r in suite.routes if condition in ("all", r.condition)]
        cases = [by_id[r.route_id] for r in planned if r.route_id in by_id]
        rows.append(_row(condition, len(planned), cases, [r.seed for r in planned]))
    return rows


def abilities_of(suite: "Suite", out: Path) -> "list[AbilityRow]":
    """Bench2Drive's abilities over the planned routes of a route file; none for suites by seed."""
    from drive.files import read_json
    from drive.score.abilities import ability_table
    from sim.route_planner import FileRouteSpec

    routes = [route for route in suite.routes if isinstance(route, FileRouteSpec) and route.scenarios]
    if not routes:
        return []
    records = read_json(out / "results.json")["_checkpoint"]["records"]
    kinds = {route.route_id: route.scenarios[0].type for route in routes}
    return ability_table(records, kinds, {route.route_id: route.junction_share for route in routes})


def _row(condition: str, planned: int, cases: "Sequence[CaseScore]", seeds: list[int]) -> dict[str, Any]:
    from drive.score.bootstrap import wilson

    successes = sum(case.terms["success"] > 0 for case in cases)
    share = wilson(successes, planned)
    return {
        "condition": condition,
        "planned": planned,
        "run": sum(case.status == "ok" for case in cases),
        "policy_failed": sum(case.status == "failed" for case in cases),
        "simulator_failed": sum(case.status == "infrastructure" for case in cases),
        "success": share.mean,
        "success_low": share.low,
        "success_high": share.high,
        "driving_score": sum(case.score for case in cases) / planned,
        "completion": sum(case.terms["completion"] for case in cases) / planned,
        "infractions": {key: int(sum(case.terms[key] for case in cases)) for key in SHORT},
        "seeds": seeds,
    }


def payload(suite: "Suite", result: "EvalResult", summary: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers for --json."""
    return {
        "suite": suite.name,
        "policy": result.model,
        "protocol": result.protocol,
        "planned": result.planned,
        "scenarios_left_out": suite.left_out,
        "conditions": summary,
        "routes": [
            {"route_id": c.case_id, "status": c.status, "driving_score": c.score, **c.terms}
            for c in result.cases
        ],
        "versions": result.versions,
    }


def _print(suite: "Suite", result: "EvalResult", summary: list[dict[str, Any]], out: Path) -> None:
    from drive.cli.output import print_table

    used = [key for key in SHORT if any(row["infractions"][key] for row in summary)]
    columns = [
        "condition",
        "routes",
        "success %",
        "95 %",
        "driving score",
        "completion %",
        *(SHORT[k] for k in used),
    ]
    rows = [
        [
            row["condition"],
            f"{row['run']}/{row['planned']}",
            f"{100 * row['success']:.1f}",
            f"{100 * row['success_low']:.0f}-{100 * row['success_high']:.0f}",
            f"{row['driving_score']:.1f}",
            f"{100 * row['completion']:.1f}",
            *(row["infractions"][key] for key in used),
        ]
        for row in summary
    ]
    print_table(f"{result.model} on {suite.name} ({result.protocol})", columns, rows)
    seeds = [route.seed for route in suite.routes]
    print(f"  routes run/planned; Wilson interval; seeds {_ranges(seeds)}; results: {out / 'results.json'}")
    if suite.note:
        print(f"  {suite.note}; not comparable with published scores")
    if suite.left_out:
        print(f"  scenarios left out: {', '.join(f'{kind} {n}' for kind, n in suite.left_out.items())}")


def _videos(out: Path, workers: int, result: "EvalResult") -> dict[str, str]:
    """Write the videos; those of routes without success are printed."""
    from sim.video import write_videos

    videos = write_videos(out / "results.json", out / "logs", workers)
    print(f"  {len(videos)} videos in {out / 'videos'}")
    for case in result.cases:
        if case.terms["success"] == 0 and case.case_id in videos:
            print(f"  no success: {case.case_id}: {videos[case.case_id]}")
    return videos


def _print_failures(failed: "Sequence[Mapping[str, str]]") -> None:
    """One line per route that has no result, with the reason."""
    for row in failed:
        reason = " ".join(row["reason"].split())
        short = reason if len(reason) <= SHOWN_REASON else f"{reason[: SHOWN_REASON - 3]}..."
        print(f"  {row['status'].lower()}: {row['route_id']}: {short}")
    lost = sum("simulation" in row["status"].lower() for row in failed)
    if lost:
        print(f"  the simulator failed on {lost} routes; the same command runs them again")


def _ranges(seeds: list[int]) -> str:
    """Readable list of seeds: 100-103, 110."""
    parts: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if parts and seed == parts[-1][1] + 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _safe(text: str) -> str:
    """A policy or suite name as a folder name."""
    return "".join(c if c.isalnum() or c in "-_.@" else "-" for c in text).strip("-") or "policy"


def _policy_name(spec: str, policy: "PolicyFactory | Literal['expert']") -> str:
    """Name in results and logs; a model's id is part of it, so that other weights never resume a run."""
    if (run_name := getattr(policy, "run_name", None)) is not None:
        return _safe(run_name)
    folder = getattr(policy, "folder", None)
    if folder is None:
        return _safe(spec)
    from drive.model.folder import read_meta

    name = Path(spec).name if Path(spec).is_dir() else spec
    return f"{_safe(name)}-{read_meta(Path(folder)).model_id}"
