"""Routes on a town's lanes: found by seed, sampled every metre, with turns, speeds and stop lines."""

import math
import zlib
from dataclasses import dataclass, replace

import carla
import numpy as np

from drive.contracts import F64, I64, Bool, RouteHint, Turn, UserError
from drive.geometry.se2 import to_local, wrap
from sim.frames import waypoint_pose
from sim.server.opendrive import road_speeds_kmh

STEP_M = 1.0
RUN_OFF_M = 45  # the path goes on behind the goal, so that nobody has to stop there
RUN_UP_M = 5  # and begins before the start
TURN_NOTICE_M = 30
TURN_RAD = 0.5
NARROWEST_M = 2.5  # lanes that open or close are no lanes to drive on
SPEED_CAP_MPS = 40 / 3.6  # the suites are urban: faster roads are driven at this speed
DEFAULT_SPEED_KMH = 40.0
LATERAL_ACCEL_MPS2 = 2.0
SLOW_DOWN_MPS2 = 1.5
TARGETS_M = (10.0, 25.0)


@dataclass(frozen=True)
class RouteSpec:
    """One planned drive; (town, seed, length, vehicles, walkers) re-create it exactly.

    Attributes:
        route_id: Unique within a suite.
        town: Map name, e.g. "Town02".
        seed: Seed of route, traffic and walkers.
        length_m: Route length.
        vehicles: Vehicles driven by the TrafficManager.
        walkers: Pedestrians along the route; every second one crosses it.
        start_speed_mps: Speed at the start.
    """

    route_id: str
    town: str
    seed: int
    length_m: float
    vehicles: int = 0
    walkers: int = 0
    start_speed_mps: float = 0.0

    def repeated(self, repetition: int) -> "RouteSpec":
        """The same drive once more: on the light simulator to the bit, on CARLA as far as it goes."""
        return replace(self, route_id=f"{self.route_id}_rep{repetition}") if repetition else self

    @property
    def condition(self) -> str:
        """Group under which results are summarised."""
        return "traffic" if self.vehicles or self.walkers else "no traffic"

    @property
    def note(self) -> str:
        """What is missing from the drive, to be said beside its score."""
        return ""

    @property
    def scenario_name(self) -> str:
        """What its record is called."""
        return self.condition

    @property
    def left_out(self) -> tuple[str, ...]:
        """Scenario types that belong to the route but are not staged."""
        return ()


@dataclass(frozen=True)
class Route:
    """A path of R points, one per metre; index = arc length [m] from the first point.

    Attributes:
        pose_world: float64 (R, 3), lane centre and driving direction.
        z_m: float64 (R,), road height.
        width_m: float64 (R,), lane width.
        junction: bool (R,).
        lane: int64 (R, 2), OpenDRIVE road and lane.
        turn: int64 (R,), drive.contracts.Turn, valid from 30 m before a junction to its end.
        limit_mps: float64 (R,), posted limit, at most SPEED_CAP_MPS.
        speed_mps: float64 (R,), the limit lowered for curves.
        start_m, goal_m: Where the drive begins and ends.
    """

    pose_world: F64
    z_m: F64
    width_m: F64
    junction: Bool
    lane: I64
    turn: I64
    limit_mps: F64
    speed_mps: F64
    start_m: float
    goal_m: float

    @property
    def length_m(self) -> float:
        """Distance from start to goal."""
        return self.goal_m - self.start_m

    def locate(
        self, pose_world: tuple[float, float, float], near_m: float, window_m: int = 20
    ) -> tuple[float, float]:
        """Project a pose on the route.

        Args:
            pose_world: Any world pose; the heading is ignored.
            near_m: Last known arc length; only the route around it is searched.
            window_m: How far to search ahead.

        Returns:
            Arc length [m] and signed lateral offset [m], left positive.
        """
        first = max(0, int(near_m) - 8)
        last = min(len(self.pose_world), int(near_m) + window_m)
        part = self.pose_world[first:last]
        dx, dy = pose_world[0] - part[:, 0], pose_world[1] - part[:, 1]
        k = int(np.argmin(dx * dx + dy * dy))
        c, s = math.cos(part[k, 2]), math.sin(part[k, 2])
        along = min(max(dx[k] * c + dy[k] * s, -0.6), 0.6) if 0 < k < len(part) - 1 else dx[k] * c + dy[k] * s
        return first + k + float(along), float(-dx[k] * s + dy[k] * c)

    def at(self, s_m: float) -> F64:
        """Pose (3,) at an arc length, interpolated; clamped to the path's ends."""
        s = min(max(s_m, 0.0), len(self.pose_world) - 1.001)
        i = int(s)
        a, b = self.pose_world[i], self.pose_world[i + 1]
        f = s - i
        return np.array(
            [a[0] + f * (b[0] - a[0]), a[1] + f * (b[1] - a[1]), wrap(a[2] + f * wrap(b[2] - a[2]))]
        )

    def hint(self, pose_world: F64, s_m: float) -> RouteHint:
        """What a navigation system says at arc length s_m to an ego at pose_world (rear axle)."""
        i = min(max(int(s_m), 0), len(self.pose_world) - 1)
        ahead = np.stack([self.at(s_m + d)[:2] for d in TARGETS_M])
        targets = to_local(ahead, pose_world).astype(np.float32)
        return RouteHint(Turn(int(self.turn[i])), targets, float(self.limit_mps[i]))


