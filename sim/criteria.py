"""What counts as an infraction, and when a drive is over."""

import math
from dataclasses import dataclass, field

import carla

from drive.contracts import AgentKind, Event
from sim.expert import FRONT_M
from sim.frames import centre_from_axle, location, waypoint_pose, wrap_angle
from sim.pace import Pace, pace_message
from sim.sensors import Contact
from sim.signs import StopSign
from sim.situation import RED, Situation
from sim.traffic import kind_of

OFF_ROAD_TOLERANCE_M = 0.5
WRONG_WAY_RAD = 2.0
OUTSIDE_MIN_M = 0.5
DEVIATION_M = 10.0
STANDING_MPS = 0.1
BLOCKED_FREE_S = 20.0
BLOCKED_S = 90.0
LANE_EVERY_S = 0.2
STOP_ZONE_M = (6.0, 2.5)
FREE_WAY_M = 3.0
KEYS = (
    "collisions_layout",
    "collisions_pedestrian",
    "collisions_vehicle",
    "red_light",
    "stop_infraction",
    "outside_route_lanes",
    "min_speed_infractions",
    "yield_emergency_vehicle_infractions",
    "scenario_timeouts",
    "route_dev",
    "vehicle_blocked",
    "route_timeout",
)


@dataclass(frozen=True)
class Rules:
    """Limits of a drive.

    Attributes:
        deviation_m: Farther from the route the drive ends.
        blocked_free_s: Standing so long although the way is free ends it.
        blocked_s: Standing so long ends it.
        parking_ok: Parking lanes are no "outside".
    """

    deviation_m: float = DEVIATION_M
    blocked_free_s: float = BLOCKED_FREE_S
    blocked_s: float = BLOCKED_S
    parking_ok: bool = False


SUITE = Rules()
LEADERBOARD = Rules(deviation_m=30.0, blocked_free_s=math.inf, blocked_s=180.0, parking_ok=True)


def leaderboard_limit_s(length_m: float) -> float:
    """Game time allowed for a route of a file: 5 minutes, and 2 m/s on average."""
    return 300.0 + length_m / 2.0


def time_limit_s(length_m: float, stop_lines: int) -> float:
    """Game time allowed for a route: 60 s, 2 m/s on average, and half a minute per traffic light."""
    return 60.0 + length_m / 2.0 + 30.0 * stop_lines


