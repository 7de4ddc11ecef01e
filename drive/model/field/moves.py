"""What may be changed of a trajectory: its pace along its own path, and a sideways offset."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from drive.contracts import STEPS
from drive.model.field import motion
from drive.model.horizon import KNOT_S, KNOTS, STRIDE

BRAKES_MPS2 = (0.7, 1.5, 2.5, 4.0, 6.0)
DOWN_TO = (0.7, 0.35, 0.0)  # share of the present speed at which braking ends
PACES = (0.9, 0.8, 0.6, 0.4, 0.2)
ASIDE_M = (0.3, 0.6, 1.0)  # to either side
ASIDE_S = 2.0
_STANDING_M = 1e-3


@dataclass(frozen=True)
class Change:
    """C changes of B trajectories at their knots, (B, C, 8) [m]: along the path, and to the left of it."""

    along_m: Tensor
    aside_m: Tensor

    def one(self, index: Tensor) -> "Change":
        """Change number index (B, 1) of each row: C = 1."""
        return Change(*(value.take_along_dim(index[..., None], 1) for value in self._both()))

    def __add__(self, other: "Change") -> "Change":
        """Both lists, one behind the other."""
        return Change(*(torch.cat(pair, 1) for pair in zip(self._both(), other._both(), strict=True)))

    def _both(self) -> tuple[Tensor, Tensor]:
        return self.along_m, self.aside_m


@dataclass(frozen=True)
class OwnPath:
    """Paths of B trajectories: 41 points from the origin on, and the direction after each.

    Attributes:
        xy: complex (B, 41) [m].
        direction: complex (B, 40), unit; the last one goes on beyond the end.
        length_m: (B, 41), path length at each point.
        speed_mps: (B, 1), present speed.
    """

    xy: Tensor
    direction: Tensor
    length_m: Tensor
    speed_mps: Tensor

    @property
    def along_m(self) -> Tensor:
        """Path length at the knots, (B, 1, 8) [m]."""
        return self.length_m[:, None, STRIDE::STRIDE]

    def changed(self, change: Change) -> Tensor:
        """Knots (B, C, 8, 2) after each change."""
        return self._place((self.along_m + change.along_m).clamp(min=0.0), change.aside_m)

    def at(self, along_m: Tensor) -> Tensor:
        """Places (B, 8, 2) at distances (B, 8) along the path."""
        return self._place(along_m[:, None], torch.zeros_like(along_m[:, None]))[:, 0]

    def _place(self, along: Tensor, aside: Tensor) -> Tensor:
        """Places (B, C, 8, 2) at distances (B, C, 8) along and to the left of the path."""
        flat = along.flatten(1)
        first = torch.searchsorted(self.length_m[:, 1:].contiguous(), flat, right=True).clamp(max=STEPS - 1)
        gone = torch.complex(flat - self.length_m.gather(1, first), aside.flatten(1))
        place = self.xy.gather(1, first) + gone * self.direction.gather(1, first)
        return torch.view_as_real(place.unflatten(1, along.shape[1:]))


def own_path(knots: Tensor, speed_mps: Tensor) -> OwnPath:
    """Paths of finite trajectories (B, 8, 2); where one stands still the direction is the last heading."""
    points = motion.points(knots[:, None], speed_mps)
    xy = pad(torch.view_as_complex(points)[:, 0], (1, 0))
    step = xy[:, 1:] - xy[:, :-1]
    heading, _ = motion.headings(step[:, None])
    length = step.abs()
    moves = length > _STANDING_M
    direction = torch.where(moves, step / length.clamp(min=_STANDING_M), heading[:, 0])
    travelled = pad((length * moves).cumsum(-1), (1, 0))
    return OwnPath(xy, direction, travelled, speed_mps[:, None])


def brakings(path: OwnPath) -> Change:
    """Braking at 5 rates down to 3 shares of the present speed, never ahead of the path itself: C = 15."""
    time_s = _times(path.length_m)
    each = path.length_m.new_tensor([(a, down) for a in BRAKES_MPS2 for down in DOWN_TO])
    speed = path.speed_mps[:, :, None].clamp(min=0.0)
    rate, end = each[:, :1], speed * each[:, 1:]
    until = torch.minimum(time_s, (speed - end) / rate)
    braked = speed * until - rate * until.square() / 2 + end * (time_s - until)
    back = torch.minimum(braked - path.along_m, torch.zeros_like(braked))
    return Change(back, torch.zeros_like(back))


def paces(path: OwnPath) -> Change:
    """The whole trajectory slower by 5 shares, which also helps one that starts from rest: C = 5."""
    back = path.along_m * (path.length_m.new_tensor(PACES)[:, None] - 1)
    return Change(back, torch.zeros_like(back))


def sides(path: OwnPath, most_m: float) -> Change:
    """Offsets to either side, reached smoothly within two seconds and kept: C = 6, at most most_m wide."""
    ramp = side_ramp(path.length_m)
    sizes = path.length_m.new_tensor([min(s, most_m) * side for s in ASIDE_M for side in (1, -1)])
    aside = (sizes[:, None] * ramp).expand(len(path.xy), -1, -1)
    return Change(torch.zeros_like(aside), aside)


def both(back: Change, aside: Change) -> Change:
    """Every change of pace with every offset."""
    count, ways = back.along_m.shape[1], aside.along_m.shape[1]
    return Change(back.along_m.repeat_interleave(ways, 1), aside.aside_m.repeat(1, count, 1))


def side_ramp(like: Tensor) -> Tensor:
    """Share (8,) of an offset that is reached at each knot."""
    share = (_times(like) / ASIDE_S).clamp(max=1.0)
    return share.square() * (3 - 2 * share)


def _times(like: Tensor) -> Tensor:
    return KNOT_S * torch.arange(1, KNOTS + 1, dtype=like.dtype, device=like.device)
