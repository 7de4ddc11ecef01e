"""The true scene in the reward field's form: what a perfect prediction would be."""

from collections.abc import Sequence

import numpy as np
import torch

from drive.contracts import DT_S, F64, Bool
from drive.model.field.motion import EVERY, FIELD_STEPS
from drive.model.field.scene import REACH_M, FieldScene, Grid
from drive.score import road
from drive.score.scene import FrozenScene

ROUTE_STEP_M, ROUTE_BEHIND_M, ROUTE_POINTS = 2.0, 6.0, 48
AWAY_M = 1e4
GRID = Grid()


def true_scene(
    frozen: Sequence[FrozenScene], grid: Grid = GRID, commands: Sequence[tuple[int, int]] | None = None
) -> FieldScene:
    """Batch of frozen scenes as one FieldScene on the CPU.

    Maps are rasterised from the lanes: a cell's off-road distance is that to the nearest lane edge (with the
    tolerance of drive.score.road), and a lane leads against the route if it points the other way than the
    nearest part of the route. Without lanes everything is road. Where a road user is unknown, it is far away.

    Args:
        frozen: Scenes of 40 steps of 0.1 s, all with the same ego box.
        grid: Of the two maps.
        commands: (lateral, longitudinal) per scene; None = none known.

    Raises:
        ValueError: no scene, other steps, or different ego boxes.
    """
    if not frozen or any(f.dt_s != DT_S or f.ego_size != frozen[0].ego_size for f in frozen):
        raise ValueError("frozen: expected at least one scene, steps of 0.1 s and one ego box")
    most = max(1, *(len(f.agent_valid) for f in frozen))
    pose = np.zeros((len(frozen), most, FIELD_STEPS, 3))
    pose[..., 0] = AWAY_M
    size, prob = np.ones((len(frozen), most, 2)), np.zeros((len(frozen), most))
    for row, scene in enumerate(frozen):
        count = len(scene.agent_valid)
        pose[row, :count] = _every_second(scene)
        size[row, :count], prob[row, :count] = scene.agent_size_m, scene.agent_valid.any(1)
    routes = [_route(f.route_ego) for f in frozen]
    maps = [_maps(f, route, grid) for f, route in zip(frozen, routes, strict=True)]
    stops = [_stop_m(f) for f in frozen]

    def tensor(values: object) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, np.float32))

    return FieldScene(
        speed_mps=tensor([f.speed_mps for f in frozen]),
        speed_limit_mps=tensor([f.speed_limit_mps for f in frozen]),
        agent_pose=tensor(pose),
        agent_size=tensor(size),
        agent_prob=tensor(prob),
        off_road_m=tensor([m[0] for m in maps]),
        wrong_way_m=tensor([m[1] for m in maps]),
        route=tensor(routes),
        stop_m=tensor(stops),
        red=tensor([float(np.isfinite(s)) for s in stops]),
        command=torch.tensor([(-1, -1)] * len(frozen) if commands is None else [list(c) for c in commands]),
        grid=grid,
        ego=frozen[0].ego_size,
    )


def _every_second(scene: FrozenScene) -> F64:
    """Agents (N, 20, 3) every 0.2 s; far away where unknown."""
    pose, there = scene.agent_pose_ego[:, EVERY - 1 :: EVERY], scene.agent_valid[:, EVERY - 1 :: EVERY]
    return np.where(there[..., None], pose, np.array([AWAY_M, 0.0, 0.0]))


