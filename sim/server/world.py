"""One episode: its actors, clock and tick."""

from typing import Any

from sim.server import collisions, lights, physics
from sim.server.actors import (
    Actor,
    Description,
    Mover,
    Sensor,
    SignActor,
    TrafficLight,
    Vehicle,
    Walker,
    make_actor,
)
from sim.server.blueprints import STRING
from sim.server.collisions import Contact, Pose
from sim.server.doors import ALL_DOORS, Door, set_doors
from sim.server.ground import LightsByLane, settle
from sim.server.sensors import follow
from sim.server.town import Sign, Town, TransformRow
from sim.server.weather import DEFAULT as DEFAULT_WEATHER
from sim.server.weather import sun_is_down

DEFAULT_DELTA_S = 0.05
FIXED_KINDS = ("static", "sign", "traffic_light")
_MOST_GRAVES = 5000


class Graves(dict[int, list[Any]]):
    """Bounding boxes of the actors destroyed last, by id.

    Clients hold on to destroyed actors until their next snapshot, and an official evaluation ends altogether
    when the box of one of them is refused.
    """

    def add(self, actor: Actor) -> None:
        """Remember an actor's box; the oldest one is forgotten."""
        self[actor.id] = actor.box
        if len(self) > _MOST_GRAVES:
            del self[next(iter(self))]


