"""Commands from outside: carried out where that looks safe, else the planner brakes and says so."""

import math

import torch
from torch import Tensor

from drive.model.diffusion import Proposals
from drive.model.field.moves import own_path
from drive.model.horizon import KNOT_S, KNOTS

_BEHIND = 100.0  # scores of what does not carry out a command that is followed
BRAKE_MPS2 = 6.0  # of the roll-outs tried, the one that was safe in every scene looked at


def heed(
    told: Tensor, made: Proposals, own: Proposals, speed_mps: Tensor, trust: float
) -> tuple[Proposals, Tensor]:
    """Choose under commands from outside.

    Where the critic finds no proposal safe enough that carries out the command, the command is not followed:
    the planner brakes on the way that it would have chosen itself, so that trajectory and command disagree.

    Args:
        told: bool (B,), rows with a command from outside; the others stay as they are.
        made: Proposals under the commands.
        own: Proposals under the commands that the planner emits.
        speed_mps: (B,).
        trust: Least probability, by the critic, of nothing going wrong.

    Returns:
        The proposals to choose from and to drive, and the rows whose command is not followed, bool (B,).
    """
    can = made.obeys & (made.safety >= math.log(max(trust, 1e-9)))
    follows, refuses = told & can.any(1), told & ~can.any(1)
    scores = torch.where(follows[:, None] & ~can, made.scores - _BEHIND, made.scores)
    best = made.knots_ego.take_along_dim(scores.argmax(1)[:, None, None, None], 1)[:, 0]
    chosen = torch.where(follows[:, None, None], best, made.chosen_ego)
    made = made._replace(scores=scores, chosen_ego=chosen)
    braked = own._replace(chosen_ego=_braked(own.chosen_ego, speed_mps))
    rows = [
        torch.where(refuses.view(-1, *[1] * (a.dim() - 1)), b, a) for a, b in zip(made, braked, strict=True)
    ]
    return Proposals(*rows), refuses


def _braked(knots: Tensor, speed_mps: Tensor) -> Tensor:
    """Trajectories (B, 8, 2), braked hard to a standstill on their own path; never ahead of themselves."""
    known = torch.nan_to_num(speed_mps).clamp(min=0.0)
    path = own_path(torch.nan_to_num(knots), known)
    until = (known / BRAKE_MPS2)[:, None]
    time_s = torch.minimum(KNOT_S * torch.arange(1, KNOTS + 1, device=knots.device), until)
    gone = known[:, None] * time_s - BRAKE_MPS2 * time_s.square() / 2
    return path.at(torch.minimum(gone, path.along_m[:, 0]))
