"""Reflection: the worst term of the critique picks the next move; the best trajectory so far is kept."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from drive.model.field.moves import both, brakings, paces, sides
from drive.model.field.refine import DEFAULT, Refined, RefineOptions, keep, path_of, usable
from drive.model.field.reward import GATE_COUNT, NAMES, RewardField, Scored
from drive.model.field.scene import Prepared

YIELD, SHIFT, SLOW, RENOISE = "yield", "shift", "slow", "re-noise"
MOVES = {
    "no_collision": YIELD,
    "ttc": YIELD,
    "on_road": SHIFT,
    "right_way": SHIFT,
    "lane": SHIFT,
    "red_light": SLOW,
    "speed_limit": SLOW,
    "comfort": SLOW,
    "progress": RENOISE,
    "command": RENOISE,
}
MOST_ROUNDS = 3

Renoise = Callable[[Tensor, int], Tensor]
"""Best knots (B, 8, 2) and the round -> other proposals (B, M, 8, 2), such as drawn from around them."""


class Reflected(NamedTuple):
    """Result of a reflection.

    Attributes:
        best: The best trajectories found, and their score: never below the input's.
        moves: Per row, (term, move) of each round.
    """

    best: Refined
    moves: tuple[tuple[tuple[str, str], ...], ...]


def reflect(
    start: Refined,
    scene: Prepared,
    field: RewardField,
    renoise: Renoise,
    rounds: int = MOST_ROUNDS,
    options: RefineOptions = DEFAULT,
) -> Reflected:
    """Criticise a trajectory and try again, at most `rounds` times.

    Each round names the worst term that has not been tried in vain, judges the changes of its move, and takes
    the best of them if it clearly beats the best so far and breaks no gate that held.

    Args:
        start: Trajectories, as given or as refined.
        scene: The prepared scene.
        field: Judge.
        renoise: Gives other proposals.
        rounds: At most.
        options: Bounds of a change, as of a refinement; a re-noised trajectory may lie anywhere.
    """
    best = start
    tried = torch.zeros_like(best.score.terms[:, 0], dtype=torch.bool)
    moves: list[list[tuple[str, str]]] = [[] for _ in best.knots]
    for turn in range(rounds):
        worst, open_ = _worst(best.score, tried, field)
        open_ = open_ & usable(best.knots) & (best.score.total[:, 0] < options.enough)
        if not bool(open_.any()):
            break
        names = [NAMES[k] if o else "" for k, o in zip(worst.tolist(), open_.tolist(), strict=True)]
        before = best
        for move in sorted({MOVES[name] for name in names if name}):
            rows = torch.tensor([MOVES.get(name) == move for name in names], device=worst.device)
            new = _candidates(move, before.knots, scene, renoise, turn, options)
            scored = field.score(new, scene, before.score.best_m, options.margin_m)
            best, _ = keep(best, new, scored, before.score, rows, options)
        vain = open_ & (best.score.total <= before.score.total)[:, 0]
        tried = tried.scatter(1, worst[:, None], vain[:, None] | tried.gather(1, worst[:, None]))
        for row, name in enumerate(names):
            if name:
                moves[row].append((name, MOVES[name]))
    return Reflected(best, tuple(map(tuple, moves)))


def _worst(score: Scored, tried: Tensor, field: RewardField) -> tuple[Tensor, Tensor]:
    """Term that costs most in each row, int64 (B,), and if there is anything to mend, bool (B,).

    A broken gate costs everything; a weighted term costs its share of the total.
    """
    terms = score.terms[:, 0]
    weights = torch.ones_like(terms)
    shares = terms.new_tensor(list(field.weights.values()))
    weights[:, GATE_COUNT:] = shares / shares.sum()
    most, worst = torch.where(tried, 0.0, (1 - terms) * weights).max(-1)
    return worst, most > 0


def _candidates(
    move: str, knots: Tensor, scene: Prepared, renoise: Renoise, turn: int, options: RefineOptions
) -> Tensor:
    """Trajectories (B, C, 8, 2) that a move makes of (B, 8, 2)."""
    if move == RENOISE:
        return renoise(knots, turn)
    path = path_of(knots, scene)
    if move == SHIFT:
        aside = sides(path, options.lateral_m)
        return path.changed(aside + both(paces(path), aside))
    return path.changed(brakings(path) + paces(path))
