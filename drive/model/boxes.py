"""Road users as boxes: one form for all detectors, and the one that reads the ground view."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from drive.contracts import F32, F64, I64
from drive.data.ground import CELL_M, FROM_X_M, HALF_Y_M, OCCUPIED, OCCUPIED_S

MOST = 16
_THERE = 0.4
_DRAWN_WIDER_M = 0.7  # cells count when a quarter is covered: shapes come out that much longer and wider
_SMALLEST_M = 0.6
_REACH_M = (16, 4)  # how far along and across a road user may get in a second
_MATCHED = 0.3


class Boxes(NamedTuple):
    """Detected road users of B scenes, padded to A with probability 0; float32, ego frame at plan time.

    Attributes:
        pose: (B, A, 3), box centres [x_m, y_m, yaw_rad].
        size: (B, A, 2), length and width [m].
        velocity: (B, A, 2) [m/s].
        probability: (B, A), that the road user is there.
    """

    pose: Tensor
    size: Tensor
    velocity: Tensor
    probability: Tensor


def boxes_of(occupied: F32) -> Boxes:
    """Connected cells of the ground view, nearest first.

    Args:
        occupied: (B, CHANNELS, ROWS, COLUMNS), probabilities as drive.data.ground.
    """
    shape = (len(occupied), MOST)
    pose, size, velocity = np.zeros((*shape, 3)), np.ones((*shape, 2)), np.zeros((*shape, 2))
    probability = np.zeros(shape)
    for row, one in enumerate(occupied):
        found = sorted(_groups(one[OCCUPIED]), key=_nearest)[:MOST]
        for k, cells in enumerate(found):
            pose[row, k], size[row, k] = _rectangle(cells)
            velocity[row, k] = _velocity(cells, one[OCCUPIED + 1])
            probability[row, k] = one[OCCUPIED][cells[:, 0], cells[:, 1]].max()
    return Boxes(*(torch.from_numpy(value).float() for value in (pose, size, velocity, probability)))


def _groups(now: F32) -> list[I64]:
    """Cells (K, 2) of each connected group."""
    import cv2

    there = (now > _THERE).astype(np.uint8)
    if not there.any():
        return []
    count, labels = cv2.connectedComponents(there, connectivity=8)
    return [np.argwhere(labels == k) for k in range(1, count)]


def _nearest(cells: I64) -> float:
    middle = cells.mean(0)
    return float(np.hypot(FROM_X_M + CELL_M * middle[0], CELL_M * middle[1] - HALF_Y_M))


def _rectangle(cells: I64) -> tuple[F64, F64]:
    """Pose [m, m, rad] and size [m] of the rectangle with the cells' second moments."""
    middle = cells.mean(0)
    centre = np.array([FROM_X_M, -HALF_Y_M]) + CELL_M * (middle + 0.5)
    spread = np.cov((cells - middle).T, bias=True) + np.eye(2) / 12 if len(cells) > 1 else np.eye(2) / 12
    value, vector = np.linalg.eigh(spread)
    extent = np.sqrt(12 * value[::-1]) * CELL_M - _DRAWN_WIDER_M
    long = vector[:, 1] * (1 if vector[0, 1] >= 0 else -1)
    return np.array([*centre, np.arctan2(long[1], long[0])]), np.maximum(extent, _SMALLEST_M)


def _velocity(cells: I64, later: F32) -> F64:
    """Shift of the cells that is likeliest a second later [m/s]; zero if nothing is likely there."""
    far, wide = (round(reach / CELL_M) for reach in _REACH_M)
    padded = np.pad(later, ((far, far), (wide, wide)))
    shifts = np.array([(i, j) for i in range(-far, far + 1) for j in range(-wide, wide + 1)])
    at = cells[:, None] + shifts + [far, wide]
    hit = padded[at[..., 0], at[..., 1]].mean(0)
    hit = hit - 1e-3 * np.abs(shifts).sum(1)  # of equals the smallest
    best = int(hit.argmax())
    if hit[best] < _MATCHED:
        return np.zeros(2)
    return np.asarray(shifts[best] * CELL_M / OCCUPIED_S[1])
