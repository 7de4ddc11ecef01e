"""What the expert remembers between plans: ways around obstacles, stop signs it has stopped at.

It shows the expert the same scene with the route bent around what stands in the way, when there is room and
no traffic in it, and with places where the ego has to wait.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from drive.contracts import EGO_MKZ, AgentKind, Bool
from drive.geometry.se2 import wrap
from sim.expert import CORRIDOR_M, FRONT_M, REAR_M
from sim.room import Room, room_of
from sim.route_frame import Beside, in_route_frame
from sim.routes import curve_speeds
from sim.signs import StopSign
from sim.situation import RED, YELLOW, Situation

__all__ = ["Navigator", "Room", "room_of"]

LOOK_M = 55.0
SLOW_MPS = 3.5
STOOD_S = 4.0
CHAIN_M = 16.0  # obstacles nearer to each other are passed in one go
SIDE_M = 0.55  # distance to what is passed
SIDE_WALKER_M = 0.9
EDGE_M = 0.25
WAIT_BEFORE_M = 9.5
NO_WAY_M = 2.6  # a gap this narrow is no way for a car
CLEAR_BEFORE_M, CLEAR_BEHIND_M = 4.5, 2.5
QUEUE_M = 28.0  # nearer before a red light, a standing car is in a queue
BEHIND_S = 3.0
LEAST_BEHIND_S = 0.7
PATIENT_S = 8.0
HURRY = 0.5  # share of the time beside an obstacle that an ego without patience leaves out of account
HASTE = 8.0  # seconds of waiting that make the gap a second shorter
GAP_BEHIND_M, GAP_AHEAD_M = 6.0, 5.0
ONCOMING_S = 0.6
SWING_S = 1.5  # until the ego is in the other lane
TOP_MPS = 9.0
HALF_BACK_M = 3.5  # so far behind the obstacle the ego has left the other lane
PASSING_MPS = 6.5
BESIDE_M = 2.0
JOIN_MPS = 2.2
ACCEL_MPS2 = 2.4
SIREN_M = 45.0
STOP_BEFORE_M = 1.0
STOPPED_MPS = 0.08
PATIENCE_S, BOLD_S = 3.0, 5.0
HALF_EGO_M = EGO_MKZ.width_m / 2


@dataclass(frozen=True)
class Detour:
    """A stretch of the route driven `left_m` beside its centre, fully so from `full_m` to `back_m`."""

    from_m: float
    full_m: float
    back_m: float
    to_m: float
    left_m: float
    around: frozenset[int]
    oncoming: bool = False


class Navigator:
    """Keeps the detour that is being driven, and what it knows of stop signs and of those who stand.

    Args:
        room: Road beside the route.
        signs: Stop signs on it.
    """

    def __init__(self, room: Room, signs: tuple[StopSign, ...] = ()) -> None:
        self.room, self.signs = room, signs
        self.detour: Detour | None = None
        self._stopped: set[int] = set()
        self._still_since: dict[int, float] = {}
        self._moved_s = 0.0
        self._behind_s = BEHIND_S
        self._standing_since: float | None = None
        self._bold_until = -1.0

    def view(self, scene: Situation) -> Situation:
        """The scene with the route as it should be driven now, and where to wait."""
        beside = in_route_frame(scene)
        self._remember(scene)
        self._lose_patience(scene)
        if self.detour is None and abs(scene.lateral_m) > BESIDE_M:
            return self._pull_out(scene, beside)
        holds = self._signs(scene)
        if self.detour is not None and scene.s_m > self.detour.to_m:
            self.detour = None
        wait = self._plan(scene, beside)
        if wait is not None:
            holds.append(wait)
        bold = self._bold(scene)
        brisk = bold or (self.detour is not None and self.detour.oncoming)
        return replace(self._bent(scene), holds=(*scene.holds, *holds), bold=bold, brisk=brisk)

    def _bold(self, scene: Situation) -> bool:
        """After PATIENCE_S of standing (not at a light) for BOLD_S."""
        red = any(
            light in (RED, YELLOW) and -2.0 < stop.s_m - scene.s_m - FRONT_M < 12.0
            for stop, light in zip(scene.stops, scene.lights, strict=True)
        )
        if red or abs(scene.ego.speed_mps) > 0.3:
            self._standing_since = None
        elif self._standing_since is None:
            self._standing_since = scene.t_s
        if self._standing_since is not None and scene.t_s - self._standing_since > PATIENCE_S:
            self._bold_until = scene.t_s + BOLD_S
        return scene.t_s < self._bold_until

    def _lose_patience(self, scene: Situation) -> None:
        """The longer the ego has stood, the shorter a gap will do: those behind it brake."""
        nose = scene.s_m + FRONT_M
        rows = zip(scene.stops, scene.lights, strict=True)
        red = any(light in (RED, YELLOW) and -3.0 < stop.s_m - nose < QUEUE_M for stop, light in rows)
        if red or abs(scene.ego.speed_mps) > STOPPED_MPS:
            self._moved_s = scene.t_s
        waited = scene.t_s - self._moved_s - PATIENT_S
        self._behind_s = min(BEHIND_S, max(LEAST_BEHIND_S, BEHIND_S - waited / HASTE))

    def _pull_out(self, scene: Situation, beside: Beside) -> Situation:
        """Beside its lane the ego waits for a gap in it, then joins slowly."""
        nose = scene.s_m + FRONT_M
        strip = Detour(scene.s_m, scene.s_m, nose + 12.0, nose + 20.0, 0.0, frozenset())
        nobody = np.zeros(len(scene.agents.ids), bool)
        waits = abs(scene.ego.speed_mps) < 0.5 and not self._free(scene, beside, nobody, strip, False)
        speed = scene.route.speed_mps.copy()
        speed[max(0, int(scene.s_m)) : int(scene.s_m) + 9] = JOIN_MPS
        shown = replace(scene, route=replace(scene.route, speed_mps=speed))
        return replace(shown, holds=(*scene.holds, nose + 0.1)) if waits else shown

    def _remember(self, scene: Situation) -> None:
        moving = np.abs(scene.agents.speed_mps) > 0.15
        for agent, moves in zip(scene.agents.ids, moving, strict=True):
            if moves:
                self._still_since.pop(int(agent), None)
            else:
                self._still_since.setdefault(int(agent), scene.t_s)

    def _signs(self, scene: Situation) -> list[float]:
        nose = scene.s_m + FRONT_M
        waits = []
        for sign in self.signs:
            line = sign.s_m - STOP_BEFORE_M
            if abs(nose - line) < 4.0 and abs(scene.ego.speed_mps) < STOPPED_MPS:
                self._stopped.add(sign.sign_id)
            if sign.sign_id not in self._stopped and nose < sign.s_m + 1.0:
                waits.append(max(line, nose + 0.1))
        return waits

    def _plan(self, scene: Situation, beside: Beside) -> float | None:
        """Begin or adapt a detour; returns where to wait if one is needed but not free."""
        siren = self._siren(scene, beside)
        if siren is not None:
            self._change_lane(scene, beside, siren)
            return None
        blocking = self._blocking(scene, beside)
        if not blocking.any():
            return None
        low, high = float(beside.low[blocking].min()), float(beside.high[blocking].max())
        if self.detour is not None and self.detour.oncoming and scene.s_m < self.detour.from_m:
            self.detour = None  # nobody may have been in sight when it was chosen: choose again
        if self.detour is not None:
            self._extend(scene, beside, blocking, high)
            if scene.s_m + FRONT_M > self.detour.from_m and low < self.detour.to_m:
                return None
        found = self._way_around(scene, beside, blocking, low, high)
        if found is not None:
            self.detour = found
            return None
        return (
            None if low - scene.s_m - FRONT_M < 2.0 else max(low - WAIT_BEFORE_M, scene.s_m + FRONT_M + 0.1)
        )

    def _extend(self, scene: Situation, beside: Beside, blocking: Bool, high: float) -> None:
        """Slow ones move on while they are passed: come back behind where they are by then."""
        detour = self.detour
        if detour is None:
            return
        mine = np.isin(scene.agents.ids, list(detour.around)) & blocking
        if mine.any():
            passing = max(0.0, high - scene.s_m) / max(3.0, scene.ego.speed_mps)
            far = float(beside.high[mine].max()) + float(beside.speed[mine].max()) * passing * 0.5
            back = max(detour.back_m, far + CLEAR_BEHIND_M + REAR_M)
            self.detour = replace(detour, back_m=back, to_m=back + (detour.to_m - detour.back_m))

    def _blocking(self, scene: Situation, beside: Beside) -> Bool:
        """Who stands (or rides slowly) in the ego's lane and will not go away by waiting."""
        agents, nose = scene.agents, scene.s_m + FRONT_M
        inside = (beside.left > -CORRIDOR_M - 0.1) & (beside.right < CORRIDOR_M + 0.1)
        ahead = (beside.high > scene.s_m - REAR_M) & (beside.low < nose + LOOK_M)
        still = np.array(
            [scene.t_s - self._still_since.get(int(i), math.inf) > STOOD_S for i in agents.ids], bool
        )
        static = agents.kind == AgentKind.OBSTACLE
        riders = (agents.kind == AgentKind.CYCLIST) & (beside.speed < SLOW_MPS) & (beside.speed >= 0)
        vehicles = (agents.kind == AgentKind.CAR) | (agents.kind == AgentKind.TRUCK)
        candidates = inside & ahead & (static | riders | (vehicles & still & ~self._queues(scene, beside)))
        return self._together(beside, static, self._chain(beside, candidates))

    @staticmethod
    def _queues(scene: Situation, beside: Beside) -> Bool:
        waits = np.zeros(len(scene.agents.ids), bool)
        for stop, light in zip(scene.stops, scene.lights, strict=True):
            if light in (RED, YELLOW):
                waits |= (beside.high < stop.s_m + 3.0) & (beside.high > stop.s_m - QUEUE_M)
        inside = np.minimum(beside.high.clip(0), len(scene.route.junction) - 1)
        at = np.where(np.isfinite(inside), inside, 0).astype(int)
        soon = np.array([scene.route.junction[max(0, k - 6) : k + 12].any() for k in at], bool)
        queue: Bool = waits | soon
        return queue

    @staticmethod
    def _chain(beside: Beside, candidates: Bool) -> Bool:
        """The nearest ones and those that follow each other closely."""
        chosen = np.zeros(len(candidates), bool)
        end = -math.inf
        for k in sorted(np.flatnonzero(candidates), key=lambda k: float(beside.low[k])):
            if end > -math.inf and beside.low[k] > end + CHAIN_M:
                break
            chosen[k] = True
            end = max(end, float(beside.high[k]))
        return chosen

    @staticmethod
    def _together(beside: Beside, static: Bool, chosen: Bool) -> Bool:
        """The chosen ones and the props beside them with no way in between, such as the cones of a site."""
        while chosen.any():
            low, high = beside.low[chosen].min() - CLEAR_BEHIND_M, beside.high[chosen].max() + CLEAR_BEHIND_M
            left, right = beside.left[chosen].max() + NO_WAY_M, beside.right[chosen].min() - NO_WAY_M
            near = static & (beside.low < high) & (beside.high > low)
            grown: Bool = chosen | (near & (beside.right < left) & (beside.left > right))
            if (grown == chosen).all():
                break
            chosen = grown
        return chosen

    def _way_around(
        self, scene: Situation, beside: Beside, blocking: Bool, low: float, high: float
    ) -> Detour | None:
        """First side with room and no traffic: in the lane, on one of the same way, on the oncoming one."""
        left_edge, right_edge = float(beside.left[blocking].max()), float(beside.right[blocking].min())
        over_left, over_right = left_edge + SIDE_M + HALF_EGO_M, right_edge - SIDE_M - HALF_EGO_M
        part = slice(max(0, int(low) - 4), max(int(low) - 3, int(high) + 4))
        room = self.room
        around = frozenset(int(i) for i in scene.agents.ids[blocking])
        own_left, own_right = room.own_left[part].min(), room.own_right[part].max()
        options: list[tuple[float, bool]] = []
        if over_left + HALF_EGO_M + EDGE_M < own_left:
            options.append((over_left, False))
        if over_right - HALF_EGO_M - EDGE_M > own_right:
            options.append((over_right, False))
        for centres, over in ((room.left_lane, over_left), (room.right_lane, over_right)):
            lane = centres[part]
            if np.isfinite(lane).all():
                wanted = float(np.median(lane))
                options.append((max(wanted, over) if over > 0 else min(wanted, over), False))
        if (
            np.isfinite(room.oncoming[part]).all()
            and over_left + HALF_EGO_M + EDGE_M < room.most_left[part].min()
        ):
            options.append((over_left, True))
        for left_m, oncoming in options:
            if (
                not room.most_right[part].max() + HALF_EGO_M
                < left_m
                < room.most_left[part].min() - HALF_EGO_M
            ):
                continue
            slow = max(0.0, float(beside.speed[blocking].max()))
            passing = (high - scene.s_m + 12.0) / max(2.0, PASSING_MPS - slow)
            detour = self._shape(scene, low, high + slow * passing, left_m, around)
            if detour is not None and self._free(scene, beside, blocking, detour, oncoming):
                return replace(detour, oncoming=oncoming)
        return None

    def _shape(
        self, scene: Situation, low: float, high: float, left_m: float, around: frozenset[int]
    ) -> Detour | None:
        """Where it begins and ends; None if there is not enough way left to swing out."""
        speed = max(0.0, scene.ego.speed_mps)
        length = max(8.0, 1.7 * speed) * max(0.45, min(1.3, abs(left_m) / 3.5))
        full = low - CLEAR_BEFORE_M
        begin = max(scene.s_m + 0.5, full - max(length, 14.0 * min(1.0, abs(left_m) / 3.5)))
        swing = 2.2 if speed > STOPPED_MPS else 1.6  # from standstill the wheel turns further
        if full - begin < max(4.0, swing * abs(left_m)) and abs(left_m) > 0.8:
            return None
        back = high + CLEAR_BEHIND_M + REAR_M
        return Detour(begin, max(full, begin + 2.0), back, back + max(10.0, 1.5 * speed), left_m, around)

    def _free(self, scene: Situation, beside: Beside, blocking: Bool, detour: Detour, oncoming: bool) -> bool:
        """Is nobody in the strip of the detour, nor will be while the ego is there?"""
        reach = HALF_EGO_M + 0.35
        inside = (beside.left > detour.left_m - reach) & (beside.right < detour.left_m + reach)
        others = inside & ~blocking & np.isfinite(beside.low)
        if not others.any():
            return True
        speed = max(0.0, scene.ego.speed_mps)
        back = detour.back_m + HALF_BACK_M + FRONT_M
        way = back - scene.s_m
        time = _time_for(way, speed) * (1 - HURRY * (BEHIND_S - self._behind_s) / BEHIND_S)
        against = others & (beside.speed < -0.3)
        meets = beside.low + beside.speed * (time + ONCOMING_S) < back + 3.0
        still_to_come = beside.high + beside.speed * SWING_S > scene.s_m + FRONT_M
        if (against & meets & still_to_come).any():
            return False
        with_us = others & ~against
        tail, nose = scene.s_m - REAR_M, scene.s_m + FRONT_M
        closing = np.maximum(0.0, beside.speed - speed)
        behind = (beside.high > tail - GAP_BEHIND_M - closing * self._behind_s) & (
            beside.low < nose + GAP_AHEAD_M
        )
        if (with_us & behind).any():
            return False
        stuck = with_us & (beside.speed < 1.0) & (beside.high > nose) & (beside.low < detour.to_m)
        return (
            not stuck.any()
            if not oncoming
            else not (with_us & (beside.high > tail) & (beside.low < detour.to_m)).any()
        )

    def _siren(self, scene: Situation, beside: Beside) -> int | None:
        """Row of an emergency vehicle that comes from behind."""
        for k, agent in enumerate(scene.agents.ids):
            if int(agent) not in scene.emergency or beside.speed[k] < 2.0:
                continue
            if (
                -SIREN_M < beside.high[k] - scene.s_m < 6.0
                and abs(beside.left[k] + beside.right[k]) / 2 < 1.8
            ):
                return k
        return None

    def _change_lane(self, scene: Situation, beside: Beside, siren: int) -> None:
        if self.detour is not None:
            return
        mask = np.zeros(len(scene.agents.ids), bool)
        mask[siren] = True
        here = min(max(int(scene.s_m) + 8, 0), len(self.room.left_lane) - 1)
        for centres in (self.room.right_lane, self.room.left_lane):
            wanted = float(centres[here])
            if not math.isfinite(wanted):
                continue
            begin = scene.s_m + 0.5
            length = max(9.0, 1.7 * scene.ego.speed_mps)
            end = min(begin + length + 70.0, scene.route.goal_m + 20.0)
            detour = Detour(begin, begin + length, end, end + 15.0, wanted, frozenset())
            if self._free(scene, beside, mask, detour, False):
                self.detour = detour
                return

    def _bent(self, scene: Situation) -> Situation:
        detour = self.detour
        if detour is None:
            return scene
        route = scene.route
        s = np.arange(len(route.pose_world), dtype=np.float64)
        rise = np.clip((s - detour.from_m) / max(1.0, detour.full_m - detour.from_m), 0.0, 1.0)
        fall = np.clip((detour.to_m - s) / max(1.0, detour.to_m - detour.back_m), 0.0, 1.0)
        share = np.minimum(rise, fall)
        shift = detour.left_m * share * share * (3 - 2 * share)
        pose = route.pose_world.copy()
        pose[:, 0] -= shift * np.sin(route.pose_world[:, 2])
        pose[:, 1] += shift * np.cos(route.pose_world[:, 2])
        pose[:, 2] = wrap(route.pose_world[:, 2] + np.arctan(np.gradient(shift)))
        speed = np.minimum(route.speed_mps, curve_speeds(pose, route.limit_mps))
        near = (s > detour.full_m - 6.0) & (s < detour.back_m)
        speed = np.where(near, np.minimum(speed, TOP_MPS), speed)
        return replace(scene, route=replace(route, pose_world=pose, speed_mps=speed))


def _time_for(way_m: float, speed_mps: float) -> float:
    """Time for a way from a speed on, accelerating to TOP_MPS."""
    rise = max(0.0, TOP_MPS - speed_mps) / ACCEL_MPS2
    done = speed_mps * rise + 0.5 * ACCEL_MPS2 * rise**2
    if done >= way_m:
        return (-speed_mps + math.sqrt(speed_mps**2 + 2 * ACCEL_MPS2 * way_m)) / ACCEL_MPS2
    return rise + (way_m - done) / max(TOP_MPS, speed_mps)
