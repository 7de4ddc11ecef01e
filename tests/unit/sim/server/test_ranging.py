"""Lidar, radar and obstacle sensor against geometry."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.viz.quads import Tag
from sim.server import instruments, lidar, radar
from sim.server.actors import Actor, Sensor
from sim.server.rays import cast
from sim.server.scene import Scene
from sim.server.town import load_town
from sim.server.wire import LIDAR, RADAR, SEMANTIC_LIDAR, RpcError
from sim.server.world import World
from tests.sensor_builders import lane_places, put, sensor

UP_M = 2.0
LIDAR_16 = {
    "channels": 16,
    "range": 60,
    "points_per_second": 16 * 20 * 180,
    "rotation_frequency": 20,
    "upper_fov": 5,
    "lower_fov": -25,
    "horizontal_fov": 360,
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield Scene(load_town("Town02"))


class Stage:
    """The ego in an empty town, in the middle of a straight level street."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.world = scene, World(scene.town, 1, 1, 1)
        (x, y, z), rotation = lane_places(scene.town)[20]
        self.ego = self.world.add([0, "vehicle.lincoln.mkz_2020", []], [[x, y, z - 0.5], rotation])

    def sensor(self, kind: str, ahead: float = 0.0, up: float = UP_M, **attributes: object) -> Sensor:
        return sensor(kind, [[ahead, 0.0, up], [0.0, 0.0, 0.0]], self.world, self.ego, **attributes)

    def put(self, kind: str, ahead: float, right: float = 0.0, turn: float = 0.0) -> Actor:
        return put(self.world, kind, self.ego, ahead, right, turn)

    def measure(self, made: Sensor, seed: int = 0) -> tuple[int, bytes]:
        found = instruments.measure(self.scene, self.world, made, Random(seed))
        assert found is not None
        return found


@pytest.fixture
def stage(scene: Scene) -> Stage:
    return Stage(scene)


def read_lidar(payload: bytes) -> tuple[float, np.ndarray, np.ndarray]:
    """Angle, points per channel, and (n, 4) floats."""
    angle, channels = struct.unpack_from("<fI", payload)
    counts = np.frombuffer(payload, "<u4", channels, 8)
    return angle, counts, np.frombuffer(payload, "<f4", offset=8 + 4 * channels).reshape(-1, 4)


def test_each_lidar_channel_meets_the_road_where_its_angle_says(stage: Stage) -> None:
    kind, payload = stage.measure(stage.sensor("sensor.lidar.ray_cast", **LIDAR_16))
    assert kind == LIDAR
    _, counts, points = read_lidar(payload)
    assert len(counts) == 16
    assert counts.sum() == len(points)
    channel = np.repeat(np.arange(16), counts)
    met = 0
    for index, angle in enumerate(np.linspace(5, -25, 16)):
        ahead = points[(channel == index) & (np.abs(points[:, 1]) < 1.0) & (points[:, 0] > 0)]
        expected = UP_M / math.tan(math.radians(-angle)) if angle < 0 else math.inf
        if expected < 40:
            met += 1
            assert np.allclose(np.linalg.norm(ahead[:, :2], axis=1), expected, rtol=0.03)
    assert met >= 10
    elevation = np.degrees(np.arctan2(points[:, 2], np.linalg.norm(points[:, :2], axis=1)))
    assert np.allclose(elevation, np.linspace(5, -25, 16)[channel], atol=0.01)


@settings(max_examples=25)
@given(
    st.floats(6, 50), st.floats(-180, 180), st.sampled_from(["vehicle.tesla.model3", "static.prop.container"])
)
def test_a_ray_meets_a_body_where_its_box_begins(scene: Scene, ahead: float, turn: float, kind: str) -> None:
    stage = Stage(scene)
    body = stage.put(kind, ahead, turn=turn)
    eye = stage.sensor("sensor.lidar.ray_cast", up=0.5)
    hits = cast(scene, stage.world, eye, np.array([[1.0, 0.0, 0.0]]), 80.0)
    half_x, half_y, _ = body.half_size or (0.0, 0.0, 0.0)
    c, s = abs(math.cos(math.radians(turn))), abs(math.sin(math.radians(turn)))
    begin = ahead - min(half_x / max(c, 1e-9), half_y / max(s, 1e-9))
    assert hits.actor_id[0] == body.id
    assert hits.distance_m[0] == pytest.approx(begin, abs=0.06)  # wheels stand out by 2 cm
    assert min(abs(hits.cosine[0] - c), abs(hits.cosine[0] - s)) < 0.02


