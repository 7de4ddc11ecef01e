"""Collisions as published metrics count them: 0.5 m grid cells, and an ego that never turns."""

from typing import NamedTuple

import numpy as np

from drive.bench.batch import CaseBatch
from drive.contracts import F64, I64, AgentKind, Bool
from drive.geometry.boxes import corners

CELL_M, HALF_M, CELLS = 0.5, 50.0, 200
WINDOW = 24  # cells, more than the ego's 8 x 4 on every side
EGO_LENGTH_M, EGO_WIDTH_M, EGO_AHEAD_M = 4.084, 1.85, 0.5
VEHICLES = (AgentKind.CAR, AgentKind.TRUCK, AgentKind.CYCLIST)


class Family(NamedTuple):
    """One published way to count collisions.

    Attributes:
        vehicles_only: Pedestrians do not count.
        in_lidar: Grid and trajectory are those of the lidar, not of the rear axle.
        reading: "at" (at the horizon) or "up_to" (averaged up to it).
    """

    vehicles_only: bool
    in_lidar: bool
    reading: str


FAMILIES: dict[str, Family] = {
    "stp3": Family(vehicles_only=False, in_lidar=False, reading="up_to"),
    "vad": Family(vehicles_only=False, in_lidar=True, reading="up_to"),
    "uniad": Family(vehicles_only=True, in_lidar=True, reading="at"),
}


def grid_hits(batch: CaseBatch, pose_ego: F64, family: Family) -> Bool:
    """Does the ego's box of cells meet an occupied cell?

    The ego covers the 8 x 4 cells of a box 0.5 m ahead of the trajectory's point, always along the axes of
    the planning moment. Road users are polygons with corners rounded to cells, their outline included. These
    are properties of the published metrics. Cells beyond the grid never collide; published code moves them to
    the grid's edge.

    Args:
        batch: Truth.
        pose_ego: float64 (B, 6, 3), rear-axle poses; a non-finite one never collides.
        family: Which metric.

    Returns:
        bool (B, 6).
    """
    import cv2

    ahead = batch.lidar_ahead_m if family.in_lidar else np.zeros(len(pose_ego))
    finite = np.isfinite(pose_ego).all(-1)
    pose = np.where(finite[..., None], pose_ego, 0.0)
    point = pose[..., :2] + ahead[:, None, None] * np.stack([np.cos(pose[..., 2]), np.sin(pose[..., 2])], -1)
    point[..., 0] -= ahead[:, None]
    cells = np.floor(point[..., None, :] / CELL_M + _ego_box()).astype(np.int64)
    on_grid = ((cells >= 0) & (cells < CELLS)).all(-1)
    agents = batch.agents_ego.copy()
    agents[..., 0] -= ahead[batch.case][:, None]
    places = np.round((corners(agents, batch.size_m[:, None]) + HALF_M) / CELL_M)
    hits = np.zeros(pose.shape[:2], bool)
    for m, t in zip(*np.nonzero(_close(batch, agents, point, family) & finite[batch.case]), strict=True):
        b = batch.case[m]
        if hits[b, t]:
            continue
        corner = cells[b, t].min(0) - WINDOW // 2  # a window around the ego: the whole grid is not needed
        window = np.zeros((WINDOW, WINDOW), np.uint8)
        outline = (places[m, t] - corner)[:, ::-1].astype(np.int32)  # cv2 wants (column, row)
        cv2.fillPoly(window, [np.ascontiguousarray(outline)], 1)
        here = (cells[b, t] - corner)[on_grid[b, t]]
        hits[b, t] = window[here[:, 0], here[:, 1]].any()
    return hits


def _ego_box() -> I64:
    """Cells (32, 2) of the ego's box while the trajectory's point is in the grid's middle."""
    start = -HALF_M + CELL_M / 2
    spans = []
    for low, high in (
        (EGO_AHEAD_M - EGO_LENGTH_M / 2, EGO_AHEAD_M + EGO_LENGTH_M / 2),
        (-EGO_WIDTH_M / 2, EGO_WIDTH_M / 2),
    ):
        first, last = np.ceil((low - start) / CELL_M), np.floor((high - start) / CELL_M)
        spans.append(np.arange(first, last + 1, dtype=np.int64))
    return np.asarray(np.stack(np.meshgrid(*spans, indexing="ij"), -1).reshape(-1, 2), np.int64)


def _close(batch: CaseBatch, agents: F64, point: F64, family: Family) -> Bool:
    """Road users and steps (M, 6) that are near enough to share a cell with the ego."""
    counts = batch.valid.copy()
    if family.vehicles_only:
        counts &= np.isin(batch.kind, VEHICLES)[:, None]
    gap = agents[..., :2] - point[batch.case]
    reach = np.hypot(batch.size_m[:, 0], batch.size_m[:, 1]) / 2 + np.hypot(EGO_LENGTH_M, EGO_WIDTH_M) / 2
    near = np.hypot(gap[..., 0], gap[..., 1]) <= reach[:, None] + EGO_AHEAD_M + 4 * CELL_M
    return np.asarray(counts & near)
