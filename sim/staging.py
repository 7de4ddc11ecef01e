"""What a route file adds to a drive: scenarios, traffic, weather, the leaderboard's criteria."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import carla
import numpy as np

from sim.criteria import LEADERBOARD, Criteria, leaderboard_limit_s, time_limit_s
from sim.navigator import Navigator, room_of
from sim.pace import Pace
from sim.route_files import Weather
from sim.route_planner import FileRouteSpec
from sim.scenarios.director import Director, Staged
from sim.scenarios.stage import Stage
from sim.session import TICK_S, Session
from sim.signs import stop_signs
from sim.situation import Situation

WEATHER_TICKS = 20
SEE_M = 200.0  # overtaking needs to see oncoming traffic from afar
SETTLE_TICKS = 4  # one planning step: pictures stay in step with plans


@dataclass
class Staging:
    """The additions to one drive of a route file; of suites there are none.

    Attributes:
        director: Stages the scenarios.
        navigator: What the expert remembers and plans around obstacles.
        weathers: Of the route file; between two of them the weather changes evenly.
    """

    director: Director
    navigator: Navigator
    weathers: tuple[Weather, ...] = ()

    def before_tick(self, session: Session, scene: Situation, criteria: Criteria) -> None:
        """Let scenarios act, and note what they saw the ego do."""
        if session.frame % WEATHER_TICKS == 0 and self.weathers:
            done = 100 * (scene.s_m - scene.route.start_m) / max(scene.route.length_m, 1.0)
            session.world.set_weather(carla.WeatherParameters(**weather_at(self.weathers, done)))
        for kind, detail in self.director.tick(scene, session.world.get_snapshot(), TICK_S):
            criteria.add(kind, scene.t_s, detail)

    def report(self) -> tuple[Staged, ...]:
        """What became of the scenarios."""
        return self.director.report()


def stage_route(session: Session) -> Staging | None:
    """Set up what the route file asks for; None for routes of suites."""
    spec = session.spec
    if not isinstance(spec, FileRouteSpec):
        return None
    stage = Stage(session.world, session.map, session.route, session.ego, session.include)
    director = Director(stage, spec.scenarios, spec.seed)
    signs = stop_signs(list(session.world.get_actors().filter("traffic.stop")), session.route)
    navigator = Navigator(room_of(session.map, session.route), signs)
    session.see_far(SEE_M)
    weathers = tuple(sorted(spec.weathers, key=lambda weather: weather.percent))
    if weathers:
        session.world.set_weather(carla.WeatherParameters(**weather_at(weathers, 0.0)))
    scene = session.scene(predict=False)
    director.tick(scene, session.world.get_snapshot(), TICK_S)
    for _ in range(SETTLE_TICKS):
        session.tick()
    session.first_frame = session.frame
    return Staging(director, navigator, weathers)


def criteria_of(session: Session, staging: Staging | None) -> Criteria:
    """The criteria of a drive: the leaderboard's for route files, ours for suites."""
    length = session.spec.length_m
    if staging is None:
        return Criteria(session.map, time_limit_s(length, len(session.lights.stops)), TICK_S)
    limit = leaderboard_limit_s(length) + 30.0 * len(session.lights.stops)
    spec, rules = session.spec, LEADERBOARD
    if isinstance(spec, FileRouteSpec):
        rules = replace(rules, blocked_s=spec.blocked_s)
    return Criteria(session.map, limit, TICK_S, rules, staging.navigator.signs, Pace())


def weather_at(weathers: Sequence[Weather], percent: float) -> dict[str, float]:
    """CARLA's weather parameters at a share [0, 100] of the route, interpolated; weathers ascend."""
    names = sorted({name for weather in weathers for name in weather.values})
    return {
        name: float(
            np.interp(
                percent,
                [w.percent for w in weathers if name in w.values],
                [w.values[name] for w in weathers if name in w.values],
            )
        )
        for name in names
    }
