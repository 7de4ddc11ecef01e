"""Scripted pedestrians: half of them cross the route when the ego is near, the others walk beside it."""

import math
from dataclasses import dataclass, field
from enum import Enum

import carla
import numpy as np

from drive.contracts import F64, AgentKind
from sim.frames import centre_from_axle, location, pose_from_carla, transform, vector
from sim.routes import Route
from sim.situation import Situation

TRIES = 30
SPAWN_LIFT_M = 1.1
START_CLEAR_M = 30.0
GOAL_CLEAR_M = 8.0
WIDEST_ROAD_M = 14.0
STROLL_M = 25.0
SHORTEST_STROLL_M = 6.0
STROLL_CLEAR_M = 1.3  # nearer to the kerb, the traffic would brake for them all the time
CROSSER_KERB_M = (0.7, 1.6)
STROLLER_KERB_M = (1.8, 3.0)
CROSSER_CLEAR_M, STROLLER_CLEAR_M = 6, 15  # distance from junctions
SPEED_MPS = (1.0, 1.7)
TRIGGER_M = (20.0, 34.0)
PATIENCE_S = 5.0
LOOK_M = (0.4, 0.8, 1.2)
LOOK_AHEAD_S = 3.0
BODY_M = 0.45
EGO_HALF_M = (2.45, 0.92)
STANDING_MPS = 0.5
SEAM_STEPS = 4
ON_ROAD = carla.LaneType.Driving


class Phase(Enum):
    """What a walker is doing."""

    WAIT = "wait"
    CROSS = "cross"
    STROLL = "stroll"
    DONE = "done"


@dataclass
class Walker:
    """One pedestrian.

    Attributes:
        actor: The CARLA actor.
        phase: What it is doing.
        way: Unit vector of its current leg.
        leg_m: Length of the leg.
        speed_mps: Walking speed.
        s_m: Arc length of the route at which it stands.
        trigger_m: It starts to cross when the ego is that near, along the route.
        origin: Where the leg began.
        held: Something is in its way; it then looks before it walks on.
        held_s: How long that has lasted, in all.
    """

    actor: carla.Actor
    phase: Phase
    way: tuple[float, float]
    leg_m: float
    speed_mps: float
    s_m: float
    trigger_m: float
    origin: tuple[float, float]
    held: bool = False
    held_s: float = 0.0

    def turn_back(self, here: tuple[float, float]) -> None:
        """Walk back to where the leg began."""
        done = max(0.5, math.hypot(here[0] - self.origin[0], here[1] - self.origin[1]))
        self.way, self.leg_m, self.origin, self.held_s = (-self.way[0], -self.way[1]), done, here, 0.0


@dataclass
class Walkers:
    """All pedestrians of a drive; the same map, route and seed give the same ones."""

    world: carla.World
    route: Route
    seed: int
    all: list[Walker] = field(default_factory=list)

    def spawn(self, count: int) -> None:
        """Spawn up to `count` walkers beside the route; every second one will cross it."""
        rng = np.random.default_rng([self.seed, 3])
        town = self.world.get_map()
        blueprints = sorted(
            self.world.get_blueprint_library().filter("walker.pedestrian.*"), key=lambda b: b.id
        )
        for number in range(count):
            for _ in range(TRIES):
                walker = self._try(town, blueprints, rng, crosses=number % 2 == 0)
                if walker is not None:
                    self.all.append(walker)
                    break

    @property
    def actors(self) -> list[carla.Actor]:
        """The walkers' actors."""
        return [walker.actor for walker in self.all]

    def _try(
        self, town: carla.Map, blueprints: list[carla.ActorBlueprint], rng: np.random.Generator, crosses: bool
    ) -> Walker | None:
        route = self.route
        s = float(rng.uniform(route.start_m + START_CLEAR_M, route.goal_m - GOAL_CLEAR_M))
        side = 1.0 if rng.random() < 0.4 else -1.0
        extra = float(rng.uniform(*(CROSSER_KERB_M if crosses else STROLLER_KERB_M)))
        way = 1.0 if rng.random() < 0.5 else -1.0
        blueprint = blueprints[int(rng.integers(len(blueprints)))]
        speed, trigger = float(rng.uniform(*SPEED_MPS)), float(rng.uniform(*TRIGGER_M))
        clear = CROSSER_CLEAR_M if crosses else STROLLER_CLEAR_M
        if route.junction[max(0, int(s) - clear) : int(s) + clear + 1].any():
            return None
        pose, z = route.at(s), float(route.z_m[int(s)])
        normal = (-math.sin(pose[2]) * side, math.cos(pose[2]) * side)
        near, far = kerb_m(town, pose, normal, z), kerb_m(town, pose, (-normal[0], -normal[1]), z)
        if near is None or far is None:
            return None
        offset = near + extra
        spot = (pose[0] + normal[0] * offset, pose[1] + normal[1] * offset)
        leg = (-normal[0], -normal[1]) if crosses else (math.cos(pose[2]) * way, math.sin(pose[2]) * way)
        length = offset + far + 1.2 if crosses else free_walk_m(town, spot, leg, z)
        if not crosses and length < SHORTEST_STROLL_M:
            return None
        if blueprint.has_attribute("is_invincible"):
            blueprint.set_attribute("is_invincible", "false")
        facing = math.atan2(leg[1], leg[0])
        actor = self.world.try_spawn_actor(blueprint, transform((*spot, facing), z + SPAWN_LIFT_M))
        if actor is None:
            return None
        phase = Phase.WAIT if crosses else Phase.STROLL
        return Walker(actor, phase, leg, length, speed, s, trigger, spot)

    def tick(self, snapshot: carla.WorldSnapshot, scene: Situation, dt_s: float) -> None:
        """Give each walker its control for the next tick."""
        boxes, careful = _boxes(scene), _boxes(scene, careful=True)
        for walker in self.all:
            found = snapshot.find(walker.actor.id)
            if found is None:
                continue
            place = found.get_transform()
            x, y, _ = pose_from_carla(place.location.x, place.location.y, 0.0)
            self._advance(walker, (x, y), scene.s_m)
            moving = walker.phase in (Phase.CROSS, Phase.STROLL)
            walker.held = moving and _blocked((x, y), walker.way, careful if walker.held else boxes)
            if walker.held:
                moving = False
                walker.held_s += dt_s
                if walker.held_s > PATIENCE_S:
                    walker.turn_back((x, y))
            control = carla.WalkerControl(vector(*walker.way), walker.speed_mps if moving else 0.0, False)
            walker.actor.apply_control(control)

    @staticmethod
    def _advance(walker: Walker, here: tuple[float, float], ego_s_m: float) -> None:
        if walker.phase is Phase.WAIT and walker.s_m - ego_s_m < walker.trigger_m:
            walker.phase, walker.origin = Phase.CROSS, here
        if walker.phase not in (Phase.CROSS, Phase.STROLL):
            return
        gone = (here[0] - walker.origin[0]) * walker.way[0] + (here[1] - walker.origin[1]) * walker.way[1]
        if gone < walker.leg_m:
            return
        if walker.phase is Phase.CROSS:
            walker.phase = Phase.DONE
        else:
            walker.way, walker.origin = (-walker.way[0], -walker.way[1]), here


