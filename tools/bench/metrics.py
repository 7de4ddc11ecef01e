"""How fast are the hot paths?  Median of many runs each, and the ratio against a named baseline.

    python tools/bench/metrics.py --save before       # write runs/baselines/before.json
    python tools/bench/metrics.py --baseline before   # compare; exit 1 if one is slower than --limit times
    OMP_NUM_THREADS=1 python tools/bench/metrics.py --targets   # exit 1 if a target is missed

Times are CPU times of one thread, so other work on the machine matters little, except for what runs in a
process of its own. Compare only runs of the same machine.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drive.cli.output import print_table
from drive.contracts import DT_S, EGO_MKZ, STEPS, UserError
from drive.files import json_safe, read_json, write_json

BASELINES = Path("runs") / "baselines"
MIN_SAMPLE_S = 0.02
VAL_SAMPLES = 6019
OTHER_PROCESS = ("help",)
LINEAR = 1.5  # four times as much may take so much more than four times as long: caches end


class Target(NamedTuple):
    """So many items per call, of which at least so many have to be done in a second."""

    items: int
    unit: str
    per_s: float


@dataclass(frozen=True)
class Metric:
    """CPU time per call [ms]: median and quartiles of `runs` samples."""

    median_ms: float
    low_ms: float
    high_ms: float
    runs: int


def measure(call: Callable[[], object], runs: int, clock: Callable[[], float] = time.process_time) -> Metric:
    """Time a call; a sample repeats it until it has taken 20 ms, and the first is thrown away as warm-up."""
    repeats, spent = 1, _sample(call, 1, clock)
    while spent * repeats < MIN_SAMPLE_S:
        repeats = max(repeats + 1, int(MIN_SAMPLE_S / max(spent, 1e-9)))
        spent = _sample(call, repeats, clock)
    samples = sorted(1e3 * _sample(call, repeats, clock) for _ in range(runs))
    low, _, high = statistics.quantiles(samples, n=4) if runs > 1 else samples * 3
    return Metric(statistics.median(samples), low, high, runs)


def ratios(now: Mapping[str, Metric], baseline: Mapping[str, float]) -> dict[str, float]:
    """Median now over median then, for the metrics in both."""
    return {name: metric.median_ms / baseline[name] for name, metric in now.items() if baseline.get(name)}


def load_baseline(name: str, folder: Path = BASELINES) -> dict[str, float]:
    """Medians [ms] saved under a name.

    Raises:
        UserError: No such baseline, or it comes from another machine.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.json"))) or "none saved yet"
        raise UserError(f"--baseline {name}: not found (have: {known}); make it with --save {name}")
    data = read_json(path)
    if data["machine"] != machine():
        raise UserError(f"--baseline {name}: made on {data['machine']}, this is {machine()}; save a new one")
    return {key: float(value["median_ms"]) for key, value in data["metrics"].items()}


def save_baseline(name: str, metrics: Mapping[str, Metric], folder: Path = BASELINES) -> Path:
    """Write medians under a name; returns the file."""
    path = folder / f"{name}.json"
    write_json(path, json_safe({"name": name, "machine": machine(), "metrics": metrics}))
    return path


def machine() -> str:
    """What must be equal for two timings to be comparable."""
    system = f"{platform.machine()} {platform.system()}"
    return f"{system}, Python {platform.python_version()}, numpy {np.__version__}"


def reward_terms_case() -> Callable[[], object]:
    """Reward terms of 24 proposals among 20 agents on 12 lanes."""
    from drive.score.scene import FrozenScene
    from drive.score.terms import reward_terms

    random = np.random.default_rng(0)
    lane = np.linspace([-50.0, 0.0], [100.0, 0.0], 76)
    agents = np.concatenate([random.uniform(-40, 40, (20, 1, 2)), random.uniform(-3, 3, (20, 1, 1))], -1)
    scene = FrozenScene(
        speed_mps=8.0,
        ego_size=EGO_MKZ,
        agent_pose_ego=np.repeat(agents, STEPS, 1),
        agent_size_m=np.full((20, 2), (4.5, 1.9), np.float32),
        agent_valid=np.ones((20, STEPS), bool),
        lane_ego=np.stack([lane + np.array([0.0, 3.5 * i]) for i in range(-6, 6)]),
        lane_width_m=np.full(12, 3.5, np.float32),
        in_junction=np.zeros(12, bool),
        route_ego=lane,
    )
    speed = random.uniform(0, 12, (24, 1)) * np.arange(1, STEPS + 1) * DT_S
    proposals = np.stack([speed, random.normal(0, 0.3, (24, 1)) * speed / 10, 0 * speed], -1)
    return lambda: reward_terms(proposals, scene)


