"""`drive compare A B`: two saved benchmark results, paired case by case; says where B is worse."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.cli import output
from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.bench.compare import Comparison
    from drive.bench.result import EvalTable

SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive compare`."""
    parser.add_argument("a", metavar="A", help="folder that `drive bench ... --out A` wrote")
    parser.add_argument("b", metavar="B", help="the same for the other one")
    parser.add_argument(
        "--plot",
        metavar="FILE.png",
        help="also draw differences, scores or error over the horizon, and groups",
    )
    parser.add_argument(
        "--fail-if-worse", action="store_true", help="exit code 1 if B is worse by the primary metric"
    )


def run(args: argparse.Namespace) -> int:
    """Compare and print; 1 if B is worse and that was asked for."""
    from drive.bench.compare import compare
    from drive.bench.result import load_table

    if args.plot is not None and Path(args.plot).suffix != ".png":
        raise UserError(f"--plot {args.plot}: must end in .png")
    a, b = load_table(Path(args.a)), load_table(Path(args.b))
    found = compare(a, b)
    _print(a, b, found)
    if args.plot is not None:
        from drive.bench.compare_plot import draw

        output.check_folder("--plot", Path(args.plot).resolve().parent)
        draw(found, a, b, Path(args.plot))
        print(f"picture: {args.plot}")
    output.finish(args, payload(a, b, found))
    return 1 if args.fail_if_worse and found.metrics[0].verdict == "worse" else 0


def _print(a: "EvalTable", b: "EvalTable", found: "Comparison") -> None:
    print(f"{a.suite}\nprotocol {a.protocol_id}: {a.protocol}\nA: {a.model}\nB: {b.model}")
    for note in found.notes:
        print(f"note: {note}")
    rows = [
        [
            one.metric,
            one.better,
            one.a,
            one.b,
            one.change.mean,
            f"{one.change.low:+.3f} to {one.change.high:+.3f}",
            f"{one.p_value:.4f}",
            one.detectable,
            f"{one.pairs}/{one.clusters}",
            one.verdict,
        ]
        for one in found.metrics
    ]
    columns = ["metric", "better", "A", "B", "B - A", "95 %", "p", "detectable", "cases/clusters", "B is"]
    output.print_table("paired over planned cases", columns, rows)
    primary = found.metrics[0].metric
    for title, parts in (("groups", found.worse_groups), ("cases", found.worse_cases)):
        if parts:
            lines = [[part.name, part.pairs, part.a, part.b, part.change] for part in parts[:SHOWN]]
            more = f", {SHOWN} of {len(parts)}" if len(parts) > SHOWN else ""
            output.print_table(
                f"{title} where B is worse by {primary}{more}", ["", "n", "A", "B", "B - A"], lines
            )
        else:
            print(f"\nno {title} where B is worse by {primary}")


def payload(a: "EvalTable", b: "EvalTable", found: "Comparison") -> dict[str, Any]:
    """Numbers for --json."""
    return {
        "suite": a.suite,
        "protocol": a.protocol,
        "protocol_id": a.protocol_id,
        "a": a.model,
        "b": b.model,
        "notes": found.notes,
        "metrics": [asdict(one) for one in found.metrics],
        "worse_groups": [asdict(part) for part in found.worse_groups],
        "worse_cases": [asdict(part) for part in found.worse_cases],
    }
