"""The stage of a drive: what scenarios spawn on, and what they see at every tick."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import carla
import numpy as np

from drive.contracts import F64
from sim.frames import location, pose_from_carla, transform, vector, waypoint_pose
from sim.route_files import Value
from sim.routes import Route
from sim.situation import Situation

SPAWN_LIFT_M = 0.3
WALKER_LIFT_M = 1.1
FLAT = "static.prop.dirtdebris"  # one drives over it
LANE_KINDS = carla.LaneType.Driving


class Unplaceable(Exception):
    """A scenario does not fit its place (no lane, no junction, no room); the message says why."""


@dataclass
class Stage:
    """The world of one route as scenarios see it.

    Attributes:
        world: The client's world.
        map: Its map.
        route: What the ego drives.
        ego: The ego.
        show: Makes spawned actors part of the ground truth (and removes them after the drive).
        actors: Everything spawned so far and not removed, by id.
    """

    world: carla.World
    map: carla.Map
    route: Route
    ego: carla.Vehicle
    show: Callable[[Sequence[carla.Actor]], None]
    actors: dict[int, carla.Actor] = field(default_factory=dict)

    def spawn(self, blueprint_id: str, pose_world: F64, z_m: float, speed_mps: float = 0.0) -> carla.Actor:
        """Spawn an actor at a pose, moving at a speed.

        Raises:
            Unplaceable: The server has no such blueprint, or the place is taken.
        """
        found = self.world.get_blueprint_library().filter(blueprint_id)
        if not len(found):
            raise Unplaceable(f"the server has no blueprint {blueprint_id}")
        blueprint = found[0]
        if blueprint.has_attribute("role_name"):
            blueprint.set_attribute("role_name", "scenario")
        if blueprint.has_attribute("is_invincible"):
            blueprint.set_attribute("is_invincible", "false")
        lift = WALKER_LIFT_M if blueprint_id.startswith("walker.") else SPAWN_LIFT_M
        actor = self.world.try_spawn_actor(blueprint, transform(pose_world, z_m + lift))
        if actor is None:
            raise Unplaceable(f"no room for {blueprint_id}")
        if speed_mps > 0:
            yaw = float(pose_world[2])
            actor.set_target_velocity(vector(speed_mps * math.cos(yaw), speed_mps * math.sin(yaw)))
        self.actors[actor.id] = actor
        if not blueprint_id.startswith(FLAT):
            self.show([actor])
        return actor

    def spawn_beside(
        self, blueprint_id: str, s_m: float, left_m: float, turned_rad: float = 0.0
    ) -> carla.Actor:
        """Spawn an actor at arc length `s_m` of the route, `left_m` beside it, turned against it."""
        pose = beside(self.route, s_m, left_m)
        pose[2] += turned_rad
        return self.spawn(blueprint_id, pose, self.height(s_m))

    def remove(self, actor: carla.Actor) -> None:
        """Take an actor away; twice does no harm."""
        if self.actors.pop(actor.id, None) is not None:
            actor.destroy()

    def height(self, s_m: float) -> float:
        """Road height of the route at an arc length."""
        return float(self.route.z_m[min(max(int(s_m), 0), len(self.route.z_m) - 1)])

    def waypoint(self, s_m: float) -> carla.Waypoint:
        """Lane point of the route at an arc length."""
        pose = self.route.at(s_m)
        return self.lane_at((pose[0], pose[1], self.height(s_m)))

    def lane_at(self, place: tuple[float, ...]) -> carla.Waypoint:
        """Nearest driving lane to a world point x, y, z."""
        found = self.map.get_waypoint(location(*place[:3]), True, LANE_KINDS)
        if found is None:
            raise Unplaceable(f"no lane near {tuple(round(v) for v in place[:3])}")
        return found


@dataclass(frozen=True)
class Body:
    """Pose of an actor's centre in the world, its height and its speed."""

    pose_world: F64
    z_m: float
    speed_mps: float


@dataclass(frozen=True)
class Now:
    """One tick.

    Attributes:
        scene: Ground truth.
        snapshot: The client's snapshot of the same tick.
        dt_s: Length of the tick.
        on: The ego has reached the trigger of the scenario that is asked.
    """

    scene: Situation
    snapshot: carla.WorldSnapshot
    dt_s: float
    on: bool

    def body(self, actor: carla.Actor) -> Body | None:
        """Where an actor is; None in the tick in which it was spawned."""
        found = self.snapshot.find(actor.id)
        if found is None:
            return None
        here, v = found.get_transform(), found.get_velocity()
        pose = np.array(pose_from_carla(here.location.x, here.location.y, here.rotation.yaw))
        return Body(pose, float(here.location.z), math.hypot(v.x, v.y))


