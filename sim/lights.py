"""Which traffic lights rule the route, and where their stop lines are."""

from collections.abc import Sequence

import carla
import numpy as np

from drive.contracts import F64
from drive.geometry.se2 import wrap
from sim.frames import waypoint_pose
from sim.routes import Route
from sim.situation import GREEN, NO_LIGHT, RED, YELLOW, StopLine

STATES = {
    carla.TrafficLightState.Red: RED,
    carla.TrafficLightState.Yellow: YELLOW,
    carla.TrafficLightState.Green: GREEN,
}
NEAR_M = 90.0


class RouteLights:
    """The signalled stop lines near a route and, per line on the route, the state of its light."""

    def __init__(self, actors: Sequence[carla.Actor], route: Route) -> None:
        stops: list[StopLine] = []
        segments: list[F64] = []
        self._lights: dict[int, carla.TrafficLight] = {}
        for light in sorted(actors, key=lambda a: a.id):
            for waypoint in light.get_stop_waypoints():
                pose = np.array(waypoint_pose(waypoint))
                gap = np.hypot(*(route.pose_world[:, :2] - pose[:2]).T)
                if gap.min() > NEAR_M:
                    continue
                segments.append(_line(pose, waypoint.lane_width))
                s_m = _on_route(route, pose, gap)
                if s_m is not None:
                    stops.append(StopLine(s_m, light.id))
                    self._lights[light.id] = light
        self.stops = tuple(sorted(stops, key=lambda stop: stop.s_m))
        self.lines_world: F64 = np.array(segments, np.float64).reshape(-1, 2, 2)

    def states(self) -> tuple[int, ...]:
        """State per stop line, as of the newest snapshot."""
        return tuple(STATES.get(self._lights[stop.light_id].state, NO_LIGHT) for stop in self.stops)


def _on_route(route: Route, pose: F64, gap: F64) -> float | None:
    k = int(gap.argmin())
    if gap[k] > 1.5 or abs(wrap(route.pose_world[k, 2] - pose[2])) > 0.6:
        return None
    return route.locate((pose[0], pose[1], pose[2]), float(k))[0]


def _line(pose: F64, width_m: float) -> F64:
    side = np.array([-np.sin(pose[2]), np.cos(pose[2])]) * width_m / 2
    return np.stack([pose[:2] + side, pose[:2] - side])
