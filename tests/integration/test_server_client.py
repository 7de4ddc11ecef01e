"""The official carla client against the light server."""

import math
import queue

import carla
import numpy as np
import pytest

from sim.routes import RouteSpec
from sim.runner import preflight
from sim.server.blueprints import MARK
from sim.server.opendrive import read_town
from sim.session import simulator_of
from sim.suites import Suite
from sim.watchdog import Watchdog
from tests.light_server import TICK_S, connect, running_server, serving, synchronous

port, client, world = serving("Town03")


def spawn(world: carla.World, kind: str, place: carla.Transform) -> carla.Actor:
    return world.spawn_actor(world.get_blueprint_library().find(kind), place)


def ahead(place: carla.Transform, metres: float, right: float = 0.0) -> carla.Transform:
    forward, side = place.get_forward_vector(), place.get_right_vector()
    location = place.location + carla.Location(
        x=forward.x * metres + side.x * right, y=forward.y * metres + side.y * right, z=0.2
    )
    return carla.Transform(location, place.rotation)


def straight_spawn(world: carla.World) -> carla.Transform:
    """A spawn point with 80 m of nearly straight road ahead."""
    carla_map = world.get_map()
    for point in carla_map.get_spawn_points():
        start = carla_map.get_waypoint(point.location)
        following = start.next(80.0)
        if following:
            turn = following[0].transform.rotation.yaw - start.transform.rotation.yaw
            if abs((turn + 180) % 360 - 180) < 2:
                return point
    raise AssertionError("no straight road")


def add_camera(world: carla.World, ego: carla.Actor) -> tuple[carla.Actor, "queue.Queue[carla.Image]"]:
    blueprint = world.get_blueprint_library().find("sensor.camera.rgb")
    values = {"image_size_x": "256", "image_size_y": "144", "fov": "100", "sensor_tick": "0.2"}
    for name, value in values.items():
        blueprint.set_attribute(name, value)
    mount = carla.Transform(carla.Location(x=0.5, z=1.7), carla.Rotation(pitch=-4.0))
    camera = world.spawn_actor(blueprint, mount, attach_to=ego)
    images: queue.Queue[carla.Image] = queue.Queue()
    camera.listen(images.put)
    return camera, images


def pixels(image: carla.Image) -> np.ndarray:
    return np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)[..., :3]


def test_client_sees_the_town_it_asked_for(port: int) -> None:
    assert "Town03" in carla.Client("localhost", port).get_world().get_map().name


def test_version_and_maps(client: carla.Client) -> None:
    assert client.get_server_version() == client.get_client_version()
    names = {name.split("/")[-1] for name in client.get_available_maps()}
    assert {"Town01", "Town02", "Town10HD"} <= names


def test_a_light_server_is_told_from_carla(client: carla.Client, world: carla.World) -> None:
    assert simulator_of(client) == "light simulator"
    with pytest.raises(RuntimeError):
        spawn(world, MARK, world.get_map().get_spawn_points()[0])


def test_a_run_on_foreign_light_servers_is_not_called_carla(port: int) -> None:
    suite = Suite("one", "", (RouteSpec("r", "Town02", 100, 100.0),))
    assert preflight(suite, f"127.0.0.1:{port}") == "light simulator"


def test_vehicle_drives_and_stands_still_exactly(world: carla.World) -> None:
    ego = spawn(world, "vehicle.lincoln.mkz_2020", straight_spawn(world))
    ego.apply_control(carla.VehicleControl(throttle=0.6))
    for _ in range(60):
        world.tick()
    speed = ego.get_velocity().length()
    assert 5.0 < speed < 12.0
    ego.apply_control(carla.VehicleControl(brake=1.0))
    before = ego.get_location()
    for _ in range(60):
        world.tick()
    assert ego.get_location().distance(before) < speed**2 / (2 * 6.5) + 2.0
    velocity = ego.get_velocity()
    assert (velocity.x, velocity.y, velocity.z) == (0.0, 0.0, 0.0)


def test_snapshot_follows_the_tick(world: carla.World) -> None:
    start = world.get_snapshot().timestamp
    frames = [world.tick() for _ in range(5)]
    now = world.get_snapshot().timestamp
    assert frames == list(range(start.frame + 1, start.frame + 6))
    assert now.elapsed_seconds - start.elapsed_seconds == pytest.approx(5 * TICK_S)
    assert now.delta_seconds == pytest.approx(TICK_S)


def test_camera_frames_arrive_with_their_frame_and_show_something(world: carla.World) -> None:
    ego = spawn(world, "vehicle.lincoln.mkz_2020", straight_spawn(world))
    camera, images = add_camera(world, ego)
    frames = [world.tick() for _ in range(9)]
    received = [images.get(timeout=10) for _ in range(3)]
    assert [image.frame for image in received] == frames[::4]
    picture = pixels(received[-1])
    assert picture.shape == (144, 256, 3)
    assert picture.std() > 20
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
    camera.stop()
    camera.destroy()