def kerb_m(town: carla.Map, pose: F64, normal: tuple[float, float], z_m: float) -> float | None:
    """Distance from a lane centre to the edge of the carriageway along `normal`; None if wider than 14 m."""
    outside = 0
    for step in np.arange(1.5, WIDEST_ROAD_M, 0.25):
        place = location(pose[0] + normal[0] * step, pose[1] + normal[1] * step, z_m)
        on_road = town.get_waypoint(place, False, ON_ROAD) is not None
        outside = 0 if on_road else outside + 1
        if outside == SEAM_STEPS:  # fewer are the seam between two lanes
            return float(step - 0.25 * (SEAM_STEPS - 1))
    return None


def free_walk_m(town: carla.Map, spot: tuple[float, float], way: tuple[float, float], z_m: float) -> float:
    """How far one can walk straight on without stepping on the road, at most 25 m."""
    for step in np.arange(0.5, STROLL_M, 0.5):
        for side in (-STROLL_CLEAR_M, STROLL_CLEAR_M):
            x, y = spot[0] + way[0] * step - way[1] * side, spot[1] + way[1] * step + way[0] * side
            if town.get_waypoint(location(x, y, z_m), False, ON_ROAD) is not None:
                return float(max(0.0, step - 1.0))
    return STROLL_M


def _boxes(scene: Situation, careful: bool = False) -> F64:
    """Vehicles that walkers do not walk into: rows [x, y, cos, sin, rear, front, half width] [m].

    The space in front of a moving ego is left out: not to drive into people is the ego's task. With `careful`
    its way of the next 3 s is kept free too: nobody who stands on the road steps out before a car.
    """
    ego = centre_from_axle(scene.ego.pose_world)
    front = EGO_HALF_M[0] + BODY_M if scene.ego.speed_mps < STANDING_MPS else EGO_HALF_M[0] - BODY_M
    if careful:
        front = EGO_HALF_M[0] + BODY_M + LOOK_AHEAD_S * max(0.0, scene.ego.speed_mps)
    rows = [_row(ego, EGO_HALF_M[0], EGO_HALF_M[1], front)]
    agents = scene.agents
    for i in np.flatnonzero(agents.kind != AgentKind.PEDESTRIAN):
        length, width = float(agents.size_m[i, 0]), float(agents.size_m[i, 1])
        reach = BODY_M + 1.5 * max(0.0, float(agents.speed_mps[i]))
        rows.append(_row(agents.pose_world[i], length / 2, width / 2, length / 2 + reach))
    return np.array(rows)


def _row(pose: F64, half_length: float, half_width: float, front: float) -> list[float]:
    return [
        float(pose[0]),
        float(pose[1]),
        math.cos(pose[2]),
        math.sin(pose[2]),
        -half_length - BODY_M,
        front,
        half_width + BODY_M,
    ]


def _blocked(here: tuple[float, float], way: tuple[float, float], boxes: F64) -> bool:
    """Would the next metre lead into one of the boxes?"""
    for reach in LOOK_M:
        dx = here[0] + way[0] * reach - boxes[:, 0]
        dy = here[1] + way[1] * reach - boxes[:, 1]
        forward = dx * boxes[:, 2] + dy * boxes[:, 3]
        left = -dx * boxes[:, 3] + dy * boxes[:, 2]
        if ((forward > boxes[:, 4]) & (forward < boxes[:, 5]) & (np.abs(left) < boxes[:, 6])).any():
            return True
    return False
