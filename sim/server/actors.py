"""Actors of an episode in CARLA's frame (x forward, y right, z up, degrees); plain mutable state."""

import math
from typing import Any

import carla

from sim.server.catalog import DEFAULT_VEHICLE, VEHICLES, VehicleType, half_size_of
from sim.server.prop_sizes import HalfSize
from sim.server.town import LaneStop, TransformRow
from sim.server.wire import GREEN, RED

_LABELS = {"vehicle": 14, "walker": 12, "traffic_light": 7, "sign": 8, "static": 20}  # CityObjectLabel
_VEHICLE_LABELS = {"truck": 15, "bus": 16, "motorcycle": 18, "bicycle": 19}
Description = list[Any]
Vector = list[float]


class Actor:
    """Anything with an id and a pose; static props, signs and the spectator need no more.

    Attributes:
        kind: "vehicle", "walker", "sensor", "static", "traffic_light", "sign", "controller" or "spectator".
        half_size: Body half size [m], None without a body.
        radius: Horizontal radius around the body [m].
        box: Wire bounding box [location, extent, rotation, id].
        sensors: Sensors attached to this actor.
        collides: Does anything touch it?
    """

    kind = "static"

    def __init__(
        self, actor_id: int, description: Description, transform: TransformRow, parent: int = 0
    ) -> None:
        self.id, self.description, self.parent = actor_id, description, parent
        self.type_id: str = description[1]
        self.attributes: dict[str, str] = {name: value for name, _, value in description[2]}
        (self.x, self.y, self.z), (self.pitch, self.yaw, self.roll) = transform
        self.vx = self.vy = self.vz = self.wz = self.ax = self.ay = 0.0
        self.half_size: HalfSize | None = half_size_of(self.type_id, self.attributes.get("mesh_path", ""))
        self.radius = math.hypot(*self.half_size[:2]) if self.half_size else 0.0
        centre_z, extent = 0.0, [0.0, 0.0, 0.0]
        if self.half_size:
            centre_z, extent = 0.0 if self.kind == "walker" else self.half_size[2], list(self.half_size)
        self.box: list[Any] = [[0.0, 0.0, centre_z], extent, [0.0, 0.0, 0.0], actor_id]
        self.token = b""
        self.sensors: list[Sensor] = []
        self.collides = True

    @property
    def label(self) -> int:
        """CityObjectLabel of the body, 0 for things without one."""
        return _LABELS.get(self.kind, 0)

    def wire(self) -> list[Any]:
        """Actor as sent to clients."""
        tags = bytes([self.label]) if self.label else b""
        return [self.id, self.parent, self.description, self.box, tags, self.token]

    def place(self, transform: TransformRow) -> None:
        """Teleport."""
        (self.x, self.y, self.z), (self.pitch, self.yaw, self.roll) = transform

    def halt(self) -> None:
        """Exactly zero motion, z included: a leftover vz makes clients believe that the actor still moves."""
        self.vx = self.vy = self.vz = self.wz = self.ax = self.ay = 0.0


class Mover(Actor):
    """A vehicle or walker standing on the road surface.

    Attributes:
        physics, gravity: Switches that clients may turn off.
        target_velocity: One-tick velocity set by a client.
        spin_dps: Additional turn rate [deg/s] for the next tick, set by a client.
        ground_at: Where the ground was last looked up; None forces a new look-up.
        waypoint: Lane below, None off the map.
    """

    def __init__(
        self, actor_id: int, description: Description, transform: TransformRow, parent: int = 0
    ) -> None:
        super().__init__(actor_id, description, transform, parent)
        self.body: HalfSize = self.half_size or (0.3, 0.3, 0.3)
        self.speed = 0.0
        self.physics = self.gravity = True
        self.target_velocity: Vector | None = None
        self.spin_dps = 0.0
        self.ground_at: tuple[float, float, float] | None = None
        self.waypoint: carla.Waypoint | None = None

    def place(self, transform: TransformRow) -> None:
        """Teleport; settles on the ground from the next tick on."""
        super().place(transform)
        self.ground_at = None


