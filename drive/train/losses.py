"""What the planner is trained on."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from drive.data.ground import OCCUPIED
from drive.data.samples import MAX_DISTANCE_M
from drive.model.anchors import LATERAL_WEIGHT
from drive.model.diffusion import obedience
from drive.model.horizon import STRIDE
from drive.model.network import NO_COMMAND, Inputs, PlannerNetwork, Scene
from drive.model.noise import chain_of
from drive.train.agents import agents_loss
from drive.train.weights import LossWeights

Batch = dict[str, Tensor]
_NEAR_LEAD_M = 45.0
_RARE_WEIGHT = 4.0


class Denoised(NamedTuple):
    """One noised and denoised batch: command used (B, 2), start, clean (B, P, 16), scores (B, P)."""

    command: Tensor
    start: Tensor
    clean: Tensor
    scores: Tensor


def inputs_of(batch: Batch) -> Inputs:
    """The part of a batch that the planner may see."""
    return Inputs(*(batch[name] for name in Inputs._fields))


def noise_and_denoise(
    network: PlannerNetwork, scene: Scene, command: Tensor, knots_ego: Tensor, generator: torch.Generator
) -> Denoised:
    """Noise the start points of `command` to a random level and denoise them once.

    Without `use_command` no command counts; the regression head's start is its result.

    Args:
        network: In training.
        scene: Of a batch of B.
        command: int64 (B, 2).
        knots_ego: (B, 8, 2) [m], the labels: where the intent and the nearest anchor ought to end.
        generator: Draws levels and noise.
    """
    if not network.config.use_command:
        command = torch.full_like(command, NO_COMMAND)
    condition = network.condition(scene.features, command)
    start = network.starts(condition)
    if network.config.head == "regression":
        return Denoised(command, start, start, start.new_zeros(start.shape[:2]))
    intents = network.intents
    origin = torch.cat([start[:, :intents].detach(), start[:, intents:]], 1)
    mine = nearest_anchor(network, origin, knots_ego)
    place = torch.arange(start.shape[1], device=start.device)
    told = (place < intents) | (place == mine)
    goal = torch.where(told[..., None], network.normalise(knots_ego)[:, None], origin)
    noise = torch.randn(start.shape, generator=generator).to(start.device)
    noisy = chain_of(network.config).noised(origin, goal, noise, generator)
    clean = network.denoise(scene.ground, condition, origin, noisy.state, noisy.level)
    # Scoring must not move what it scores.
    return Denoised(command, start, clean, network.score(scene.ground, condition, clean.detach()))


def hide_commands(command: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Replace a random share of commands (B, 2) by NO_COMMAND."""
    hidden = torch.rand(len(command), generator=generator).to(command.device) < share
    return torch.where(hidden[:, None], NO_COMMAND, command)


def nearest_anchor(network: PlannerNetwork, start: Tensor, knots_ego: Tensor) -> Tensor:
    """Which of the starts (B, P, 16) is the anchor nearest to the label (B, 8, 2): int64 (B, 1)."""
    intents = network.intents
    return intents + distances_m(network, start[:, intents:], knots_ego).argmin(1, keepdim=True)


def distances_m(network: PlannerNetwork, state: Tensor, knots_ego: Tensor) -> Tensor:
    """Mean distance of trajectories (B, P, 16) to labels (B, 8, 2), sideways x 2.5: (B, P) [m]."""
    gap = network.metres(state) - knots_ego[:, None]
    return (gap * gap.new_tensor([1.0, LATERAL_WEIGHT])).norm(dim=-1).mean(-1)


def imitation_loss(
    network: PlannerNetwork, scene: Scene, done: Denoised, batch: Batch, weights: LossWeights
) -> dict[str, Tensor]:
    """Loss terms, already weighted; their sum is the loss. What the network lacks has no term."""
    config, weight = network.config, batch["weight"]
    label = network.normalise(knots_of(batch))
    terms = {}
    if network.intents:
        intent = (done.start[:, 0] - label).abs().mean(1)
        terms["intent"] = weights.intent * (intent * weight).mean()
    if config.head != "regression":
        terms |= _denoising_loss(network, done, batch, weights)
    if config.use_command:
        terms["command"] = weights.command * _command_loss(scene, batch["command"], weight)
    if config.use_image:
        terms["perception"] = weights.perception * _perception_loss(scene, batch, weights.near_lead)
        terms["ground"] = weights.ground * _ground_loss(
            network.ground.logits(scene.ground), batch, network.seen_cells
        )
        known = batch["ground_known"][:, OCCUPIED]
        raw = network.agents(scene.ground)
        terms["agents"] = weights.agents * agents_loss(raw, batch["agents"], network.seen_cells, known)
    return terms


