"""Refinement: small changes judged in one batch; the best is kept if it gains and breaks nothing."""

from typing import NamedTuple

import torch
from torch import Tensor

from drive.model.field.moves import Change, OwnPath, both, brakings, own_path, paces, side_ramp, sides
from drive.model.field.reward import GATE_COUNT, RewardField, Scored
from drive.model.field.scene import Prepared

HELD = 0.5
SHARES = (
    1.0,
    1.2,
    0.85,
    0.7,
    0.5,
    0.3,
)  # of the change found so far: backtracking keeps no more than it needs
NUDGE_M = 0.15


class RefineOptions(NamedTuple):
    """Bounds of a refinement.

    Attributes:
        steps: Batches of changes at most.
        enough: A trajectory whose total is at least this is left alone.
        min_gain: A change that raises the total by less is dropped.
        lateral_m: Largest sideways displacement from the path that came in; braking is free.
        margin_m: Changes must keep this much more room to road users and to the road's edge than the scores
            ask for, as they look only every 0.2 s.
    """

    steps: int = 2
    enough: float = 0.9
    min_gain: float = 0.05
    lateral_m: float = 1.0
    margin_m: float = 0.15


DEFAULT = RefineOptions()


class Refined(NamedTuple):
    """Best trajectories so far.

    Attributes:
        knots: (B, 8, 2) [m]; rows in which nothing was accepted are the input, bit for bit.
        score: Of these knots: P = 1.
        accepted: bool (B,).
    """

    knots: Tensor
    score: Scored
    accepted: Tensor


def refine(
    knots: Tensor,
    first: Scored,
    scene: Prepared,
    field: RewardField,
    options: RefineOptions = DEFAULT,
) -> Refined:
    """Improve trajectories on the reward field.

    A trajectory is its own path: progress along it and an offset to its side, so braking keeps the path. The
    first step judges brakings, paces, offsets and both together; later ones judge smaller and slightly larger
    shares of the change found, nudged to either side. The best is kept if its total rises by min_gain and no
    gate that held breaks.

    Args:
        knots: (B, 8, 2) [m].
        first: Score of these: P = 1.
        scene: The prepared scene.
        field: Judge.
        options: Bounds.
    """
    active = usable(knots) & (first.total[:, 0] < options.enough)
    best = Refined(knots, first, torch.zeros_like(active))
    if options.steps < 1 or not bool(active.any()):
        return best
    path = path_of(knots, scene)
    change = _anything(path, options)
    for _ in range(options.steps):
        new = path.changed(change)
        scored = field.score(new, scene, first.best_m, options.margin_m)
        best, pick = keep(best, new, scored, first, active, options)
        active = active & best.accepted
        if not bool(active.any()):
            break
        change = _closer(change.one(pick), options)
    return best


def usable(knots: Tensor) -> Tensor:
    """Which trajectories (B, 8, 2) are finite, bool (B,)."""
    return knots.isfinite().all(-1).all(-1)


def path_of(knots: Tensor, scene: Prepared) -> OwnPath:
    """Paths of trajectories (B, 8, 2); one that is not finite stands still."""
    return own_path(torch.where(usable(knots)[:, None, None], knots, 0.0), scene.scene.speed_mps)


def keep(
    best: Refined, new: Tensor, scored: Scored, first: Scored, rows: Tensor, options: RefineOptions
) -> tuple[Refined, Tensor]:
    """The best so far, or the best of the new trajectories where one is acceptable.

    Args:
        best: Best so far.
        new: (B, C, 8, 2).
        scored: Their score.
        first: Score that the gain counts from, and whose gates may not break.
        rows: bool (B,), which rows may change.
        options: Bounds.

    Returns:
        The best now, and the number (B, 1) of the most promising new trajectory of each row.
    """
    held = first.terms[..., :GATE_COUNT] >= HELD
    kept = ((scored.terms[..., :GATE_COUNT] >= HELD) | ~held).all(-1)
    total, pick = torch.where(kept, scored.total, -1.0).max(1, keepdim=True)
    gains = (total >= first.total + options.min_gain) & (total > best.score.total)
    takes = rows & gains[:, 0]
    found = scored.at(pick[:, 0])
    score = Scored(
        torch.where(takes[:, None, None], found.terms, best.score.terms),
        torch.where(takes[:, None], found.total, best.score.total),
        best.score.best_m,
    )
    chosen = new.take_along_dim(pick[..., None, None], 1)[:, 0]
    return Refined(torch.where(takes[:, None, None], chosen, best.knots), score, best.accepted | takes), pick


def _anything(path: OwnPath, options: RefineOptions) -> Change:
    """Brakings, paces, offsets, and offsets with three ways of braking to a lower speed."""
    brake, aside = brakings(path), sides(path, options.lateral_m)
    some = Change(brake.along_m[:, 1:12:5], brake.aside_m[:, 1:12:5])
    return brake + paces(path) + aside + both(some, aside)


def _closer(change: Change, options: RefineOptions) -> Change:
    """Shares of one change, each as it is and nudged to either side."""
    shares = change.along_m.new_tensor(SHARES)[:, None]
    nudge = side_ramp(change.along_m) * change.along_m.new_tensor([0.0, NUDGE_M, -NUDGE_M])[:, None]
    along = (change.along_m * shares).clamp(max=0.0).repeat_interleave(len(nudge), 1)
    aside = ((change.aside_m * shares)[:, :, None] + nudge).flatten(1, 2)
    return Change(along, aside.clamp(-options.lateral_m, options.lateral_m))
