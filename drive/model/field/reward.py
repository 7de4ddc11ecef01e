"""The reward field: gates times the weighted mean of the other terms, and one energy to descend."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from drive.model.field.rollout import Rollout
from drive.model.field.scene import Prepared
from drive.model.field.terms import GATE_TERMS, PROGRESS, WEIGHTED_TERMS
from drive.score.terms import WEIGHTS

TERMS = (*GATE_TERMS, *WEIGHTED_TERMS)
NAMES = tuple(term.name for term in TERMS)
GATE_COUNT = len(GATE_TERMS)
REWARD_WEIGHTS: Mapping[str, float] = MappingProxyType({**WEIGHTS, "speed_limit": 2.0, "command": 1.0})
ENERGY_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "no_collision": 20.0,
        "on_road": 10.0,
        "right_way": 5.0,
        "red_light": 10.0,
        "progress": 0.3,
        "ttc": 5.0,
        "lane": 0.5,
        "comfort": 0.3,
        "speed_limit": 0.5,
        "command": 0.1,
    }
)


class Scored(NamedTuple):
    """Rewards of P trajectories.

    Attributes:
        terms: (B, P, 10), in [0, 1], in the order of NAMES, gates first.
        total: (B, P), in [0, 1]; 0 for a trajectory that is not finite.
        best_m: (B,), progress that counts as full [m]; hand it on to score later trajectories alike.
    """

    terms: Tensor
    total: Tensor
    best_m: Tensor

    def at(self, chosen: Tensor) -> "Scored":
        """The score of one trajectory per row, chosen (B,)."""
        index = chosen[:, None]
        terms = self.terms.take_along_dim(index[..., None], 1)
        return Scored(terms, self.total.take_along_dim(index, 1), self.best_m)

    def critique(self, row: int, proposal: int) -> dict[str, float]:
        """Term -> value of one trajectory."""
        return dict(zip(NAMES, self.terms[row, proposal].tolist(), strict=True))


class RewardField:
    """All terms with their weights.

    Args:
        weights: Of the weighted terms in the total; a missing one counts 0.
        energy_weights: Of every term in the energy; a missing one counts 0.

    Raises:
        ValueError: A weight is negative, not finite or not of a term, or none of the weighted terms counts.
    """

    def __init__(
        self,
        weights: Mapping[str, float] = REWARD_WEIGHTS,
        energy_weights: Mapping[str, float] = ENERGY_WEIGHTS,
    ) -> None:
        for given, known in ((weights, NAMES[GATE_COUNT:]), (energy_weights, NAMES)):
            for name, value in given.items():
                if name not in known or not 0 <= value < float("inf"):
                    raise ValueError(
                        f"weight {name}={value}: expected a number >= 0 of one of {', '.join(known)}"
                    )
        self.weights = {term.name: float(weights.get(term.name, 0.0)) for term in WEIGHTED_TERMS}
        self.energy_weights = {name: float(energy_weights.get(name, 0.0)) for name in NAMES}
        if not sum(self.weights.values()) > 0:
            raise ValueError("weights: at least one has to be above 0")

    def energies(self, rollout: Rollout, wanted: Tensor | None = None) -> Tensor:
        """Energies of all terms (B, P, 10), without weights; those not in wanted, bool (10,), are 0."""
        zero = torch.zeros_like(rollout.knots[..., 0, 0])
        use = [True] * len(TERMS) if wanted is None else wanted.tolist()
        parts = [term.energy(rollout) if ok else zero for term, ok in zip(TERMS, use, strict=True)]
        return torch.stack(parts, -1)

    def energy(self, rollout: Rollout) -> Tensor:
        """Weighted sum of the energies, (B, P), differentiable in the rollout's knots."""
        weights = rollout.knots.new_tensor(list(self.energy_weights.values()))
        return self.energies(rollout, weights > 0) @ weights

    @torch.no_grad()
    def judge(self, rollout: Rollout, best_m: Tensor | None = None) -> Scored:
        """Rewards of a rollout; best_m (B,) as in `score`."""
        gates = [term.reward(rollout) for term in GATE_TERMS]
        gate = torch.stack(gates).prod(0)
        if best_m is None:
            best_m = torch.where(gate > 0, PROGRESS.gained_m(rollout), 0.0).amax(-1)
        rollout.best_m = best_m
        rest = [term.reward(rollout) for term in WEIGHTED_TERMS]
        weights = rollout.knots.new_tensor(list(self.weights.values()))
        terms = torch.stack([*gates, *rest], -1)
        return Scored(terms, gate * (terms[..., GATE_COUNT:] @ (weights / weights.sum())), best_m)

    @torch.no_grad()
    def score(
        self, knots: Tensor, scene: Prepared, best_m: Tensor | None = None, margin_m: float = 0.0
    ) -> Scored:
        """Score trajectories.

        Args:
            knots: (B, P, 8, 2), positions at 0.5 s, 1.0 s, ... in the ego frame [m].
            scene: The prepared scene.
            best_m: (B,), progress that counts as full [m]; None = best of those that pass all gates.
            margin_m: Room to keep, as of Rollout.
        """
        finite = knots.isfinite().all(-1).all(-1)
        # what is not finite is taken as standing still: it gains nothing, so it is never the best
        safe = torch.where(finite[..., None, None], knots, 0.0)
        scored = self.judge(Rollout(safe, scene, margin_m), best_m)
        return Scored(scored.terms * finite[..., None], scored.total * finite, scored.best_m)