@given(st.integers(1, 200), st.floats(-180, 180))
@settings(max_examples=30)
def test_every_direction_is_looked_at_once(scene: Scene, count: int, start: float) -> None:
    stage = Stage(scene)
    azimuth = np.radians(start + np.arange(count) * 360 / count)
    down = math.radians(-20)
    rays = np.stack(
        [math.cos(down) * np.cos(azimuth), math.cos(down) * np.sin(azimuth), np.full(count, math.sin(down))],
        -1,
    )
    hits = cast(scene, stage.world, stage.sensor("sensor.lidar.ray_cast"), rays, 60.0)
    assert np.isfinite(hits.distance_m).all()  # 2 m up and 20 degrees down: ground all around
    assert hits.distance_m.max() < 9.0


def test_semantic_lidar_names_what_it_meets(stage: Stage) -> None:
    walker = stage.put("walker.pedestrian.0007", 8.0)
    kind, payload = stage.measure(stage.sensor("sensor.lidar.ray_cast_semantic", up=1.2, **LIDAR_16))
    assert kind == SEMANTIC_LIDAR
    rows = np.frombuffer(payload, lidar._SEMANTIC_POINT, offset=8 + 4 * 16)
    mine = rows[rows["object"] == walker.id]
    assert set(mine["tag"].tolist()) == {Tag.PEDESTRIANS}
    assert np.abs(np.linalg.norm(mine["point"][:, :2], axis=1) - 8.0).max() < 0.6
    assert {Tag.ROADS, Tag.SIDEWALKS} <= set(rows["tag"].tolist())
    assert ((rows["cosine"] >= 0) & (rows["cosine"] <= 1)).all()


def test_lidar_turns_on_and_its_points_follow(stage: Stage) -> None:
    made = stage.sensor("sensor.lidar.ray_cast", **LIDAR_16 | {"rotation_frequency": 5})
    azimuths = []
    for _ in range(4):
        _, _, points = read_lidar(stage.measure(made)[1])
        azimuths.append(np.degrees(np.arctan2(points[:, 1], points[:, 0])))
        stage.world.frame += 1
    for quarter, found in enumerate(azimuths):
        assert found.min() >= -180 + 90 * quarter - 0.01
        assert found.max() <= -90 + 90 * quarter + 0.01
    assert made.turned_deg == pytest.approx(0.0, abs=1e-6)


def test_dropoff_and_noise_do_what_their_numbers_say(stage: Stage) -> None:
    plain = read_lidar(stage.measure(stage.sensor("sensor.lidar.ray_cast", **LIDAR_16))[1])[2]
    half = stage.sensor("sensor.lidar.ray_cast", **LIDAR_16, dropoff_general_rate=0.5)
    assert len(read_lidar(stage.measure(half)[1])[2]) == pytest.approx(0.5 * len(plain), rel=0.1)
    noisy = stage.sensor("sensor.lidar.ray_cast", **LIDAR_16, noise_stddev=0.2)
    shaken = read_lidar(stage.measure(noisy)[1])[2]
    change = np.linalg.norm(shaken[:, :3], axis=1) - np.linalg.norm(plain[:, :3], axis=1)
    assert change.std() == pytest.approx(0.2, rel=0.1)
    assert abs(change.mean()) < 0.02
    fog = {"atmosphere_attenuation_rate": 0.1, "dropoff_intensity_limit": 0.9, "dropoff_zero_intensity": 1.0}
    thinned = read_lidar(stage.measure(stage.sensor("sensor.lidar.ray_cast", **LIDAR_16, **fog))[1])[2]
    far = [np.linalg.norm(points[:, :3], axis=1) > 20 for points in (plain, thinned)]
    assert 0 < far[1].sum() < 0.2 * far[0].sum()


