"""From knots to motion in torch: the same smooth 10 Hz poses as drive.model.horizon, differentiable."""

from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from drive.contracts import DT_S, STEPS
from drive.model.horizon import KNOT_S, STRIDE
from drive.score.motion import WINDOW, smooth

EVERY = 2  # the field looks at every second pose: at 15 m/s the ego moves 3 m, less than its length
FIELD_DT_S = EVERY * DT_S
FIELD_STEPS = STEPS // EVERY
MIN_STEP_M = 0.05  # as in drive.geometry.se2.yaw_from_path


def points(knots: Tensor, speed_mps: Tensor) -> Tensor:
    """Points (B, P, 40, 2) through knots (B, P, 8, 2) by monotone cubic Hermite interpolation.

    The formula of drive.model.horizon.poses_from_knots (Fritsch and Carlson, 1980); speed_mps is (B,).
    """
    full = pad(knots, (0, 0, 1, 0))
    slope = _slopes(full.diff(dim=2) / KNOT_S, speed_mps) * KNOT_S
    ends = torch.stack([full[:, :, :-1], full[:, :, 1:], slope[:, :, :-1], slope[:, :, 1:]], 3)
    return (_basis(knots.dtype, knots.device) @ ends).flatten(2, 3)


def headings(step: Tensor) -> tuple[Tensor, Tensor]:
    """Unit directions, complex, and lengths of complex steps (B, P, T).

    A step shorter than 0.05 m keeps the direction of the one before; the first one before is straight ahead.
    """
    length = step.abs()
    moving = length >= MIN_STEP_M
    unit = step / length.clamp(min=MIN_STEP_M)
    if not bool(moving.all()):
        held = (moving * _count(step.shape[2], step.device)).cummax(-1).values
        unit = pad(unit, (1, 0), value=1.0).gather(2, held)
    return unit, length


def yaw_of(heading: Tensor) -> Tensor:
    """Unwrapped heading (B, P, T) [rad] along complex unit directions (B, P, T), starting straight ahead."""
    turn = torch.cat([heading[:, :, :1], heading[:, :, 1:] * heading[:, :, :-1].conj()], 2)
    return turn.angle().cumsum(-1)


@cache
def filters(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Savitzky-Golay filters of drive.score.motion as matrices on row vectors of 7 past and 40 plan steps.

    Returns:
        (47, 127): smoothed values of all 47 steps, then of the plan's 40 first and second derivatives of
        them; (47, 47): one first derivative.
    """
    eye = np.eye(WINDOW + STEPS)
    smoothed, derived = smooth(eye, 0, DT_S), smooth(eye, 1, DT_S)
    once = smoothed @ derived
    chain = np.concatenate([smoothed, once[:, WINDOW:], (once @ derived)[:, WINDOW:]], 1)
    with torch.inference_mode(False):  # made while planning, it must still serve gradients
        return torch.tensor(chain, dtype=dtype, device=device), torch.tensor(
            derived, dtype=dtype, device=device
        )


@cache
def _count(steps: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.arange(1, steps + 1, device=device)


@cache
def _basis(dtype: torch.dtype, device: torch.device) -> Tensor:
    u = (np.arange(STRIDE) + 1.0) / STRIDE
    rows = [(1 + 2 * u) * (1 - u) ** 2, u**2 * (3 - 2 * u), u * (1 - u) ** 2, u**2 * (u - 1)]
    with torch.inference_mode(False):
        return torch.tensor(np.stack(rows, -1), dtype=dtype, device=device)


def _slopes(secant: Tensor, speed_mps: Tensor) -> Tensor:
    """Slopes (B, P, 9, 2) at the knots from secants (B, P, 8, 2), as in drive.model.horizon."""
    a, b = secant[:, :, :-1], secant[:, :, 1:]
    limit = 3 * torch.minimum(a.abs(), b.abs()) * (a * b > 0)
    inner = ((a + b) / 2).clamp(-limit, limit)
    forward = torch.minimum(
        (3 * secant[:, :, :1, :1]).clamp(min=0.0), speed_mps.clamp(min=0.0)[:, None, None, None]
    )
    end, bound = secant[:, :, -1:], 3 * secant[:, :, -1:]
    last = (1.5 * end - 0.5 * inner[:, :, -1:]).clamp(bound.clamp(max=0.0), bound.clamp(min=0.0))
    return torch.cat([pad(forward, (0, 1)), inner, last], 2)