def open_loop_case(count: int = VAL_SAMPLES, users: int = 40) -> Callable[[], object]:
    """L2 and exact-box collisions of `count` samples (as many as nuScenes val), 6 steps, road users each."""
    from drive.bench.batch import CaseBatch, box_hits
    from drive.score.openloop import by_horizon, displacement

    random = np.random.default_rng(0)
    truth = random.normal(0, 1, (count, 6, 3)).cumsum(1) + np.array([4.0, 0.0, 0.0])
    agents = np.repeat(random.uniform(-40, 40, (count * users, 1, 3)), 6, 1)
    batch = CaseBatch(
        truth_ego=truth,
        known=np.ones((count, 6), bool),
        agents_ego=agents,
        size_m=np.tile([4.5, 1.9], (count * users, 1)),
        kind=np.zeros(count * users, np.int32),
        valid=np.ones((count * users, 6), bool),
        case=np.repeat(np.arange(count), users),
        rows=np.stack([np.arange(count), np.arange(count) + 1], -1) * users,
        lidar_ahead_m=np.full(count, 0.94),
    )
    planned = truth + random.normal(0, 0.5, truth.shape)

    def score() -> object:
        l2 = by_horizon(displacement(planned[..., :2], truth[..., :2]), batch.known)
        return l2, by_horizon(box_hits(batch, planned).astype(np.float64), batch.known)

    return score


def pdm_case(count: int, scenes: int = 1, users: int = 20) -> Callable[[], object]:
    """PDM scores, simulation included, of `count` proposals in each scene: road users on 20 lanes."""
    from drive.bench.pdm import epdms, score_scenes
    from drive.bench.pdm_scene import PdmScene, areas_of
    from drive.contracts import RoadPatch

    random = np.random.default_rng(0)
    line = np.linspace([-50.0, 0.0], [100.0, 0.0], 40)
    lanes = np.stack([line[:: 1 if i < 10 else -1] + np.array([0.0, 3.5 * (i - 12)]) for i in range(20)])
    road = RoadPatch(lanes, np.full(20, 3.5, np.float32), np.zeros(20, bool), np.zeros((0, 2, 2)))
    agents = np.concatenate(
        [random.uniform(-40, 40, (users, 1, 2)), random.uniform(-3, 3, (users, 1, 1))], -1
    )
    scene = PdmScene(
        case_id="synthetic",
        speed_mps=8.0,
        accel_mps2=0.0,
        yaw_rate_radps=0.0,
        ego_size=EGO_MKZ,
        wheelbase_m=2.86,
        agent_pose=np.repeat(agents, STEPS + 1, 1),
        agent_size_m=np.tile([4.5, 1.9], (users, 1)),
        agent_valid=np.ones((users, STEPS + 1), bool),
        static=np.zeros(users, bool),
        areas=areas_of(road, np.zeros(3), line),
        route=line,
        red_line=np.zeros((0, 2, 2)),
        red_steps=0,
        speed_limit_mps=13.9,
        human=None,
    )
    speed = random.uniform(0, 12, (count, 1)) * np.arange(1, STEPS + 1) * DT_S
    proposals = np.stack([speed, random.normal(0, 0.3, (count, 1)) * speed / 10, 0 * speed], -1)
    return lambda: [epdms(terms) for terms in score_scenes([scene] * scenes, [proposals] * scenes)]


def bootstrap_case() -> Callable[[], object]:
    """Paired bootstrap of 60 routes, 10,000 resamples."""
    from drive.score.bootstrap import paired_bootstrap

    random = np.random.default_rng(0)
    a, b = random.normal(70, 30, 60), random.normal(68, 30, 60)
    return lambda: paired_bootstrap(a, b, seed=0)


