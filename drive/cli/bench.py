"""`drive bench`: open-loop benchmarks of planners and predictions, statistics of closed-loop results."""

import argparse

from drive.cli import bench_nuscenes, bench_pdm, bench_results
from drive.cli.bench_save import check_out
from drive.contracts import UserError

KINDS = {"nuscenes": bench_nuscenes, "results": bench_results, "pdm": bench_pdm}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive bench`; each says which kind of benchmark it belongs to."""
    parser.add_argument(
        "what",
        choices=tuple(KINDS),
        help="nuscenes: open loop; results: closed-loop files; pdm: simulated plans",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="results: the run's results files")
    parser.add_argument(
        "--allow-partial", action="store_true", help="a result that covers a part only is exit code 0, not 3"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="save the result for `drive compare`, and log it in MLflow"
    )
    parser.add_argument("--tracking-uri", metavar="URI", help="MLflow store (default: runs/mlflow.db)")
    parser.add_argument("--name", metavar="TEXT", help="name of the model in the saved result")
    for kind in KINDS.values():
        kind.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run one kind of benchmark; options of another kind are refused."""
    kind = KINDS[args.what]
    for name, other in KINDS.items():
        for option in sorted(set(other.OPTIONS) - set(kind.OPTIONS)):
            if getattr(args, option) not in (None, False):
                flag = f"--{option.replace('_', '-')}"
                raise UserError(f"drive bench {args.what}: {flag} is an option of `drive bench {name}`")
    if args.files and kind is not bench_results:
        raise UserError(f"drive bench {args.what}: unexpected {args.files[0]}; only `results` takes files")
    check_out(args)
    code: int = kind.run(args)
    return code