def _route(route: F64) -> F64:
    """The route from a little behind the ego on, every 2 m, (ROUTE_POINTS, 2), its last point repeated.

    Without a route: straight ahead.
    """
    if len(route) < 2:
        ahead = ROUTE_STEP_M * np.arange(ROUTE_POINTS) - ROUTE_BEHIND_M
        return np.stack([ahead, np.zeros(ROUTE_POINTS)], -1)
    step = np.diff(route, axis=0)
    length = np.hypot(step[:, 0], step[:, 1])
    begin = np.append(0.0, np.cumsum(length))
    share = (-(route[:-1] * step).sum(1) / np.maximum(length**2, 1e-12)).clip(0.0, 1.0)
    square = ((route[:-1] + share[:, None] * step) ** 2).sum(1)
    own = int(np.where(step[:, 0] >= 0, square, square + road.NEARBY_M**2).argmin())
    here = begin[own] + share[own] * length[own]
    at = (here - ROUTE_BEHIND_M + ROUTE_STEP_M * np.arange(ROUTE_POINTS)).clip(0.0, begin[-1])
    return np.stack([np.interp(at, begin, route[:, i]) for i in range(2)], -1)


def _stop_m(scene: FrozenScene) -> float:
    """Distance from the front bumper along the route to the nearest red line ahead; inf = none."""
    front_m = scene.ego_size.centre_from_axle_m + scene.ego_size.length_m / 2
    middle = scene.red_line_ego.mean(1)
    if not len(middle):
        return float("inf")
    along = road.along(middle, scene.route_ego) if len(scene.route_ego) >= 2 else middle[:, 0]
    ahead = along[along >= front_m] - front_m
    return float(ahead.min()) if len(ahead) else float("inf")


def _maps(scene: FrozenScene, route: F64, grid: Grid) -> tuple[F64, F64]:
    """Off-road distance and wrong-way depth on the grid, (H, W) each [m]."""
    rows, columns = grid.shape
    x = grid.x_from_m + grid.cell_m * np.arange(columns)
    y = grid.y_from_m + grid.cell_m * np.arange(rows)
    if scene.lane_ego is None:
        return np.full((rows, columns), -REACH_M), np.full((rows, columns), -REACH_M)
    start, step = scene.lane_ego[:, :-1], np.diff(scene.lane_ego, axis=1)
    lane = np.broadcast_to(np.arange(len(start))[:, None], start.shape[:2]).ravel()
    start, step = start.reshape(-1, 2), step.reshape(-1, 2)
    half, junction = scene.lane_width_m[lane].astype(np.float64) / 2, scene.in_junction[lane]
    off, wrong = np.full((rows, columns), REACH_M), np.full((rows, columns), -REACH_M)
    right = np.full((rows, columns), -np.inf)
    against = _against(start, step, route)
    for k in np.flatnonzero((step**2).sum(1) > 1e-9):
        edge = road.JUNCTION_EDGE_M if junction[k] else road.EDGE_M
        reach = half[k] + edge + REACH_M
        low, high = (
            np.minimum(start[k], start[k] + step[k]) - reach,
            np.maximum(start[k], start[k] + step[k]) + reach,
        )
        i, j = slice(*np.searchsorted(y, [low[1], high[1]])), slice(*np.searchsorted(x, [low[0], high[0]]))
        gap_x, gap_y = x[j][None, :] - start[k, 0], y[i][:, None] - start[k, 1]
        share = ((gap_x * step[k, 0] + gap_y * step[k, 1]) / (step[k] ** 2).sum()).clip(0.0, 1.0)
        distance = np.hypot(gap_x - share * step[k, 0], gap_y - share * step[k, 1])
        off[i, j] = np.minimum(off[i, j], distance - half[k] - edge)
        side = wrong if against[k] and not junction[k] else right
        side[i, j] = np.maximum(side[i, j], half[k] - distance)
    wrong = np.minimum(wrong, -right)
    return off.clip(-REACH_M, REACH_M), wrong.clip(-REACH_M, REACH_M)


def _against(start: F64, step: F64, route: F64) -> Bool:
    """Which lane segments (S, 2) lead against the nearest part of the route?"""
    middle = (route[:-1] + route[1:]) / 2
    ahead = np.diff(route, axis=0)
    middle, ahead = (values[(ahead != 0).any(1)] for values in (middle, ahead))
    gap = (start + step / 2)[:, None] - middle[None]
    nearest = (gap**2).sum(-1).argmin(1)
    return np.asarray((step * ahead[nearest]).sum(-1) < 0)
