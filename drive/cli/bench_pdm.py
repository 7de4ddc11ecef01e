"""`drive bench pdm`: plans driven for 4 s in recorded scenes and judged as PDMS and EPDMS do."""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.cli import output
from drive.cli.bench_save import save
from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.bench.pdm_run import PdmReport

MOST = 10**9
OPTIONS = ("drives", "policy", "every", "limit")
EVERY = 5
FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive bench pdm` that no other kind has."""
    parser.add_argument(
        "--every",
        type=int,
        metavar="N",
        help="pdm: every N-th planning step of a drive (default 5: each second)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="pdm: the first N drives only")


def run(args: argparse.Namespace) -> int:
    """Score and print; 1 if a plan failed."""
    if args.drives is None:
        raise UserError(
            "drive bench pdm: give --drives DIR, a folder of drive logs (`drive sim` records them)"
        )
    for name in ("every", "limit"):
        value = getattr(args, name)
        if value is not None and not 1 <= value <= MOST:
            raise UserError(f"--{name} must be from 1 to {MOST}, got {value}")
    policy = None
    if args.policy is not None:
        from drive.cli.policies import policy_factory

        policy = policy_factory(args.policy)()
    from drive.bench.pdm_run import bench_pdm, pdm_table

    every = args.every or EVERY
    report = bench_pdm(Path(args.drives), policy, every, args.limit)
    _print(report)
    if args.out is not None:
        table = pdm_table(report, every)
        save(args, replace(table, model=args.name or table.model))
    output.finish(args, payload(report))
    return FAILED if report.rows[0].failed else 0


def _print(report: "PdmReport") -> None:
    from drive.bench.pdm_run import PROTOCOL, TERMS

    first = report.rows[0]
    print(
        f"{len(report.drives)} drives ({report.simulator}), {first.planned} planning steps, {first.failed} "
        f"failed, {report.left_out} left out (less than 4 s follow)\nprotocol: {PROTOCOL}"
    )
    if report.without_map:
        print(
            f"without a map: {len(report.without_map)} of {len(report.drives)} drives; "
            "DAC, DDC, TLC and LK find no fault there, so their scores compare with no others"
        )
    rows = []
    for row in report.rows:
        means = [
            row.means[name].interval if name in row.means else None for name in ("epdms", "pdms", *TERMS)
        ]
        shown = [None if one is None else 100 * one.mean for one in means]
        one = row.means["epdms"].interval
        rows.append(
            [row.policy, row.failed, shown[0], f"{100 * one.low:.1f}-{100 * one.high:.1f}", *shown[1:]]
        )
    columns = ["policy", "failed", "EPDMS", "95 %", "PDMS", *(name.upper() for name in TERMS)]
    output.print_table("means [%]", columns, rows)


def payload(report: "PdmReport") -> dict[str, Any]:
    """Numbers for --json."""
    from drive.bench.pdm_run import PROTOCOL

    return {
        "drives": report.drives,
        "simulator": report.simulator,
        "protocol": PROTOCOL,
        "left_out": report.left_out,
        "without_map": report.without_map,
        "rows": [
            {
                "policy": row.policy,
                "planned": row.planned,
                "failed": row.failed,
                "means": {name: asdict(metric.interval) for name, metric in row.means.items()},
            }
            for row in report.rows
        ],
        "columns": report.columns,
    }
