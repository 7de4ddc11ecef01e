"""Cameras, lidar, radar and obstacle sensor of the light server, as the official carla client reads them."""

import math
import os
import queue
from collections.abc import Iterator

import carla
import numpy as np
import psutil
import pytest

from tests.light_server import TICK_S, running_server, synchronous

CAR, ROADS = int(carla.CityObjectLabel.Car), int(carla.CityObjectLabel.Roads)
# The six cameras, lidar and radars of Bench2Drive's agents.
RIG = {
    "front": (0.80, 0.0, 1.60, 0.0, 70),
    "front_left": (0.27, -0.55, 1.60, -55.0, 70),
    "front_right": (0.27, 0.55, 1.60, 55.0, 70),
    "back": (-2.0, 0.0, 1.60, 180.0, 110),
    "back_left": (-0.32, -0.55, 1.60, -110.0, 70),
    "back_right": (-0.32, 0.55, 1.60, 110.0, 70),
}
LENS = {
    "lens_circle_multiplier": 3.0,
    "lens_circle_falloff": 3.0,
    "chromatic_aberration_intensity": 0.5,
    "chromatic_aberration_offset": 0,
}
LIDAR = {
    "range": 85,
    "rotation_frequency": 20,
    "channels": 64,
    "upper_fov": 10,
    "lower_fov": -30,
    "points_per_second": 600000,
    "atmosphere_attenuation_rate": 0.004,
    "dropoff_general_rate": 0.0,
    "dropoff_intensity_limit": 0.0,
    "dropoff_zero_intensity": 0.0,
}


@pytest.fixture(scope="module")
def client() -> Iterator[carla.Client]:
    with running_server("Town01") as (_, port, _):
        made = carla.Client("localhost", port, worker_threads=16)
        made.set_timeout(20.0)
        yield made


class Street:
    """An ego on a straight road with a car 15 m (between the centres) ahead, and its sensors."""

    def __init__(self, client: carla.Client) -> None:
        self.world = synchronous(client.load_world("Town01"))
        self.library = self.world.get_blueprint_library()
        points = self.world.get_map().get_spawn_points()
        self.place = next(p for p in points if self._straight(p))
        self.ego = self.world.spawn_actor(self.library.find("vehicle.lincoln.mkz_2020"), self.place)
        self.car = self.world.spawn_actor(self.library.find("vehicle.tesla.model3"), self.ahead(15.0))
        self.sensors: list[carla.Actor] = []

    def _straight(self, point: carla.Transform) -> bool:
        road = self.world.get_map().get_waypoint(point.location)
        turns = [w.transform.rotation.yaw - road.transform.rotation.yaw for w in road.next(60.0)]
        return bool(turns) and max(abs((turn + 180) % 360 - 180) for turn in turns) < 0.5

    def ahead(self, metres: float) -> carla.Transform:
        forward = self.place.get_forward_vector()
        return carla.Transform(self.place.location + forward * metres, self.place.rotation)

    def add(self, kind: str, mount: carla.Transform | None = None, **attributes: object) -> "queue.Queue":
        """Put a sensor on the ego; the queue of its data."""
        blueprint = self.library.find(kind)
        for name, value in attributes.items():
            blueprint.set_attribute(name, str(value))
        place = mount or carla.Transform(carla.Location(z=1.8))
        self.sensors.append(self.world.spawn_actor(blueprint, place, attach_to=self.ego))
        data: queue.Queue[carla.SensorData] = queue.Queue()
        self.sensors[-1].listen(data.put)
        return data

    def close(self) -> None:
        for made in self.sensors:
            made.stop()
            made.destroy()


@pytest.fixture
def street(client: carla.Client) -> Iterator[Street]:
    made = Street(client)
    yield made
    made.close()


def pixels(image: carla.Image) -> np.ndarray:
    return np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)


def of_frame(data: "queue.Queue", frame: int) -> carla.SensorData:
    """The measurement of this frame."""
    while True:
        found = data.get(timeout=10)
        if found.frame == frame:
            return found


def settled(street: Street) -> int:
    """Ten ticks later everything has come down on the road; the last frame."""
    return [street.world.tick() for _ in range(10)][-1]