class Act:
    """What is staged: made when the ego comes near, ticked until the ego has passed `end_m`.

    Attributes:
        stage: Where.
        end_m: Arc length at which the ego's rear axle has passed it.
        actors: What it spawned.
        oncoming_ok: The ego may use the oncoming lane meanwhile.
        faults: Infractions of the ego that only this act can see: (kind, detail).
    """

    oncoming_ok = False

    def __init__(self, stage: Stage, end_m: float) -> None:
        self.stage, self.end_m = stage, end_m
        self.actors: list[carla.Actor] = []
        self.faults: list[tuple[str, str]] = []

    def tick(self, now: Now) -> None:
        """Let everybody act for one tick."""

    def disturb(self, throttle: float, steer: float) -> tuple[float, float]:
        """What becomes of the ego's throttle and steering."""
        return throttle, steer

    def close(self) -> None:
        """Remove what it spawned."""
        for actor in self.actors:
            self.stage.remove(actor)
        self.actors = []


@dataclass(frozen=True)
class Cue:
    """Everything a scenario is made from.

    Attributes:
        stage: The world.
        s_m: Arc length of its trigger.
        values: Parameters of the route file.
        rng: Its own random numbers.
        type: Scenario type, for messages.
    """

    stage: Stage
    s_m: float
    values: Mapping[str, Value]
    rng: np.random.Generator
    type: str = ""

    def number(self, name: str, default: float) -> float:
        """A parameter that is a number."""
        value = self.values.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str) -> str:
        """A parameter that is a word."""
        value = self.values.get(name, default)
        return value if isinstance(value, str) else default

    def interval(self, name: str, low: float, high: float) -> tuple[float, float]:
        """A parameter (from, to)."""
        value = self.values.get(name)
        return (value[0], value[1]) if isinstance(value, tuple) and len(value) == 2 else (low, high)

    def place(self, name: str) -> tuple[float, ...]:
        """A parameter that is a place in the world; Unplaceable without it."""
        value = self.values.get(name)
        if not isinstance(value, tuple) or len(value) < 3:
            raise Unplaceable(f"{self.type} needs a place {name}")
        return value

    def clear_ahead(self, m: float) -> float:
        """Arc length `m` ahead of the trigger, pulled back to 6 m before the end of the route."""
        return min(self.s_m + m, self.stage.route.goal_m - 6.0)


class Together(Act):
    """Several acts at once; over when the last of them is."""

    def __init__(self, *acts: Act) -> None:
        super().__init__(acts[0].stage, max(act.end_m for act in acts))
        self.acts = acts
        self.oncoming_ok = any(act.oncoming_ok for act in acts)

    def tick(self, now: Now) -> None:
        """All of them."""
        for act in self.acts:
            act.tick(now)
            self.faults += act.faults
            act.faults = []

    def disturb(self, throttle: float, steer: float) -> tuple[float, float]:
        """All of them."""
        for act in self.acts:
            throttle, steer = act.disturb(throttle, steer)
        return throttle, steer

    def close(self) -> None:
        """All of them."""
        for act in self.acts:
            act.close()


def beside(route: Route, s_m: float, left_m: float) -> F64:
    """Pose (3,) `left_m` to the left of a route."""
    pose = route.at(s_m)
    moved: F64 = pose + np.array([-left_m * math.sin(pose[2]), left_m * math.cos(pose[2]), 0.0])
    return moved


def shifted(path: F64, left_m: float) -> F64:
    """Path (P, 3) moved to its left."""
    moved = path.copy()
    moved[:, 0] -= left_m * np.sin(path[:, 2])
    moved[:, 1] += left_m * np.cos(path[:, 2])
    return moved


def route_path(route: Route, from_m: float, to_m: float) -> F64:
    """Poses (P, 3) of a route every metre; continued straight on beyond its end."""
    first, last = max(0, int(from_m)), min(len(route.pose_world), int(to_m) + 1)
    return route.pose_world[first:last].copy()


def follow(
    start: carla.Waypoint, length_m: float, back: bool = False, step_m: float = 2.0, road_only: bool = False
) -> F64:
    """Poses (P, 3) in driving direction along lanes from a waypoint on; ends at it with `back`.

    At forks it keeps as straight as it can; with `road_only` it ends before the next junction.
    """
    poses = [waypoint_pose(start)]
    here = start
    for _ in range(int(length_m / step_m)):
        choices = here.previous(step_m) if back else here.next(step_m)
        if not choices or (road_only and choices[0].is_junction):
            break
        here = min(choices, key=lambda w: (round(_bend(w, here), 3), w.road_id, w.lane_id))
        poses.append(waypoint_pose(here))
    return np.array(poses[::-1] if back else poses)


def _bend(a: carla.Waypoint, b: carla.Waypoint) -> float:
    change = math.radians(a.transform.rotation.yaw - b.transform.rotation.yaw)
    return abs(math.atan2(math.sin(change), math.cos(change)))