class Vehicle(Mover):
    """A vehicle; `control` is the wire row [throttle, steer, brake, hand brake, reverse, manual, gear].

    Attributes:
        speed: Signed speed along the heading [m/s].
        side: Velocity of the centre across it [m/s], positive to the right.
        wheel_rad: Present wheel angle of the bicycle model, positive to the right.
        accel: Present longitudinal acceleration [m/s2].
        ackermann: [steer, steer speed, speed, acceleration, jerk] while under Ackermann control.
        constant_velocity: Velocity in the vehicle frame that overrides the pedals.
        speed_limit_kmh: Posted limit at the last known road.
        light: Traffic light that this vehicle has to obey now.
        light_state: Lamp bits set by the client.
        custom_physics: Physics control row set by a client, echoed back.
        doors: Open side doors by their number (doors.py).
    """

    kind = "vehicle"

    def __init__(
        self, actor_id: int, description: Description, transform: TransformRow, parent: int = 0
    ) -> None:
        super().__init__(actor_id, description, transform, parent)
        self.spec: VehicleType = VEHICLES.get(self.type_id, VEHICLES[DEFAULT_VEHICLE])
        self.control: list[Any] = [0.0, 0.0, 0.0, False, False, False, 0]
        self.wheel_rad = self.accel = self.side = 0.0
        self.ackermann: Vector | None = None
        self.constant_velocity: Vector | None = None
        self.speed_limit_kmh = 30.0
        self.light: TrafficLight | None = None
        self.light_state = 0
        self.custom_physics: list[Any] | None = None
        self.doors: dict[int, Actor] = {}

    @property
    def label(self) -> int:
        """Label of the kind of vehicle."""
        return _VEHICLE_LABELS.get(self.spec.base_type, _LABELS["vehicle"])


class Walker(Mover):
    """A pedestrian; `control` is the wire row [direction, speed, jump]. Its origin is the body centre.

    Attributes:
        dead: It stays where it is, whatever its control says.
    """

    kind = "walker"

    def __init__(
        self, actor_id: int, description: Description, transform: TransformRow, parent: int = 0
    ) -> None:
        super().__init__(actor_id, description, transform, parent)
        self.control: list[Any] = [[1.0, 0.0, 0.0], 0.0, False]
        self.dead = False


class Sensor(Actor):
    """A sensor; `relative` is its transform in the parent's frame (or in the world without a parent).

    Attributes:
        stream: Stream id, 0 for sensors computed in the client.
        period_s: Least time between two measurements, 0 = every tick.
        last_s: Simulation time of the last measurement.
        width, height, fov_deg: Image size and horizontal field of view of cameras.
        turned_deg: How far a spinning sensor has turned within its field of view.
    """

    kind = "sensor"

    def __init__(
        self, actor_id: int, description: Description, transform: TransformRow, parent: int = 0
    ) -> None:
        super().__init__(actor_id, description, transform, parent)
        self.relative = transform
        self.stream = 0
        self.period_s = float(self.attributes.get("sensor_tick", 0) or 0)
        self.last_s = -math.inf
        self.width = int(self.attributes.get("image_size_x", 0))
        self.height = int(self.attributes.get("image_size_y", 0))
        self.fov_deg = float(self.attributes.get("fov", 90))
        self.turned_deg = 0.0

    def number(self, name: str) -> float:
        """An attribute as a finite number, 0 without it; ValueError if it is none."""
        value = float(self.attributes.get(name) or 0)
        if not math.isfinite(value):
            raise ValueError(f"{self.type_id}: attribute {name} is {value}")
        return value


class SignActor(Actor):
    """A stop or yield sign."""

    kind = "sign"
    sign_id = b""


class TrafficLight(SignActor):
    """A traffic light; its state is set by its controller or by a client."""

    kind = "traffic_light"

    def __init__(
        self, actor_id: int, description: Description, transform: TransformRow, parent: int = 0
    ) -> None:
        super().__init__(actor_id, description, transform, parent)
        self.state = RED
        self._frozen = False
        self.controller: Controller = Controller([])
        self.group: LightGroup = LightGroup([])
        self.pole = 0
        self.stops: tuple[LaneStop, ...] = ()

    @property
    def frozen(self) -> bool:
        """Has a client stopped this light, and with it the cycle of its junction?"""
        return self._frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._frozen = frozen
        self.group.held = any(light.frozen for light in self.group.lights)


class Controller:
    """Lights that always show the same state, with their green, yellow and red seconds."""

    def __init__(self, lights: list[TrafficLight]) -> None:
        self.lights = lights
        self.times_s = {GREEN: 10.0, 1: 3.0, RED: 2.0}
        self.state = RED
        self.elapsed_s = 0.0


class LightGroup:
    """Controllers of one junction, of which one at a time leaves red; one frozen light holds them all."""

    def __init__(self, controllers: list[Controller]) -> None:
        self.controllers = controllers
        self.lights = tuple(light for controller in controllers for light in controller.lights)
        self.active = 0
        self.held = False


class Other(Actor):
    """Walker controllers and the spectator."""

    kind = "other"


_CLASSES: dict[str, type[Actor]] = {"vehicle": Vehicle, "walker": Walker, "sensor": Sensor, "static": Actor}


def make_actor(actor_id: int, description: Description, transform: TransformRow, parent: int = 0) -> Actor:
    """Create the actor class that belongs to the description's type id."""
    type_id: str = description[1]
    if type_id == "traffic.traffic_light":
        return TrafficLight(actor_id, description, transform, parent)
    if type_id.startswith("traffic."):
        return SignActor(actor_id, description, transform, parent)
    return _CLASSES.get(type_id.split(".")[0], Other)(actor_id, description, transform, parent)
