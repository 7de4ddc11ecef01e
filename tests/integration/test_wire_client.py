"""What the official client can ask beyond driving: pushes, rays, lights, weather, the boxes of the dead."""

from collections.abc import Iterator

import carla
import pytest

from tests.light_server import connect, running_server, synchronous

CAR, CONE = "vehicle.lincoln.mkz_2020", "static.prop.constructioncone"


@pytest.fixture(scope="module")
def client() -> Iterator[carla.Client]:
    with running_server("Town02") as (_, port, line):
        assert line.startswith("serving")
        yield connect(port)


@pytest.fixture
def world(client: carla.Client) -> carla.World:
    return synchronous(client.load_world("Town02"))


def spawn(world: carla.World, kind: str, place: carla.Transform) -> carla.Actor:
    actor = world.spawn_actor(world.get_blueprint_library().find(kind), place)
    world.tick()
    return actor


def test_a_car_takes_pushes_lamps_doors_and_new_physics(world: carla.World) -> None:
    car = spawn(world, CAR, world.get_map().get_spawn_points()[0])
    car.set_target_angular_velocity(carla.Vector3D(0, 0, 5))
    car.add_impulse(carla.Vector3D(1, 0, 0))
    car.add_force(carla.Vector3D(1, 0, 0))
    car.add_angular_impulse(carla.Vector3D(0, 0, 1))
    car.add_torque(carla.Vector3D(0, 0, 1))
    car.enable_constant_velocity(carla.Vector3D(1, 0, 0))
    car.disable_constant_velocity()
    car.set_simulate_physics(True)
    car.set_enable_gravity(True)
    car.set_light_state(carla.VehicleLightState(carla.VehicleLightState.Brake))
    car.open_door(carla.VehicleDoor.FL)
    car.close_door(carla.VehicleDoor.FL)
    car.show_debug_telemetry(True)
    control = car.get_physics_control()
    control.mass = 1200.0
    car.apply_physics_control(control)
    world.tick()
    assert car.get_physics_control().mass == 1200.0
    assert car.get_light_state() == carla.VehicleLightState.Brake
    assert car.get_wheel_steer_angle(carla.VehicleWheelLocation.FL_Wheel) == pytest.approx(0.0)
    assert world.get_vehicles_light_states()[car.id] == carla.VehicleLightState.Brake


def test_rays_hit_roofs_and_roads(world: carla.World) -> None:
    point = world.get_map().get_spawn_points()[0]
    car = spawn(world, CAR, point)
    world.tick()
    roof = 2 * car.bounding_box.extent.z
    above = point.location + carla.Location(z=20.0)
    assert world.ground_projection(above, 50.0).location.z == pytest.approx(roof, abs=0.2)
    labels = [hit.label for hit in world.cast_ray(above, above - carla.Location(z=60.0))]
    assert labels == [carla.CityObjectLabel.Car, carla.CityObjectLabel.Roads]
    assert world.project_point(above, carla.Vector3D(0, 0, 1), 50.0) is None


def test_lights_have_times_groups_and_boxes(world: carla.World) -> None:
    light = next(iter(world.get_actors().filter("traffic.traffic_light")))
    light.set_green_time(7.0)
    light.set_yellow_time(2.0)
    light.set_red_time(1.0)
    world.tick()
    assert (light.get_green_time(), light.get_yellow_time(), light.get_red_time()) == (7.0, 2.0, 1.0)
    assert light.get_light_boxes()
    light.reset_group()
    world.reset_all_traffic_lights()
    world.freeze_all_traffic_lights(True)
    assert world.get_level_bbs(carla.CityObjectLabel.TrafficLight)
    assert world.get_environment_objects(carla.CityObjectLabel.Buildings) == []


def test_weather_is_kept_and_recorders_are_refused_in_words(world: carla.World, client: carla.Client) -> None:
    world.set_weather(carla.WeatherParameters.HardRainSunset)
    world.tick()
    assert world.get_weather() == carla.WeatherParameters.HardRainSunset
    world.debug.draw_point(carla.Location())
    assert "records nothing" in client.start_recorder("x.log")
    client.stop_recorder()


def test_the_box_of_a_destroyed_actor_is_still_answered(world: carla.World, client: carla.Client) -> None:
    cone = spawn(world, CONE, carla.Transform(carla.Location(10, 10, 2)))
    seen_by_another = world.get_actor(cone.id)
    assert cone.destroy()
    assert seen_by_another.bounding_box.extent.z > 0.2  # of the dead too, or an official evaluation ends
    (gone,) = client.apply_batch_sync([carla.command.DestroyActor(cone.id)], False)
    assert gone.has_error()