def knots_of(batch: Batch) -> Tensor:
    """The labels at the planner's eight knots, (B, 8, 2) [m]."""
    return batch["label_ego"][:, STRIDE - 1 :: STRIDE, :2]


def _denoising_loss(
    network: PlannerNetwork, done: Denoised, batch: Batch, weights: LossWeights
) -> dict[str, Tensor]:
    knots, weight, intents = knots_of(batch), batch["weight"], network.intents
    l1 = (done.clean - network.normalise(knots)[:, None]).abs().mean(-1)  # (B, P)
    with torch.no_grad():
        nearest = nearest_anchor(network, done.start, knots)
        target = torch.softmax(-distances_m(network, done.clean, knots) / weights.score_scale_m, 1)
        obeys = obedience(done.command, network.metres(done.clean), batch["true_speed_mps"])
    scores = torch.log_softmax(done.scores + network.config.command_bonus * obeys, 1)
    terms = {"denoise": weights.denoise * (l1.gather(1, nearest)[:, 0] * weight).mean()}
    if intents:
        terms["denoise_intent"] = weights.denoise_intent * (l1[:, 0] * weight).mean()
    return terms | {"score": weights.score * (-(target * scores).sum(1) * weight).mean()}


def _command_loss(scene: Scene, command: Tensor, weight: Tensor) -> Tensor:
    lateral = cross_entropy(scene.lateral, command[:, 0], reduction="none")
    longitudinal = cross_entropy(scene.longitudinal, command[:, 1], reduction="none")
    return ((lateral + longitudinal) * weight).mean()


def _perception_loss(scene: Scene, batch: Batch, near_lead: float) -> Tensor:
    """Unknown values do not count; leads nearer than 45 m are rare and can be made to count more."""
    known = batch["light"] >= 0
    light = cross_entropy(scene.light, batch["light"].clamp(min=0), reduction="none")
    near = torch.where(batch["lead_m"] < _NEAR_LEAD_M, near_lead, 1.0)
    return (
        _mean_of(light, known.float())
        + _distance_loss(scene.stop_m, batch["stop_m"], torch.ones_like(near))
        + _distance_loss(scene.lead_m, batch["lead_m"], near)
    )


def _ground_loss(logits: Tensor, batch: Batch, seen: Tensor) -> Tensor:
    """Binary cross entropy per cell; road users are rare and count more, unknown channels not at all.

    Road users in cells that are not `seen` (ROWS, COLUMNS) now do not count: the camera cannot tell.
    """
    wanted, known = batch["ground"].float(), batch["ground_known"]
    rare = wanted.new_ones(wanted.shape[1])
    rare[OCCUPIED:] = _RARE_WEIGHT
    loss = binary_cross_entropy_with_logits(logits, wanted, pos_weight=rare[:, None, None], reduction="none")
    told = torch.ones_like(loss[0])
    told[OCCUPIED] = seen
    return _mean_of((loss * told).sum((2, 3)) / told.sum((1, 2)), known.float())


def _distance_loss(seen_m: Tensor, truth_m: Tensor, weight: Tensor) -> Tensor:
    known = torch.isfinite(truth_m)
    truth_m = torch.where(known, truth_m, MAX_DISTANCE_M)  # NaN would reach the gradient, masked or not
    gap = (seen_m - truth_m.clamp(0, MAX_DISTANCE_M)).abs() / 20
    return _mean_of(gap, weight * known)


def _mean_of(value: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean over entries with a positive weight, 0 if there are none."""
    used = torch.where(weight > 0, value, torch.zeros_like(value))
    return (used * weight).sum() / weight.sum().clamp(min=1)
