"""Stages the scenarios of a route: makes each when the ego comes near, ends it when past or too late."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import carla
import numpy as np

from sim.control import Pedals
from sim.route_files import Scenario
from sim.scenarios.catalog import SCENARIOS
from sim.scenarios.stage import Act, Cue, Now, Stage, Unplaceable
from sim.situation import Situation

MAKE_AHEAD_M = 90.0
TRIGGER_M = 2.0
OFF_ROUTE_M = 15.0
TIMEOUT_S = 240.0


@dataclass
class Running:
    """A scenario of the route and what has become of it.

    Attributes:
        scenario: As in the file.
        s_m: Arc length of its trigger.
        act: What is staged now.
        state: "waiting", "ready", "running", "passed", "timed out" or "not staged".
        detail: Why it was not staged.
        began_s: When its trigger was reached.
        ended_s: When it was over.
    """

    scenario: Scenario
    s_m: float
    act: Act | None = None
    state: str = "waiting"
    detail: str = ""
    began_s: float | None = None
    ended_s: float | None = None


@dataclass(frozen=True)
class Staged:
    """What became of one scenario, for the results."""

    name: str
    type: str
    state: str
    detail: str = ""
    began_s: float | None = None
    ended_s: float | None = None


class Director:
    """All scenarios of one drive.

    Args:
        stage: The world.
        scenarios: From the route file; unknown types are left out.
        seed: The drive's seed.
    """

    def __init__(self, stage: Stage, scenarios: Sequence[Scenario], seed: int) -> None:
        self.stage, self.seed = stage, seed
        self.running = [_placed(stage, s) for s in scenarios if s.type in SCENARIOS]

    def tick(self, scene: Situation, snapshot: carla.WorldSnapshot, dt_s: float) -> list[tuple[str, str]]:
        """Advance all of them; returns new infractions (kind, detail)."""
        faults: list[tuple[str, str]] = []
        for number, item in enumerate(self.running):
            if item.state == "waiting" and scene.s_m > item.s_m - MAKE_AHEAD_M:
                self._make(item, number)
            if item.act is None:
                continue
            if item.state == "ready" and scene.s_m >= item.s_m - TRIGGER_M:
                item.state, item.began_s = "running", scene.t_s
            item.act.tick(Now(scene, snapshot, dt_s, item.state == "running"))
            faults += item.act.faults
            item.act.faults = []
            if item.began_s is not None and scene.t_s - item.began_s > TIMEOUT_S:
                faults.append(
                    ("scenario_timeouts", f"{item.scenario.name} was not passed in {TIMEOUT_S:.0f} s")
                )
                self._end(item, "timed out", scene.t_s)
            elif item.state == "running" and scene.s_m > item.act.end_m:
                self._end(item, "passed", scene.t_s)
        return faults

    def _make(self, item: Running, number: int) -> None:
        rng = np.random.default_rng([self.seed, 6, number])
        cue = Cue(self.stage, item.s_m, item.scenario.parameters, rng, item.scenario.type)
        try:
            if item.detail:
                raise Unplaceable(item.detail)
            item.act = SCENARIOS[item.scenario.type](cue)
            item.state = "ready"
        except Unplaceable as reason:
            item.state, item.detail = "not staged", str(reason)

    @staticmethod
    def _end(item: Running, state: str, t_s: float) -> None:
        if item.act is not None:
            item.act.close()
        item.act, item.state, item.ended_s = None, state, t_s

    @property
    def oncoming_ok(self) -> bool:
        """May the ego use the oncoming lane now?"""
        return any(i.act is not None and i.act.oncoming_ok and i.state == "running" for i in self.running)

    def disturb(self, pedals: Pedals) -> Pedals:
        """What becomes of the ego's controls."""
        throttle, steer = pedals.throttle, pedals.steer
        for item in self.running:
            if item.act is not None and item.state == "running":
                throttle, steer = item.act.disturb(throttle, steer)
        return replace(pedals, throttle=throttle, steer=steer)

    def report(self) -> tuple[Staged, ...]:
        """What became of each."""
        return tuple(
            Staged(
                i.scenario.name,
                i.scenario.type,
                "not reached" if i.state in ("waiting", "ready") else i.state,
                i.detail,
                i.began_s,
                i.ended_s,
            )
            for i in self.running
        )

    def close(self) -> None:
        """Remove everybody."""
        for item in self.running:
            if item.act is not None:
                item.act.close()
                item.act = None


def _placed(stage: Stage, scenario: Scenario) -> Running:
    """Where on the route its trigger is; a trigger far from the route cannot be reached."""
    x, y, _, _ = scenario.trigger_world
    route = stage.route
    gap = np.hypot(route.pose_world[:, 0] - x, route.pose_world[:, 1] - y)
    k = int(gap.argmin())
    item = Running(scenario, float(min(max(k, math.ceil(route.start_m)), route.goal_m)))
    if gap[k] > OFF_ROUTE_M:
        item.detail = f"its trigger is {gap[k]:.0f} m from the route"
    return item
