"""One drive's world on a CARLA server: set up, tick, ground truth, tear down."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import carla
import numpy as np

from drive.contracts import F64, UserError
from sim.background import spawn_background
from sim.control import VehicleGains
from sim.frames import centre_from_axle, transform, vector
from sim.ground_truth import RoadUsers, ego_state, vehicle_gains
from sim.handshake import check_protocol
from sim.lights import RouteLights
from sim.route_planner import FileRouteSpec, route_for
from sim.routes import Route, RouteSpec, road_speeds_mps
from sim.sensors import IMAGE_WAIT_S, CollisionSensor, Contact, FrontCamera
from sim.server.blueprints import MARK
from sim.situation import Situation
from sim.traffic import hand_over, spawn_ego, spawn_vehicles, start_traffic_manager
from sim.walkers import Walkers
from sim.watchdog import Watchdog

TICK_S = 0.05
TICK_TIMEOUT_S = 20.0
CONNECT_TIMEOUT_S = 5.0
WARM_UP_TICKS = (20, 100)
ALIGN_TICKS = 8


@dataclass(frozen=True)
class Address:
    """Where a server listens, the port of this drive's TrafficManager, and whose server it is."""

    host: str
    port: int
    traffic_port: int
    own: bool


def connect(host: str, port: int) -> carla.Client:
    """A client of a server; UserError, with the line that mends it, for another version or no CARLA."""
    check_protocol(host, port, CONNECT_TIMEOUT_S)
    client = carla.Client(host, port)
    client.set_timeout(CONNECT_TIMEOUT_S)
    theirs, ours = client.get_server_version(), client.get_client_version()
    if theirs.split("-")[0] != ours.split("-")[0]:
        raise UserError(
            f"CARLA server {host}:{port} is version {theirs}, the client is {ours}; "
            f"run: pip install carla=={theirs.split('-')[0]}"
        )
    client.set_timeout(TICK_TIMEOUT_S)
    return client


def simulator_of(client: carla.Client) -> Literal["light simulator", "CARLA"]:
    """What answers at the other end; the light server has a blueprint that CARLA lacks."""
    library = client.get_world().get_blueprint_library()
    return "light simulator" if len(library.filter(MARK)) else "CARLA"


def towns_on(client: carla.Client) -> list[str]:
    """Names of the maps that a server has."""
    return sorted({name.split("/")[-1] for name in client.get_available_maps()})