def classify_case() -> Callable[[], object]:
    """Command/trajectory agreement of 1,000 trajectories."""
    from drive.geometry.commands import agree

    pose = np.random.default_rng(0).normal(0, 5, (1000, STEPS, 3)).cumsum(1)
    return lambda: agree(np.array([0, 3]), pose, np.full(1000, 8.0))


def help_case() -> Callable[[], object]:
    """`drive --help` in a fresh interpreter."""
    return lambda: subprocess.run(
        [sys.executable, "-m", "drive.cli.main", "--help"], check=True, capture_output=True
    )


CASES: dict[str, Callable[[], Callable[[], object]]] = {
    "reward_terms": reward_terms_case,
    "open_loop_val": open_loop_case,
    "pdm_20": lambda: pdm_case(20),
    "pdm_200": lambda: pdm_case(200),
    "pdm_20_in_10_scenes": lambda: pdm_case(20, 10),
    "paired_bootstrap": bootstrap_case,
    "agree": classify_case,
    "help": help_case,
}


TARGETS = {
    "open_loop_val": Target(VAL_SAMPLES, "samples", VAL_SAMPLES / 3.0),
    "pdm_20": Target(20, "proposals", 2000.0),
    "pdm_200": Target(200, "proposals", 2000.0),
}
SCALES: dict[str, Callable[[int], Callable[[], object]]] = {
    "open loop, samples": lambda k: open_loop_case(1500 * k),
    "open loop, road users": lambda k: open_loop_case(1500, 20 * k),
    "pdm, proposals": lambda k: pdm_case(100 * k),
    "pdm, road users": lambda k: pdm_case(50, users=20 * k),
    "pdm, scenes": lambda k: pdm_case(20, 2 * k),
}


def check_targets(runs: int) -> list[str]:
    """Measure the targets and what four times as much costs; print both, and name what is missed."""
    missed, rows = [], []
    for name, target in TARGETS.items():
        got = measure(CASES[name](), runs)
        per_s = 1e3 * target.items / got.median_ms
        rows.append([name, got.median_ms, got.low_ms, got.high_ms, per_s, target.unit, target.per_s])
        missed += [name] if per_s < target.per_s else []
    columns = ["target", "median ms", "quartile", "quartile", "per s", "of", "at least"]
    print_table(f"CPU time, median of {runs}, {machine()}", columns, rows)
    rows = []
    for name, make in SCALES.items():
        small, large = (measure(make(k), runs).median_ms for k in (1, 4))
        rows.append([name, small, large, large / small])
        missed += [name] if large / small > 4 * LINEAR else []
    print_table("four times as much", ["what", "median ms", "of four times", "ratio"], rows)
    return missed


def main() -> int:
    """Measure, print, and compare or save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15, help="samples per metric (default 15)")
    parser.add_argument("--only", choices=tuple(CASES), nargs="+", default=tuple(CASES))
    parser.add_argument("--baseline", metavar="NAME", help="compare with this saved baseline")
    parser.add_argument("--limit", type=float, default=1.25, help="ratio that fails (default 1.25)")
    parser.add_argument("--save", metavar="NAME", help="save the medians as this baseline")
    parser.add_argument("--targets", action="store_true", help="only the targets, and how costs grow")
    args = parser.parse_args()
    if args.targets:
        missed = check_targets(args.runs)
        print(f"missed: {', '.join(missed)}" if missed else "all targets are met")
        return 1 if missed else 0
    try:
        before = load_baseline(args.baseline) if args.baseline else {}
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    now = {name: measure(CASES[name](), args.runs, _clock(name)) for name in args.only}
    ratio = ratios(now, before)
    rows = [[n, m.median_ms, m.low_ms, m.high_ms, before.get(n), ratio.get(n)] for n, m in now.items()]
    columns = ["metric", "median ms", "quartile", "quartile", args.baseline or "baseline", "ratio"]
    print_table(f"median of {args.runs}, {machine()}", columns, rows)
    if args.save:
        print(f"saved {save_baseline(args.save, now)}")
    slow = [name for name, value in ratio.items() if value > args.limit]
    if slow:
        print(f"slower than {args.limit} x {args.baseline}: {', '.join(slow)}")
    return 1 if slow else 0


def _clock(name: str) -> Callable[[], float]:
    return time.perf_counter if name in OTHER_PROCESS else time.process_time


def _sample(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """Seconds per call."""
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


if __name__ == "__main__":
    sys.exit(main())
