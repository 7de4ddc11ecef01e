"""Open doors are drawn, move with their car, and are run into."""

import carla
import numpy as np
import pytest

from drive.viz.quads import Tag
from sim.server import collisions
from sim.server.actors import Vehicle
from sim.server.doors import ALL_DOORS, Door, set_doors
from sim.server.scene import Scene, view_of
from sim.server.town import Town, load_town
from sim.server.world import World
from tests.sensor_builders import camera, lane_places, put

pytestmark = pytest.mark.usefixtures("mesh_cache")

CAR = "vehicle.mercedes.coupe_2020"
LEFT, RIGHT = int(carla.VehicleDoor.FL), int(carla.VehicleDoor.FR)


@pytest.fixture(scope="module")
def town(mesh_cache: None) -> Town:
    return load_town("Town02")


@pytest.fixture
def parked(town: Town) -> tuple[World, Vehicle, Vehicle]:
    """A world, the ego, and a car beside its lane."""
    world = World(town, 1, 1, 1)
    (x, y, z), rotation = lane_places(town)[20]
    ego = world.add([0, "vehicle.lincoln.mkz_2020", []], [[x, y, z - 0.5], rotation])
    car = put(world, CAR, ego, 14.0, 2.6)
    assert isinstance(ego, Vehicle)
    assert isinstance(car, Vehicle)
    return world, ego, car


def touches(world: World, ego: Vehicle, car: Vehicle) -> bool:
    """Does the ego run into the car when it drives straight past it?"""
    for _ in range(120):
        ego.control[0] = 0.6
        if any({contact.first.id, contact.second.id} == {ego.id, car.id} for contact in world.step(0.05)):
            return True
    return False


@pytest.mark.parametrize(("door", "hit"), [(None, False), (LEFT, True), (RIGHT, False), (ALL_DOORS, True)])
def test_only_a_door_on_our_side_is_run_into(
    parked: tuple[World, Vehicle, Vehicle], door: int | None, hit: bool
) -> None:
    world, ego, car = parked
    if door is not None:
        set_doors(world.bodies, car, door, True)
    assert touches(world, ego, car) == hit


def test_a_door_that_is_run_into_gives_way_and_shuts(parked: tuple[World, Vehicle, Vehicle]) -> None:
    world, ego, car = parked
    set_doors(world.bodies, car, LEFT, True)
    assert touches(world, ego, car)
    assert not car.doors
    speed = ego.speed
    ego.control[0] = 0.6
    assert [contact for _ in range(60) for contact in world.step(0.05)] == []
    assert ego.speed > speed > 3.0


def test_a_closed_door_is_gone_and_so_are_those_of_destroyed_cars(
    parked: tuple[World, Vehicle, Vehicle],
) -> None:
    world, ego, car = parked
    bodies = dict(world.bodies)
    set_doors(world.bodies, car, ALL_DOORS, True)
    set_doors(world.bodies, car, ALL_DOORS, True)
    assert len(world.bodies) == len(bodies) + 4
    set_doors(world.bodies, car, LEFT, False)
    assert len(world.bodies) == len(bodies) + 3
    set_doors(world.bodies, car, ALL_DOORS, False)
    assert world.bodies == bodies
    assert not touches(world, ego, car)
    set_doors(world.bodies, car, LEFT, True)
    world.remove(car.id)
    assert world.bodies == {ego.id: ego}


def test_doors_move_with_their_car_and_never_touch_it(parked: tuple[World, Vehicle, Vehicle]) -> None:
    world, ego, car = parked
    set_doors(world.bodies, ego, ALL_DOORS, True)
    doors = [door for door in world.bodies.values() if isinstance(door, Door)]
    before = [(door.x, door.y) for door in doors]
    world.remove(car.id)
    ego.control[0] = 0.8
    for _ in range(40):
        assert world.step(0.05) == []
    moved = [np.hypot(door.x - x, door.y - y) for door, (x, y) in zip(doors, before, strict=True)]
    assert min(moved) > 1.0
    assert all(np.hypot(door.x - ego.x, door.y - ego.y) < 2.6 for door in doors)


def test_hoods_and_cars_without_doors_stay_as_they_are(parked: tuple[World, Vehicle, Vehicle]) -> None:
    world, ego, car = parked
    plain = put(world, "vehicle.audi.a2", ego, 40.0)
    bodies = dict(world.bodies)
    for body, door in ((car, 4), (car, 5), (car, 99), (plain, ALL_DOORS)):
        assert isinstance(body, Vehicle)
        set_doors(world.bodies, body, door, True)
    assert world.bodies == bodies


def test_an_open_door_is_seen_as_part_of_its_car(town: Town, parked: tuple[World, Vehicle, Vehicle]) -> None:
    world, ego, car = parked
    scene = Scene(town)
    eye = camera([[ego.x, ego.y, ego.z + 1.7], [-4.0, ego.yaw, 0.0]])

    def columns() -> np.ndarray:
        world.frame += 1
        seen = scene.seen(world, eye, view_of(eye))
        mine = seen.actors == car.id
        assert set(seen.survey.tags[mine].tolist()) == {Tag.CAR}
        return np.flatnonzero(mine.any(0))

    shut = columns()
    set_doors(world.bodies, car, LEFT, True)
    assert columns().min() < shut.min() - 4
    set_doors(world.bodies, car, LEFT, False)
    assert np.array_equal(columns(), shut)
    assert collisions.blocked_at_spawn(car, [ego]) is False
