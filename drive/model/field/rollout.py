"""Trajectories in a prepared scene: the geometry that several reward terms share, computed once."""

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import grid_sample, pad

from drive.contracts import DT_S
from drive.model.field import motion
from drive.model.field.scene import AHEAD_S, Prepared
from drive.score.collision import STOPPED_MPS
from drive.score.motion import WINDOW


class Pairs(NamedTuple):
    """Ego box against the road users that come near, (B, P, N, T, O); O = 0 is now, then 0.3, 0.6, 0.9 s on.

    Attributes:
        prob: (B, 1, N), probability that each of them is there.
        ahead_m, left_m: Agent's centre seen from the ego's centre, in the ego's axes.
        reach_x_m, reach_y_m: Half extents of both boxes together along these axes; O = 1.
        touch: bool, do the boxes overlap?  By separating axes; no gradient.
    """

    prob: Tensor
    ahead_m: Tensor
    left_m: Tensor
    reach_x_m: Tensor
    reach_y_m: Tensor
    touch: Tensor


class Rollout:
    """P trajectories per scene; T = 20 field steps of 0.2 s.

    Args:
        knots: (B, P, 8, 2) [m].
        scene: The prepared scene.
        margin_m: Nearer than this to a road user counts as contact, to the road's edge as outside.

    Attributes:
        fine_xy: complex (B, P, 40), rear axle every 0.1 s.
        fine_heading: complex (B, P, 40), direction of each step of 0.1 s.
        fine_speed: (B, P, 40), its speed [m/s].
        xy, heading, speed: The same every 0.2 s, (B, P, T).
        best_m: (B,), progress that counts as full [m]; set by whoever judges.
    """

    def __init__(self, knots: Tensor, scene: Prepared, margin_m: float = 0.0) -> None:
        self.knots, self.scene, self.margin_m = knots, scene, margin_m
        self.best_m = knots.new_zeros(len(knots))
        self.fine_xy = torch.view_as_complex(motion.points(knots, scene.scene.speed_mps))
        before = pad(self.fine_xy, (1, 0))
        self.fine_heading, length = motion.headings(self.fine_xy - before[..., :-1])
        self.fine_speed = length / DT_S
        last = motion.EVERY - 1
        self.xy, self.heading, self.speed = (
            value[..., last :: motion.EVERY] for value in (self.fine_xy, self.fine_heading, self.fine_speed)
        )

    @cached_property
    def fine_yaw(self) -> Tensor:
        """Unwrapped heading (B, P, 40) [rad]."""
        return motion.yaw_of(self.fine_heading)

    @cached_property
    def speed_history(self) -> Tensor:
        """Speeds (B, P, 47) every 0.1 s, behind seven of the present speed."""
        now = self.scene.scene.speed_mps[:, None, None].expand(*self.fine_speed.shape[:2], WINDOW)
        return torch.cat([now, self.fine_speed], -1)

    @cached_property
    def lever_m(self) -> Tensor:
        """Ego's centre at each look-ahead, before the rear axle of now, (B, P, T, O) [m]."""
        return self.scene.scene.ego.centre_from_axle_m + self.speed[..., None] * self.scene.ahead_s

    @cached_property
    def pairs(self) -> Pairs | None:
        """Ego and road users now and a little ahead at constant speed and heading; None if none is near."""
        near = self._near() if self.scene.scene.agent_prob.shape[1] else None
        if near is None or not bool(near.any()):
            return None
        centre = self.xy[..., None] + self.heading[..., None] * self.lever_m
        return self._pairs(self.scene.agent_xy[:, :, near] - centre[:, :, None], near)

    @torch.no_grad()
    def _near(self) -> Tensor:
        """Which road users come so near that they could matter, bool (N,)."""
        gap = torch.view_as_real(self.scene.agent_xy[..., 0] - self.xy[:, :, None])
        reach_m = self.scene.reach_m + AHEAD_S[-1] * self.speed[:, :, None]
        return (gap.square().sum(-1) < reach_m.square()).any(3).any(1).any(0)

    def _pairs(self, gap: Tensor, near: Tensor) -> Pairs:
        scene, ego = self.scene.scene, self.scene.scene.ego
        theirs, size = self.scene.agent_heading[:, :, near], scene.agent_size[:, near] / 2
        back = self.heading.conj()[:, :, None, :, None]  # complex numbers turn vectors in one operation
        local, turn = gap * back, theirs * back
        same, cross = turn.real.abs(), turn.imag.abs()
        length, width = (size[:, None, :, None, None, i] for i in range(2))
        own_x, own_y = ego.length_m / 2, ego.width_m / 2
        reach_x = own_x + length * same + width * cross
        reach_y = own_y + width * same + length * cross
        with torch.no_grad():
            wide = self.margin_m
            seen = gap * theirs.conj()
            touch = (local.real.abs() <= reach_x + wide) & (local.imag.abs() <= reach_y + wide)
            touch &= seen.real.abs() <= length + own_x * same + own_y * cross + wide
            touch &= seen.imag.abs() <= width + own_x * cross + own_y * same + wide
            prob = scene.agent_prob[:, None, near]
            touch &= (prob > 0)[..., None, None]
        return Pairs(prob, local.real, local.imag, reach_x, reach_y, touch)

    @cached_property
    def contact(self) -> Tensor:
        """Contacts the ego answers for, bool (B, P, N, T), as drive.score.collision.at_fault."""
        assert self.pairs is not None
        hit = self.pairs.touch[..., 0]
        if not bool(hit.any()):
            return hit
        first = hit.long().argmax(-1, keepdim=True)
        ahead = self.pairs.ahead_m[..., 0].gather(-1, first)
        left = self.pairs.left_m[..., 0].gather(-1, first)
        speed = self.speed[:, :, None].expand(hit.shape).gather(-1, first)
        return hit & ~(self._behind(ahead, left) | (speed < STOPPED_MPS))

    @cached_property
    def met(self) -> Tensor:
        """Has the ego's front met the road user by then, by its own fault?  bool (B, P, N, T)."""
        assert self.pairs is not None
        front = self.contact & (self.pairs.ahead_m[..., 0] > 0)
        return front.long().cummax(-1).values.bool()

    def from_behind(self) -> Tensor:
        """Is the road user behind the ego's rear end, within 45 degrees of its axis?  bool (B, P, N, T)."""
        assert self.pairs is not None
        return self._behind(self.pairs.ahead_m[..., 0], self.pairs.left_m[..., 0])

    def _behind(self, ahead: Tensor, left: Tensor) -> Tensor:
        return (ahead < -self.scene.scene.ego.length_m / 2) & (-ahead >= left.abs())

    @cached_property
    def map_m(self) -> Tensor:
        """Off-road distance of the four corners and wrong-way depth of the rear axle, (B, P, T, 5) [m]."""
        scene = self.scene
        place = torch.view_as_real(self.xy[..., None] + self.heading[..., None] * scene.corners)
        place = ((place - scene.map_middle) * scene.map_scale).flatten(1, 2)  # (B, P * T, 5, 2)
        place = place.nan_to_num(0.0, 2.0, -2.0)  # grid_sample's gradient reads wild memory at NaN
        seen = grid_sample(scene.maps, place, padding_mode="border", align_corners=True)
        out = torch.cat([seen[:, 0, :, :4], seen[:, 1, :, 4:]], -1)
        return out.unflatten(1, self.xy.shape[1:])

    @cached_property
    def route_m(self) -> tuple[Tensor, Tensor]:
        """Gain of the rear axle along the route and its distance from it, (B, P, T) each [m]."""
        along, apart = self.scene.along(self.xy.flatten(1))
        shape = self.xy.shape[1:]
        return along.unflatten(1, shape) - self.scene.axle_m, apart.unflatten(1, shape)

    @cached_property
    def past_line_m(self) -> Tensor:
        """How far the front bumper is beyond where it must stop, (B, P, T) [m]; -inf = no such line."""
        along = self.scene.along((self.xy + self.scene.front_m * self.heading).flatten(1))[0]
        return along.unflatten(1, self.xy.shape[1:]) - self.scene.stop_at_m[..., None]
