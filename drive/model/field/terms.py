"""Terms of the reward field, each with two faces: a differentiable energy and a reward in [0, 1]."""

from functools import cache
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from drive.contracts import STEPS
from drive.geometry.commands import (
    LANE_CHANGE_M,
    MARGINS,
    MOVED_M,
    SPEED_CHANGE_MPS,
    STOP_MPS,
    TURN_RAD,
    U_TURN_RAD,
)
from drive.model.field import motion
from drive.model.field.rollout import Rollout
from drive.model.horizon import KNOT_S
from drive.score import motion as bounds
from drive.score.collision import STOPPED_MPS
from drive.score.motion import WINDOW
from drive.score.road import AGAINST_FULL_M, AGAINST_HALF_M, AGAINST_S, OFF_CENTRE_M, OFF_CENTRE_S
from drive.score.terms import PROGRESS_FLOOR_M

HORIZON_S = motion.FIELD_STEPS * motion.FIELD_DT_S
GAP_AHEAD_M, GAP_ASIDE_M = 1.0, 0.3  # kept free around road users
DEPTH_AHEAD_M, DEPTH_ASIDE_M = 2.0, 1.0  # overlap that counts as one
ROAD_EDGE_M, WRONG_EDGE_M, STOP_GAP_M = 0.2, 0.2, 0.5
LANE_FREE_M = 0.25
SPEEDING_FREE_MPS, SPEEDING_MPS = 0.5, 5.0
_ABOUT = 2.0
# What a command asks for, at index command + 1: side 0 keep, 1 left, -1 right, 2 about; pace -1, 0 or 1.
_SIDE = (9.0, 0.0, 1.0, -1.0, 1.0, -1.0, _ABOUT)
_PACE = (9.0, -1.0, -1.0, 0.0, 0.0, 1.0)


class Term(Protocol):
    """One wish on a trajectory; both faces give float (B, P)."""

    name: str

    def energy(self, rollout: Rollout) -> Tensor:
        """Differentiable cost, at least 0."""
        ...

    def reward(self, rollout: Rollout) -> Tensor:
        """Value in [0, 1], 1 = good; called without gradients."""
        ...


def hinge(excess: Tensor) -> Tensor:
    """z^2 / (1 + z) of z = max(excess, 0): smooth at 0, and of bounded slope."""
    z = excess.clamp(min=0.0)
    return z * z / (1 + z)


class Collision:
    """Contact of the ego box with road users for which the ego answers."""

    name = "no_collision"

    def energy(self, rollout: Rollout) -> Tensor:
        """Depth ahead times depth aside, mean over steps, summed over road users by probability.

        Both depths fall when the ego brakes or makes room. Once the front has met an agent, what lies behind
        the ego counts as driven through, deeper with every metre, so the way out is back and never through.
        """
        pairs = rollout.pairs
        if pairs is None:
            return _none(rollout, 0.0)
        ahead, left = pairs.ahead_m[..., 0], pairs.left_m[..., 0]
        with torch.no_grad():
            met = rollout.met
            counts = (met | ~rollout.from_behind()) & (rollout.speed > STOPPED_MPS)[:, :, None]
            counts &= ~(pairs.touch[..., 0].any(-1) & ~rollout.contact.any(-1))[..., None]
        reach_x, reach_y = pairs.reach_x_m[..., 0], pairs.reach_y_m[..., 0]
        depth = _depth(torch.where(met, ahead, ahead.abs()), left, reach_x, reach_y)
        return (depth * (counts * pairs.prob[..., None])).sum(2).mean(-1)

    def reward(self, rollout: Rollout) -> Tensor:
        """1 minus the largest probability of a road user that is met."""
        if rollout.pairs is None:
            return _none(rollout, 1.0)
        return 1 - (rollout.contact.any(-1) * rollout.pairs.prob).amax(-1)


