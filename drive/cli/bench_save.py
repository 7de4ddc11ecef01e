"""`--out` of `drive bench`: the result as JSON and parquet, and as a run in MLflow."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from drive.cli import output

if TYPE_CHECKING:
    from drive.bench.result import EvalTable

EXPERIMENT = "nightdrive-bench"


def check_out(args: argparse.Namespace) -> None:
    """Raise UserError before any work if --out or the tracking store cannot be used."""
    if args.out is not None:
        output.check_folder("--out", Path(args.out))
    if args.out is not None and args.tracking_uri is not None:
        from data_engine.tracking import check_uri

        check_uri(args.tracking_uri)


def save(args: argparse.Namespace, table: "EvalTable") -> None:
    """Write a result into --out and log it, once per result."""
    if args.out is None:
        return
    from data_engine.registry import WORKSPACE, Registry
    from drive.bench.result import save_table

    save_table(Path(args.out), table)
    print(f"result: {args.out} (protocol {table.protocol_id})")
    store = Registry(WORKSPACE, args.tracking_uri, EXPERIMENT)
    metrics = {}
    for metric in table.metrics:
        value = metric.interval
        for name, number in ((metric.name, value.mean), ("low", value.low), ("high", value.high)):
            key = name if name == metric.name else f"{metric.name}_{name}"
            if number == number:  # MLflow refuses NaN in some stores
                metrics[key] = number
    params = {
        "kind": table.kind,
        "suite": table.suite,
        "protocol_id": table.protocol_id,
        "model": table.model,
        "planned": table.planned,
        "run": table.run,
        "failed": table.failed,
        "seeds": list(table.seeds),
        **{f"version_{name}": value for name, value in table.versions.items()},
    }
    tags = {"protocol": table.protocol, "result": str(Path(args.out).resolve()), **table.facts}
    store.log_night(
        f"bench {table.result_id}", params, metrics, {k.replace(" ", "_"): v for k, v in tags.items()}
    )
    print(f"logged in MLflow: {store.uri}, experiment {EXPERIMENT}")
