"""The minimum-speed criterion: the ego's speed against the traffic's, per stretch of the route."""

from dataclasses import dataclass

import numpy as np

from drive.contracts import AgentKind
from sim.situation import Situation

STRETCHES = 20  # per route, as in Bench2Drive's published results
AROUND_M = 60.0
TRAFFIC = (AgentKind.CAR, AgentKind.TRUCK, AgentKind.CYCLIST)


@dataclass
class Pace:
    """Mean speeds over the stretch of the route that is being driven.

    Vehicles count once they have moved: those parked for good are no traffic.
    """

    stretches: int = STRETCHES
    _number: int = 0
    _ego_m: float = 0.0
    _others_m: float = 0.0
    _seen_s: float = 0.0

    def __post_init__(self) -> None:
        self._moved: set[int] = set()

    def tick(self, scene: Situation, dt_s: float) -> list[float]:
        """Percentages of the stretches that ended at this tick; none where there was no traffic."""
        agents = scene.agents
        if len(agents.ids):
            self._moved.update(int(i) for i in agents.ids[np.abs(agents.speed_mps) > 0.5])
            gap = np.hypot(*(agents.pose_world[:, :2] - scene.ego.pose_world[:2]).T)
            known = np.isin(agents.ids, list(self._moved)) & np.isin(agents.kind, TRAFFIC)
            around = known & (gap < AROUND_M)
            if around.any():
                self._ego_m += abs(scene.ego.speed_mps) * dt_s
                self._others_m += float(np.abs(agents.speed_mps[around]).mean()) * dt_s
                self._seen_s += dt_s
        share = (scene.s_m - scene.route.start_m) / max(scene.route.length_m, 1.0)
        if share * self.stretches < self._number + 1:
            return []
        percent = 100 * self._ego_m / max(self._others_m, 1e-6) if self._seen_s > 0 else None
        self._number = int(share * self.stretches)
        self._ego_m = self._others_m = self._seen_s = 0.0
        return [] if percent is None else [percent]


def pace_message(percent: float) -> str:
    """The leaderboard's words."""
    return f"Average speed is {percent:.2f}% of the surrounding traffic's one"
