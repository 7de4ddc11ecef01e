"""One result of any benchmark: what was measured, over what, and a row per case; JSON and parquet."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from drive.bench.closed_loop import SCORES, SEED, ClosedLoop
from drive.bench.report import BenchReport
from drive.bench.scoring import RESAMPLES
from drive.contracts import F64, UserError
from drive.files import json_safe, new_folder, read_object, sha256_json, write_json
from drive.score.bootstrap import Interval, crossed_interval
from drive.score.openloop import FAILED_L2_M, HORIZONS_S, KEY_DT_S, strict

HEAD, CASES = "result.json", "cases.parquet"
FORMAT = 1
SHOWN = 200
LABELS = ("case_id", "status", "cluster", "group")


@dataclass(frozen=True)
class Metric:
    """A mean over cases.

    Attributes:
        name: Also the column of the cases that it recomputes from.
        better: "higher" or "lower".
        missing: What a planned case without a row costs.
        interval: Mean over planned cases and its 95 % interval.
        n: Cases behind the mean; a case in which nothing was recorded at this horizon has no value.
    """

    name: str
    better: str
    missing: float
    interval: Interval
    n: int


@dataclass(frozen=True)
class EvalTable:
    """A benchmark's result.

    Attributes:
        kind: "results", "nuscenes" or "pdm".
        suite: Which cases; equal text, equal cases.
        protocol: What exactly was measured.
        model: Who was measured.
        planned, run, failed: Cases; planned is the denominator.
        seeds: Of resamples and simulations.
        versions: Of packages that numbers depend on.
        facts: What else should be alike in a comparison, e.g. where the driving command came from.
        metrics: The first one is the primary one.
        columns: "case_id", "status" (ok, failed, missing), "cluster" (cases of one cluster are alike),
            "group", and one column per metric.
    """

    kind: str
    suite: str
    protocol: str
    model: str
    planned: int
    run: int
    failed: int
    seeds: tuple[int, ...]
    versions: Mapping[str, str]
    facts: Mapping[str, str]
    metrics: tuple[Metric, ...]
    columns: Mapping[str, Any]

    @property
    def protocol_id(self) -> str:
        """Equal for results that may be compared."""
        return sha256_json([FORMAT, self.kind, self.suite, self.protocol])[:12]

    @property
    def result_id(self) -> str:
        """Fingerprint of the numbers."""
        values = {name: np.asarray(column).tolist() for name, column in self.columns.items()}
        return sha256_json([self.protocol_id, self.model, json_safe(values)])[:12]


def head_of(table: EvalTable) -> dict[str, Any]:
    """The result without its cases, as it is written."""
    return {
        "format": FORMAT,
        "kind": table.kind,
        "suite": table.suite,
        "protocol": table.protocol,
        "protocol_id": table.protocol_id,
        "result_id": table.result_id,
        "model": table.model,
        "planned": table.planned,
        "run": table.run,
        "failed": table.failed,
        "seeds": list(table.seeds),
        "versions": dict(table.versions),
        "facts": dict(table.facts),
        "metrics": [asdict(metric) for metric in table.metrics],
    }


def save_table(folder: Path, table: EvalTable) -> None:
    """Write result.json and cases.parquet into a folder, which is replaced as a whole."""
    import pandas as pd

    with new_folder(folder) as temp:
        write_json(temp / HEAD, json_safe(head_of(table)))
        pd.DataFrame(dict(table.columns)).to_parquet(temp / CASES, index=False)


def load_table(path: Path) -> EvalTable:
    """Read a folder that `save_table` wrote, or its result.json.

    Raises:
        UserError: Missing, damaged, or changed since: a mean does not recompute from the cases.
    """
    import pandas as pd
    from pyarrow import ArrowException

    folder = path.parent if path.name == HEAD else path
    if not (folder / HEAD).is_file():
        raise UserError(f"{path}: no {HEAD} there; make one with `drive bench ... --out DIR`")
    head = read_object(folder / HEAD, "kind", "suite", "protocol", "model", "planned", "metrics")
    try:
        cases = pd.read_parquet(folder / CASES)
        table = _table(head, cases)
    except (OSError, KeyError, TypeError, AttributeError, ValueError, OverflowError, ArrowException) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0][:SHOWN]
        raise UserError(f"{folder}: damaged ({said}); run the benchmark again") from None
    for metric in table.metrics:
        if not np.isclose(mean_of(table, metric), metric.interval.mean, atol=1e-6, equal_nan=True):
            raise UserError(f"{folder}: {metric.name} does not recompute from {CASES}; run it again")
    return table


def _table(head: Mapping[str, Any], cases: Any) -> EvalTable:
    """Table of a read head and its cases.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: Something is missing or of another kind.
    """
    metrics = tuple(
        Metric(
            name=_text(one["name"]),
            better=_text(one["better"]),
            missing=_number(one["missing"]),
            interval=Interval(**{k: _number(v) for k, v in one["interval"].items()}),
            n=_count(one["n"]),
        )
        for one in head["metrics"]
    )
    if not metrics or any(metric.better not in ("higher", "lower") for metric in metrics):
        raise ValueError("metrics have to say whether higher or lower is better")
    columns = {name: np.array([_text(v) for v in cases[name]], object) for name in LABELS}
    numbers = {metric.name: cases[metric.name].to_numpy(np.float64) for metric in metrics}
    return EvalTable(
        kind=_text(head["kind"]),
        suite=_text(head["suite"]),
        protocol=_text(head["protocol"]),
        model=_text(head["model"]),
        planned=_count(head["planned"]),
        run=_count(head["run"]),
        failed=_count(head["failed"]),
        seeds=tuple(_count(seed) for seed in head["seeds"]),
        versions={key: str(value) for key, value in head["versions"].items()},
        facts={key: str(value) for key, value in head["facts"].items()},
        metrics=metrics,
        columns=columns | numbers,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is expected, got {value!r}")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**12:
        raise TypeError(f"a count is expected, got {value!r}")
    return value


def mean_of(table: EvalTable, metric: Metric) -> float:
    """Mean over planned cases, recomputed from the column; cases without a row cost `metric.missing`."""
    values: F64 = np.asarray(table.columns[metric.name], np.float64)
    known = np.isfinite(values)
    absent = max(0, table.planned - len(values))
    count = int(known.sum()) + absent
    return (float(values[known].sum()) + absent * metric.missing) / count if count else float("nan")


def closed_loop_table(
    result: ClosedLoop, protocol: str, model: str, suite: str, route_ids: bool
) -> EvalTable:
    """Result of `drive bench results`; cases are planned routes."""
    rows = result.rows
    columns: dict[str, Any] = {
        "case_id": [row.route_id for row in rows],
        "status": [
            "missing" if r.status == "missing" else "ok" if r.status in ("Completed", "Perfect") else "failed"
            for r in rows
        ],
        "cluster": [row.route_id for row in rows],
        "group": [row.scenario for row in rows],
        **{name: np.array([float(getattr(row, name)) for row in rows]) for name in SCORES},
        "success_rate": np.array([float(row.success) for row in rows]),
    }
    planned = result.score.suite.planned
    names = (*SCORES, "success_rate")
    return EvalTable(
        kind="results",
        suite=suite,
        protocol=protocol,
        model=model,
        planned=planned,
        run=result.score.suite.recorded,
        failed=result.failed,
        seeds=(SEED,),
        versions=versions(),
        facts={"planned routes": "by id" if route_ids else "by number"},
        metrics=tuple(Metric(name, "higher", 0.0, result.means[name], planned) for name in names),
        columns=columns,
    )


def open_loop_table(report: BenchReport) -> EvalTable:
    """Result of `drive bench nuscenes` for its first row; cases are samples, scenes their clusters."""
    row = report.rows[0]
    columns = report.columns[row.policy]
    scenes: Sequence[str] = columns.scene
    failed = np.asarray(columns.failed, bool)
    cost = strict(columns.l2_m, failed, FAILED_L2_M)
    hit = np.asarray(columns.collided, np.float64)
    counted = np.asarray(columns.counted)
    kinds: list[tuple[str, F64, Any, float]] = [
        ("l2", cost, counted, FAILED_L2_M),
        ("collision", hit, counted & ~np.asarray(report.truth_collided), 1.0),
    ]
    if columns.off_road is not None:
        off = np.asarray(columns.off_road, np.float64)
        kinds.append(("off_road", off, counted & ~np.asarray(report.truth_off_road), 1.0))
    table: dict[str, Any] = {
        "case_id": list(columns.token),
        "status": np.where(failed, "failed", "ok"),
        "cluster": list(scenes),
        "group": list(report.commands),
    }
    metrics = []
    for label, values, mask, missing in kinds:
        for horizon in reversed(HORIZONS_S):
            k = round(horizon / KEY_DT_S)
            for reading, steps in (("up_to", slice(0, k)), ("at", slice(k - 1, k))):
                name = f"{label}_{reading}_{horizon:.0f}s"
                n = mask[:, steps].sum(1)
                total = np.where(mask[:, steps], values[:, steps], 0.0).sum(1)
                table[name] = np.where(n > 0, total / np.maximum(n, 1), np.nan)
                metrics.append(_clustered(name, table[name], scenes, missing))
    return EvalTable(
        kind="nuscenes",
        suite=f"nuScenes {report.version} {report.split}, samples {report.sample_set.token_hash}",
        protocol=report.protocol,
        model=row.policy,
        planned=row.planned,
        run=row.planned - row.failed,
        failed=row.failed,
        seeds=(0,),
        versions=versions(),
        facts={"command": row.command, "images": row.images, "ego state of floors": report.ego_state},
        metrics=tuple(metrics),
        columns=table,
    )


def _clustered(name: str, values: F64, clusters: Sequence[str], missing: float) -> Metric:
    total, count = cluster_sums(values, clusters)
    known = int(count.sum())
    nothing = Interval(float("nan"), float("nan"), float("nan"))
    interval = crossed_interval(total, count, SEED, RESAMPLES) if known else nothing
    return Metric(name, "lower", missing, interval, known)


def cluster_sums(values: F64, clusters: Sequence[str]) -> tuple[F64, F64]:
    """Sums and counts of finite values per cluster, (1, K) each."""
    names, index = np.unique(np.asarray(clusters, str), return_inverse=True)
    known = np.isfinite(values)
    total, count = np.zeros((1, len(names))), np.zeros((1, len(names)))
    np.add.at(total[0], index[known], values[known])
    np.add.at(count[0], index[known], 1.0)
    return total, count


def versions() -> dict[str, str]:
    """Versions that the numbers depend on."""
    return {name: version(name) for name in ("nightdrive", "numpy", "scipy", "shapely")}


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