class World:
    """State of one episode.

    Attributes:
        episode_id: New for every episode.
        frame: Tick counter; clients drop frames that do not increase, so it goes on across episodes.
        elapsed_s, delta_s: Simulation time of this episode and length of the last tick.
        actors: Id -> actor, in spawn order.
        movers, sensors: Those of them that are vehicles and walkers, and sensors.
        bodies: Those that others can touch.
        fixtures: Signs, lights and props; fixtures_version grows when one comes or goes.
        roamers: All others.
        changed: Ids of static actors whose packed state is stale.
        graves: Id -> bounding box of destroyed actors, of earlier episodes too.
        weather: Wire row of 14 floats; colour pictures show it.
        street_lamps: Are they lit? None: by the height of the sun.
    """

    def __init__(
        self, town: Town, episode_id: int, frame: int, first_id: int, graves: Graves | None = None
    ) -> None:
        self.town, self.episode_id, self.frame, self.next_id = town, episode_id, frame, first_id
        self.elapsed_s, self.delta_s = 0.0, DEFAULT_DELTA_S
        self.actors: dict[int, Actor] = {}
        self.movers: dict[int, Mover] = {}
        self.sensors: dict[int, Sensor] = {}
        self.bodies: dict[int, Actor] = {}
        self.fixtures: dict[int, Actor] = {}
        self.roamers: dict[int, Actor] = {}
        self.fixtures_version = 0
        self.changed: set[int] = set()
        self.graves = Graves() if graves is None else graves
        self.weather: list[float] = list(DEFAULT_WEATHER)
        self.street_lamps: bool | None = None
        self.lights_frozen = False
        self.spectator = self.add([0, "spectator", []], [[0.0, 0.0, 10.0], [0.0, 0.0, 0.0]])
        self.lights: dict[str, TrafficLight] = {}
        self.lights_by_lane: LightsByLane = {}
        for sign in town.signs:
            self._add_sign(sign)
        self.light_groups = lights.build_groups(town.groups, self.lights)
        self._own_ids = self.next_id

    @property
    def populated(self) -> bool:
        """Has a client spawned anything in this episode?"""
        return self.next_id > self._own_ids

    @property
    def street_lamps_lit(self) -> bool:
        """Are they lit now?"""
        return sun_is_down(self.weather) if self.street_lamps is None else self.street_lamps

    def restart_clock(self) -> None:
        """Simulation time and all light cycles back to their start."""
        self.elapsed_s = 0.0
        self.reset_lights()

    def _add_sign(self, sign: Sign) -> None:
        actor = self.add([0, sign.type_id, [["role_name", STRING, ""]]], sign.transform)
        actor.box = [*sign.trigger, actor.id]
        if isinstance(actor, SignActor):
            actor.sign_id = sign.sign_id.encode()[:31]
        if isinstance(actor, TrafficLight):
            actor.stops = sign.stops
            self.lights[sign.sign_id] = actor
            for stop in sign.stops:
                self.lights_by_lane.setdefault(stop.lane, (actor, stop))

    def add(self, description: Description, transform: TransformRow, parent: int = 0) -> Actor:
        """Create an actor under the next id (ids are never reused, clients cache by id)."""
        actor = make_actor(self.next_id, description, transform, parent)
        self.next_id += 1
        if isinstance(actor, Sensor) and parent in self.actors:
            self.actors[parent].sensors.append(actor)
            follow(actor, self.actors[parent])
        for table in self._tables(actor):
            table[actor.id] = actor
        return actor

    def _tables(self, actor: Actor) -> list[dict[int, Any]]:
        """All tables that an actor is in."""
        tables: list[dict[int, Any]] = [self.actors]
        if isinstance(actor, Mover):
            tables.append(self.movers)
        elif isinstance(actor, Sensor):
            tables.append(self.sensors)
        if actor.kind in FIXED_KINDS:
            tables.append(self.fixtures)
            self.fixtures_version += 1
        else:
            tables.append(self.roamers)
        if actor.half_size is not None:
            tables.append(self.bodies)
        return tables

    def _forget(self, actor_id: int) -> Actor | None:
        actor = self.actors.get(actor_id)
        if actor is not None:
            for table in self._tables(actor):
                table.pop(actor_id, None)
        return actor

    def remove(self, actor_id: int) -> bool:
        """Destroy an actor and its sensors; False when there is none."""
        actor = self._forget(actor_id)
        if actor is None:
            return False
        self.graves.add(actor)
        if isinstance(actor, Vehicle):
            set_doors(self.bodies, actor, ALL_DOORS, False)
        for sensor in actor.sensors:
            self._forget(sensor.id)
        if isinstance(actor, Sensor) and actor.parent in self.actors:
            self.actors[actor.parent].sensors.remove(actor)
        return True

    def step(self, dt: float) -> list[Contact]:
        """One tick of dt seconds: lights, motion, ground, contacts, sensor poses."""
        self.frame += 1
        self.elapsed_s += dt
        self.delta_s = dt
        if not self.lights_frozen:
            self.changed.update(light.id for light in lights.step(self.light_groups, dt))
        moved = self._move(dt)
        for mover, _ in moved:
            settle(mover, self.town, self.lights_by_lane, dt)
        for body in self.bodies.values():
            if isinstance(body, Door):
                body.follow()
        contacts = collisions.resolve(moved, self.bodies.values())
        for door in (contact.second for contact in contacts if isinstance(contact.second, Door)):
            set_doors(self.bodies, door.car, door.index, False)  # slammed shut
        for sensor in self.sensors.values():
            if sensor.parent in self.actors:
                follow(sensor, self.actors[sensor.parent])
        return contacts

    def _move(self, dt: float) -> list[tuple[Mover, Pose]]:
        """Move every vehicle and walker; returns those that changed place or wait to be settled."""
        moved: list[tuple[Mover, Pose]] = []
        for actor in self.movers.values():
            if not actor.physics:
                actor.ax = actor.ay = actor.wz = 0.0
                continue
            before = Pose(actor.x, actor.y, actor.yaw)
            if isinstance(actor, Vehicle):
                physics.drive(actor, dt)
            elif isinstance(actor, Walker):
                physics.walk(actor, dt)
            if actor.spin_dps:
                physics.spin(actor, dt)
            if actor.vx or actor.vy or actor.ground_at is None:
                moved.append((actor, before))
            else:
                actor.vz = 0.0
        return moved

    def freeze_lights(self, frozen: bool) -> None:
        """Stop or resume all light cycles."""
        self.lights_frozen = frozen
        self.changed.update(light.id for light in self.lights.values())

    def reset_lights(self) -> None:
        """All groups back to the start of their cycle."""
        for group in self.light_groups:
            self.reset_group(group.controllers[0].lights[0])

    def reset_group(self, light: TrafficLight) -> None:
        """The light's junction back to the start of its cycle."""
        lights.reset(light.group)
        self.changed.update(other.id for controller in light.group.controllers for other in controller.lights)