def test_equal_seeds_give_equal_noise(stage: Stage) -> None:
    made = stage.sensor("sensor.lidar.ray_cast", **LIDAR_16, noise_stddev=0.2, dropoff_general_rate=0.3)
    assert stage.measure(made, 5) == stage.measure(made, 5)
    assert stage.measure(made, 5) != stage.measure(made, 6)


@settings(max_examples=25)
@given(st.floats(-20, 20), st.floats(-20, 20), st.floats(10, 40))
def test_radar_velocity_is_the_rate_at_which_the_gap_grows(
    scene: Scene, own: float, other: float, ahead: float
) -> None:
    stage = Stage(scene)
    car = stage.put("vehicle.tesla.model3", ahead)
    yaw = math.radians(stage.ego.yaw)
    for actor, speed in ((stage.ego, own), (car, other)):
        actor.vx, actor.vy = speed * math.cos(yaw), speed * math.sin(yaw)
    made = stage.sensor(
        "sensor.other.radar", 0.0, 0.6, horizontal_fov=4, vertical_fov=2, points_per_second=4000, range=80
    )
    kind, payload = stage.measure(made)
    assert kind == RADAR
    velocity, azimuth, altitude, depth = np.frombuffer(payload, "<f4").reshape(-1, 4).T
    car_hits = np.abs(depth - (ahead - (car.half_size or (0,))[0])) < 0.3
    assert car_hits.sum() > 20
    assert np.allclose(velocity[car_hits], (other - own), atol=0.02 + 0.002 * abs(other - own))
    assert np.abs(azimuth).max() <= math.radians(2.001)
    assert np.abs(altitude).max() <= math.radians(1.001)


@pytest.mark.parametrize(
    ("kind", "movers_only", "found"),
    [
        ("vehicle.tesla.model3", True, True),
        ("walker.pedestrian.0007", True, True),
        ("static.prop.container", False, True),
        ("static.prop.container", True, False),
    ],
)
def test_obstacle_sensor_sees_bodies_on_its_way(
    stage: Stage, kind: str, movers_only: bool, found: bool
) -> None:
    body = stage.put(kind, 10.0, right=0.2)
    stage.put(kind, 14.0)
    stage.put(kind, 7.0, right=5.0)
    made = stage.sensor(
        "sensor.other.obstacle", 2.5, 0.9, distance=20, hit_radius=0.5, only_dynamics=str(movers_only)
    )
    payload = radar.obstacle(stage.world, made)
    assert (payload is not None) == found
    if payload is not None:
        own, other, distance = msgpack.unpackb(payload)
        assert (own[0], other[0]) == (stage.ego.id, body.id)
        assert distance == pytest.approx(10.0 - (body.half_size or (0,))[0] - 2.5 - 0.5, abs=1e-6)
    made.attributes["distance"] = "3"
    assert radar.obstacle(stage.world, made) is None


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("sensor.lidar.ray_cast", {"channels": "0"}),
        ("sensor.lidar.ray_cast", {"channels": "100000"}),
        ("sensor.lidar.ray_cast", {"points_per_second": "1e12"}),
        ("sensor.lidar.ray_cast", {"horizontal_fov": "0"}),
        ("sensor.lidar.ray_cast_semantic", {"lower_fov": "20"}),
        ("sensor.other.radar", {"vertical_fov": "0"}),
        ("sensor.other.radar", {"points_per_second": "-1"}),
    ],
)
def test_impossible_attributes_are_refused(kind: str, wrong: dict[str, str]) -> None:
    good = {"points_per_second": 1500, "vertical_fov": 30, "horizontal_fov": 30, **LIDAR_16}
    made = sensor(kind, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], **good | wrong)
    with pytest.raises(RpcError):
        instruments.check(made)
