"""What the detection of road users is trained on, and how well it does."""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from drive.data.agents import LATER, LENGTH, WALKER, YAW, X, Y
from drive.data.ground import CELL_M, COLUMNS, FROM_X_M, HALF_Y_M, ROWS
from drive.model import agents as head
from drive.model.agents import Boxes

SPREAD_CELLS = (1.2, 0.8)  # of a vehicle's and a walker's peak
NEAR_M = 30.0  # detections are counted this far
MATCH_M = 2.0
_LATER_AT = 1  # of LATER_S: what "later" is measured at


def agents_loss(raw: Tensor, table: Tensor, seen: Tensor, known: Tensor) -> Tensor:
    """Penalty-reduced focal loss of the peaks (Law and Deng 2018), and L1 of what stands beside them.

    Args:
        raw: (B, CHANNELS, ROWS, COLUMNS), from drive.model.agents.AgentHead.
        table: (B, N, 12), as drive.data.agents.
        seen: bool (ROWS, COLUMNS), cells that the camera sees; who is elsewhere does not count.
        known: bool (B,), whether the table is to be believed.
    """
    cell, index = _cells(table)
    counts = torch.isfinite(table[..., X]) & seen.flatten()[index] & known[:, None]
    wanted = _peaks(table, cell, counts)
    logits = raw[:, : head.CLASSES]
    there = wanted > 1 - 1e-4
    miss = (1 - logits.sigmoid()) ** 2 * -logsigmoid(logits)
    false = (1 - wanted) ** 4 * logits.sigmoid() ** 2 * -logsigmoid(-logits)
    mask = (seen & known[:, None, None])[:, None]
    heat = (torch.where(there, miss, false) * mask).sum() / there.sum().clamp(min=1)
    told = raw.flatten(2).take_along_dim(index[:, None], 2).transpose(1, 2)
    gap, valid = _gaps(told, table, cell, counts)
    return heat + gap.sum() / valid.sum().clamp(min=1) * gap.shape[-1]


def _cells(table: Tensor) -> tuple[Tensor, Tensor]:
    """Cell (B, N, 2), row and column, and its index (B, N); the first one for empty rows."""
    place = torch.stack([table[..., X] - FROM_X_M, table[..., Y] + HALF_Y_M], -1) / CELL_M
    cell = torch.nan_to_num(place).floor().long()
    cell = torch.stack([cell[..., 0].clamp(0, ROWS - 1), cell[..., 1].clamp(0, COLUMNS - 1)], -1)
    return cell, cell[..., 0] * COLUMNS + cell[..., 1]


def _peaks(table: Tensor, cell: Tensor, counts: Tensor) -> Tensor:
    """Wanted maps (B, CLASSES, ROWS, COLUMNS): 1 in the cell of a centre, falling off around it."""
    row, column = (torch.arange(count, device=table.device) for count in (ROWS, COLUMNS))
    maps = []
    for kind, spread in enumerate(SPREAD_CELLS):
        mine = counts & (torch.nan_to_num(table[..., WALKER]) == kind)
        rows = torch.exp(-((row - cell[..., :1]) ** 2) / (2 * spread**2)) * mine[..., None]  # (B, N, ROWS)
        columns = torch.exp(-((column - cell[..., 1:]) ** 2) / (2 * spread**2))
        maps.append((rows[..., None] * columns[..., None, :]).amax(1))
    return torch.stack(maps, 1)


def _gaps(told: Tensor, table: Tensor, cell: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted absolute errors (B, N, C) of everything but the peaks, 0 where unknown, and what is known."""
    middle = CELL_M * (cell + 0.5) + cell.new_tensor([FROM_X_M, -HALF_Y_M], dtype=table.dtype)
    centre = table[..., X : Y + 1]
    later = table[..., LATER:].unflatten(-1, (-1, 2)) - centre[..., None, :]
    wanted = torch.cat(
        [
            (centre - middle) / CELL_M,
            torch.stack([table[..., YAW].cos(), table[..., YAW].sin()], -1),
            table[..., LENGTH : LENGTH + 2].clamp(min=0.1).log(),
            (later / head.LATER_SCALE_M).flatten(2),
        ],
        -1,
    )
    valid = torch.isfinite(wanted) & counts[..., None]
    gap = (told[..., head.OFFSET :] - torch.nan_to_num(wanted)).abs()
    return torch.where(valid, gap, torch.zeros_like(gap)), valid


def found(boxes: Boxes, table: Tensor, seen: Tensor) -> dict[str, Tensor]:
    """How well road users within NEAR_M were found, per sample (B,).

    agents_missed: share of those that the camera sees without a box within MATCH_M of their centre;
    walkers_missed: the same of walkers; agents_invented: share of the boxes without anybody within MATCH_M;
    agents_later_m: mean distance at 2 s of those found. NaN where there is nothing to measure.
    """
    _, index = _cells(table)
    there = torch.isfinite(table[..., X])
    centre = torch.nan_to_num(table[..., X : Y + 1])
    visible = there & seen.flatten()[index] & (centre.norm(dim=-1) <= NEAR_M)
    apart = torch.cdist(centre, boxes.pose[..., :2])  # (B, N, A)
    apart = torch.where(boxes.probability[:, None] > 0, apart, math.inf)
    nearest = apart.min(2)
    hit = nearest.values <= MATCH_M
    own = torch.where(there[..., None], apart, math.inf).amin(1)
    told = (boxes.probability > 0) & (boxes.pose[..., :2].norm(dim=-1) <= NEAR_M)
    at = LATER + 2 * _LATER_AT
    later = boxes.later[..., _LATER_AT, :].take_along_dim(nearest.indices[..., None], 1)
    gap = (later - table[..., at : at + 2]).norm(dim=-1)
    walker = torch.nan_to_num(table[..., WALKER]) == 1
    return {
        "agents_missed": _share(~hit, visible),
        "walkers_missed": _share(~hit, visible & walker),
        "agents_invented": _share(own > MATCH_M, told),
        "agents_later_m": _share(torch.nan_to_num(gap), visible & hit & torch.isfinite(gap)),
    }


def _share(value: Tensor, of: Tensor) -> Tensor:
    """Mean over the entries that count, (B,); NaN without any."""
    return (value.float() * of).sum(1) / of.sum(1)
