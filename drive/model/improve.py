"""Critique of the chosen trajectory on the predicted scene, refinement, and reflection."""

from typing import NamedTuple

import torch
from torch import Tensor

from drive.model.agents import Boxes
from drive.model.config import ModelConfig
from drive.model.diffusion import Proposals, around
from drive.model.field.guidance import Guidance
from drive.model.field.refine import HELD, Refined, RefineOptions, keep, refine
from drive.model.field.reflect import reflect
from drive.model.field.reward import GATE_COUNT, NAMES, RewardField, Scored
from drive.model.field.scene import Prepared, prepare
from drive.model.network import Inputs, PlannerNetwork, Scene
from drive.model.predicted import predicted_scene

FIELD = RewardField()
_TOLD = 0.02  # smaller changes of a term are not worth a word


class Improved(NamedTuple):
    """What became of the chosen trajectories.

    Attributes:
        knots_ego: (B, 8, 2) [m]; where nothing was accepted the input, bit for bit.
        changed: bool (B,).
        critique: (B, 10), terms in [0, 1] on the predicted scene, in the order of field.reward.NAMES.
        why: Per row, what the change was for; "" where there was none.
    """

    knots_ego: Tensor
    changed: Tensor
    critique: Tensor
    why: tuple[str, ...]


def wanted(network: PlannerNetwork) -> bool:
    """Does this planner look at its plans on the scene that it predicts?"""
    config = network.config
    return bool(config.refine_steps or config.reflect_rounds or config.field_guidance)


def seen_scene(
    network: PlannerNetwork, scene: Scene, inputs: Inputs, command: Tensor, boxes: Boxes
) -> Prepared:
    """The predicted scene of a batch, prepared."""
    ground = network.ground.logits(scene.ground).sigmoid().numpy()
    seen = network.seen_cells.cpu().numpy()
    return prepare(predicted_scene(scene, inputs, command, boxes, ground, seen))


def guidance(network: PlannerNetwork, field_scene: Prepared) -> Guidance | None:
    """What pulls the denoising steps; None = nothing."""
    scale = network.config.field_guidance
    return Guidance(field_scene, FIELD, network.mean, network.std, scale=scale) if scale else None


def improve(
    network: PlannerNetwork,
    scene: Scene,
    field_scene: Prepared,
    command: Tensor,
    proposals: Proposals,
    noise: Tensor,
    config: ModelConfig | None = None,
) -> Improved:
    """Improve the chosen trajectories of a batch.

    All proposals are judged once, which also says how much progress counts as full.

    Args:
        network: With `refine_steps` or `reflect_rounds`; else the critique is all that is made.
        scene: Output of `network.encode`.
        field_scene: The predicted scene.
        command: int64 (B, 2).
        proposals: What was sampled.
        noise: (B, P, 16), standard normal, for what a reflection draws anew.
        config: Whose `refine_steps` and `reflect_rounds` count; None = the network's.
    """
    config = config or network.config
    chosen = proposals.chosen_ego
    scored = FIELD.score(torch.cat([chosen[:, None], proposals.knots_ego], 1), field_scene)
    first = scored.at(torch.zeros(len(chosen), dtype=torch.long, device=chosen.device))
    options = RefineOptions(steps=config.refine_steps)
    best = refine(chosen, first, field_scene, FIELD, options)
    if config.refine_steps:
        best = instead(best, first, proposals, scored, options)
    if config.reflect_rounds:

        def renoise(knots: Tensor, turn: int) -> Tensor:
            if turn == 0 or network.config.head == "regression":
                return proposals.knots_ego
            return around(network, scene, command, knots, noise.roll(turn, 1))

        best = reflect(best, field_scene, FIELD, renoise, config.reflect_rounds, options).best
    why = tuple(_why(first.terms[row, 0], best, row) for row in range(len(chosen)))
    return Improved(best.knots, best.accepted, best.score.terms[:, 0], why)


def instead(
    best: Refined, first: Scored, proposals: Proposals, scored: Scored, options: RefineOptions
) -> Refined:
    """Another proposal, where a gate stays broken whatever small change is made: a command may be wrong.

    Args:
        best: As refined.
        first: Score of the chosen trajectories.
        proposals: All of them.
        scored: Score of the chosen trajectory and then of all proposals.
        options: Bounds of what is accepted; another proposal may lie anywhere.
    """
    broken = (best.score.terms[:, 0, :GATE_COUNT] < HELD).any(-1)
    others = Scored(scored.terms[:, 1:], scored.total[:, 1:], scored.best_m)
    return keep(best, proposals.knots_ego, others, first, broken, options)[0]


def _why(before: Tensor, best: Refined, row: int) -> str:
    if not bool(best.accepted[row]):
        return ""
    gain = (best.score.terms[row, 0] - before).tolist()
    return "changed for " + ", ".join(
        name.replace("_", " ") for name, value in zip(NAMES, gain, strict=True) if value > _TOLD
    )
