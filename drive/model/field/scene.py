"""The scene a reward field is evaluated in: road users, two distance maps, route, light, command."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from drive.contracts import EGO_MKZ, EgoSize
from drive.model.field.motion import FIELD_DT_S, FIELD_STEPS
from drive.score.terms import TTC_S

REACH_M = 4.0
ROOM_M = 1.5  # around boxes, in which the energies still push
AHEAD_S = (0.0, *TTC_S)


@dataclass(frozen=True)
class Grid:
    """Bird's-eye grid in the ego frame: rows are y from y_from_m on, columns are x from x_from_m on.

    Attributes:
        x_from_m, x_to_m: First and last column, forward.
        y_from_m, y_to_m: First and last row, to the left.
        cell_m: Spacing.
    """

    x_from_m: float = -8.0
    x_to_m: float = 64.0
    y_from_m: float = -24.0
    y_to_m: float = 24.0
    cell_m: float = 0.5

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns (H, W)."""
        rows = (self.y_to_m - self.y_from_m) / self.cell_m
        columns = (self.x_to_m - self.x_from_m) / self.cell_m
        return round(rows) + 1, round(columns) + 1


class FieldScene(NamedTuple):
    """What a batch of B plans is judged in, everything in the ego frame at plan time; float32 unless said.

    Attributes:
        speed_mps, speed_limit_mps: (B,); an unknown limit is inf.
        agent_pose: (B, N, 20, 3), box centres [x_m, y_m, yaw_rad] at (i + 1) * 0.2 s.
        agent_size: (B, N, 2), length and width [m].
        agent_prob: (B, N), probability in [0, 1] that the road user is there; 0 = padding.
        off_road_m: (B, H, W), signed distance outside the drivable area, cut off at +-4 m.
        wrong_way_m: (B, H, W), how deep inside lanes that lead against the route, below 0 elsewhere; cut off.
        route: (B, R, 2), intended path from a little behind the ego [m]; it may repeat its last point.
        stop_m: (B,), from the front bumper to the stop line along the route; below 0 or inf = none.
        red: (B,), probability in [0, 1] that the light is red.
        command: int64 (B, 2), lateral and longitudinal; -1 = none.
        grid: Where the two maps lie.
        ego: Ego box.
    """

    speed_mps: Tensor
    speed_limit_mps: Tensor
    agent_pose: Tensor
    agent_size: Tensor
    agent_prob: Tensor
    off_road_m: Tensor
    wrong_way_m: Tensor
    route: Tensor
    stop_m: Tensor
    red: Tensor
    command: Tensor
    grid: Grid = Grid()
    ego: EgoSize = EGO_MKZ


class Prepared(NamedTuple):
    """A FieldScene with everything computed that no trajectory changes; O = 4 looks ahead: 0 to 0.9 s.

    Attributes:
        scene: The scene itself, without road users of probability 0.
        agent_xy: complex (B, 1, N, 20, O), agents at each step plus look-ahead, x + i y.
        agent_heading: complex (B, 1, N, 20, 1), cosine + i sine of their heading.
        reach_m: (B, 1, N, 1), farther from a standing ego's rear axle than this they do not matter.
        ahead_s: (O,), the looks ahead.
        maps: (B, 2, H, W), off_road_m and wrong_way_m.
        map_middle, map_scale: (2,), of the maps' x and y: (place - middle) * scale is in [-1, 1].
        corners: complex (5,), corners of the ego box from the rear axle, and the axle itself.
        route_start, route_step, route_unit: (2, B, 1, R - 1), segments, and steps over squared length.
        route_length, route_begin: (B, 1, R - 1), of each segment, and of the route before it [m].
        axle_m: (B, 1, 1), where the rear axle is along the route now.
        stop_at_m: (B, 1), where along the route the front bumper must stop; inf = nowhere.
    """

    scene: FieldScene
    agent_xy: Tensor
    agent_heading: Tensor
    reach_m: Tensor
    ahead_s: Tensor
    maps: Tensor
    map_middle: Tensor
    map_scale: Tensor
    corners: Tensor
    route_start: Tensor
    route_step: Tensor
    route_unit: Tensor
    route_length: Tensor
    route_begin: Tensor
    axle_m: Tensor
    stop_at_m: Tensor

    @property
    def front_m(self) -> float:
        """Front bumper ahead of the rear axle [m]."""
        return self.scene.ego.centre_from_axle_m + self.scene.ego.length_m / 2

    def along(self, xy: Tensor) -> tuple[Tensor, Tensor]:
        """Route length before complex points (B, K) and their distance from the route, (B, K) each [m]."""
        gap_x, gap_y = xy.real[..., None] - self.route_start[0], xy.imag[..., None] - self.route_start[1]
        share = torch.addcmul(gap_x * self.route_unit[0], gap_y, self.route_unit[1]).clamp(0.0, 1.0)
        gap_x = torch.addcmul(gap_x, share, self.route_step[0], value=-1)
        gap_y = torch.addcmul(gap_y, share, self.route_step[1], value=-1)
        square = torch.addcmul(gap_x * gap_x, gap_y, gap_y)
        apart, nearest = square.min(-1, keepdim=True)
        reached = torch.addcmul(self.route_begin, share, self.route_length).gather(-1, nearest)
        return reached[..., 0], (apart[..., 0] + 1e-12).sqrt()