def test_six_cameras_and_lidar_of_a_bench2drive_rig_deliver_one_frame(street: Street) -> None:
    boxes = {}
    for name, (x, y, z, yaw, fov) in RIG.items():
        mount = carla.Transform(carla.Location(x, y, z), carla.Rotation(yaw=yaw))
        boxes[name] = street.add(
            "sensor.camera.rgb", mount, image_size_x=320, image_size_y=180, fov=fov, **LENS
        )
    boxes["lidar"] = street.add("sensor.lidar.ray_cast", **LIDAR)
    boxes["radar"] = street.add("sensor.other.radar", horizontal_fov=30, vertical_fov=30)
    for _ in range(5):
        frame = street.world.tick()
        data = {name: box.get(timeout=10) for name, box in boxes.items()}
        assert {d.frame for d in data.values()} == {frame}
    pictures = [pixels(data[name]).copy() for name in RIG]
    assert all(picture.shape == (180, 320, 4) and picture[..., :3].std() > 15 for picture in pictures)
    assert len({picture.tobytes() for picture in pictures}) == 6
    assert len(data["lidar"]) > 5000


def test_label_cameras_decode_with_the_clients_own_converters(street: Street) -> None:
    size = {"image_size_x": 256, "image_size_y": 144, "fov": 90}
    kinds = ("rgb", "semantic_segmentation", "instance_segmentation", "depth")
    boxes = {kind: street.add(f"sensor.camera.{kind}", **size) for kind in kinds}
    frame = settled(street)
    data = {kind: of_frame(box, frame) for kind, box in boxes.items()}
    raw = {kind: pixels(data[kind]).copy() for kind in kinds}
    tags = raw["semantic_segmentation"][..., 2]
    assert {CAR, ROADS, int(carla.CityObjectLabel.Sky)} <= set(np.unique(tags).tolist())
    assert np.array_equal(tags, raw["instance_segmentation"][..., 2])
    actor = raw["instance_segmentation"][..., 1] + 256 * raw["instance_segmentation"][..., 0].astype(int)
    assert set(actor[tags == CAR].tolist()) == {street.car.id}
    data["semantic_segmentation"].convert(carla.ColorConverter.CityScapesPalette)
    coloured = pixels(data["semantic_segmentation"])
    assert (coloured[tags == CAR][:, :3] == (142, 0, 0)).all()
    assert (coloured[tags == ROADS][:, :3] == (128, 64, 128)).all()
    steps = raw["depth"][..., 2] + 256.0 * raw["depth"][..., 1] + 65536.0 * raw["depth"][..., 0]
    metres = 1000 * steps / (256**3 - 1)
    rear = 15.0 - street.car.bounding_box.extent.x
    assert metres[tags == CAR].min() == pytest.approx(rear, abs=0.1)
    data["depth"].convert(carla.ColorConverter.LogarithmicDepth)
    grey = pixels(data["depth"])[..., 0]
    assert (grey[tags == int(carla.CityObjectLabel.Sky)] == 255).all()
    assert grey[tags == CAR].max() < grey[tags == int(carla.CityObjectLabel.Sky)].min()


def test_lidar_measures_the_road_and_the_car_where_they_are(street: Street) -> None:
    box = street.add("sensor.lidar.ray_cast", **LIDAR)
    labelled = street.add(
        "sensor.lidar.ray_cast_semantic",
        **{k: v for k, v in LIDAR.items() if not k.startswith(("atmosphere", "dropoff"))},
    )
    frame = settled(street)
    scan, tagged = of_frame(box, frame), of_frame(labelled, frame)
    points = np.frombuffer(scan.raw_data, np.float32).reshape(-1, 4)
    assert scan.channels == 64
    assert sum(scan.get_point_count(i) for i in range(64)) == len(points) == len(scan) == len(tagged)
    distance = np.linalg.norm(points[:, :3], axis=1)
    assert distance.max() <= 85.0
    assert np.allclose(points[:, 3], np.exp(-0.004 * distance), atol=1e-4)
    ids = np.array([hit.object_idx for hit in tagged])
    labels = np.array([hit.object_tag for hit in tagged])
    places = np.array([(hit.point.x, hit.point.y, hit.point.z) for hit in tagged])
    assert np.allclose(places, points[:, :3], atol=1e-4)
    road = points[(labels == ROADS) & (np.abs(points[:, 1]) < 1.5)]
    assert len(road) > 100
    assert np.abs(road[:, 2] + 1.8).max() < 0.1
    assert set(ids[labels == CAR].tolist()) == {street.car.id}
    car = points[ids == street.car.id]
    half = street.car.bounding_box.extent
    assert car[:, 0].min() == pytest.approx(15.0 - half.x, abs=0.15)
    assert np.abs(car[:, 1]).max() < half.y + 0.15
    assert car[:, 2].max() < -1.8 + 2 * half.z + 0.1