def test_car_ahead_changes_the_picture(world: carla.World) -> None:
    place = straight_spawn(world)
    ego = spawn(world, "vehicle.lincoln.mkz_2020", place)
    camera, images = add_camera(world, ego)
    world.tick()
    empty = pixels(images.get(timeout=10))
    spawn(world, "vehicle.audi.tt", ahead(place, 12.0))
    for _ in range(4):
        world.tick()
    occupied = pixels(images.get(timeout=10))
    changed = np.abs(empty.astype(int) - occupied.astype(int)).max(-1) > 30
    rows, columns = np.nonzero(changed)
    assert 100 < len(rows) < 5000
    assert abs(columns.mean() - 128) < 25
    camera.stop()
    camera.destroy()


def test_collision_is_reported_and_stops_the_car(world: carla.World) -> None:
    place = straight_spawn(world)
    ego = spawn(world, "vehicle.lincoln.mkz_2020", place)
    parked = spawn(world, "vehicle.carlamotors.carlacola", ahead(place, 15.0))
    sensor = world.spawn_actor(
        world.get_blueprint_library().find("sensor.other.collision"), carla.Transform(), attach_to=ego
    )
    events: queue.Queue[carla.CollisionEvent] = queue.Queue()
    sensor.listen(events.put)
    ego.apply_control(carla.VehicleControl(throttle=0.8))
    for _ in range(80):
        world.tick()
    event = events.get(timeout=5)
    assert event.other_actor.id == parked.id
    assert event.normal_impulse.length() > 1000
    gap = ego.get_location().distance(parked.get_location())
    assert gap > 0.95 * (ego.bounding_box.extent.x + parked.bounding_box.extent.x)
    sensor.stop()
    sensor.destroy()


def test_walker_walks_at_its_speed(world: carla.World) -> None:
    place = ahead(straight_spawn(world), 5.0, right=3.0)
    place.location.z += 1.0
    walker = spawn(world, "walker.pedestrian.0007", place)
    for _ in range(20):
        world.tick()
    start = walker.get_location()
    walker.apply_control(carla.WalkerControl(carla.Vector3D(0.0, 1.0, 0.0), 1.4, False))
    for _ in range(40):
        world.tick()
    moved = walker.get_location() - start
    assert moved.y == pytest.approx(1.4 * 40 * TICK_S, abs=0.08)
    assert abs(moved.x) < 0.01
    walker.apply_control(carla.WalkerControl(carla.Vector3D(), 0.0, False))
    world.tick()
    world.tick()
    assert walker.get_velocity().length() == 0.0


def test_traffic_lights_cycle_and_name_their_stop_waypoints(world: carla.World) -> None:
    lights = list(world.get_actors().filter("traffic.traffic_light"))
    assert len(lights) > 20
    stops = [waypoint for light in lights for waypoint in light.get_stop_waypoints()]
    assert len(stops) >= len(lights)
    groups = {frozenset(other.id for other in light.get_group_traffic_lights()) for light in lights}
    assert sum(map(len, groups)) == len(lights)
    seen: dict[int, set[carla.TrafficLightState]] = {light.id: set() for light in lights}
    for _ in range(int(65 / TICK_S)):
        world.tick()
        for light in lights:
            seen[light.id].add(light.state)
    assert all(
        {carla.TrafficLightState.Green, carla.TrafficLightState.Red} <= states for states in seen.values()
    )


def test_car_before_a_red_light_knows_it(world: carla.World) -> None:
    light = next(a for a in world.get_actors().filter("traffic.traffic_light") if a.get_stop_waypoints())
    light.set_state(carla.TrafficLightState.Red)
    light.freeze(True)
    place = light.get_stop_waypoints()[0].transform
    place.location.z += 0.3
    ego = spawn(world, "vehicle.lincoln.mkz_2020", place)
    for _ in range(6):
        world.tick()
    assert ego.is_at_traffic_light()
    assert ego.get_traffic_light().id == light.id
    assert ego.get_traffic_light_state() == carla.TrafficLightState.Red


def test_imu_and_gnss_measure_the_motion(world: carla.World) -> None:
    ego = spawn(world, "vehicle.lincoln.mkz_2020", straight_spawn(world))
    library = world.get_blueprint_library()
    received: dict[str, queue.Queue[carla.SensorData]] = {"imu": queue.Queue(), "gnss": queue.Queue()}
    sensors = []
    for name, box in received.items():
        sensors.append(
            world.spawn_actor(library.find(f"sensor.other.{name}"), carla.Transform(), attach_to=ego)
        )
        sensors[-1].listen(box.put)
    ego.apply_control(carla.VehicleControl(throttle=0.5))
    for _ in range(10):
        frame = world.tick()
    last = {name: [box.get(timeout=5) for _ in range(10)][-1] for name, box in received.items()}
    assert all(data.frame == frame for data in last.values())
    assert 1.0 < last["imu"].accelerometer.x < 4.0
    assert last["imu"].accelerometer.z == pytest.approx(9.81)
    assert abs(last["gnss"].latitude) < 1.0
    for sensor in sensors:
        sensor.stop()
        sensor.destroy()