class Session:
    """The world of one route: ego, traffic, sensors. Use as a context manager."""

    def __init__(self, address: Address, spec: RouteSpec, camera: bool) -> None:
        self.spec = spec
        self._address = address
        self._client = connect(address.host, address.port)
        self._world = self._open_town()
        self._settings = self._world.get_settings()
        self._manager: carla.TrafficManager | None = None
        self._actors: list[carla.Actor] = []
        self.watchdog: Watchdog | None = None
        self.camera: FrontCamera | None = None
        self.collisions: CollisionSensor | None = None
        self.map = self._world.get_map()
        self._speeds = road_speeds_mps(self.map.to_opendrive())
        self.route: Route = route_for(self.map, spec, self._speeds)
        self._with_camera = camera
        self._others = RoadUsers(self.map)
        self.frame = 0
        self.first_frame = 0

    def __enter__(self) -> "Session":
        try:
            self._populate()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_town(self) -> carla.World:
        world = self._client.get_world()
        here = world.get_map().name.split("/")[-1]
        if self._address.own:
            if here != self.spec.town:
                raise RuntimeError(f"own server has {here}, expected {self.spec.town}")
            return world
        if here == self.spec.town:
            return self._client.reload_world(True)
        return self._client.load_world(self.spec.town)

    def _apply_settings(self) -> None:
        settings = self._world.get_settings()
        settings.synchronous_mode = True
        settings.fixed_delta_seconds = TICK_S
        self._world.apply_settings(settings)

    def _populate(self) -> None:
        spec, world = self.spec, self._world
        self._apply_settings()
        self.ego = spawn_ego(world, self.route)
        self._actors.append(self.ego)
        if spec.vehicles or not isinstance(spec, FileRouteSpec):  # in a large town it takes seconds
            self._manager = start_traffic_manager(self._client, self._address.traffic_port, spec.seed)
        spawn = spawn_background if isinstance(spec, FileRouteSpec) else spawn_vehicles
        vehicles = spawn(world, self.route, spec.vehicles, spec.seed) if spec.vehicles else []
        self._actors += vehicles
        self.walkers = Walkers(world, self.route, spec.seed)
        self.walkers.spawn(spec.walkers)
        self._actors += self.walkers.actors
        self.watchdog = Watchdog(world, self._address.traffic_port)
        self.tick()
        if self._manager is not None:
            hand_over(self._manager, self._address.traffic_port, vehicles, spec.seed)
        self._others.describe(world.get_actors([a.id for a in vehicles + self.walkers.actors]))
        self.lights = RouteLights(list(world.get_actors().filter("traffic.traffic_light*")), self.route)
        self.ego.apply_control(carla.VehicleControl(brake=1.0))
        self._s_m = self.route.start_m
        warm_up = int(np.random.default_rng([spec.seed, 4]).integers(*WARM_UP_TICKS))
        for _ in range(warm_up):
            self.tick()
        self.collisions = CollisionSensor(world, self.ego)
        if self._with_camera:
            self.camera = FrontCamera(world, self.ego)
        if spec.start_speed_mps > 0:
            self.control(0.0, 0.0, 0.0)
            self.push(float(self.route.at(self._s_m)[2]), spec.start_speed_mps)
        self._align()
        self.first_frame = self.frame

    def _align(self) -> None:
        """Tick until the first picture comes: from then on one comes with every planning step."""
        for _ in range(ALIGN_TICKS):
            self.tick()
            if self.camera is None or self.camera.poll(self.frame, IMAGE_WAIT_S) is not None:
                return
        raise TimeoutError(f"the camera sent no picture within {ALIGN_TICKS} ticks")

    def include(self, actors: Sequence[carla.Actor]) -> None:
        """Make actors part of the ground truth that were spawned during the drive."""
        self._others.include(actors)

    def see_far(self, reach_m: float) -> None:
        """Take road users into account up to this distance."""
        self._others.see_m = reach_m

    @property
    def world(self) -> carla.World:
        """The client's world."""
        return self._world

    def tick(self) -> None:
        """Advance the simulation by TICK_S."""
        if self.watchdog is None:
            raise RuntimeError("tick before the world was populated")
        self.frame = self.watchdog.guard(lambda: self._world.tick(TICK_TIMEOUT_S))

    @property
    def t_s(self) -> float:
        """Time since the start of the drive."""
        return (self.frame - self.first_frame) * TICK_S

    def scene(self, predict: bool) -> Situation:
        """Ground truth of the newest tick; `predict` adds the agents' possible paths (slow)."""
        snapshot = self._world.get_snapshot()
        ego = ego_state(snapshot, self.ego.id)
        pose = ego.pose_world
        s_m, lateral = self.route.locate((pose[0], pose[1], pose[2]), self._s_m)
        self._s_m = s_m
        agents = self._others.around(snapshot, self.route, s_m, pose[:2], predict)
        return Situation(
            t_s=self.t_s,
            ego=ego,
            s_m=s_m,
            lateral_m=lateral,
            route=self.route,
            agents=agents,
            stops=self.lights.stops,
            lights=self.lights.states(),
            emergency=self._others.emergency,
        )

    def walk(self, scene: Situation) -> None:
        """Let the walkers decide what they do in the next tick."""
        if self.walkers.all:
            self.walkers.tick(self._world.get_snapshot(), scene, TICK_S)

    def gains(self) -> VehicleGains:
        """How the ego's pedals and wheel act, as far as the server tells."""
        return vehicle_gains(self.ego)

    def contacts(self) -> list[Contact]:
        """The ego's collisions; call once, at the end."""
        return self.collisions.contacts(TICK_S) if self.collisions else []

    def control(self, throttle: float, brake: float, steer_left: float) -> None:
        """Apply pedals and wheel; CARLA's steer is positive to the right."""
        self.ego.apply_control(carla.VehicleControl(throttle=throttle, brake=brake, steer=-steer_left))

    def place(self, pose_world: F64, speed_mps: float) -> None:
        """Teleport the ego's rear axle to a pose (training-data perturbations)."""
        centre = centre_from_axle(pose_world)
        z = float(self.route.z_m[min(int(self._s_m), len(self.route.z_m) - 1)])
        self.ego.set_transform(transform(centre, z + 0.02))
        self.push(float(pose_world[2]), speed_mps)

    def push(self, yaw_rad: float, speed_mps: float) -> None:
        """Give the ego a speed along a heading."""
        self.ego.set_target_velocity(vector(speed_mps * math.cos(yaw_rad), speed_mps * math.sin(yaw_rad)))

    def close(self) -> None:
        """Remove what this drive added and restore the server's settings; safe to call twice."""
        if self._manager is not None:  # first of all: left alone it aborts the process when the server goes
            manager, self._manager = self._manager, None
            if self.watchdog is not None:
                self.watchdog.guard(manager.shut_down)
        if self.watchdog is not None:
            self.watchdog.close()
        if self.camera is not None:
            self.camera.close()
            self.camera = None
        if self.collisions is not None:
            self.collisions.close()
            self.collisions = None
        if self._address.own:  # the server process ends with the drive
            return
        for actor in self._actors:
            actor.destroy()
        self._actors = []
        self._world.apply_settings(self._settings)
