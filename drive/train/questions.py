"""Is it one brain? Questions put to a planner on recorded scenes, judged on the true scene."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from drive.contracts import F32, F64, I64, DriveLog, Lateral, Longitudinal, Observation
from drive.data.observations import observation_at
from drive.geometry.commands import LEAD_GAP_M, agree, kind_of
from drive.model.agents import boxes_of
from drive.model.config import ModelConfig
from drive.model.diffusion import Proposals, consensus, sample
from drive.model.field.scene import Prepared
from drive.model.horizon import KNOTS, STRIDE, poses_from_knots
from drive.model.improve import improve, seen_scene
from drive.model.network import Inputs, PlannerNetwork, Scene
from drive.model.policy import PlannerPolicy, inputs_from
from drive.score.choices import Choices, choices, kinds_of, modes, safe
from drive.score.scene import FrozenScene, freeze_log
from drive.score.terms import reward_terms, total
from drive.score.trials import HORIZON_S
from drive.score.ways import branches, distinct_lanes

COUNTS = (1, 2, 4, 8, 16)
REFLECT = ModelConfig(refine_steps=1, reflect_rounds=3)
WRONG_PER_SCENE = 4
MODES = 3
_ACCEL_MPS2 = 2.4
_LATE_S = 0.05
_ALARMS = {"split_brain", "fallback"}

Sums = dict[str, list[float]]


class Situation(NamedTuple):
    """A planning step of a recorded drive, and the truth about it."""

    observation: Observation
    scene: FrozenScene
    label_ego: F32
    lead_gap_m: float


def usable_steps(log: DriveLog) -> I64:
    """Planning steps with a label and four recorded seconds to come, int64 (K,)."""
    plans, t_s = log.plans, (log.ego.t_us - log.ego.t_us[-1]) * 1e-6
    early = t_s[plans.step] <= -HORIZON_S + _LATE_S
    return np.flatnonzero(early & np.isfinite(plans.label_ego).all((1, 2)))


def situations(log: DriveLog, steps: Sequence[int] | I64) -> Iterator[Situation]:
    """The given planning steps of a drive."""
    for step in steps:
        lead_m = float(log.plans.aux[step, 2])
        lead_m = lead_m if lead_m < LEAD_GAP_M else np.inf  # NaN = unknown = none
        yield Situation(
            observation_at(log, int(step)), freeze_log(log, int(step)), log.plans.label_ego[step], lead_m
        )


def ask(policy: PlannerPolicy, situation: Situation, seed: int = 0) -> Sums:
    """All questions about one situation: name -> [sum, number of answers].

    A situation in which not even one roll-out is safe (it is too late, or off the road) counts as
    `no_way_out` and asks nothing more. Else, with what `choices` calls feasible and wrong:

    * agrees: does the plan carry out the command that the planner emits? also per lateral and longitudinal
      word, as "agrees/keep".
    * safe: do all gates of drive.score hold for the plan?
    * obeys: told another feasible command of another kind, does the plan carry it out? also per command.
    * wrong_safe, wrong_flagged: told a wrong command (up to 4, drawn by the situation's time), do the gates
      hold for what is driven, and does the plan carry the flag split_brain? also per lateral word.
    * ade_m/N, best_ade_m/N, reward/N: distance to the label of the chosen and the nearest of N proposals (the
      intended one first, then anchors in an order drawn by the situation's time), and the reward of the
      chosen one, not refined, whose progress is relative to the furthest safe roll-out;
      reflected/N: the same after refinement and REFLECT.reflect_rounds rounds of reflection.
    * modes: where the map branches and 3 kinds of command are feasible, do the safe proposals carry out at
      least 3 distinct ones? covered: share of these kinds that a safe proposal carries out.
    """
    judged = choices(situation.scene, situation.lead_gap_m, situation.label_ego[None].astype(np.float64))
    sums: Sums = defaultdict(lambda: [0.0, 0])
    _count(sums, "no_way_out", not len(judged.safe_ego))
    if len(judged.safe_ego):
        _ask_own(sums, policy, situation, judged, seed)
        _ask_counts(sums, policy, situation, judged, seed)
        if policy.network.config.use_command:
            _ask_told(sums, policy, situation, judged, seed)
    return dict(sums)


def _count(sums: Sums, name: str, value: float) -> None:
    sums[name][0] += float(value)
    sums[name][1] += 1


def _ask_own(sums: Sums, policy: PlannerPolicy, at: Situation, judged: Choices, seed: int) -> None:
    plan = policy.plan([at.observation], seed)[0]
    fine = safe(plan.proposals_ego.astype(np.float64), at.scene)
    _count(sums, "safe", fine[0])
    if plan.command is not None:
        agrees = not _ALARMS & set(plan.flags)
        _count(sums, "agrees", agrees)
        _count(sums, f"agrees/{plan.command.lateral.name.lower()}", agrees)
        _count(sums, f"agrees/{plan.command.longitudinal.name.lower()}", agrees)
    reach_m = HORIZON_S * at.scene.speed_mps + _ACCEL_MPS2 * HORIZON_S**2 / 2
    possible = kinds_of(judged.command[judged.feasible])
    if len(possible) < MODES or branches(distinct_lanes(at.scene), reach_m) < 2:
        return
    good = plan.proposals_ego[fine].astype(np.float64)
    _count(sums, "modes", modes(good, at.scene.speed_mps) >= MODES)
    covered = agree(possible[:, None], good[None], np.full((1, len(good)), at.scene.speed_mps)).any(1)
    sums["covered"][0] += float(covered.sum())
    sums["covered"][1] += len(possible)


@torch.inference_mode()
def _ask_counts(sums: Sums, policy: PlannerPolicy, at: Situation, judged: Choices, seed: int) -> None:
    network, seen = policy.network, [at.observation]
    inputs = inputs_from(seen, network)
    scene = network.encode(inputs)
    noise = policy.noise(seen, seed)
    made = sample(network, scene, network.emit(scene), inputs.speed_mps, noise)
    order = np.arange(network.proposals)
    draw = np.random.default_rng([seed, at.observation.t_us % 2**64])
    order[network.intents :] = draw.permutation(order[network.intents :])
    label = at.label_ego[STRIDE - 1 :: STRIDE, :2]
    counts = [count for count in COUNTS if count <= len(order)]
    chosen: list[F32] = []
    names: list[str] = []
    field = _seen(network, inputs, scene) if network.config.use_image else None
    for count in counts:
        some = torch.from_numpy(order[:count])
        knots, scores = made.knots_ego[:, some], made.scores[:, some]
        picked = consensus(knots, scores, network.config.consensus_m)
        _count(sums, f"ade_m/{count}", _ade(picked[0].numpy(), label).item())
        _count(sums, f"best_ade_m/{count}", _ade(knots[0].numpy(), label).min())
        chosen, names = [*chosen, picked[0].numpy()], [*names, f"reward/{count}"]
        if field is not None:
            few = Proposals(knots, scores, made.obeys[:, some], made.safety[:, some], picked)
            better = improve(network, scene, field, network.emit(scene), few, noise[:, some], REFLECT)
            chosen, names = [*chosen, better.knots_ego[0].numpy()], [*names, f"reflected/{count}"]
    poses = poses_from_knots(np.stack(chosen), at.scene.speed_mps)
    rewards = total(reward_terms(poses, at.scene, judged.progress_m))
    for name, reward in zip(names, rewards, strict=True):
        _count(sums, name, reward)


def _seen(network: PlannerNetwork, inputs: Inputs, scene: Scene) -> Prepared:
    return seen_scene(network, scene, inputs, network.emit(scene), boxes_of(network.agents(scene.ground)))


def _ade(knots_ego: F32, label_ego: F32) -> F64:
    return np.asarray(np.linalg.norm(knots_ego - label_ego, axis=-1).reshape(-1, KNOTS).mean(-1))


def _ask_told(sums: Sums, policy: PlannerPolicy, at: Situation, judged: Choices, seed: int) -> None:
    own = policy.plan([at.observation], seed)[0].command
    assert own is not None
    mine = kind_of([own.lateral, own.longitudinal])
    other = np.flatnonzero(judged.feasible & (kind_of(judged.command) != mine))
    wrong = np.flatnonzero(judged.wrong)
    draw = np.random.default_rng([seed, at.observation.t_us % 2**64, 1])
    wrong = np.sort(draw.permutation(wrong)[:WRONG_PER_SCENE])
    told = judged.command[[*other, *wrong]]
    if not len(told):
        return
    plans = policy.plan([at.observation] * len(told), seed, told.astype(np.int64))
    fine = safe(np.stack([plan.best.pose_ego for plan in plans]).astype(np.float64), at.scene)
    for row, (plan, command) in enumerate(zip(plans, told, strict=True)):
        flagged, side = bool(_ALARMS & set(plan.flags)), Lateral(int(command[0])).name.lower()
        if row < len(other):
            _count(sums, "obeys", not flagged)
            _count(sums, f"obeys/{side}/{Longitudinal(int(command[1])).name.lower()}", not flagged)
            continue
        for name, value in (("wrong_safe", fine[row]), ("wrong_flagged", flagged)):
            _count(sums, name, value)
            _count(sums, f"{name}/{side}", value)