class TimeToCollision:
    """Contact within 0.9 s if the ego went on as it does."""

    name = "ttc"

    def energy(self, rollout: Rollout) -> Tensor:
        """As the collision's, 0.3, 0.6 and 0.9 s ahead at the speed and heading of each step."""
        pairs = rollout.pairs
        if pairs is None:
            return _none(rollout, 0.0)
        with torch.no_grad():
            moves = (rollout.speed > STOPPED_MPS)[:, :, None, :, None]
            counts = (self._front(rollout) | rollout.met[..., None]) & moves
        depth = _depth(pairs.ahead_m[..., 1:], pairs.left_m[..., 1:], pairs.reach_x_m, pairs.reach_y_m)
        return (depth * (counts * pairs.prob[..., None, None])).sum(2).mean((-1, -2))

    def reward(self, rollout: Rollout) -> Tensor:
        """1 minus the largest probability of a road user that would be met."""
        pairs = rollout.pairs
        if pairs is None or not bool(pairs.touch[..., 1:].any()):
            return _none(rollout, 1.0)
        hit = (pairs.touch[..., 1:] & self._front(rollout)).any(-1)
        hit &= (rollout.speed > STOPPED_MPS)[:, :, None]
        return 1 - (hit.any(-1) * pairs.prob).amax(-1)

    @staticmethod
    def _front(rollout: Rollout) -> Tensor:
        """Is the agent ahead of the rear axle?  bool (B, P, N, T, O - 1)."""
        assert rollout.pairs is not None
        return rollout.pairs.ahead_m[..., 1:] + rollout.lever_m[:, :, None, :, 1:] > 0


class DrivableArea:
    """All four corners of the ego box on the road."""

    name = "on_road"

    def energy(self, rollout: Rollout) -> Tensor:
        """Distance outside, with a margin of 0.2 m; mean over steps, summed over corners."""
        return hinge(rollout.map_m[..., :4] + ROAD_EDGE_M).sum(-1).mean(-1)

    def reward(self, rollout: Rollout) -> Tensor:
        """0 if any corner leaves the road at any step."""
        worst = rollout.map_m[..., :4].amax((-1, -2))
        return (worst <= -rollout.margin_m).to(worst)


class RightWay:
    """No driving in lanes that lead against the route."""

    name = "right_way"

    def energy(self, rollout: Rollout) -> Tensor:
        """Depth inside such lanes, weighted by v / (v + 5 m/s): standing there harms nobody."""
        share = rollout.speed / (rollout.speed + 5.0)
        return (hinge(rollout.map_m[..., 4] + WRONG_EDGE_M) * share).mean(-1)

    def reward(self, rollout: Rollout) -> Tensor:
        """1, 1/2 or 0 as less than 2 m, less than 6 m or more is driven there in 1 s (NAVSIM)."""
        moved = rollout.speed * (motion.FIELD_DT_S * (rollout.map_m[..., 4] > 0))
        worst = _window_sum(moved, round(AGAINST_S / motion.FIELD_DT_S)).amax(-1)
        return 0.5 * ((worst < AGAINST_HALF_M).to(worst) + (worst < AGAINST_FULL_M).to(worst))


class RedLight:
    """No crossing of a stop line while its light is red."""

    name = "red_light"

    def energy(self, rollout: Rollout) -> Tensor:
        """Metres of the front bumper past the line, with a margin of 0.5 m, halved; mean over steps."""
        return hinge((rollout.past_line_m + STOP_GAP_M) / 2).mean(-1) * rollout.scene.scene.red[:, None]

    def reward(self, rollout: Rollout) -> Tensor:
        """1 minus the probability of red, if the bumper crosses."""
        if not bool(torch.isfinite(rollout.scene.stop_at_m).any()):
            return _none(rollout, 1.0)
        return 1 - (rollout.past_line_m.amax(-1) > 0) * rollout.scene.scene.red[:, None]


class Progress:
    """Distance along the route."""

    name = "progress"

    def energy(self, rollout: Rollout) -> Tensor:
        """Shortfall, in tens of metres, from what the limit and 2.4 m/s^2 allow from the present speed."""
        scene = rollout.scene.scene
        top = bounds.LON_ACCEL_MPS2[1] * HORIZON_S / 2
        reach = torch.minimum(scene.speed_limit_mps, scene.speed_mps + top) * HORIZON_S
        return hinge((reach[:, None] - rollout.route_m[0][..., -1]) / 10)

    def gained_m(self, rollout: Rollout) -> Tensor:
        """Progress at the end, at least 0 and at most what the limit allows, (B, P) [m]."""
        most = (rollout.scene.scene.speed_limit_mps * HORIZON_S).clamp(min=0.0)[:, None]
        return torch.minimum(rollout.route_m[0][..., -1].clamp(min=0.0), most)

    def reward(self, rollout: Rollout) -> Tensor:
        """Share of rollout.best_m, or 1 where that is below 5 m."""
        best = rollout.best_m[:, None]
        share = (self.gained_m(rollout) / best.clamp(min=PROGRESS_FLOOR_M)).clamp(max=1.0)
        return torch.where(best < PROGRESS_FLOOR_M, 1.0, share)


