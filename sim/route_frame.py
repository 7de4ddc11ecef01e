"""Road users in the frame of the route: where along it, how far beside it, how fast along it."""

from dataclasses import dataclass

import numpy as np

from drive.contracts import F64
from drive.geometry.boxes import corners
from sim.situation import Agents, Situation


@dataclass(frozen=True)
class Beside:
    """Agents in the frame of the route: extents along it and to its left (A,), and speed along it."""

    low: F64
    high: F64
    right: F64
    left: F64
    speed: F64


def in_route_frame(scene: Situation) -> Beside:
    """Agents against the route's own (not bent) line; infinite for those nowhere near it."""
    agents: Agents = scene.agents
    if not len(agents.ids):
        empty = np.zeros(0)
        return Beside(empty, empty, empty, empty, empty)
    first = max(0, int(scene.s_m) - 60)
    path = scene.route.pose_world[first : int(scene.s_m) + 160]
    ring = np.concatenate([corners(agents.pose_world, agents.size_m), agents.pose_world[:, None, :2]], axis=1)
    dx, dy = ring[..., 0, None] - path[:, 0], ring[..., 1, None] - path[:, 1]
    near = np.argmin(dx * dx + dy * dy, axis=-1)
    at = path[near]
    px, py = ring[..., 0] - at[..., 0], ring[..., 1] - at[..., 1]
    along = px * np.cos(at[..., 2]) + py * np.sin(at[..., 2])
    left = -px * np.sin(at[..., 2]) + py * np.cos(at[..., 2])
    off = np.abs(along) > 2.0  # before the first or behind the last point
    s = np.where(off, np.nan, first + near + along)
    known = ~off.all(1)
    with np.errstate(invalid="ignore"):
        low = np.where(known, np.nanmin(np.where(known[:, None], s, 0.0), axis=1), np.inf)
        high = np.where(known, np.nanmax(np.where(known[:, None], s, 0.0), axis=1), np.inf)
    turned = agents.pose_world[:, 2] - path[near[:, -1], 2]
    return Beside(low, high, left.min(1), left.max(1), agents.speed_mps * np.cos(turned))
