"""What the critic learns from: proposals, other commands, changes, roll-outs, on the true scene."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from drive.contracts import Lateral, Longitudinal
from drive.model.field.moves import side_ramp
from drive.model.horizon import KNOTS
from drive.model.network import PlannerNetwork, Scene
from drive.train.dreaming import Truth, faults, roll_out, truth_of
from drive.train.losses import Batch, Denoised, knots_of, noise_and_denoise
from drive.train.weights import LossWeights

_CHANGED, _ROLLED = 12, 12  # per sample
_PACE = (0.1, 1.1)
_ASIDE_M, _ASIDE_SHARE = 1.2, 0.6
_MOVES_M = 0.1


def critic_loss(
    network: PlannerNetwork,
    scene: Scene,
    done: Denoised,
    batch: Batch,
    weights: LossWeights,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """The weighted term "critic"; nothing but the critic learns from it.

    Args:
        network: In training; without a critic there is no term.
        scene: Of the batch.
        done: What became of it under its own commands.
        batch: As drive.data.batches.
        weights: Its `critic` counts, and `critic_share` is the share of the batch that is looked at.
        generator: Draws samples, commands and changes.
    """
    if not network.criticises:
        return {}
    count = max(1, round(weights.critic_share * len(batch["command"])))
    rows = torch.randperm(len(batch["command"]), generator=generator)[:count]
    mine = {name: value[rows].cpu() for name, value in batch.items() if name not in ("image",)}
    seen = Scene(*(part.detach()[rows] for part in scene))
    with torch.no_grad():
        knots = _lessons(network, seen, done.clean.detach()[rows], mine, truth := truth_of(mine), generator)
    wrong = torch.from_numpy(faults(knots.cpu().numpy(), truth)).to(knots)
    logits = network.faults(seen, network.normalise(knots))
    loss = binary_cross_entropy_with_logits(logits, wrong, reduction="none").mean((1, 2))
    known = mine["ground_known"].all(1).to(loss)
    return {"critic": weights.critic * (loss * known).sum() / known.sum().clamp(min=1)}


def _lessons(
    network: PlannerNetwork,
    scene: Scene,
    clean: Tensor,
    batch: Batch,
    truth: Truth,
    generator: torch.Generator,
) -> Tensor:
    """Trajectories (R, K, 8, 2) [m]: proposals, those of other commands, changes, roll-outs, the label."""
    count, device = len(clean), clean.device
    other = torch.stack(
        [torch.randint(0, len(words), (count,), generator=generator) for words in (Lateral, Longitudinal)], 1
    )
    label = knots_of(batch).to(device)
    told = noise_and_denoise(network, scene, other.to(device), label, generator)
    knots = network.metres(torch.cat([clean, told.clean], 1))
    some = _some(knots.shape[:2], _CHANGED, generator).to(device)
    changes = changed(knots.take_along_dim(some[..., None, None], 1), generator)
    speed = np.maximum(batch["true_speed_mps"].numpy().astype(np.float64), 0.0)
    rolled = roll_out(batch, truth, speed).pose_ego[..., :2]
    those = _some(rolled.shape[:2], _ROLLED, generator).cpu().numpy()
    driven = np.take_along_axis(rolled, those[..., None, None], 1).astype(np.float32)
    return torch.cat([knots, changes, torch.from_numpy(driven).to(device), label[:, None]], 1)


def _some(shape: torch.Size | tuple[int, ...], count: int, generator: torch.Generator) -> Tensor:
    """Different columns for each row, int64 (rows, count)."""
    return torch.rand(tuple(shape), generator=generator).argsort(1)[:, :count]


def changed(knots: Tensor, generator: torch.Generator) -> Tensor:
    """Trajectories (R, K, 8, 2) at another pace, some of them moved to a side: same shape."""
    rows, count = knots.shape[:2]
    draw = torch.rand((rows, count, 3), generator=generator).to(knots)
    low, high = _PACE
    at = (torch.arange(1, KNOTS + 1).to(knots) * (low + (high - low) * draw[..., :1])).clamp(max=KNOTS)
    before = at.long().clamp(max=KNOTS - 1)
    share = (at - before)[..., None]
    full = pad(knots, (0, 0, 1, 0))
    path = full.take_along_dim(before[..., None], 2) * (1 - share)
    path = path + full.take_along_dim(before[..., None] + 1, 2) * share
    step = pad(path, (0, 0, 1, 0)).diff(dim=2)
    left = torch.stack([-step[..., 1], step[..., 0]], -1)
    left = left / left.norm(dim=-1, keepdim=True).clamp(min=_MOVES_M)
    aside = _ASIDE_M * (2 * draw[..., 1] - 1) * (draw[..., 2] < _ASIDE_SHARE)
    return path + left * (side_ramp(knots)[:, None] * aside[..., None, None])