def road_speeds_mps(opendrive: str) -> dict[int, float]:
    """Posted speed per OpenDRIVE road id; roads without one are absent."""
    return {road: kmh / 3.6 for road, kmh in road_speeds_kmh(opendrive).items()}


def town_map(name: str, opendrive: str) -> carla.Map:
    """Parse OpenDRIVE; an empty map (carla accepts any text) is a UserError."""
    parsed = carla.Map(name, opendrive)
    if not parsed.get_topology():
        raise UserError(f"{name}: OpenDRIVE file has no drivable lanes; check the file")
    return parsed


def build_route(carla_map: carla.Map, spec: RouteSpec, speeds_mps: dict[int, float] | None = None) -> Route:
    """Find the route of a spec: the first of up to 300 seeded walks over the lane graph with the full length.

    Walks with a left or right turn are preferred. Raises UserError if the town has no lane path that long.
    """
    if speeds_mps is None:
        speeds_mps = road_speeds_mps(carla_map.to_opendrive())
    rng = np.random.default_rng([zlib.crc32(spec.town.encode()), spec.seed])
    starts = [
        w for w, _ in carla_map.get_topology() if not w.is_junction and w.lane_type == carla.LaneType.Driving
    ]
    plain: Route | None = None
    for _ in range(300):
        walk = _walk(starts, round(spec.length_m) + RUN_UP_M + RUN_OFF_M, rng)
        if walk is None:
            continue
        route = _route_from_walk(walk, speeds_mps, spec.length_m)
        driven = route.turn[RUN_UP_M : int(route.goal_m)]
        if np.isin(driven, (Turn.LEFT, Turn.RIGHT)).any():
            return route
        plain = plain or route
    if plain is None:
        raise UserError(
            f"{spec.town}: no route of {spec.length_m:.0f} m found for seed {spec.seed}; use a shorter one"
        )
    return plain


def _walk(starts: list[carla.Waypoint], points: int, rng: np.random.Generator) -> list[carla.Waypoint] | None:
    """Follow lanes for `points` metres from a random start; None if they end, repeat or turn back."""
    first = starts[int(rng.integers(len(starts)))].next(float(rng.uniform(1, 60)))
    if not first or any(w.is_junction for w in first[0].next(float(RUN_UP_M + 8))) or first[0].is_junction:
        return None
    here, walk = first[0], []
    seen: set[tuple[int, int]] = set()
    for _ in range(points):
        walk.append(here)
        choices = here.next(STEP_M)
        if not choices or here.lane_width < NARROWEST_M:
            return None
        after = choices[int(rng.integers(len(choices)))] if len(choices) > 1 else choices[0]
        lane = (after.road_id, after.lane_id)
        if lane != (here.road_id, here.lane_id):
            seen.add((here.road_id, here.lane_id))
            if lane in seen:
                return None
        here = after
    poses = np.array([waypoint_pose(w) for w in walk])
    hops = np.hypot(*np.diff(poses[:, :2], axis=0).T)
    bends = np.abs(np.diff(np.unwrap(poses[:, 2])))
    return None if hops.max() > 1.8 or bends.max() > 0.4 or _turns_back(poses) else walk


