"""Does refining plans help or harm?  On recorded drives, judged by drive.score on the true scene.

    python tools/bench/refinement.py LOGS [LOGS ...] [--model base] [--scenes 200] [--change refine_steps=2]
                                     [--validation-share 0.06] [--exclude-towns Town02 Town10HD]

Plans with the model's own choice, then with the change: once on the scene that the planner predicts, as
it would drive, and once on the true one, which says what better perception could bring. Scenes are
spread evenly over the routes that a training with the same share and seed 0 would keep for validation.
"harmed" is the share of scenes whose reward falls by more than 0.01, "helped" that of those where it
rises by more. Road users are replayed as recorded: they do not react.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from drive.cli.output import print_table
from drive.config import changed
from drive.contracts import Bool, UserError
from drive.data.bundle import DriveSource, find_drives, held_groups
from drive.files import json_safe, write_json
from drive.model.agents import boxes_of
from drive.model.diffusion import sample
from drive.model.field.scene import prepare
from drive.model.field.truth import true_scene
from drive.model.horizon import poses_from_knots
from drive.model.improve import improve, seen_scene
from drive.model.policy import PlannerPolicy, inputs_from
from drive.score import road
from drive.score.bootstrap import paired_bootstrap, wilson
from drive.score.terms import reduce, reward_terms, total
from drive.train.questions import Situation, situations, usable_steps

POINT = 0.01
SEED = 0
GATES = ("no_collision", "on_road", "red_light")
PREDICTED, TRUE = "predicted scene", "true scene"


class Judged(NamedTuple):
    """One plan on the true scene: its reward, and which of GATES hold."""

    reward: float
    holds: tuple[bool, ...]


class Outcome(NamedTuple):
    """One scene: the chosen plan, and what became of it on the predicted and on the true scene."""

    chosen: Judged
    refined: dict[str, Judged]
    accepted: dict[str, bool]


def judge(policy: PlannerPolicy, at: Situation) -> Outcome:
    """Plan one scene without and with the policy's switches."""
    network, seen = policy.network, [at.observation]
    with torch.inference_mode():
        inputs = inputs_from(seen, network)
        scene = network.encode(inputs)
        command, noise = network.emit(scene), policy.noise(seen, SEED)
        made = sample(network, scene, command, inputs.speed_mps, noise)
        told = [(int(command[0, 0]), int(command[0, 1]))]
        fields = {
            PREDICTED: seen_scene(network, scene, inputs, command, boxes_of(network.agents(scene.ground))),
            TRUE: prepare(true_scene([at.scene], commands=told)),
        }
        better = {
            name: improve(network, scene, field, command, made, noise) for name, field in fields.items()
        }
    knots = [made.chosen_ego[0], *(one.knots_ego[0] for one in better.values())]
    poses = poses_from_knots(torch.stack(knots).numpy(), at.scene.speed_mps)
    all_poses = poses_from_knots(made.knots_ego[0].numpy(), at.scene.speed_mps)
    every = np.concatenate([all_poses, at.label_ego[None]])[..., :2].astype(np.float64)
    full_m = float(road.along(every, at.scene.route_ego)[:, -1].max(initial=0.0))
    terms = reward_terms(poses, at.scene, full_m)
    one, reward = reduce(terms), total(terms)
    judged = [
        Judged(float(reward[k]), tuple(bool(one[gate][k] == 1.0) for gate in GATES))
        for k in range(len(poses))
    ]
    accepted = {name: bool(found.changed[0]) for name, found in better.items()}
    return Outcome(judged[0], dict(zip(better, judged[1:], strict=True)), accepted)


def scenes(drives: Sequence[DriveSource], count: int, images: bool) -> Iterator[Situation]:
    """About `count` planning steps, spread evenly over the drives."""
    from drive.logs import read_drive

    for k, drive in enumerate(drives):
        wanted = (k + 1) * count // len(drives) - k * count // len(drives)
        if not wanted:
            continue
        log = read_drive(drive.folder.parents[1], drive.log_id, images=images)
        steps = usable_steps(log)
        at = np.unique(np.linspace(0, len(steps) - 1, wanted).round().astype(int)) if len(steps) else []
        yield from situations(log, steps[at])