class LaneKeeping:
    """Near the route, which runs along lane centres."""

    name = "lane"

    def energy(self, rollout: Rollout) -> Tensor:
        """Distance from the route beyond 0.25 m, mean over steps."""
        return hinge(rollout.route_m[1] - LANE_FREE_M).mean(-1)

    def reward(self, rollout: Rollout) -> Tensor:
        """Share of steps at which the ego has not been more than 0.5 m off for 2 s."""
        stray = (rollout.route_m[1] > OFF_CENTRE_M).to(rollout.knots.dtype)
        window = round(OFF_CENTRE_S / motion.FIELD_DT_S)
        return 1 - (_window_sum(stray, window) > window - 0.5).to(stray).mean(-1)


class Comfort:
    """Acceleration, jerk and yaw within the nuPlan bounds, on the 10 Hz motion as drive.score.motion."""

    name = "comfort"

    def energy(self, rollout: Rollout) -> Tensor:
        """Excess over each bound as a share of it, summed over bounds, mean over steps."""
        return hinge(self._excess(rollout)).sum(2).mean(-1)

    def reward(self, rollout: Rollout) -> Tensor:
        """Share of steps within all bounds."""
        return (self._excess(rollout).amax(2) <= 0).to(rollout.knots.dtype).mean(-1)

    @staticmethod
    def _excess(rollout: Rollout) -> Tensor:
        """How far each bounded value is outside, as a share of its bound, (B, P, 7, 40); below 0 = inside."""
        history, yaw, past = rollout.speed_history, pad(rollout.fine_yaw, (WINDOW, 0)), WINDOW
        chain, once = motion.filters(history.dtype, history.device)
        speed, lon, lon_jerk = (history @ chain).split([past + STEPS, STEPS, STEPS], -1)
        rate = yaw @ once
        lat = speed * rate
        lat_jerk, yaw_accel = lat @ once[:, past:], rate @ once[:, past:]
        jerk = (lon_jerk.square() + lat_jerk.square() + 1e-12).sqrt()
        sizes = torch.stack([lat[..., past:], lon_jerk, yaw_accel, rate[..., past:]], 2).abs()
        values = torch.cat([torch.stack([lon, lon, jerk], 2), sizes], 2)
        return values * _per_bound(lon.dtype, lon.device) - 1


class SpeedLimit:
    """No faster than posted."""

    name = "speed_limit"

    def energy(self, rollout: Rollout) -> Tensor:
        """Speed beyond the limit [m/s], mean over steps."""
        return hinge(rollout.speed - rollout.scene.scene.speed_limit_mps[:, None, None]).mean(-1)

    def reward(self, rollout: Rollout) -> Tensor:
        """1 up to 0.5 m/s too fast, 0 from 5 m/s; worst step."""
        excess = rollout.speed.amax(-1) - rollout.scene.scene.speed_limit_mps[:, None]
        return 1 - ((excess - SPEEDING_FREE_MPS) / (SPEEDING_MPS - SPEEDING_FREE_MPS)).clamp(0.0, 1.0)