def test_target_velocity_and_transform(world: carla.World) -> None:
    place = straight_spawn(world)
    ego = spawn(world, "vehicle.lincoln.mkz_2020", place)
    forward = place.get_forward_vector()
    ego.set_target_velocity(carla.Vector3D(8 * forward.x, 8 * forward.y, 0))
    world.tick()
    assert ego.get_velocity().length() == pytest.approx(8.0, abs=0.3)
    there = ahead(place, 20.0)
    ego.set_transform(there)
    ego.set_target_velocity(carla.Vector3D())
    world.tick()
    assert ego.get_location().distance_2d(there.location) < 0.5


def test_occupied_place_is_refused(world: carla.World) -> None:
    place = straight_spawn(world)
    spawn(world, "vehicle.lincoln.mkz_2020", place)
    assert world.try_spawn_actor(world.get_blueprint_library().find("vehicle.audi.tt"), place) is None
    with pytest.raises(RuntimeError, match="Spawn failed"):
        spawn(world, "vehicle.audi.tt", place)


def test_unknown_town_is_named(client: carla.Client) -> None:
    with pytest.raises(RuntimeError, match="Town99"):
        client.load_world("Town99")


def test_own_opendrive_map(client: carla.Client) -> None:
    world = synchronous(client.generate_opendrive_world(read_town("Town02")))
    assert world.get_map().name.endswith("OpenDriveMap")
    assert len(world.get_map().get_spawn_points()) > 20


def episode(client: carla.Client, town: str) -> tuple[list[tuple[float, ...]], list[bytes]]:
    """A scripted drive: ego, ten cars, a walker, a camera; returns all poses and all pictures."""
    world = synchronous(client.load_world(town))
    points = world.get_map().get_spawn_points()
    ego = spawn(world, "vehicle.lincoln.mkz_2020", points[0])
    camera, images = add_camera(world, ego)
    cars = [spawn(world, "vehicle.tesla.model3", point) for point in points[2:12]]
    place = ahead(points[0], 8.0, right=4.0)
    place.location.z += 1.0
    walker = spawn(world, "walker.pedestrian.0003", place)
    walker.apply_control(carla.WalkerControl(carla.Vector3D(1.0, 0.5, 0.0), 1.2, False))
    poses, pictures = [], []
    for step in range(60):
        ego.apply_control(carla.VehicleControl(throttle=0.5, steer=0.1 * math.sin(step / 10)))
        for index, car in enumerate(cars):
            car.apply_control(carla.VehicleControl(throttle=0.3 + 0.02 * index))
        world.tick()
        snapshot = world.get_snapshot()
        poses.append((snapshot.timestamp.elapsed_seconds,))
        for actor in (ego, walker, *cars):
            at = snapshot.find(actor.id).get_transform()
            poses.append((at.location.x, at.location.y, at.location.z, at.rotation.pitch, at.rotation.yaw))
        if step % 4 == 0:
            pictures.append(bytes(images.get(timeout=10).raw_data))
    camera.stop()
    camera.destroy()
    return poses, pictures


def test_same_calls_give_the_same_bits_whatever_ran_before(client: carla.Client) -> None:
    first = episode(client, "Town03")
    episode(client, "Town01")
    again = episode(client, "Town03")
    assert first == again
    with running_server("Town01") as (_, port, _):
        fresh = episode(connect(port), "Town03")
    assert first == fresh


def test_traffic_manager_drives_five_cars(client: carla.Client, port: int) -> None:
    world = synchronous(client.load_world("Town03"))
    manager = client.get_trafficmanager(port + 2000)
    manager.set_synchronous_mode(True)
    manager.set_random_device_seed(3)
    points = world.get_map().get_spawn_points()
    cars = [spawn(world, "vehicle.lincoln.mkz_2020", point) for point in points[10:60:10]]
    for car in cars:
        car.set_autopilot(True, port + 2000)
    starts = [car.get_location() for car in cars]
    watchdog = Watchdog(world, port + 2000)  # libcarla loses a wake-up of the TrafficManager now and then
    try:
        for _ in range(200):
            watchdog.guard(world.tick)
        moved = [car.get_location().distance(start) for car, start in zip(cars, starts, strict=True)]
        lanes = [world.get_map().get_waypoint(car.get_location()).transform.location for car in cars]
        offsets = [lane.distance(car.get_location()) for lane, car in zip(lanes, cars, strict=True)]
    finally:
        for car in cars:
            car.set_autopilot(False, port + 2000)
        manager.set_synchronous_mode(False)
        watchdog.guard(manager.shut_down)
        watchdog.close()
    assert sum(distance > 15 for distance in moved) >= 4, moved
    assert max(offsets) < 1.5, offsets
