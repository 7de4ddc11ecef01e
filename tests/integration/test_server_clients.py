"""Several clients of one server, and what they learn about the town from the official client."""

import time

import carla
import pytest

from tests.light_server import connect, serving, synchronous

CAR = "vehicle.lincoln.mkz_2020"


port, client, world = serving("Town01")


def test_a_second_client_sees_what_the_first_one_does(port: int, world: carla.World) -> None:
    other = connect(port).get_world()
    car = world.spawn_actor(world.get_blueprint_library().find(CAR), world.get_map().get_spawn_points()[0])
    car.apply_control(carla.VehicleControl(throttle=1.0))
    world.set_weather(carla.WeatherParameters.WetCloudySunset)
    for _ in range(20):
        frame = world.tick()
    until = time.monotonic() + 10.0
    while other.get_snapshot().frame < frame and time.monotonic() < until:  # it may come between two looks
        time.sleep(0.01)
    seen = other.get_snapshot()
    assert seen.frame == frame
    assert seen.find(car.id).get_velocity().length() == pytest.approx(car.get_velocity().length())
    assert other.get_actor(car.id).type_id == CAR
    assert other.get_weather() == carla.WeatherParameters.WetCloudySunset
    assert other.get_settings().synchronous_mode


def test_both_clients_may_tick_and_spawn(port: int, world: carla.World) -> None:
    other = connect(port).get_world()
    points = world.get_map().get_spawn_points()
    library = other.get_blueprint_library()
    mine, theirs = (
        world.spawn_actor(library.find(CAR), points[0]),
        other.spawn_actor(library.find(CAR), points[5]),
    )
    frames = [world.tick(), other.tick(), world.tick()]
    assert frames == list(range(frames[0], frames[0] + 3))
    assert {mine.id, theirs.id} <= {actor.id for actor in world.get_actors()}
    assert other.try_spawn_actor(library.find(CAR), points[0]) is None


def test_a_town_loaded_by_one_is_loaded_for_all(port: int, client: carla.Client) -> None:
    other = connect(port)
    before = other.get_world().id
    synchronous(client.load_world("Town02"))
    assert other.get_world().id != before
    assert other.get_world().get_map().name.endswith("Town02")


def test_weather_starts_anew_with_every_episode(client: carla.Client, world: carla.World) -> None:
    world.set_weather(carla.WeatherParameters.HardRainNoon)
    assert client.reload_world().get_weather().precipitation == 0.0


def test_landmarks_lead_to_their_lights_and_back(world: carla.World) -> None:
    carla_map = world.get_map()
    world.tick()
    lights = list(world.get_actors().filter("traffic.traffic_light"))
    ids = {light.get_opendrive_id() for light in lights}
    landmarks = carla_map.get_all_landmarks_of_type("1000001")
    assert ids <= {landmark.id for landmark in landmarks}
    for light in lights[:5]:
        assert world.get_traffic_light_from_opendrive_id(light.get_opendrive_id()).id == light.id
        (stop, *_) = light.get_stop_waypoints()
        back = stop.previous(20.0)[0]
        ahead = {landmark.id for landmark in back.get_landmarks_of_type(60.0, "1000001", False)}
        assert light.get_opendrive_id() in ahead
        assert light.id in {other.id for other in light.get_group_traffic_lights()}


@pytest.mark.parametrize("town", ["Town01", "Town03"])
def test_posted_speed_is_that_of_the_road(client: carla.Client, town: str) -> None:
    world = synchronous(client.load_world(town))
    carla_map = world.get_map()
    signs = [mark for mark in carla_map.get_all_landmarks() if mark.type == "274"]
    assert signs
    places = carla_map.get_spawn_points()[::40]
    cars = [world.try_spawn_actor(world.get_blueprint_library().find(CAR), place) for place in places]
    for _ in range(3):
        world.tick()
    limits = {car.get_speed_limit() for car in cars if car is not None}
    assert all(20.0 <= limit <= 130.0 for limit in limits)
    assert len(limits) > 1 or town == "Town01"
