"""How long does one plan take, and which part of it?  Wall and CPU time by threads and by proposals.

    python tools/bench/planner_latency.py [--model base] [--threads 1 2] [--proposals 25 50 100] [--runs 100]
                                          [--change refine_steps=2]

Batch 1. Each time is the median over the runs of what a part of `PlannerPolicy.plan` took itself, without
the parts it calls, and in one column the time that a tenth of the runs exceed; they are timed inside whole
plans, so that caches are as warm as in a drive. --change sets switches of the model. "after the
backbone" is everything but the preparation of the picture and the image encoder. Ratios are against one part
of the same run (--baseline), so that they can be compared between machines. Other numbers of proposals repeat
the model's anchors: they cost what so many proposals cost, and mean nothing.
"""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil

from drive.cli.output import print_table
from drive.config import changed
from drive.contracts import CameraModel, Observation, RouteHint, Turn, UserError
from drive.files import json_safe, write_json

WHOLE, AFTER, REST = "whole plan", "after the backbone", "rest"
PREPARE, BACKBONE = "prepare", "backbone"
MOUNT_M = (1.9, 0.0, 1.7)
WARM_UP = 5
MEGABYTE = 1e6


@dataclass(frozen=True)
class Cost:
    """One part over the runs [ms]: median of wall clock and all threads' CPU time, 90 % quantile of wall."""

    wall_ms: float
    cpu_ms: float
    wall_p90_ms: float


@dataclass
class Clock:
    """Adds up what each part takes itself in the plan that is running: name -> [wall s, CPU s]."""

    spent: dict[str, list[float]] = field(default_factory=dict)
    inside: list[list[float]] = field(default_factory=lambda: [[0.0, 0.0]])

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, with its time under `name`; what timed calls inside it take counts for them only."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self.inside.append([0.0, 0.0])
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return call(*args, **kwargs)
            finally:
                took = time.perf_counter() - wall, time.process_time() - cpu
                within = self.inside.pop()
                own = self.spent.setdefault(name, [0.0, 0.0])
                for i in range(2):
                    own[i] += took[i] - within[i]
                    self.inside[-1][i] += took[i]

        return run


def observations(camera: Any, count: int = 8) -> list[Observation]:
    """Standing to 12 m/s on noise pictures that already fit the planner's camera (a CameraSpec)."""
    model = np.eye(4)
    model[:3, :3] = camera.rotation
    model[:3, 3] = -camera.rotation @ np.array(MOUNT_M)
    size = (camera.width_px, camera.height_px)
    random = np.random.default_rng(0)
    seen = []
    for k in range(count):
        speed = 12.0 * k / max(1, count - 1)
        history = np.stack([-speed * np.arange(4, -1, -1) * 0.5, np.zeros(5), np.zeros(5)], -1)
        picture = random.integers(0, 256, (2, size[1], size[0], 3)).astype(np.uint8)
        targets = np.array([[10.0, 0.3 * k], [25.0, 1.5 * k]], np.float32)
        seen.append(
            Observation(
                t_us=200_000 * k,
                images={camera.name: picture},
                cameras={camera.name: CameraModel(camera.intrinsics, model, size)},
                history_ego=history.astype(np.float32),
                speed_mps=speed,
                accel_mps2=0.0,
                yaw_rate_radps=0.0,
                route=RouteHint(Turn.FOLLOW, targets, 13.9),
                before_ego=np.array([[-0.4 * speed, 0.0, 0.0]], np.float32),
            )
        )
    return seen


@contextmanager
def clocked(policy: Any) -> Iterator[Clock]:
    """Time the parts of the policy's plans inside the block."""
    from drive.model import diffusion
    from drive.model import policy as module

    network, clock = policy.network, Clock()
    parts = {
        PREPARE: (module, "inputs_from"),
        BACKBONE: (network, "see"),
        "command head": (network, "interpret"),
        "road users": (network.agents, "forward"),
        "their boxes": (module, "boxes_of"),
        "start points": (network, "starts"),
        "denoising": (network, "denoise"),
        "scoring": (network, "score"),
        "check of the command": (diffusion, "obedience"),
        "noise, schedule, sums": (module, "sample"),
        "predicted scene": (module, "seen_scene"),
        "critique, refinement": (module, "improve"),
        "ranking, 10 Hz poses": (module, "_plan"),
    }
    with ExitStack() as stack:
        for name, (owner, attribute) in parts.items():
            timed = clock.timed(name, getattr(owner, attribute))
            stack.enter_context(patch.object(owner, attribute, timed))
        yield clock


def measure(policy: Any, seen: Sequence[Observation], runs: int) -> dict[str, Cost]:
    """Medians per part of `runs` plans, one observation each; the first plans warm up and do not count."""
    spent: list[dict[str, list[float]]] = []
    for observation in islice(cycle(seen), WARM_UP):
        policy.plan([observation], 0)
    with clocked(policy) as clock:
        whole = clock.timed(WHOLE, policy.plan)
        for observation in islice(cycle(seen), runs):
            clock.spent = {}
            whole([observation], 0)
            spent.append(clock.spent)
    names = list(dict.fromkeys(name for one in spent for name in one if name != WHOLE))
    rows = [_with_sums(one) for one in spent]
    return {
        name: _median([row.get(name, [0.0, 0.0]) for row in rows]) for name in [*names, REST, AFTER, WHOLE]
    }


