"""A small town with cars, walkers and a cone, and sensors in it, for tests of cameras and ranging sensors."""

import math

import carla

from sim.server.actors import Actor, Sensor
from sim.server.town import Town
from sim.server.world import World

WALKER_HALF_M = 0.93
KINDS = ("vehicle.lincoln.mkz_2020", "vehicle.tesla.model3", "walker.pedestrian.0007")


def lane_places(town: Town) -> list[list[list[float]]]:
    """Every 40 m of a lane, half a metre above it; the map alone decides, not the server's spawn points."""
    places, seen = [], set()
    for start, _ in town.map.get_topology():
        key = (start.road_id, start.section_id, start.lane_id)
        if key in seen or start.is_junction or start.lane_type != carla.LaneType.Driving:
            continue
        seen.add(key)
        following = start.next(6.0)
        for _ in range(6):
            if not following or following[0].is_junction or following[0].road_id != start.road_id:
                break
            at = following[0].transform
            here, turned = at.location, at.rotation
            places.append([[here.x, here.y, here.z + 0.5], [turned.pitch, turned.yaw, 0.0]])
            following = following[0].next(40.0)
    return places


def busy_world(town: Town) -> World:
    """Something stands at each of the first 60 places."""
    world = World(town, 1, 1, 1)
    for index, ((x, y, z), rotation) in enumerate(lane_places(town)[:60]):
        lift = WALKER_HALF_M if index % 3 == 2 else 0.0
        world.add([0, KINDS[index % 3], []], [[x, y, z - 0.5 + lift], rotation])
    return world


def put(world: World, kind: str, at: Actor, ahead: float, right: float = 0.0, turn: float = 0.0) -> Actor:
    """A new actor ahead of and beside another one, standing on the same level."""
    yaw = math.radians(at.yaw)
    c, s = math.cos(yaw), math.sin(yaw)
    z = at.z + (WALKER_HALF_M if kind.startswith("walker") else 0.0)
    place = [at.x + c * ahead - s * right, at.y + s * ahead + c * right, z]
    return world.add([0, kind, []], [place, [0.0, at.yaw + turn, 0.0]])


def sensor(kind: str, transform: list[list[float]], world: World | None = None, on: Actor | None = None,
           **attributes: object) -> Sensor:  # fmt: skip
    """A sensor on an actor, or a free one that belongs to no world."""
    rows = [[name, 4, str(value)] for name, value in attributes.items()]
    if world is None or on is None:
        return Sensor(1, [1, kind, rows], transform)
    made = world.add([1, kind, rows], transform, on.id)
    assert isinstance(made, Sensor)
    return made


def camera(transform: list[list[float]], width: int = 256, height: int = 144, fov: float = 100) -> Sensor:
    """A free colour camera."""
    return sensor("sensor.camera.rgb", transform, image_size_x=width, image_size_y=height, fov=fov)