@dataclass
class Criteria:
    """Watches one drive. Call `tick` after every tick; `finish` adds the collisions.

    Attributes:
        carla_map: For lane queries.
        limit_s: Game time allowed.
        tick_s: Length of a tick.
        rules: Limits.
        signs: Stop signs on the route.
        pace: Compares the ego's speed with the traffic's; None leaves that out.
    """

    carla_map: carla.Map
    limit_s: float
    tick_s: float
    rules: Rules = SUITE
    signs: tuple[StopSign, ...] = ()
    pace: Pace | None = None
    events: list[Event] = field(default_factory=list)
    ended: str | None = None
    best_s_m: float = 0.0
    outside_m: float = 0.0
    driven_m: float = 0.0
    _speeds_mps: list[float] = field(default_factory=list)
    _last: Situation | None = None
    _outside: tuple[float, float, str] | None = None
    _next_lane_check_s: float = 0.0
    _standing_s: float = 0.0
    _standing_free_s: float = 0.0
    _passed: set[float] = field(default_factory=set)
    _stopped: set[int] = field(default_factory=set)
    _oncoming_ok: bool = False

    def tick(self, scene: Situation, way_ahead_m: float, oncoming_ok: bool = False) -> str | None:
        """Check one tick; returns the reason the drive is over, or None.

        Args:
            scene: Ground truth now.
            way_ahead_m: How far the expert would drive in the next 4 s; standing still although the way is
                free is blocked after 20 s, standing still at all after 90 s (in suites).
            oncoming_ok: The oncoming lane may be used now: something blocks the ego's own.
        """
        self._oncoming_ok = oncoming_ok
        if self._last is not None:
            self._red_light(self._last, scene)
            self._stop_signs(self._last, scene)
            self.driven_m += abs(scene.ego.speed_mps) * self.tick_s
        if scene.t_s >= self._next_lane_check_s - 1e-6:
            self._next_lane_check_s = scene.t_s + LANE_EVERY_S
            self._lanes(scene)
        self.best_s_m = max(self.best_s_m, scene.s_m)
        self._speeds_mps.append(abs(scene.ego.speed_mps))
        self._last = scene
        if self.pace is not None:
            for percent in self.pace.tick(scene, self.tick_s):
                self._add("min_speed_infractions", scene.t_s, pace_message(percent))
        standing = abs(scene.ego.speed_mps) < STANDING_MPS
        self._standing_s = self._standing_s + self.tick_s if standing else 0.0
        free = standing and way_ahead_m > FREE_WAY_M
        self._standing_free_s = (
            0.0 if not standing else self._standing_free_s + (self.tick_s if free else 0.0)
        )
        self.ended = self._end(scene)
        return self.ended

    def _end(self, scene: Situation) -> str | None:
        if scene.s_m >= scene.route.goal_m:
            return "completed"
        if abs(scene.lateral_m) > self.rules.deviation_m:
            self._add("route_dev", scene.t_s, f"{abs(scene.lateral_m):.1f} m from the route")
            return "deviation"
        if self._standing_free_s > self.rules.blocked_free_s or self._standing_s > self.rules.blocked_s:
            self._add("vehicle_blocked", scene.t_s, f"stood still for {self._standing_s:.0f} s")
            return "blocked"
        if scene.t_s > self.limit_s:
            self._add("route_timeout", scene.t_s, f"not at the goal after {self.limit_s:.0f} s")
            return "timeout"
        return None

    def _add(self, kind: str, t_s: float, detail: str) -> None:
        self.events.append(Event(kind, round(t_s * 1e6), detail))

    def _red_light(self, before: Situation, scene: Situation) -> None:
        for stop, light in zip(before.stops, before.lights, strict=True):
            line = stop.s_m + 0.5
            crossed = before.s_m + FRONT_M <= line < scene.s_m + FRONT_M
            if crossed and stop.s_m not in self._passed and abs(scene.lateral_m) < DEVIATION_M:
                self._passed.add(stop.s_m)
                if light == RED and scene.ego.speed_mps > 0.3:
                    self._add(
                        "red_light", scene.t_s, f"crossed the stop line of light {stop.light_id} on red"
                    )

    def _stop_signs(self, before: Situation, scene: Situation) -> None:
        """A stop sign asks for standing still, from STOP_ZONE_M before its volume's centre to behind it."""
        nose = scene.s_m + FRONT_M
        for sign in self.signs:
            if -STOP_ZONE_M[0] < nose - sign.s_m < STOP_ZONE_M[1] and abs(scene.ego.speed_mps) < STANDING_MPS:
                self._stopped.add(sign.sign_id)
            left = sign.s_m + STOP_ZONE_M[1]
            if before.s_m + FRONT_M <= left < nose and sign.sign_id not in self._stopped:
                self._add("stop_infraction", scene.t_s, f"Agent ran a stop with id={sign.sign_id}")

    def add(self, kind: str, t_s: float, detail: str) -> None:
        """Note an infraction that somebody else saw."""
        self._add(kind, t_s, detail)

    def _lanes(self, scene: Situation) -> None:
        reason = self._outside_reason(scene)
        moved = max(0.0, scene.ego.speed_mps) * LANE_EVERY_S
        if reason is None:
            self._close_outside()
            return
        start, length, first = self._outside or (scene.t_s, 0.0, reason)
        self._outside = (start, length + moved, first)

    def _close_outside(self) -> None:
        if self._outside is not None and self._outside[1] >= OUTSIDE_MIN_M:
            start, length, reason = self._outside
            self.outside_m += length
            self._add("outside_route_lanes", start, f"{reason} for {length:.1f} m")
        self._outside = None

    def _outside_reason(self, scene: Situation) -> str | None:
        """Why the ego's box centre is not where it may be: off the road, or on a lane of oncoming traffic."""
        x, y, yaw = centre_from_axle(scene.ego.pose_world)
        z = float(scene.route.z_m[min(int(scene.s_m), len(scene.route.z_m) - 1)])
        lane = self.carla_map.get_waypoint(location(x, y, z), True, carla.LaneType.Driving)
        if lane is None:
            return "off the road"
        pose = waypoint_pose(lane)
        if math.hypot(pose[0] - x, pose[1] - y) > lane.lane_width / 2 + OFF_ROAD_TOLERANCE_M:
            return None if self.rules.parking_ok and self._parks(x, y, z) else "off the road"
        if lane.is_junction or self._oncoming_ok:
            return None
        route_yaw = float(scene.route.at(scene.s_m)[2])
        against_route = abs(wrap_angle(pose[2] - route_yaw)) > WRONG_WAY_RAD
        against_ego = abs(wrap_angle(pose[2] - yaw)) > WRONG_WAY_RAD
        return "in the oncoming lane" if against_route or against_ego else None

    def _parks(self, x: float, y: float, z: float) -> bool:
        lane = self.carla_map.get_waypoint(location(x, y, z), True, carla.LaneType.Parking)
        if lane is None:
            return False
        pose = waypoint_pose(lane)
        return bool(math.hypot(pose[0] - x, pose[1] - y) < lane.lane_width / 2 + OFF_ROAD_TOLERANCE_M)

    def finish(self, contacts: list[Contact], first_frame: int) -> tuple[Event, ...]:
        """All infractions in time order, collisions included.

        As in the leaderboard, being hit while standing still is not the ego's infraction.
        """
        self._close_outside()
        for contact in contacts:
            before = contact.frame - first_frame - 1
            if 0 <= before < len(self._speeds_mps) and self._speeds_mps[before] < STANDING_MPS:
                continue
            kind = kind_of(contact.other_type, 0.0)
            key = {
                AgentKind.PEDESTRIAN: "collisions_pedestrian",
                AgentKind.OBSTACLE: "collisions_layout",
            }.get(kind, "collisions_vehicle")
            detail = f"hit {contact.other_type} with id={contact.other_id}"
            self._add(key, (contact.frame - first_frame) * self.tick_s, detail)
        self.events.sort(key=lambda e: (e.t_us, e.kind, e.detail))
        return tuple(self.events)

    @property
    def completion(self) -> float:
        """Share of the route driven, in [0, 1]; 1 only if the goal was reached."""
        if self.ended == "completed" or self._last is None:
            return 1.0 if self.ended == "completed" else 0.0
        route = self._last.route
        return float(min(max((self.best_s_m - route.start_m) / route.length_m, 0.0), 0.999))