def _with_sums(spent: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """One plan's own times, with the rest, everything after the backbone, and the whole."""
    whole = [sum(own[i] for own in spent.values()) for i in range(2)]
    before = [sum(spent.get(name, [0.0, 0.0])[i] for name in (PREPARE, BACKBONE)) for i in range(2)]
    after = [total - first for total, first in zip(whole, before, strict=True)]
    return {**spent, REST: spent[WHOLE], AFTER: after, WHOLE: whole}


def _median(times: Sequence[Sequence[float]]) -> Cost:
    wall, cpu = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
    return Cost(wall, cpu, float(1e3 * np.quantile([time[0] for time in times], 0.9)))


@contextmanager
def with_proposals(network: Any, count: int) -> Iterator[None]:
    """Let the network make `count` proposals inside the block, by repeating or leaving out anchors."""
    anchors, wanted = network.anchors, count - network.intents
    if wanted < 1:
        raise UserError(f"--proposals {count}: at least {network.intents + 1}")
    network.anchors = anchors.repeat(-(-wanted // len(anchors)), 1, 1)[:wanted]
    try:
        yield
    finally:
        network.anchors = anchors


def memory_mb() -> tuple[float, float]:
    """Resident memory of this process, now and at most so far [MB]."""
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return psutil.Process().memory_info().rss / MEGABYTE, peak_kb * 1024 / MEGABYTE


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure and print; returns the numbers."""
    import torch

    from drive.cli.policies import model_folder
    from drive.model.folder import load_model, same_weights
    from drive.model.policy import PlannerPolicy

    folder = model_folder(args.model)
    before_mb, _ = memory_mb()
    network, meta = load_model(folder)
    config = changed(network.config, args.change, "--change")
    if not same_weights(config, network.config):
        raise UserError(f"--change {' '.join(args.change)}: asks for other weights; only switches can be set")
    network.config = config
    policy = PlannerPolicy(network, f"planner-{meta.model_id}")
    seen = observations(network.config.camera)
    stages: dict[int, dict[str, Cost]] = {}
    proposals: dict[int, dict[int, Cost]] = {}
    for threads in args.threads:
        torch.set_num_threads(threads)
        stages[threads] = measure(policy, seen, args.runs)
        if args.baseline not in stages[threads]:
            raise UserError(f"--baseline {args.baseline}: no such part; parts: {', '.join(stages[threads])}")
        _print_stages(meta.model_id, network.proposals, threads, args, stages[threads])
        proposals[threads] = {}
        for count in args.proposals if network.config.head == "diffusion" else ():
            with with_proposals(network, count):
                proposals[threads][count] = measure(policy, seen, args.runs)[AFTER]
        _print_proposals(threads, proposals[threads])
    _, peak_mb = memory_mb()
    print(f"\nmemory: {before_mb:.0f} MB before the model was loaded, peak {peak_mb:.0f} MB")
    parameters = sum(p.numel() for p in network.parameters())
    return {
        "model_id": meta.model_id,
        "parameters": parameters,
        "runs": args.runs,
        "baseline": args.baseline,
        "change": args.change,
        "stages": stages,
        "proposals": proposals,
        "memory_before_mb": before_mb,
        "memory_peak_mb": peak_mb,
    }


def _print_stages(
    model_id: str, proposals: int, threads: int, args: argparse.Namespace, stages: Mapping[str, Cost]
) -> None:
    base = stages[args.baseline].wall_ms
    rows = [
        [name, cost.wall_ms, cost.wall_p90_ms, cost.cpu_ms, cost.wall_ms / base]
        for name, cost in stages.items()
    ]
    title = f"{model_id}, {proposals} proposals, batch 1, {threads} thread(s), median of {args.runs}"
    print_table(title, ["part", "wall ms", "wall p90", "CPU ms", f"x {args.baseline}"], rows)


def _print_proposals(threads: int, costs: Mapping[int, Cost]) -> None:
    if not costs:
        return
    least = min(costs)
    rows = [
        [count, cost.wall_ms, cost.cpu_ms, cost.wall_ms / costs[least].wall_ms, count / least]
        for count, cost in sorted(costs.items())
    ]
    columns = ["proposals", "wall ms", "CPU ms", f"cost x {least}", f"proposals x {least}"]
    print_table(f"{AFTER}, {threads} thread(s)", columns, rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure one model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="base", help="base (the shipped model, default) or a model folder")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="default: 1 2")
    parser.add_argument(
        "--proposals", type=int, nargs="*", default=[25, 50, 100], metavar="N", help="default: 25 50 100"
    )
    parser.add_argument("--runs", type=int, default=100, help="plans per number (default: 100)")
    parser.add_argument(
        "--baseline", default=BACKBONE, metavar="PART", help="part of ratio 1 (default: backbone)"
    )
    parser.add_argument(
        "--change",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help="switches of the model, as refine_steps=2",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the numbers as JSON")
    args = parser.parse_args(argv)
    try:
        for name, least in (("threads", 1), ("runs", 1)):
            values = getattr(args, name)
            if min(values if isinstance(values, list) else [values]) < least:
                raise UserError(f"--{name}: must be at least {least}")
        numbers = run(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.json:
        write_json(Path(args.json), json_safe(numbers))
        print(f"wrote {args.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
