"""Requests about single actors: spawn, destroy, control, move, describe. They return plain values."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgpack

from sim.server import instruments, physics
from sim.server.actors import Actor, Mover, Sensor, SignActor, TrafficLight, Vehicle, Walker, make_actor
from sim.server.blueprints import NUMERIC, SPAWNABLE
from sim.server.collisions import blocked_at_spawn
from sim.server.doors import set_doors
from sim.server.sensors import STREAMLESS
from sim.server.simulation import Simulation
from sim.server.wire import GREEN, RED, YELLOW, RpcError

Handler = Callable[..., Any]
A = TypeVar("A", bound=Actor)
_LIGHT_STATES = range(5)
ANY_LABEL = 255
MAX_ACTORS = 20_000  # Town12 has 1,700 signs, and its fullest route some 500 props and road users
MAX_ATTRIBUTES, _LONGEST_VALUE = 100, 2000
LARGEST = (
    1e6  # of places [m], speeds, angles [deg] and times: what is larger does not fit the stream's floats
)
NOMINAL_KG = 1847.0
_TOP_GEAR, _ALL_LAMPS = 20, 0xFFFFFFFF
_PHYSICS_COLUMNS, _MAX_PHYSICS_BYTES = 17, 1 << 16


def find(sim: Simulation, actor_id: int, kind: type[A]) -> A:
    """Actor of this episode; RpcError when there is none of that kind."""
    actor = sim.world.actors.get(actor_id)
    if not isinstance(actor, kind):
        raise RpcError(f"{kind.__name__.lower()} {actor_id} not found")
    return actor


def numbers(row: Any, count: int, largest: float = LARGEST) -> list[float]:
    """Exactly `count` finite numbers, none larger than `largest`; RpcError for anything else."""
    values = [float(value) for value in row]
    if len(values) != count or not all(abs(value) <= largest for value in values):
        raise RpcError(f"expected {count} numbers of at most {largest:g}, got {str(row)[:100]}")
    return values


def _transform(row: Any) -> list[list[float]]:
    location, rotation = row
    return [numbers(location, 3), numbers(rotation, 3)]


# ---------------------------------------------------------------------- life
def spawn(sim: Simulation, description: list[Any], transform: Any, parent: int = 0, *_: Any) -> list[Any]:
    """Create an actor; bodies refuse occupied places."""
    description = _description(description)
    type_id = description[1]
    world = sim.world
    if len(world.actors) >= MAX_ACTORS:
        raise RpcError(f"unable to spawn actor: there are {MAX_ACTORS} already")
    if parent and parent not in world.actors:
        raise RpcError("unable to spawn actor: parent actor not found")
    place = _transform(transform)
    if type_id.split(".")[0] in ("vehicle", "walker"):
        body = make_actor(0, description, place)
        if blocked_at_spawn(body, world.actors.values()):
            raise RpcError("Spawn failed because of collision at spawn position")
    if type_id.startswith("sensor."):
        instruments.check(_sensor(description, place))
    actor = world.add(description, place, parent)
    if isinstance(actor, Sensor) and type_id != STREAMLESS:
        sim.open_sensor(actor)
    return actor.wire()


def _description(row: list[Any]) -> list[Any]:
    """ActorDescription of a blueprint of ours, with attribute values of sane length."""
    uid, type_id, attributes = row
    if type_id not in SPAWNABLE:
        raise RpcError(f"the light simulator has no {str(type_id)[:100]}")
    values = [(str(name), int(kind), str(value)) for name, kind, value in attributes]
    for name, _, value in values:
        if name in NUMERIC[type_id]:
            numbers([value or 0], 1)
    if len(values) > MAX_ATTRIBUTES or any(
        len(name) + len(value) > _LONGEST_VALUE for name, _, value in values
    ):
        raise RpcError(f"unable to spawn actor: attributes of {type_id} are too many or too long")
    if not 0 <= int(uid) < 1 << 32 or not all(0 <= kind < 256 for _, kind, _ in values):
        raise RpcError(f"unable to spawn actor: unknown kinds of attributes of {type_id}")
    return [int(uid), type_id, [list(value) for value in values]]


def _sensor(description: list[Any], place: Any) -> Sensor:
    sensor = make_actor(0, description, place)
    assert isinstance(sensor, Sensor)
    return sensor


def destroy(sim: Simulation, actor_id: int) -> bool:
    """Remove an actor."""
    if not sim.world.remove(actor_id):
        raise RpcError("unable to destroy actor: not found")
    return True


def describe(sim: Simulation, ids: list[int]) -> list[Any]:
    """Actors by id; unknown ids are skipped."""
    actors = sim.world.actors
    return [actors[i].wire() for i in ids if i in actors]


def bounding_box(sim: Simulation, actor_id: int) -> list[Any]:
    """Box of an actor, also of one that was just destroyed."""
    if actor_id in sim.world.actors:
        return sim.world.actors[actor_id].box
    if actor_id in sim.graves:
        return sim.graves[actor_id]
    raise RpcError(f"actor {actor_id} not found")


# ---------------------------------------------------------------------- control
def control_vehicle(sim: Simulation, actor_id: int, control: list[Any]) -> None:
    """Pedals and steering; NaN brake (the TrafficManager at zero desired speed) means full brake."""
    vehicle = find(sim, actor_id, Vehicle)
    throttle, steer, brake = (float(value) for value in control[:3])
    throttle = 0.0 if math.isnan(throttle) else max(0.0, min(1.0, throttle))
    steer = 0.0 if math.isnan(steer) else max(-1.0, min(1.0, steer))
    brake = 1.0 if math.isnan(brake) else max(0.0, min(1.0, brake))
    hand_brake, reverse, manual = (bool(value) for value in control[3:6])
    gear = max(-1, min(_TOP_GEAR, int(control[6])))
    vehicle.control = [throttle, steer, brake, hand_brake, reverse, manual, gear]
    vehicle.ackermann = None


def control_ackermann(sim: Simulation, actor_id: int, control: list[Any]) -> None:
    """Wheel angle and speed set points."""
    find(sim, actor_id, Vehicle).ackermann = numbers(control, 5)


def control_walker(sim: Simulation, actor_id: int, control: list[Any]) -> None:
    """Direction, speed, jump."""
    direction, speed, jump = control
    walker = find(sim, actor_id, Walker)
    if not walker.dead:
        walker.control = [numbers(direction, 3), numbers([speed], 1)[0], bool(jump)]


def move(sim: Simulation, actor_id: int, transform: Any) -> None:
    """Teleport."""
    find(sim, actor_id, Actor).place(_transform(transform))
    sim.world.changed.add(actor_id)


def move_walker(sim: Simulation, actor_id: int, transform: Any, speed: float) -> None:
    """Teleport a walker and give it a speed."""
    walker = find(sim, actor_id, Walker)
    walker.place(_transform(transform))
    walker.control[1] = numbers([speed], 1)[0]


def locate(sim: Simulation, actor_id: int, location: Any) -> None:
    """Teleport without turning."""
    actor = find(sim, actor_id, Actor)
    actor.place([numbers(location, 3), [actor.pitch, actor.yaw, actor.roll]])
    sim.world.changed.add(actor_id)


def set_velocity(sim: Simulation, actor_id: int, velocity: Any) -> None:
    """World velocity from now on (vehicles) or for one tick (walkers)."""
    physics.set_velocity(find(sim, actor_id, Mover), numbers(velocity, 3))


def hold_velocity(sim: Simulation, actor_id: int, velocity: Any) -> None:
    """Constant velocity in the vehicle's frame, whatever the pedals say."""
    find(sim, actor_id, Vehicle).constant_velocity = numbers(velocity, 3)


