"""Anchored sampling: a little noise is added to anchors and removed in two steps, under the command."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from drive.model.anchors import carries_out
from drive.model.network import NO_COMMAND, PlannerNetwork, Scene
from drive.model.noise import chain_of


class Proposals(NamedTuple):
    """Result of sampling.

    Attributes:
        knots_ego: float32 (B, P, 8, 2) [m]; row 0 started from the intent (if the network has one), the rest
            from anchors.
        scores: float32 (B, P), command bonus and caution included.
        obeys: bool (B, P), which proposals carry out the command.
        safety: float32 (B, P), logarithm of how likely the critic finds them safe.
        chosen_ego: float32 (B, 8, 2) [m], the trajectory to drive.
    """

    knots_ego: Tensor
    scores: Tensor
    obeys: Tensor
    safety: Tensor
    chosen_ego: Tensor


def sample(
    network: PlannerNetwork,
    scene: Scene,
    command: Tensor,
    speed_mps: Tensor,
    noise: Tensor,
    guide: Callable[[Tensor], Tensor] | None = None,
) -> Proposals:
    """Noise the command's start points and denoise them under the command.

    The regression head plans its one trajectory without noise.

    Args:
        network: In eval mode.
        scene: Output of `network.encode`.
        command: int64 (B, 2), emitted command, NO_COMMAND = unconditioned.
        speed_mps: float32 (B,).
        noise: float32 (B, P, 16), standard normal.
        guide: Shift of clean states (B, P, 16), added after every denoising step.
    """
    condition = network.condition(scene.features, command)
    start = network.starts(condition)  # (B, P, 16)
    if network.config.head == "regression":
        knots, scores = network.metres(start), start.new_zeros(start.shape[:2])
        return Proposals(knots, scores, obedience(command, knots, speed_mps), scores, knots[:, 0])
    state = _denoised(network, scene, command, start, noise, guide)
    knots, scores = network.metres(state), network.score(scene.ground, condition, state)
    obeys = obedience(command, knots, speed_mps)
    safety = safety_of(network.faults(scene, state))
    scores = scores + network.config.command_bonus * obeys + network.config.caution * safety
    return Proposals(knots, scores, obeys, safety, consensus(knots, scores, network.config.consensus_m))


def safety_of(faults: Tensor) -> Tensor:
    """Logarithm of the probability that none of the faults happens: logits (B, P, 4) -> (B, P)."""
    return logsigmoid(-faults).sum(-1)


def around(
    network: PlannerNetwork, scene: Scene, command: Tensor, knots_ego: Tensor, noise: Tensor
) -> Tensor:
    """Proposals (B, P, 8, 2) drawn from around one trajectory (B, 8, 2) each: noised and denoised again."""
    start = network.normalise(knots_ego)[:, None].expand_as(noise)
    return network.metres(_denoised(network, scene, command, start, noise))


def _denoised(
    network: PlannerNetwork,
    scene: Scene,
    command: Tensor,
    start: Tensor,
    noise: Tensor,
    guide: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """States (B, P, 16) that start from `start` with noise, after the steps under the command."""
    condition = network.condition(scene.features, command)
    chain = chain_of(network.config)
    weight = network.config.guidance
    free = network.condition(scene.features, torch.full_like(command, NO_COMMAND)) if weight != 1.0 else None
    state = chain.begin(start, noise)
    for index, level in enumerate(chain.levels):
        levels = command.new_full((len(start),), level)
        clean = network.denoise(scene.ground, condition, start, state, levels)
        if free is not None:
            clean_free = network.denoise(scene.ground, free, start, state, levels)
            clean = clean_free + weight * (clean - clean_free)
        if guide is not None:
            clean = clean + guide(clean)
        state = chain.step(clean, index, state)
    return state


def consensus(knots_ego: Tensor, scores: Tensor, reach_m: float) -> Tensor:
    """What the proposals near the best one agree on: smoother than any of them, and of one mode only.

    Args:
        knots_ego: (B, P, 8, 2) [m].
        scores: (B, P), logits.
        reach_m: Proposals this near to the one with the highest score (mean distance) count, weighted by the
            softmax of the scores; 0 = that one alone.

    Returns:
        (B, 8, 2) [m].
    """
    best = scores.argmax(1, keepdim=True)
    top = knots_ego.take_along_dim(best[..., None, None], 1)
    apart = (knots_ego - top).norm(dim=-1).mean(-1).scatter(1, best, 0.0)
    share = scores.softmax(1) * (apart <= reach_m)
    share = share / share.sum(1, keepdim=True)
    return (knots_ego * share[..., None, None]).sum(1)


def obedience(command: Tensor, knots_ego: Tensor, speed_mps: Tensor) -> Tensor:
    """Bool (B, P): proposals (B, P, 8, 2) that carry out the command (B, 2); none without a command."""
    told = (command >= 0).all(1, keepdim=True)
    match = carries_out(
        command.cpu().numpy(), knots_ego.detach().float().cpu().numpy(), speed_mps.cpu().numpy()
    )
    return torch.from_numpy(match).to(command.device) & told
