"""Measure how fast the mining rules scan columns, against a duckdb window query in the same run.

    python tools/bench/mining.py --rows 10000 100000 1000000 --agents 20 --json mining.json

Made-up columns (random drives of 600 rows at 10 Hz, cars around the ego) are written as Arrow files and
scanned memory-mapped, as a night does. Reported per size: rows per second of all ego rules together, of the
agent rules, of the baseline (hard brake as one SQL window query in duckdb, one thread), the ratio, and the
peak resident memory of a process that does nothing else. Rates are medians of `--repeats` runs, by wall time
and by the process's own CPU time: on a busy machine only the second one says something.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from data_engine.rules import RULES
from data_engine.rules.sql import SqlRule, run_sql
from data_engine.tables import DriveRow, Tables, empty_tables, read_tables, write_tables

EGO_RULES = ("hard_brake", "jerk", "route_deviation")
AGENT_RULES = ("near_miss",)
ROWS_PER_DRIVE = 600
BASELINE = SqlRule(
    """
    SELECT drive, t_us AS start_us, t_us AS end_us, 0.5 AS severity FROM (
        SELECT drive, t_us, (lag(speed_mps, 5) OVER w - speed_mps) / 0.5 AS decel
        FROM ego WINDOW w AS (PARTITION BY drive ORDER BY t_us)
    ) WHERE decel > 4.0
    """
)


def made_up(rows: int, agents: int, seed: int = 0) -> Tables:
    """Columns of random drives: speeds that wander, road users 5 to 60 m around the ego."""
    rng = np.random.default_rng(seed)
    drive = (np.arange(rows) // ROWS_PER_DRIVE).astype(np.int32)
    step = np.arange(rows) % ROWS_PER_DRIVE
    walk = np.cumsum(rng.normal(0, 0.12, rows)) - np.cumsum(rng.normal(0, 0.12, rows))
    speed = np.clip(8 + 4 * np.sin(step / 40) + 0.2 * walk % 3, 0, 20).astype(np.float32)
    speed[rng.random(rows) < 1e-4] *= 0.4
    x, y = np.cumsum(speed) * 0.1 % 5000, rng.normal(0, 0.3, rows)
    n = rows * agents
    row = np.repeat(np.arange(rows, dtype=np.int32), agents)
    angle, distance = (
        rng.uniform(-np.pi, np.pi, n).astype(np.float32),
        rng.uniform(5, 60, n).astype(np.float32),
    )
    empty = empty_tables()
    ego = {
        "drive": drive,
        "t_us": (step * 100_000).astype(np.int64),
        "x_m": x,
        "y_m": y,
        "yaw_rad": rng.normal(0, 0.05, rows).astype(np.float32),
        "speed_mps": speed,
        "accel_mps2": np.zeros(rows, np.float32),
        "yaw_rate_radps": rng.normal(0, 0.05, rows).astype(np.float32),
        "off_route_m": np.abs(rng.normal(0, 0.5, rows)).astype(np.float32),
    }
    seen = {
        "row": row,
        "x_m": (x[row] + distance * np.cos(angle)).astype(np.float32),
        "y_m": (y[row] + distance * np.sin(angle)).astype(np.float32),
        "yaw_rad": rng.uniform(-np.pi, np.pi, n).astype(np.float32),
        "speed_mps": rng.uniform(0, 12, n).astype(np.float32),
        "length_m": np.full(n, 4.5, np.float32),
        "width_m": np.full(n, 1.9, np.float32),
        "kind": np.zeros(n, np.int8),
    }
    made = DriveRow("d", "Town01", "r", "light simulator", "made up", "none", 4.89, 1.84, 1.4)
    return Tables((made,) * (int(drive[-1]) + 1), ego, seen, empty.steps, empty.events)


def seconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median wall and CPU time [s]."""
    wall, cpu = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return median(wall), median(cpu)


def measure(rows: int, agents: int, repeats: int) -> dict[str, Any]:
    """Rates [rows/s] for one size."""
    with tempfile.TemporaryDirectory() as folder:
        write_tables(made_up(rows, agents), Path(folder))

        def scan(names: tuple[str, ...]) -> int:
            tables = read_tables(Path(folder))
            return sum(len(RULES[name](tables)) for name in names)

        found = {"ego": scan(EGO_RULES), "agents": scan(AGENT_RULES)}
        timed = {
            "ego": seconds(lambda: scan(EGO_RULES), repeats),
            "agent": seconds(lambda: scan(AGENT_RULES), repeats),
            "baseline": seconds(lambda: run_sql("baseline", BASELINE, read_tables(Path(folder))), repeats),
        }
    rates = {f"{name}_rows_per_s": rows / wall for name, (wall, _) in timed.items()}
    rates |= {f"{name}_rows_per_cpu_s": rows / cpu for name, (_, cpu) in timed.items()}
    return {
        "rows": rows,
        "agents": agents,
        "found": found,
        **rates,
        "ego_to_baseline": timed["baseline"][1] / timed["ego"][1],
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def measure_apart(rows: int, agents: int, repeats: int) -> dict[str, Any]:
    """`measure` in a process of its own, so that its peak memory is that of nothing else."""
    import subprocess
    import sys

    call = f"measure({rows}, {agents}, {repeats})"
    code = f"import json; from tools.bench.mining import measure; print(json.dumps({call}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Print a table, and write it with --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    results = [measure_apart(rows, args.agents, args.repeats) for rows in args.rows]
    names = "".join(f"{name:>15}" for name in ("ego rules", "agent rules", "duckdb window"))
    print(f"{'rows':>9} {'rows/s':>9}{names} {'peak':>8}")
    for r in results:
        for unit in ("s", "cpu_s"):
            rates = "".join(
                f"{r[f'{name}_rows_per_{unit}']:>15,.0f}" for name in ("ego", "agent", "baseline")
            )
            print(f"{r['rows']:>9,} {'wall' if unit == 's' else 'CPU':>9}{rates} {r['peak_gb']:>5.2f} GB")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
