"""The scene that the network predicts, in the form that the reward field judges trajectories in."""

import numpy as np
import torch
from torch import Tensor

from drive.contracts import F32, F64, Bool
from drive.data import ground as truth
from drive.data.agents import LATER_S
from drive.model.agents import Boxes
from drive.model.field.motion import FIELD_DT_S, FIELD_STEPS
from drive.model.field.scene import REACH_M, FieldScene, Grid
from drive.model.network import Inputs, Scene

_HALF_CELL_M = truth.CELL_M / 2
GRID = Grid(
    truth.FROM_X_M + _HALF_CELL_M,
    truth.TO_X_M - _HALF_CELL_M,
    -truth.HALF_Y_M + _HALF_CELL_M,
    truth.HALF_Y_M - _HALF_CELL_M,
    truth.CELL_M,
)
AGENTS_FROM = 0.8  # less sure road users move nobody
RED_FROM = 0.5
ROAD_FROM = 0.2  # above this probability of being road nobody is moved away
ONCOMING_FROM = 0.5
EDGE_M = 0.3  # the road's edge is not sharper than this, as in drive.score.road
_CURVE = np.linspace(0.0, 1.0, 6)[1:]
_BEHIND_M, _BEYOND_M = 8.0, 60.0


def predicted_scene(
    scene: Scene, inputs: Inputs, command: Tensor, boxes: Boxes, ground: F32, seen: Bool
) -> FieldScene:
    """What the network sees: road and oncoming lanes, boxes with futures, light, and the route hint.

    Args:
        scene: Of a batch of B.
        inputs: Of the same batch.
        command: int64 (B, 2), NO_COMMAND = none.
        boxes: Road users.
        ground: (B, CHANNELS, ROWS, COLUMNS), probabilities as drive.data.ground.
        seen: (ROWS, COLUMNS), cells that the camera sees; elsewhere a guess about the road moves nobody.
    """
    pose, sure = agents_of(boxes)
    red = scene.light.softmax(1)[:, 0]
    return FieldScene(
        speed_mps=torch.nan_to_num(inputs.speed_mps),
        speed_limit_mps=inputs.speed_limit_mps,
        agent_pose=pose,
        agent_size=boxes.size,
        agent_prob=sure,
        off_road_m=_map([outside_m((one[truth.ROAD] > ROAD_FROM) | ~seen) - EDGE_M for one in ground]),
        wrong_way_m=_map([-outside_m((one[truth.ONCOMING] > ONCOMING_FROM) & seen) for one in ground]),
        route=torch.from_numpy(route_of(inputs.targets_ego.numpy().astype(np.float64))).float(),
        stop_m=scene.stop_m,
        red=torch.where(red >= RED_FROM, red, 0.0),
        command=command,
        grid=GRID,
    )


def agents_of(boxes: Boxes) -> tuple[Tensor, Tensor]:
    """Poses (B, A, 20, 3) and probabilities (B, A), 0 below AGENTS_FROM.

    Centres go straight from each predicted place to the next, and past the last one as before; the heading
    stays the detected one.
    """
    places = torch.cat([boxes.pose[..., None, :2], boxes.later], 2)  # (B, A, 4, 2), at 0, 1, 2, 3 s
    time_s = FIELD_DT_S * torch.arange(1, FIELD_STEPS + 1)
    before = time_s.long().clamp(max=len(LATER_S) - 1)  # LATER_S are whole seconds
    share = (time_s - before)[:, None]
    xy = places[:, :, before] * (1 - share) + places[:, :, before + 1] * share
    pose = torch.cat([xy, boxes.pose[..., None, 2:].expand(*xy.shape[:3], 1)], -1)
    return pose, torch.where(boxes.probability >= AGENTS_FROM, boxes.probability, 0.0)


def outside_m(inside: Bool) -> F32:
    """Signed distance outside the cells (ROWS, COLUMNS) that are set [m], at most REACH_M either way."""
    import cv2

    if inside.all() or not inside.any():
        return np.full(inside.shape, -REACH_M if inside.any() else REACH_M, np.float32)
    there = inside.astype(np.uint8)
    to_inside, to_outside = (
        cv2.distanceTransform(cells, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) for cells in (1 - there, there)
    )
    middle = np.where(inside, _HALF_CELL_M, -_HALF_CELL_M)  # the edge lies between the middles of two cells
    return np.asarray(
        np.clip((to_inside - to_outside) * truth.CELL_M + middle, -REACH_M, REACH_M), np.float32
    )


def _map(rows: list[F32]) -> Tensor:
    """Maps (ROWS, COLUMNS), x first -> (B, COLUMNS, ROWS), y first."""
    return torch.from_numpy(np.stack([row.T for row in rows]).astype(np.float32))


def route_of(targets_ego: F64) -> F64:
    """A smooth path from behind the ego, in its heading, through its route points (B, 2, 2): (B, 13, 2) [m].

    Cubic Hermite pieces; the slope at the first point is that of the chord between ego and second point.
    """
    first, second = targets_ego[:, 0], targets_ego[:, 1]
    zero = np.zeros_like(first)
    reach = [np.maximum(np.hypot(*chord.T), 0.5)[:, None] for chord in (first, second - first, second)]
    ahead = np.broadcast_to([1.0, 0.0], first.shape)
    through = second / reach[2]
    end = (second - first) / reach[1]
    pieces = [_hermite(zero, first, reach[0] * ahead, reach[0] * through)]
    pieces += [_hermite(first, second, reach[1] * through, reach[1] * end)]
    behind = np.broadcast_to([-_BEHIND_M, 0.0], first.shape)
    return np.concatenate([behind[:, None], zero[:, None], *pieces, (second + _BEYOND_M * end)[:, None]], 1)


def _hermite(a: F64, b: F64, from_a: F64, to_b: F64) -> F64:
    u = _CURVE[:, None]
    a, b, from_a, to_b = (value[:, None] for value in (a, b, from_a, to_b))
    start, end = (1 + 2 * u) * (1 - u) ** 2, u**2 * (3 - 2 * u)
    return np.asarray(start * a + end * b + u * (1 - u) ** 2 * from_a + u**2 * (u - 1) * to_b)