def _turns_back(poses: F64) -> bool:
    """Does the path come within 5 m of a place it passed more than 25 m earlier?"""
    gap = np.hypot(*(poses[:, None, :2] - poses[None, :, :2]).transpose(2, 0, 1))
    far = np.abs(np.subtract.outer(np.arange(len(poses)), np.arange(len(poses)))) > 25
    return bool((gap[far] < 5.0).any())


def _route_from_walk(walk: list[carla.Waypoint], speeds_mps: dict[int, float], length_m: float) -> Route:
    return assemble(
        pose=np.array([waypoint_pose(w) for w in walk]),
        z_m=np.array([w.transform.location.z for w in walk]),
        width_m=np.array([w.lane_width for w in walk]),
        junction=np.array([w.is_junction for w in walk]),
        lane=np.array([(w.road_id, w.lane_id) for w in walk], np.int64),
        speeds_mps=speeds_mps,
        start_m=float(RUN_UP_M),
        goal_m=float(RUN_UP_M + round(length_m)),
    )


def assemble(
    pose: F64,
    z_m: F64,
    width_m: F64,
    junction: Bool,
    lane: I64,
    speeds_mps: dict[int, float],
    start_m: float,
    goal_m: float,
) -> Route:
    """Route from its points, one per metre (shapes as in Route), with turns, limits and speeds filled in."""
    posted = np.array([speeds_mps.get(int(road), DEFAULT_SPEED_KMH / 3.6) for road in lane[:, 0]])
    for i in range(1, len(posted)):
        if junction[i]:  # connecting roads carry arbitrary limits
            posted[i] = posted[i - 1]
    limit = np.minimum(posted, SPEED_CAP_MPS)
    return Route(
        pose_world=pose,
        z_m=z_m,
        width_m=width_m,
        junction=junction,
        lane=lane,
        turn=_turns(pose, junction),
        limit_mps=limit,
        speed_mps=curve_speeds(pose, limit),
        start_m=start_m,
        goal_m=goal_m,
    )


def _turns(pose: F64, junction: Bool) -> I64:
    """Turn label per point from the heading change over each junction."""
    yaw = np.unwrap(pose[:, 2])
    turn = np.full(len(pose), int(Turn.FOLLOW), np.int64)
    i = 0
    while i < len(pose):
        if not junction[i]:
            i += 1
            continue
        end = i
        while end + 1 < len(pose) and junction[end + 1]:
            end += 1
        change = yaw[end] - yaw[max(i - 1, 0)]
        label = Turn.LEFT if change > TURN_RAD else Turn.RIGHT if change < -TURN_RAD else Turn.STRAIGHT
        turn[max(0, i - TURN_NOTICE_M) : end + 1] = int(label)
        i = end + 1
    return turn


def curve_speeds(pose: F64, limit_mps: F64) -> F64:
    """Speed profile: posted limit, lateral acceleration in curves, comfortable slowing down before them."""
    bend = np.abs(np.convolve(np.gradient(np.unwrap(pose[:, 2])), np.ones(5) / 5, "same")) / STEP_M
    speed = np.minimum(limit_mps, np.sqrt(LATERAL_ACCEL_MPS2 / np.maximum(bend, 1e-4)))
    for i in range(len(speed) - 2, -1, -1):
        speed[i] = min(speed[i], math.sqrt(speed[i + 1] ** 2 + 2 * SLOW_DOWN_MPS2 * STEP_M))
    return speed
