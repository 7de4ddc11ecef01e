"""Road users as boxes with futures, read from the features on the ground."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pixel_shuffle

from drive.contracts import F32
from drive.data.agents import LATER_S
from drive.data.ground import CELL_M, FROM_X_M, HALF_Y_M

MOST = 16
LEAST_PROBABILITY = 0.3
CLASSES = 2  # vehicles (cyclists and obstacles are among them), walkers
OFFSET, TURN, SIZE, LATER = CLASSES, CLASSES + 2, CLASSES + 4, CLASSES + 6  # first channels of two each
CHANNELS = LATER + 2 * len(LATER_S)
LATER_SCALE_M = 5.0
_RARE = -4.0  # where nothing is known a cell holds nobody


class Boxes(NamedTuple):
    """Detected road users of B scenes, likeliest first, padded to A with probability 0; in the ego frame.

    Attributes:
        pose: float32 (B, A, 3), box centres [x_m, y_m, yaw_rad].
        size: float32 (B, A, 2), length and width [m].
        later: float32 (B, A, 3, 2), box centres at LATER_S [m].
        probability: float32 (B, A), that the road user is there.
        walker: bool (B, A).
    """

    pose: Tensor
    size: Tensor
    later: Tensor
    probability: Tensor
    walker: Tensor


class AgentHead(nn.Module):
    """What may be in every cell: (B, C, h, w) features -> (B, CHANNELS, finer * h, finer * w).

    As in CenterNet (Zhou et al. 2019) a road user is a peak of its class's map; beside it stand the rest of
    its centre, its heading, logarithms of its size, and how far it will have moved.
    """

    def __init__(self, channels: int, finer: int) -> None:
        super().__init__()
        self.finer = finer
        self.look = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU())
        self.tell = nn.Conv2d(channels, CHANNELS * finer**2, 1)
        with torch.no_grad():
            self.tell.bias.zero_()
            self.tell.bias[: CLASSES * finer**2] = _RARE

    def forward(self, ground: Tensor) -> Tensor:
        """Raw channels; the first CLASSES are logits."""
        out: Tensor = pixel_shuffle(self.tell(self.look(ground)), self.finer)
        return out


def boxes_of(raw: Tensor) -> Boxes:
    """Peaks of at least LEAST_PROBABILITY among the channels of `AgentHead` (B, CHANNELS, ROWS, COLUMNS)."""
    there, kind = raw[:, :CLASSES].sigmoid().max(1)  # (B, ROWS, COLUMNS)
    peak = there * (there == max_pool2d(there[:, None], 3, 1, 1)[:, 0])
    found, at = peak.flatten(1).topk(MOST, dim=1)
    told = raw.flatten(2).take_along_dim(at[:, None], 2).transpose(1, 2)  # (B, A, CHANNELS)
    columns = raw.shape[-1]
    corner = torch.stack([at // columns, at % columns], -1).to(raw.dtype)
    origin = raw.new_tensor([FROM_X_M, -HALF_Y_M])
    centre = origin + CELL_M * (corner + 0.5 + told[..., OFFSET:TURN])
    turn = told[..., TURN:SIZE]
    later = centre[:, :, None] + LATER_SCALE_M * told[..., LATER:].unflatten(2, (len(LATER_S), 2))
    sure = found >= LEAST_PROBABILITY
    return Boxes(
        torch.cat([centre, torch.atan2(turn[..., 1:], turn[..., :1])], -1),
        told[..., SIZE:LATER].clamp(-3, 3).exp(),
        later,
        torch.where(sure, found, torch.zeros_like(found)),
        kind.flatten(1).gather(1, at) == 1,
    )


def road_users(boxes: Boxes, row: int) -> F32:
    """The detected road users of one scene as Plan.road_users has them: float32 (N, 12)."""
    there = boxes.probability[row] > 0
    parts = [boxes.pose[row], boxes.size[row], boxes.probability[row][:, None], boxes.later[row].flatten(1)]
    table: F32 = torch.cat(parts, 1)[there].float().numpy()
    return table
