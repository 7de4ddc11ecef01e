"""Rays against ground and boxes, and pushes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.server import forces, raycast
from sim.server.actors import Vehicle, make_actor
from sim.server.simulation import Simulation
from sim.server.town import load_town
from sim.server.world import World

PLACE = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
DOWN = (0.0, 0.0, -1.0)


@pytest.fixture(scope="module")
def world() -> World:
    return World(load_town("Town02"), 1, 1, 1)


@pytest.fixture(scope="module")
def sim() -> Simulation:
    return Simulation("Town02", 1)


def road_point(world: World) -> list[float]:
    return world.town.spawn_points[0][0]


def car(yaw: float = 0.0) -> Vehicle:
    actor = make_actor(1, [1, "vehicle.lincoln.mkz_2020", []], [[5.0, -3.0, 1.0], [0.0, yaw, 0.0]])
    assert isinstance(actor, Vehicle)
    return actor


@given(st.floats(-179, 179), st.floats(-math.pi, math.pi), st.floats(6, 60), st.floats(-1.0, 1.0))
def test_a_ray_at_the_middle_of_a_box_enters_at_its_surface(
    yaw: float, bearing: float, away: float, height: float
) -> None:
    target = car(yaw)
    middle = (5.0, -3.0, 1.0 + target.body[2])
    start = (middle[0] + away * math.cos(bearing), middle[1] + away * math.sin(bearing), middle[2] + height)
    length = math.dist(start, middle)
    direction = [(b - a) / length for a, b in zip(start, middle, strict=True)]
    t = raycast.entry_m(target, start, direction)
    assert t is not None
    dx, dy, dz = (a + t * d - m for a, d, m in zip(start, direction, middle, strict=True))
    c, s = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
    depths = (
        abs(c * dx + s * dy) - target.body[0],
        abs(c * dy - s * dx) - target.body[1],
        abs(dz) - target.body[2],
    )
    assert max(depths) == pytest.approx(0.0, abs=1e-6)
    assert raycast.entry_m(target, start, [-d for d in direction]) is None


def test_a_ray_from_inside_a_box_does_not_enter_it() -> None:
    assert raycast.entry_m(car(), (5.0, -3.0, 1.5), (1.0, 0.0, 0.0)) is None


def test_down_from_above_a_road_is_the_road(world: World) -> None:
    x, y, z = road_point(world)
    hit = raycast.project(world, (x, y, z + 30.0), DOWN, 100.0)
    assert hit is not None
    assert hit[0] == pytest.approx([x, y, z - 0.5], abs=1e-3)
    assert hit[1] == raycast.ROADS


@pytest.mark.parametrize(("direction", "reach"), [(DOWN, 10.0), ((0.0, 0.0, 1.0), 100.0), ((0, 0, 0), 9.0)])
def test_rays_that_end_early_or_go_up_hit_nothing(
    world: World, direction: tuple[float, float, float], reach: float
) -> None:
    x, y, z = road_point(world)
    assert raycast.project(world, (x, y, z + 30.0), direction, reach) is None


def test_a_slanting_ray_meets_the_ground_where_it_is(world: World) -> None:
    x, y, z = road_point(world)
    hit = raycast.project(world, (x, y, z + 9.5), (1.0, 0.0, -1.0), 100.0)
    assert hit is not None
    (hx, _, hz), _ = hit
    assert hx - x == pytest.approx(z + 9.5 - hz, abs=1e-6)
    assert hz == pytest.approx(z - 0.5, abs=0.3)


def test_far_from_all_roads_is_terrain(world: World) -> None:
    hit = raycast.project(world, (-2000.0, -2000.0, 50.0), DOWN, 200.0)
    assert hit is not None
    assert hit[1] == raycast.TERRAIN


def test_a_line_enters_bodies_in_order(world: World) -> None:
    x, y, z = road_point(world)
    box = world.add([1, "static.prop.container", []], [[x, y, z - 0.5], [0.0] * 3])
    lorry = world.add([1, "vehicle.carlamotors.firetruck", []], [[x, y, z + 4.0], [0.0] * 3])
    labels = [label for _, label in raycast.cast(world, (x, y, z + 30.0), (x, y, z - 30.0))]
    world.remove(box.id)
    world.remove(lorry.id)
    assert labels == [15, 20, raycast.ROADS]
    assert raycast.cast(world, (x, y, z), (x, y, z)) == []


def spawned(sim: Simulation) -> Vehicle:
    sim.request_load("", True)
    sim.tick()
    actor = sim.world.add([1, "vehicle.lincoln.mkz_2020", []], sim.world.town.spawn_points[0])
    assert isinstance(actor, Vehicle)
    for _ in range(20):
        sim.tick()
    return actor


def test_an_impulse_changes_the_speed_by_its_share_of_the_mass(sim: Simulation) -> None:
    vehicle = spawned(sim)
    yaw = math.radians(vehicle.yaw)
    push = 5.0 * forces.mass_kg(vehicle)
    forces.add_impulse(sim, vehicle.id, [push * math.cos(yaw), push * math.sin(yaw), 0.0])
    assert vehicle.speed == pytest.approx(5.0)
    forces.add_force(sim, vehicle.id, [-20 * push * math.cos(yaw), -20 * push * math.sin(yaw), 0.0])
    assert vehicle.speed == pytest.approx(0.0, abs=1e-9)


def test_a_turn_rate_lasts_one_tick(sim: Simulation) -> None:
    vehicle = spawned(sim)
    before = vehicle.yaw
    forces.set_turn_rate(sim, vehicle.id, [0.0, 0.0, 20.0])
    sim.tick()
    assert (vehicle.yaw - before + 180) % 360 - 180 == pytest.approx(1.0)
    assert vehicle.wz == pytest.approx(20.0)
    sim.tick()
    assert (vehicle.yaw - before + 180) % 360 - 180 == pytest.approx(1.0)
    assert vehicle.wz == 0.0
    forces.add_torque(sim, vehicle.id, [0.0, 0.0, 20.0 * forces.yaw_inertia_kgm2(vehicle)])
    assert vehicle.spin_dps == pytest.approx(math.degrees(1.0))


def test_what_does_not_collide_is_driven_through(sim: Simulation) -> None:
    vehicle = spawned(sim)
    other = sim.world.add(
        [1, "vehicle.audi.tt", []], [[vehicle.x, vehicle.y, vehicle.z], [0.0, vehicle.yaw, 0.0]]
    )
    forces.set_collisions(sim, other.id, False)
    vehicle.control[0] = 1.0
    for _ in range(60):
        sim.tick()
    assert vehicle.speed > 5.0
    assert (other.vx, other.vy) == (0.0, 0.0)


def test_a_dead_walker_stays(sim: Simulation) -> None:
    vehicle = spawned(sim)
    walker = sim.world.add(
        [1, "walker.pedestrian.0005", []], [[vehicle.x + 20.0, vehicle.y, vehicle.z + 1.0], [0.0] * 3]
    )
    forces.set_dead(sim, walker.id)
    before = (walker.x, walker.y)
    sim.tick()
    assert (walker.x, walker.y) == before
