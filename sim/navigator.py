"""What the expert remembers between plans: ways around obstacles, stop signs it has stopped at.

It shows the expert the same scene with the route bent around what stands in the way, when there is room and
no traffic in it, and with places where the ego has to wait.
"""

import math
from dataclasses import replace

import numpy as np

from drive.contracts import AgentKind, Bool
from sim.detour import (
    BEHIND_S,
    CHAIN_M,
    CLEAR_BEHIND_M,
    LEAST_BEHIND_S,
    SIDE_M,
    SIDE_RIDER_M,
    STANDING_MPS,
    Block,
    Detour,
    bent,
    is_free,
    ways_around,
)
from sim.expert import CORRIDOR_M, FRONT_M, REAR_M
from sim.room import Room, room_of
from sim.route_frame import Beside, in_route_frame
from sim.signs import StopSign
from sim.situation import RED, YELLOW, Situation

__all__ = ["Navigator", "Room", "room_of"]

LOOK_M = 55.0
SLOW_MPS = 3.5
STOOD_S = 4.0
WAIT_BEFORE_M = 12.0
NO_WAY_M = 2.6  # a gap this narrow is no way for a car
QUEUE_M = 28.0  # nearer before a red light, a standing car is in a queue
PATIENT_S = 8.0
HASTE = 8.0  # seconds of waiting that make the gap a second shorter
GOING_MPS = 2.5  # so fast the ego is on its way: creeping, it is still waiting
BESIDE_M = 2.0
STILL_IN_LANE_M = 0.8
JOIN_MPS = 2.2
SIREN_M = 45.0
STOP_BEFORE_M = 1.0
EAGER_AFTER_S, BOLD_AFTER_S, DESPERATE_AFTER_S, SOON_S = 0.6, 20.0, 40.0, 5.0
EAGER_S = 12.0  # long enough for a queue to move up and a run to end


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
        self._waiting_since, self._desperate_until = 0.0, -1.0
        self._eager_until = self._bold_until = -1.0

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
        eager, bold = self._stands(scene)
        brisk = bold or (self.detour is not None and self.detour.oncoming)
        shown = scene if self.detour is None else bent(scene, self.detour)
        choosy = not self._desperate(scene)
        return replace(
            shown, holds=(*scene.holds, *holds), choosy=choosy, eager=eager, bold=bold, brisk=brisk
        )

    def _stands(self, scene: Situation) -> tuple[bool, bool]:
        """Eager and bold for a while after so long a stand; at a red light nobody gets bold."""
        red = any(
            light in (RED, YELLOW) and -2.0 < stop.s_m - scene.s_m - FRONT_M < 12.0
            for stop, light in zip(scene.stops, scene.lights, strict=True)
        )
        if abs(scene.ego.speed_mps) > 0.3:
            self._standing_since = None
        elif self._standing_since is None:
            self._standing_since = scene.t_s
        if red or self._standing_since is None:
            self._waiting_since = scene.t_s
        if self._standing_since is not None:
            stood = scene.t_s - self._standing_since
            if stood > EAGER_AFTER_S:
                self._eager_until = scene.t_s + EAGER_S
            if scene.t_s - self._waiting_since > BOLD_AFTER_S:
                self._bold_until = scene.t_s + SOON_S
        return scene.t_s < self._eager_until, scene.t_s < self._bold_until

    def _desperate(self, scene: Situation) -> bool:
        """For SOON_S after so long a wait it relies on the others to brake: there is no better gap."""
        if scene.t_s - self._moved_s > DESPERATE_AFTER_S:
            self._desperate_until = scene.t_s + SOON_S
        return scene.t_s < self._desperate_until

    def _lose_patience(self, scene: Situation) -> None:
        """The longer the ego has stood, the shorter a gap will do: those behind it brake."""
        nose = scene.s_m + FRONT_M
        rows = zip(scene.stops, scene.lights, strict=True)
        red = any(light in (RED, YELLOW) and -3.0 < stop.s_m - nose < QUEUE_M for stop, light in rows)
        if red or abs(scene.ego.speed_mps) > GOING_MPS:
            self._moved_s = scene.t_s
        waited = scene.t_s - self._moved_s - PATIENT_S
        self._behind_s = min(BEHIND_S, max(LEAST_BEHIND_S, BEHIND_S - waited / HASTE))

    def _pull_out(self, scene: Situation, beside: Beside) -> Situation:
        """Beside its lane the ego waits for a gap in it, then joins slowly."""
        nose = scene.s_m + FRONT_M
        strip = Detour(scene.s_m, scene.s_m, nose + 12.0, nose + 20.0, 0.0, frozenset())
        nobody = np.zeros(len(scene.agents.ids), bool)
        free = is_free(scene, beside, nobody, strip, self._behind_s)
        waits = abs(scene.ego.speed_mps) < 0.5 and not free
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
            if abs(nose - line) < 4.0 and abs(scene.ego.speed_mps) < STANDING_MPS:
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
        block = self._block(scene, beside)
        if block is None:
            return None
        nose = scene.s_m + FRONT_M
        if self.detour is not None and self._thinks_again(scene, beside, block, self.detour):
            self.detour = None
        if self.detour is not None:
            self._extend(scene, beside, block)
            if nose > self.detour.from_m and block.low_m < self.detour.to_m:
                return None
        ways, roomy = ways_around(scene, beside, self.room, block)
        for way in ways:
            if is_free(scene, beside, block.rows, way, self._behind_s):
                self.detour = way
                return None
        if not roomy or block.low_m - nose < 2.0:
            return None  # only those who can go around need the room to swing out
        return max(block.low_m - WAIT_BEFORE_M, nose + 0.1)

    @staticmethod
    def _thinks_again(scene: Situation, beside: Beside, block: Block, detour: Detour) -> bool:
        """It chooses anew before it begins, and gives up a begun way if somebody comes after all."""
        if not detour.oncoming:
            return False
        if scene.s_m < detour.from_m:
            return True
        still_here = abs(scene.lateral_m) < STILL_IN_LANE_M
        return still_here and not is_free(scene, beside, block.rows, detour, LEAST_BEHIND_S)

    def _extend(self, scene: Situation, beside: Beside, block: Block) -> None:
        """Slow ones move on while they are passed: come back behind where they are by then."""
        detour = self.detour
        if detour is None:
            return
        mine = np.isin(scene.agents.ids, list(detour.around)) & block.rows
        if mine.any() and beside.speed[mine].max() > 0:
            passing = max(0.0, block.high_m - scene.s_m) / max(3.0, scene.ego.speed_mps)
            far = float(beside.high[mine].max()) + float(beside.speed[mine].max()) * passing * 0.5
            back = max(detour.back_m, far + CLEAR_BEHIND_M + REAR_M)
            self.detour = replace(detour, back_m=back, to_m=back + (detour.to_m - detour.back_m))

    def _block(self, scene: Situation, beside: Beside) -> Block | None:
        """What stands (or rides slowly) in the ego's lane and will not go away by waiting."""
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
        rows = self._together(beside, static, self._chain(beside, candidates))
        if not rows.any():
            return None
        low, high = float(beside.low[rows].min()), float(beside.high[rows].max())
        behind = inside & ~rows & (beside.low > high) & (np.abs(beside.speed) < SLOW_MPS)
        rides = bool((rows & (agents.kind == AgentKind.CYCLIST)).any())
        side = SIDE_RIDER_M if rides else SIDE_M
        return Block(rows, low, high, float(beside.low[behind].min(initial=math.inf)), side)

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
            if is_free(scene, beside, mask, detour, self._behind_s):
                self.detour = detour
                return