def summary(found: Sequence[Outcome], name: str) -> dict[str, Any]:
    """Numbers of one kind of scene: shares with 95 % intervals, and the mean gain of reward."""
    before = np.array([one.chosen.reward for one in found])
    after = np.array([one.refined[name].reward for one in found])
    failed = {
        gate: [float(np.mean([not judged.holds[k] for judged in plans])) for plans in _both(found, name)]
        for k, gate in enumerate(GATES)
    }

    def share(rows: Bool) -> list[float]:
        count = wilson(float(rows.sum()), len(rows))
        return [count.mean, count.low, count.high]

    gain = paired_bootstrap(after, before, SEED)
    return {
        "scenes": len(found),
        "broken_before_after": failed,
        "changed": float(np.mean([one.accepted[name] for one in found])),
        "harmed": share(after < before - POINT),
        "helped": share(after > before + POINT),
        "reward": [float(before.mean()), float(after.mean())],
        "gain": [gain.mean, gain.low, gain.high],
    }


def _both(found: Sequence[Outcome], name: str) -> tuple[list[Judged], list[Judged]]:
    return [one.chosen for one in found], [one.refined[name] for one in found]


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure and print; returns the numbers."""
    from drive.cli.policies import model_folder
    from drive.model.folder import load_model, same_weights

    network, meta = load_model(model_folder(args.model))
    config = changed(network.config, args.change, "--change")
    if not same_weights(config, network.config):
        raise UserError(f"--change {' '.join(args.change)}: asks for other weights; only switches can be set")
    if not config.use_image or not (config.refine_steps or config.reflect_rounds):
        raise UserError(
            f"{args.model}: nothing to refine; give --change refine_steps=2 and a planner that sees"
        )
    network.config = config
    policy = PlannerPolicy(network, f"planner-{meta.model_id}")
    drives = find_drives(args.logs, args.exclude_towns)
    held = held_groups({drive.group for drive in drives}, args.validation_share, SEED)
    kept = [drive for drive in drives if drive.group in held]
    found = [judge(policy, at) for at in scenes(kept, args.scenes, policy.needs_images)]
    if not found:
        raise UserError(f"{', '.join(map(str, args.logs))}: no usable planning step on validation routes")
    numbers = {name: summary(found, name) for name in (PREDICTED, TRUE)}
    rows = [
        [
            name,
            *(f"{100 * a:.1f} -> {100 * b:.1f}" for a, b in one["broken_before_after"].values()),
            100 * one["changed"],
            f"{100 * one['harmed'][0]:.1f} [{100 * one['harmed'][1]:.1f}, {100 * one['harmed'][2]:.1f}]",
            f"{100 * one['helped'][0]:.1f} [{100 * one['helped'][1]:.1f}, {100 * one['helped'][2]:.1f}]",
            f"{one['gain'][0]:+.3f} [{one['gain'][1]:+.3f}, {one['gain'][2]:+.3f}]",
        ]
        for name, one in numbers.items()
    ]
    title = f"{meta.model_id}, {' '.join(args.change)}: {len(found)} scenes of {len(held)} routes, in %"
    print_table(
        title, ["", "collision", "off road", "red light", "changed", "harmed", "helped", "reward"], rows
    )
    return {"model_id": meta.model_id, "change": args.change, "routes": sorted(held), **numbers}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure one model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOGS", help="folders of recorded drives")
    parser.add_argument("--model", default="base", help="base (the shipped model, default) or a model folder")
    parser.add_argument("--scenes", type=int, default=200, metavar="N", help="planning steps (default: 200)")
    parser.add_argument("--change", nargs="*", default=["refine_steps=2"], metavar="KEY=VALUE")
    parser.add_argument("--validation-share", type=float, default=0.06, help="as in training (default: 0.06)")
    parser.add_argument("--exclude-towns", nargs="*", default=["Town02", "Town10HD"], metavar="TOWN")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers as JSON")
    args = parser.parse_args(argv)
    try:
        if args.scenes < 1 or not 0 < args.validation_share < 1:
            raise UserError("--scenes must be at least 1 and --validation-share between 0 and 1")
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