class CommandConsistency:
    """The trajectory does what the driving command says."""

    name = "command"

    def energy(self, rollout: Rollout) -> Tensor:
        """How far heading, offset and final speed are from what drive.geometry.commands would accept."""
        scene = rollout.scene.scene
        lateral, pace = scene.command[:, :1], scene.command[:, 1:]
        turn, aside, end, now = self._motion(rollout)
        keep = hinge(turn.abs() / TURN_RAD - 1) + hinge(aside.abs() / LANE_CHANGE_M - 1)
        left = torch.minimum(hinge(1 - turn / TURN_RAD), hinge(1 - aside / LANE_CHANGE_M))
        right = torch.minimum(hinge(1 + turn / TURN_RAD), hinge(1 + aside / LANE_CHANGE_M))
        about = hinge(1 - turn.abs() / U_TURN_RAD)
        slow = torch.minimum(hinge((end - now) / SPEED_CHANGE_MPS + 1), hinge(end / STOP_MPS - 1))
        steady = hinge((end - now).abs() / SPEED_CHANGE_MPS - 1)
        gain = hinge((now - end) / SPEED_CHANGE_MPS + 1)
        none = torch.zeros_like(turn)
        sides = torch.stack([none, keep, left, right, left, right, about], -1)
        paces = torch.stack([none, slow, slow, steady, steady, gain], -1)
        return _pick(sides, lateral) + _pick(paces, pace)

    def reward(self, rollout: Rollout) -> Tensor:
        """1 if `drive.geometry.commands.agree` says that they do, or no command is known."""
        scene = rollout.scene.scene
        if not bool((scene.command >= 0).any()):
            return _none(rollout, 1.0)
        turn, aside, end, now = self._motion(rollout)
        sides, paces, scale = _command_tables(turn.dtype, turn.device)
        moved = rollout.fine_xy.abs().amax(-1) > MOVED_M
        turned = torch.where(turn.abs() > scale * TURN_RAD, turn, 0.0).sign()
        slid = torch.where(aside.abs() > scale * LANE_CHANGE_M, aside, 0.0).sign()
        side = torch.where(turned == 0, slid, turned)
        side = moved * torch.where(turn.abs() > scale * U_TURN_RAD, _ABOUT, side)
        change = scale * SPEED_CHANGE_MPS
        slower, stops = end < now - change, end < scale * STOP_MPS
        pace = torch.where(slower | stops, -1.0, (end > now + change).to(turn))
        wanted, wanted_pace = sides[scene.command[:, :1] + 1], paces[scene.command[:, 1:] + 1]
        keeps = (side == wanted) | (stops & (side == 0))
        same = (keeps & (pace == wanted_pace)).any(0)
        return (same | (scene.command < 0).any(1)[:, None]).to(turn)

    @staticmethod
    def _motion(rollout: Rollout) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Heading change, offset at the end, and speed there, (B, P) each, and speed now (B, 1)."""
        last = rollout.knots[..., -1, :] - rollout.knots[..., -2, :]
        end = (last.square().sum(-1) + 1e-12).sqrt() / KNOT_S
        now = rollout.scene.scene.speed_mps[:, None]
        return rollout.fine_yaw[..., -1], rollout.knots[..., -1, 1], end, now


@cache
def _per_bound(dtype: torch.dtype, device: torch.device) -> Tensor:
    """One over each bound (7, 1), in the order of Comfort."""
    brake, push = bounds.LON_ACCEL_MPS2
    limits = [push, brake, bounds.JERK_MPS3, bounds.LAT_ACCEL_MPS2, bounds.LON_JERK_MPS3]
    limits += [bounds.YAW_ACCEL_RADPS2, bounds.YAW_RATE_RADPS]
    with torch.inference_mode(False):  # made while planning, it must still serve gradients
        return 1 / torch.tensor(limits, dtype=dtype, device=device)[:, None]


@cache
def _command_tables(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    with torch.inference_mode(False):
        sides, paces, margins = (torch.tensor(v, dtype=dtype, device=device) for v in (_SIDE, _PACE, MARGINS))
        return sides, paces, margins[:, None, None]


def _none(rollout: Rollout, value: float) -> Tensor:
    return torch.full_like(rollout.knots[..., 0, 0], value)


def _depth(ahead: Tensor, left: Tensor, reach_x: Tensor, reach_y: Tensor) -> Tensor:
    """How deep an agent is within reach ahead and aside at once; 0 unless it is both."""
    x = hinge((reach_x + GAP_AHEAD_M - ahead) / DEPTH_AHEAD_M)
    return x * hinge((reach_y + GAP_ASIDE_M - left.abs()) / DEPTH_ASIDE_M)


def _window_sum(values: Tensor, window: int) -> Tensor:
    """Sum over the last `window` steps, (B, P, T) -> (B, P, T)."""
    total = values.cumsum(-1)
    return torch.cat([total[..., :window], total[..., window:] - total[..., :-window]], -1)


def _pick(values: Tensor, command: Tensor) -> Tensor:
    """Column command + 1 of values (B, P, K) for command (B, 1); (B, P)."""
    at = (command + 1).clamp(0, values.shape[-1] - 1)
    return values.gather(-1, at[:, None].expand(-1, values.shape[1], -1))[..., 0]


GATE_TERMS: tuple[Term, ...] = (Collision(), DrivableArea(), RightWay(), RedLight())
PROGRESS = Progress()
WEIGHTED_TERMS: tuple[Term, ...] = (
    PROGRESS,
    TimeToCollision(),
    LaneKeeping(),
    Comfort(),
    SpeedLimit(),
    CommandConsistency(),
)