def prepare(scene: FieldScene) -> Prepared:
    """Compute once what every trajectory of the batch shares.

    Raises:
        ValueError: agent_pose has another number of steps, or a map is not of the grid's shape.
    """
    batch, agents = scene.agent_prob.shape
    if scene.agent_pose.shape != (batch, agents, FIELD_STEPS, 3):
        raise ValueError(
            f"agent_pose: expected ({batch}, {agents}, {FIELD_STEPS}, 3), got {tuple(scene.agent_pose.shape)}"
        )
    for name, value in (("off_road_m", scene.off_road_m), ("wrong_way_m", scene.wrong_way_m)):
        if value.shape != (batch, *scene.grid.shape):
            raise ValueError(f"{name}: expected {(batch, *scene.grid.shape)}, got {tuple(value.shape)}")
    with torch.inference_mode(False), torch.no_grad():
        return _prepare(FieldScene._make(v.clone() if isinstance(v, Tensor) else v for v in scene))


def _prepare(scene: FieldScene) -> Prepared:
    there = (scene.agent_prob > 0).any(0)
    if not bool(there.all()):
        scene = scene._replace(
            agent_pose=scene.agent_pose[:, there],
            agent_size=scene.agent_size[:, there],
            agent_prob=scene.agent_prob[:, there],
        )
    route = scene.route.permute(2, 0, 1)[:, :, None]
    step = route.diff(dim=-1)
    length = step.square().sum(0).sqrt()
    grid, new = scene.grid, scene.route.new_tensor
    heading = torch.polar(torch.ones_like(scene.agent_pose[..., 2]), scene.agent_pose[..., 2])
    prepared = Prepared(
        scene=scene,
        agent_xy=_ahead(torch.complex(scene.agent_pose[..., 0], scene.agent_pose[..., 1]))[:, None],
        agent_heading=heading[:, None, ..., None],
        reach_m=_reach(scene)[:, None, :, None],
        maps=torch.stack([scene.off_road_m, scene.wrong_way_m], 1),
        ahead_s=new(AHEAD_S),
        map_middle=new([grid.x_from_m + grid.x_to_m, grid.y_from_m + grid.y_to_m]) / 2,
        map_scale=2 / new([grid.x_to_m - grid.x_from_m, grid.y_to_m - grid.y_from_m]),
        corners=torch.complex(*new(_corners(scene.ego)).unbind(1)),
        route_start=route[..., :-1],
        route_step=step,
        route_unit=step / length.square().clamp(min=1e-6),
        route_length=length,
        route_begin=length.cumsum(-1) - length,
        axle_m=length[..., :1],
        stop_at_m=length[..., 0],
    )
    here = torch.complex(new([0.0, prepared.front_m]), new([0.0, 0.0])).expand(len(scene.route), -1)
    along = prepared.along(here)[0]
    stop = torch.where(scene.stop_m >= 0, along[:, 1] + scene.stop_m, torch.inf)
    return prepared._replace(axle_m=along[:, :1, None], stop_at_m=stop[:, None])


def _corners(ego: EgoSize) -> list[tuple[float, float]]:
    x, y, ahead = ego.length_m / 2, ego.width_m / 2, ego.centre_from_axle_m
    return [*((ahead + a * x, b * y) for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))), (0.0, 0.0)]


def _reach(scene: FieldScene) -> Tensor:
    """How near (B, N) a road user must come to touch a standing ego or its margins, looking ahead [m]."""
    ego = scene.ego
    own_m = ego.centre_from_axle_m + (ego.length_m**2 + ego.width_m**2) ** 0.5 / 2
    step = scene.agent_pose[:, :, 1:, :2] - scene.agent_pose[:, :, :-1, :2]
    fastest = step.square().sum(-1).amax(-1).sqrt() / FIELD_DT_S
    return own_m + scene.agent_size.square().sum(-1).sqrt() + ROOM_M + AHEAD_S[-1] * fastest


def _ahead(xy: Tensor) -> Tensor:
    """Agents, complex (B, N, 20), now and TTC_S later, (B, N, 20, O); past the end at their last velocity."""
    if not xy.shape[1]:
        return xy[..., None].expand(-1, -1, -1, len(AHEAD_S))
    beyond = torch.arange(1, 7, device=xy.device)
    longer = torch.cat([xy, xy[..., -1:] + (xy[..., -1:] - xy[..., -2:-1]) * beyond], -1)
    out = []
    for ahead_s in AHEAD_S:
        first, share = divmod(round(10 * ahead_s / FIELD_DT_S), 10)
        left = longer[..., first : first + FIELD_STEPS]
        out.append(left + share / 10 * (longer[..., first + 1 : first + 1 + FIELD_STEPS] - left))
    return torch.stack(out, -1)