def test_radar_sees_the_car_drive_away(street: Street) -> None:
    box = street.add(
        "sensor.other.radar",
        carla.Transform(carla.Location(x=2.5, z=0.8)),
        horizontal_fov=10,
        vertical_fov=6,
        points_per_second=8000,
    )
    forward = street.place.get_forward_vector()
    for _ in range(20):
        street.car.set_target_velocity(forward * 6.0)
        frame = street.world.tick()
    hits = np.frombuffer(of_frame(box, frame).raw_data, np.float32).reshape(-1, 4)
    speed = street.car.get_velocity().length()
    moving = hits[hits[:, 0] > 0.5 * speed]
    assert len(moving) > 20
    assert moving[:, 0].max() == pytest.approx(speed, rel=0.05)
    gap = street.ego.get_location().distance(street.car.get_location())
    assert moving[:, 3].min() == pytest.approx(gap - street.car.bounding_box.extent.x - 2.5, abs=0.3)
    assert np.abs(hits[:, 1]).max() <= math.radians(5.01)
    assert np.abs(hits[:, 2]).max() <= math.radians(3.01)
    assert (np.abs(hits[hits[:, 0] <= 0.5 * speed][:, 0]) < 0.01).all()  # the road stands still


def test_obstacle_sensor_reports_the_car_within_reach(street: Street) -> None:
    near = street.add(
        "sensor.other.obstacle", carla.Transform(carla.Location(x=2.5, z=1.0)), distance=20, hit_radius=0.3
    )
    short = street.add(
        "sensor.other.obstacle", carla.Transform(carla.Location(x=2.5, z=1.0)), distance=5, hit_radius=0.3
    )
    event = of_frame(near, settled(street))
    assert event.other_actor.id == street.car.id
    assert event.actor.id == street.ego.id
    expected = 15.0 - street.car.bounding_box.extent.x - 2.5 - 0.3
    assert event.distance == pytest.approx(expected, abs=0.05)
    assert short.empty()


def test_noise_is_the_same_for_the_same_seed(client: carla.Client) -> None:
    def scan(seed: int) -> bytes:
        street = Street(client)
        box = street.add(
            "sensor.lidar.ray_cast", points_per_second=20000, range=40, noise_stddev=0.1, noise_seed=seed
        )
        frame = settled(street)
        data = bytes(of_frame(box, frame).raw_data)
        street.close()
        return data

    first = scan(3)
    assert scan(3) == first
    assert scan(4) != first


def test_impossible_sensors_are_refused(street: Street) -> None:
    for kind, wrong in (
        ("sensor.lidar.ray_cast", {"channels": 0}),
        ("sensor.lidar.ray_cast_semantic", {"upper_fov": -40}),
        ("sensor.other.radar", {"horizontal_fov": 200}),
        ("sensor.camera.depth", {"fov": 0.5}),
    ):
        blueprint = street.library.find(kind)
        for name, value in wrong.items():
            blueprint.set_attribute(name, str(value))
        with pytest.raises(RuntimeError, match="not possible"):
            street.world.spawn_actor(blueprint, carla.Transform())
    assert street.world.tick() > 0
    assert street.world.get_settings().fixed_delta_seconds == TICK_S


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="helpers need a second core")
def test_helpers_end_with_a_killed_server() -> None:
    with running_server("Town01") as (process, port, _):
        made = carla.Client("localhost", port, worker_threads=16)
        made.set_timeout(20.0)
        street = Street(made)
        boxes = [street.add("sensor.camera.rgb", image_size_x=64, image_size_y=36) for _ in range(2)]
        street.world.tick()
        for box in boxes:
            box.get(timeout=10)
        helpers = psutil.Process(process.pid).children()
        assert helpers
        process.kill()
        assert psutil.wait_procs(helpers, timeout=10)[1] == []
        for sensor in street.sensors:
            sensor.stop()