def release_velocity(sim: Simulation, actor_id: int) -> None:
    """End of the constant velocity."""
    find(sim, actor_id, Vehicle).constant_velocity = None


def set_physics(sim: Simulation, actor_id: int, enabled: bool) -> None:
    """Switch an actor's motion on or off; static things have none."""
    actor = find(sim, actor_id, Actor)
    if isinstance(actor, Mover):
        actor.physics, actor.ground_at = bool(enabled), None
        if not enabled:
            actor.speed = 0.0
            actor.halt()


def set_gravity(sim: Simulation, actor_id: int, enabled: bool) -> None:
    """Does the actor settle on the ground?"""
    actor = find(sim, actor_id, Actor)
    if isinstance(actor, Mover):
        actor.gravity, actor.ground_at = bool(enabled), None


def set_lamps(sim: Simulation, actor_id: int, state: Any) -> None:
    """Vehicle lamp bits."""
    find(sim, actor_id, Vehicle).light_state = _ALL_LAMPS & int(
        state[0] if isinstance(state, list) else state
    )


def open_door(sim: Simulation, actor_id: int, door: int) -> None:
    """Open a side door, or all of them."""
    set_doors(sim.world.bodies, find(sim, actor_id, Vehicle), int(door), True)


def close_door(sim: Simulation, actor_id: int, door: int) -> None:
    """Close a side door, or all of them."""
    set_doors(sim.world.bodies, find(sim, actor_id, Vehicle), int(door), False)


def set_custom_physics(sim: Simulation, actor_id: int, row: list[Any]) -> None:
    """Kept and echoed; the bicycle model does not use it, pushes (forces.py) use its mass."""
    vehicle = find(sim, actor_id, Vehicle)
    if len(row) != _PHYSICS_COLUMNS or len(msgpack.packb(row)) > _MAX_PHYSICS_BYTES:
        raise RpcError(
            f"physics control: {_PHYSICS_COLUMNS} fields expected, at most {_MAX_PHYSICS_BYTES} bytes"
        )
    numbers([part for part in row if not isinstance(part, list)], _PHYSICS_COLUMNS - 5, 1e9)
    vehicle.custom_physics = row


