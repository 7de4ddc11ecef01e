"""The critic: how likely a trajectory comes to grief, read from the ground under the ego's body."""

import torch
from torch import Tensor, nn

from drive.contracts import EGO_MKZ
from drive.model.ground import along
from drive.model.horizon import KNOTS

FAULTS = ("off road", "road user", "against the way", "red light")
_AHEAD_M = EGO_MKZ.centre_from_axle_m + 0.35 * EGO_MKZ.length_m
_ASIDE_M = EGO_MKZ.width_m / 2
# Places on the body, ahead of the rear axle and to its left: the axle itself and both front corners.
_BODY = ((0.0, 0.0), (_AHEAD_M, _ASIDE_M), (_AHEAD_M, -_ASIDE_M))
_MOVES_M = 0.2


class Critic(nn.Module):
    """Logits of FAULTS for trajectories.

    Args:
        ground_channels: Channels per cell of the ground.
        width: Of the scene's features.
        state: Numbers of a normalised trajectory.
        deep: Width inside.
    """

    def __init__(self, ground_channels: int, width: int, state: int, deep: int) -> None:
        super().__init__()
        self.features = nn.Linear(width, deep)
        self.state = nn.Linear(state, deep, bias=False)
        self.body = nn.Linear(len(_BODY) * 2 * KNOTS * ground_channels, deep, bias=False)
        self.weigh = nn.Sequential(nn.ReLU(), nn.Linear(deep, 128), nn.ReLU(), nn.Linear(128, len(FAULTS)))

    def forward(self, ground: Tensor, features: Tensor, knots_ego: Tensor, state: Tensor) -> Tensor:
        """Logits (B, P, len(FAULTS)).

        Args:
            ground: (B, ground_channels, rows, columns).
            features: (B, width).
            knots_ego: (B, P, 8, 2) [m].
            state: The same, normalised and flat (B, P, 16).
        """
        x = self.features(features)[:, None] + self.state(state)
        out: Tensor = self.weigh(x + self.body(along(ground, places(knots_ego))))
        return out


def places(knots_ego: Tensor) -> Tensor:
    """Where the ego's body is at the knots and half-way between them: (B, P, 8, 2) -> (B, P, 48, 2) [m]."""
    before = torch.cat([torch.zeros_like(knots_ego[:, :, :1]), knots_ego[:, :, :-1]], 2)
    step = knots_ego - before
    length = step.norm(dim=-1, keepdim=True)
    # a step too short to have a direction: straight ahead
    ahead = torch.where(length > _MOVES_M, step / length.clamp(min=_MOVES_M), step.new_tensor([1.0, 0.0]))
    path = torch.stack([(before + knots_ego) / 2, knots_ego], 3).flatten(2, 3)
    ahead = ahead.repeat_interleave(2, 2)
    left = torch.stack([-ahead[..., 1], ahead[..., 0]], -1)
    return torch.cat([path + x * ahead + y * left for x, y in _BODY], 2)
