"""`drive nightly`: one night of the loop, from logs to a promoted or refused model."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.cli import output
from drive.contracts import UserError

if TYPE_CHECKING:
    from data_engine.night import Night

MAX_ROWS = 40
EXIT_CODES = {"promoted": 0, "refused": 20, "nothing to do": 21}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive nightly`."""
    parser.add_argument(
        "--config", required=True, metavar="YAML", help="e.g. configs/nightly/quickstart.yaml"
    )
    parser.add_argument("--logs", action="append", default=[], metavar="KIND:FOLDER",
                        help="logs to mine as well: nuscenes:DIR or py123d:DIR; may be repeated")  # fmt: skip
    parser.add_argument("--date", default=None, metavar="YYYY-MM-DD", help="which night; default: today")
    parser.add_argument("--workspace", default=None, metavar="DIR", help="registry and nights; default: runs")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done; make nothing")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings that win over the YAML")


def run(args: argparse.Namespace) -> int:
    """Run or resume the night.

    Exit code 0 promoted, 20 refused, 21 nothing to do; a finished night gives its own again.
    """
    from data_engine.config import NightlyConfig
    from data_engine.night import REPORT, find_night
    from data_engine.sources import parse_source
    from drive.config import load_config

    config = load_config(NightlyConfig, args.config, args.overrides)
    if args.workspace is not None:
        config = replace(config, workspace=args.workspace)
    logs = tuple(args.logs) or config.logs
    config = replace(config, logs=logs)
    night = find_night(config, args.date or date.today().isoformat(), [parse_source(text) for text in logs])
    summary, already = night.summary(), True
    if args.dry_run:
        return _dry_run(args, night, summary)
    if summary is None:
        from data_engine.nightly import run_night

        already = False
        _check(night, args.config)
        summary = run_night(night)
    _show(summary, night.folder / REPORT, already)
    output.finish(args, {**summary, "already_done": already, "report": str(night.folder / REPORT)})
    return EXIT_CODES[str(summary["decision"])]


def _dry_run(args: argparse.Namespace, night: "Night", summary: Mapping[str, Any] | None) -> int:
    """Check everything that a night checks first, and list its stages; exit code 0."""
    from data_engine.nightly import plan_night
    from data_engine.suites import gate_suite, tonight_suite

    if summary is None:
        _check(night, args.config)
    stages = plan_night(night)
    suites = {"drive": tonight_suite(night.config, night.date), "evaluate": gate_suite(night.config)}
    routes = {name: len(suite.routes) for name, suite in suites.items()}
    print(f"night {night.folder.name} in {night.folder}" + (", already done" if summary else ""))
    for name, suite in suites.items():
        print(f"{name}: suite {suite.name}, {routes[name]} routes in {', '.join(suite.towns)}")
    for source in night.sources:
        print(f"logs: {source.name} from {source.folder}")
    output.print_table("stages", ("stage", "would"), [(row["stage"], row["state"]) for row in stages])
    plan = {"dry_run": True, "night": night.folder.name, "folder": str(night.folder), "routes": routes}
    output.finish(args, {**plan, "stages": stages, "already_done": summary is not None})
    return 0


def _check(night: "Night", where: str) -> None:
    """Refuse what would stop the night later, before it makes anything."""
    from data_engine.nightly import preflight
    from data_engine.registry import CHAMPION
    from data_engine.steps import registry_of
    from data_engine.suites import load
    from drive.model import model_folder
    from drive.model.folder import load_model

    output.check_folder("workspace", night.workspace)
    for key, name in (("drive", night.config.drive.suite), ("evaluate", night.config.evaluate.suite)):
        try:
            load(name)
        except UserError as error:
            raise UserError(f"{where}: {key}.suite: {error}") from None
    preflight(night)
    champion = registry_of(night).peek(CHAMPION)
    try:
        load_model(champion or model_folder(night.config.base_model))
    except UserError as error:
        raise UserError(f"{'champion' if champion else f'{where}: base_model'}: {error}") from None


def _show(summary: Mapping[str, Any], report: Path, already: bool) -> None:
    if already:
        print(f"already done: night {summary['night']}")
    else:
        _show_sources(summary)
        _show_cases(summary, report.parent)
        _show_gate(summary)
    print(f"\n{summary['headline']}")
    for code, detail in summary["reasons"].items():
        print(f"  {code}: {detail}")
    for warning in summary["warnings"]:
        print(f"  warning: {warning}")
    before, after = summary["champion_before"], summary["champion_after"]
    print(f"champion: {_version(before)} -> {_version(after)}")
    print(f"report: {report}")


def _version(model: Mapping[str, Any]) -> str:
    return f"version {model['version']} ({model['id']})"


def _show_sources(summary: Mapping[str, Any]) -> None:
    for source in summary["ingest"]:
        counts = ", ".join(f"{source[k]:,} {k}" for k in ("scenes", "samples", "boxes") if k in source)
        print(f"ingested {source['source']}: {counts}")
    drive = summary["drive"]
    print(f"drove {drive['run']} of {drive['planned']} routes ({drive['protocol']})")


def _show_cases(summary: Mapping[str, Any], folder: Path) -> None:
    from data_engine.mine import case_rows, load_cases

    cases = load_cases(folder / "mine" / "cases.json")
    rows = case_rows(cases, summary["mined"]["starts_us"])
    columns = ("source", "scene or route", "kind", "time", "into drive [s]", "severity")
    shown = rows if len(rows) <= MAX_ROWS else _spread(rows)
    more = f", {len(shown)} of them below, all in the report's folder" if len(shown) < len(rows) else ""
    output.print_table(f"mined {len(rows)} bad cases{more}", columns, shown)
    for reason, count in summary["mined"]["skipped"].items():
        print(f"  left out: {count} x {reason}")


def _spread(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Up to MAX_ROWS rows, the worst of every (source, kind) first."""
    groups: dict[tuple[Any, Any], list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda r: -float(r[5])):
        groups.setdefault((row[0], row[2]), []).append(row)
    share = max(1, MAX_ROWS // len(groups))
    return [row for key in sorted(groups) for row in groups[key][:share]]


def _show_gate(summary: Mapping[str, Any]) -> None:
    if not summary["gate"]:
        return
    rows = []
    for row in summary["gate"]:
        change = row["change"]
        interval = f"{change['mean']:+.3f} [{change['low']:+.3f}, {change['high']:+.3f}]" if change else "-"
        name = f"{row['metric']} [{row['unit']}]"
        rows.append(
            (
                name,
                row["champion"],
                row["candidate"],
                interval,
                row["detectable"],
                row["cases"],
                row["verdict"],
            )
        )
    columns = ("metric", "champion", "candidate", "change [95 % interval]", "detectable", "n", "verdict")
    output.print_table(f"gate ({summary['closed_loop']['protocol']})", columns, rows)