# ---------------------------------------------------------------------- traffic lights
def set_light(sim: Simulation, actor_id: int, state: int) -> None:
    """Show a state until the light's cycle changes it again."""
    if state not in _LIGHT_STATES:
        raise RpcError(f"traffic light state {str(state)[:20]} is unknown")
    find(sim, actor_id, TrafficLight).state = int(state)
    sim.world.changed.add(actor_id)


def light_time(state: int) -> Handler:
    """Handler that sets the seconds of one state for a light's controller."""

    def set_time(sim: Simulation, actor_id: int, seconds: float) -> None:
        controller = find(sim, actor_id, TrafficLight).controller
        controller.times_s[state] = numbers([seconds], 1)[0]
        sim.world.changed.update(light.id for light in controller.lights)

    return set_time


set_green_time, set_yellow_time, set_red_time = light_time(GREEN), light_time(YELLOW), light_time(RED)


def freeze_light(sim: Simulation, actor_id: int, frozen: bool) -> None:
    """Stop or resume the cycle of a light's junction."""
    find(sim, actor_id, TrafficLight).frozen = bool(frozen)
    sim.world.changed.add(actor_id)


def reset_group(sim: Simulation, actor_id: int) -> None:
    """Restart the cycle of a light's junction."""
    sim.world.reset_group(find(sim, actor_id, TrafficLight))


def light_group(sim: Simulation, actor_id: int) -> list[int]:
    """Ids of all lights of the junction."""
    group = find(sim, actor_id, TrafficLight).group
    return [light.id for controller in group.controllers for light in controller.lights]


def light_boxes(sim: Simulation, actor_id: int) -> list[Any]:
    """Boxes of the light heads."""
    return [_head_box(find(sim, actor_id, TrafficLight))]


def level_boxes(sim: Simulation, label: int) -> list[Any]:
    """Boxes of what belongs to the map: light heads and signs; buildings and poles are not in OpenDRIVE."""
    boxes = []
    for actor in sim.world.actors.values():
        if isinstance(actor, SignActor) and label in (actor.label, ANY_LABEL):
            boxes.append(_head_box(actor))
    return boxes


def _head_box(sign: SignActor) -> list[Any]:
    return [[sign.x, sign.y, sign.z + 5], [0.3, 0.3, 0.6], [0.0, sign.yaw, 0.0], sign.id]


# ---------------------------------------------------------------------- answers about vehicles
def physics_control(sim: Simulation, actor_id: int) -> list[Any]:
    """VehiclePhysicsControl: wheel places, steering and mass of the bicycle model; the rest is nominal."""
    vehicle = find(sim, actor_id, Vehicle)
    if vehicle.custom_physics is not None:
        return vehicle.custom_physics
    yaw = math.radians(vehicle.yaw)
    rear = physics.rear_axle_m(vehicle)
    front = physics.wheelbase_m(vehicle) - rear
    half = 0.0 if vehicle.spec.wheels == 2 else 0.8 * vehicle.body[1]
    angle = math.degrees(physics.MAX_WHEEL_RAD)
    wheels = []
    for along, across in ((front, -half), (front, half), (-rear, -half), (-rear, half)):
        x = vehicle.x + math.cos(yaw) * along - math.sin(yaw) * across
        y = vehicle.y + math.sin(yaw) * along + math.cos(yaw) * across
        steered = along > 0
        position = [100 * x, 100 * y, 100 * (vehicle.z + 0.35)]
        wheels.append(
            [
                3.5,
                0.25,
                angle if steered else 0.0,
                35.0,
                1500.0,
                0.0 if steered else 3000.0,
                2.0,
                17.0,
                1000.0,
                position,
            ]
        )
    torque = [[0.0, 500.0], [5000.0, 500.0]]
    curve = [list(point) for point in physics.STEERING_CURVE]
    gears, mass, centre = [[2.85, 0.5, 0.65]], NOMINAL_KG, [0.0, 0.0, -0.2]
    return [
        torque,
        5000.0,
        1.0,
        0.15,
        2.0,
        0.35,
        True,
        0.5,
        10.0,
        4.0,
        gears,
        mass,
        0.3,
        centre,
        curve,
        wheels,
        True,
    ]


def telemetry(sim: Simulation, actor_id: int) -> list[Any]:
    """VehicleTelemetryData: speed and controls; engine and tyres are nominal."""
    vehicle = find(sim, actor_id, Vehicle)
    throttle, steer, brake = vehicle.control[:3]
    return [vehicle.speed, steer, throttle, brake, 800.0, 1, 0.3, [[3.5] + [0.0] * 10] * 4]


def wheel_angle(sim: Simulation, actor_id: int, _wheel: int) -> float:
    """Present front-wheel angle [deg]."""
    return math.degrees(find(sim, actor_id, Vehicle).wheel_rad)


def lamps(sim: Simulation, actor_id: int) -> list[int]:
    """Lamp bits of one vehicle."""
    return [find(sim, actor_id, Vehicle).light_state]


def all_lamps(sim: Simulation) -> list[list[int]]:
    """Lamp bits of all vehicles."""
    return [
        [actor.id, actor.light_state] for actor in sim.world.actors.values() if isinstance(actor, Vehicle)
    ]
