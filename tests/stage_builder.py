"""A stage for scenario tests: a real light server, an ego that is moved along a route, and what is seen."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import carla
import numpy as np

from sim.frames import centre_from_axle, transform
from sim.route_files import Value
from sim.routes import Route, RouteSpec, build_route, road_speeds_mps
from sim.scenarios.stage import Act, Cue, Now, Stage
from sim.situation import Agents, EgoState, Situation
from sim.traffic import kind_of
from tests.light_server import TICK_S, connect, running_server, synchronous

EGO = "vehicle.lincoln.mkz_2020"


class Rehearsal:
    """A stage in a town; the ego goes where the test puts it."""

    def __init__(self, world: carla.World, route: Route) -> None:
        self.world, self.route = world, route
        self.known: list[carla.Actor] = []
        blueprint = world.get_blueprint_library().find(EGO)
        ego = world.spawn_actor(blueprint, transform(route.at(6.4), float(route.z_m[5]) + 0.3))
        self.stage = Stage(world, world.get_map(), route, ego, self.known.extend)
        self.s_m, self.t_s = 5.0, 0.0
        self.sizes: dict[int, tuple[float, float]] = {}

    def cue(self, kind: str, s_m: float = 20.0, seed: int = 0, **values: Value) -> Cue:
        """A scenario's beginnings."""
        return Cue(self.stage, s_m, values, np.random.default_rng(seed), kind)

    def agents(self, snapshot: carla.WorldSnapshot) -> Agents:
        rows = []
        for actor in self.known:
            found = snapshot.find(actor.id)
            if found is None or not actor.is_alive:
                continue
            if actor.id not in self.sizes:
                box = actor.bounding_box.extent
                self.sizes[actor.id] = (2 * box.x, 2 * box.y)
            here, v = found.get_transform(), found.get_velocity()
            yaw = -np.radians(here.rotation.yaw)
            speed = v.x * np.cos(yaw) - v.y * np.sin(yaw)
            rows.append((actor, (here.location.x, -here.location.y, yaw), speed))
        return Agents(
            ids=np.array([a.id for a, _, _ in rows], np.int32),
            kind=np.array([int(kind_of(a.type_id, self.sizes[a.id][0])) for a, _, _ in rows], np.int32),
            size_m=np.array([self.sizes[a.id] for a, _, _ in rows], np.float32).reshape(-1, 2),
            pose_world=np.array([p for _, p, _ in rows], np.float64).reshape(-1, 3),
            speed_mps=np.array([v for *_, v in rows], np.float64),
        )

    def now(self, speed_mps: float, on: bool) -> Now:
        snapshot = self.world.get_snapshot()
        pose = self.route.at(self.s_m)
        ego = EgoState(pose, speed_mps, 0.0, 0.0)
        scene = Situation(self.t_s, ego, self.s_m, 0.0, self.route, self.agents(snapshot), (), ())
        return Now(scene, snapshot, TICK_S, on)

    def play(self, act: Act, seconds: float, speed_mps: float, until_m: float = 1e9) -> Iterator[Now]:
        """Move the ego at a steady speed up to a place, and let the act act."""
        for _ in range(round(seconds / TICK_S)):
            speed = speed_mps if self.s_m < until_m else 0.0
            now = self.now(speed, on=True)
            act.tick(now)
            yield now
            self.s_m = min(self.s_m + speed * TICK_S, until_m)
            self.t_s += TICK_S
            pose = centre_from_axle(self.route.at(self.s_m))
            self.stage.ego.set_transform(transform(pose, float(self.route.z_m[int(self.s_m)]) + 0.02))
            self.world.tick()

    def close(self) -> None:
        """Everything off the stage."""
        for actor in list(self.stage.actors.values()):
            self.stage.remove(actor)
        self.stage.ego.destroy()
        self.world.tick()


@contextmanager
def theatre(town: str) -> Iterator[carla.World]:
    """A synchronous world of a town."""
    with running_server(town) as (_, port, _):
        yield synchronous(connect(port).get_world())


def route_of(world: carla.World, seed: int, length_m: float = 200.0) -> Route:
    """A route by its seed."""
    town = world.get_map()
    name = town.name.split("/")[-1]
    return build_route(town, RouteSpec("r", name, seed, length_m), road_speeds_mps(town.to_opendrive()))


def across(route: Route, poses: Sequence[Mapping[str, float]] | np.ndarray) -> np.ndarray:
    """Signed distance (N,) of world points (N, >= 2) left of the route's nearest point."""
    points = np.asarray(poses)[:, :2]
    gap = np.hypot(points[:, 0, None] - route.pose_world[:, 0], points[:, 1, None] - route.pose_world[:, 1])
    at = route.pose_world[gap.argmin(1)]
    return -(points[:, 0] - at[:, 0]) * np.sin(at[:, 2]) + (points[:, 1] - at[:, 1]) * np.cos(at[:, 2])
