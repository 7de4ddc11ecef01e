"""Town meshes, their cache, sensor poses and rendered pictures."""

import math
from pathlib import Path
from typing import Any

import carla
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.viz.quads import Layer, Quads
from sim.frames import front_camera
from sim.server import mesh_cache
from sim.server.actors import Actor, Sensor
from sim.server.mesh import build_mesh
from sim.server.opendrive import read_town
from sim.server.scene import Scene, Sector, view_of
from sim.server.sensors import follow
from sim.server.town import Town, load_town
from sim.server.wire import IMAGE
from sim.server.world import World


@pytest.fixture(scope="module")
def town() -> Town:
    return load_town("Town02")


@pytest.fixture(scope="module")
def quads(town: Town) -> Quads:
    return build_mesh(town.xodr)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "nightdrive" / "meshes"


def camera_at(transform: list[list[float]]) -> Sensor:
    attributes = [["image_size_x", 2, "256"], ["image_size_y", 2, "144"], ["fov", 3, "100"]]
    return Sensor(1, [1, "sensor.camera.rgb", attributes], transform)


def test_every_layer_is_there_and_flat_ones_face_up(quads: Quads) -> None:
    assert {Layer.ROAD, Layer.SIDEWALK, Layer.MARKING, Layer.KERB, Layer.SOLID} <= set(quads.layer.tolist())
    flat = quads.corners[(quads.layer < Layer.SOLID) & (quads.layer != Layer.KERB)]
    normal = np.cross(flat[:, 2] - flat[:, 0], flat[:, 3] - flat[:, 1])
    assert (normal[:, 2] > -1e-4).all()


def test_road_surface_lies_where_the_map_library_puts_the_lanes(town: Town, quads: Quads) -> None:
    road = quads.corners[quads.layer == Layer.ROAD].mean(1)
    for x, y, z in road[:: len(road) // 50].tolist():
        waypoint = town.map.get_waypoint(carla.Location(x, -y, z), False, carla.LaneType.Driving)
        assert waypoint is not None
        assert abs(waypoint.transform.location.z - z) < 0.1


def test_buildings_stay_off_the_lanes(town: Town, quads: Quads) -> None:
    solid = quads.corners[quads.layer == Layer.SOLID]
    for x, y, _ in solid.reshape(-1, 3)[::37].tolist():
        waypoint = town.map.get_waypoint(carla.Location(x, -y, 0.0), False, carla.LaneType.Driving)
        assert waypoint is None


def test_mesh_is_cached_once_and_a_damaged_file_is_replaced(town: Town, quads: Quads, cache: Path) -> None:
    first = mesh_cache.town_mesh(town)
    (path,) = cache.iterdir()
    stamp = path.stat().st_mtime_ns
    second = mesh_cache.town_mesh(town)
    assert path.stat().st_mtime_ns == stamp
    path.write_bytes(path.read_bytes()[:5000])
    third = mesh_cache.town_mesh(town)
    for other in (first, second, third):
        assert np.array_equal(other.corners, quads.corners)
        assert np.array_equal(other.colour, quads.colour)
    assert path.stat().st_size > 5000


def test_same_text_gives_the_same_mesh(town: Town, quads: Quads) -> None:
    assert np.array_equal(build_mesh(read_town(town.name)).corners, quads.corners)


def test_view_matches_the_front_camera_of_the_contract() -> None:
    """A camera on the ego's mount sees what sim.frames.front_camera describes."""
    ego = Actor(1, [1, "vehicle.lincoln.mkz_2020", []], [[10.0, 20.0, 0.0], [0.0, 30.0, 0.0]])
    camera = camera_at([[0.5, 0.0, 1.7], [-4.0, 0.0, 0.0]])
    follow(camera, ego)
    yaw = -math.radians(30.0)
    axle = np.array([10.0 - 1.4 * math.cos(yaw), -20.0 - 1.4 * math.sin(yaw), 0.0])
    world_from_ego = np.eye(4)
    world_from_ego[:2, :2] = [[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]]
    world_from_ego[:3, 3] = axle
    view, model = view_of(camera), front_camera()
    assert np.allclose(view.camera_from_world @ world_from_ego, model.camera_from_ego, atol=1e-6)
    assert np.allclose(view.intrinsics, model.intrinsics)


angle = st.floats(-80, 80)


@given(st.tuples(angle, st.floats(-180, 180), angle), st.tuples(angle, st.floats(-180, 180), angle))
def test_sensor_pose_is_the_composition_of_both_transforms(
    parent_rotation: tuple[float, ...], own_rotation: tuple[float, ...]
) -> None:
    parent = Actor(1, [1, "vehicle.lincoln.mkz_2020", []], [[1.0, 2.0, 3.0], list(parent_rotation)])
    sensor = camera_at([[0.5, -0.3, 1.7], list(own_rotation)])
    follow(sensor, parent)

    def transform(location: Any, rotation: Any) -> np.ndarray:
        pitch, yaw, roll = rotation
        at = carla.Transform(carla.Location(*location), carla.Rotation(pitch=pitch, yaw=yaw, roll=roll))
        return np.array(at.get_matrix())

    expected = transform((1, 2, 3), parent_rotation) @ transform((0.5, -0.3, 1.7), own_rotation)
    actual = transform((sensor.x, sensor.y, sensor.z), (sensor.pitch, sensor.yaw, sensor.roll))
    assert np.allclose(actual, expected, atol=2e-3)


def test_image_payload_has_the_size_of_the_camera(town: Town, cache: Path) -> None:

    world = World(town, 1, 1, 1)
    (x, y, z), rotation = town.spawn_points[0]
    payload = Scene(town).image(world, camera_at([[x, y, z + 1.2], rotation]))
    assert IMAGE.unpack_from(payload) == (256, 144, 100.0)
    assert len(payload) == IMAGE.size + 4 * 256 * 144


@given(st.floats(-60, 60), st.floats(-60, 60), st.floats(-180, 180), st.floats(-25, 25))
def test_sector_never_hides_a_visible_actor(x: float, y: float, yaw: float, pitch: float) -> None:
    camera = camera_at([[0.0, 0.0, 1.7], [pitch, yaw, 0.0]])
    view = view_of(camera)
    right, down, ahead = (
        view.camera_from_world[:3, :3] @ np.array([x, -y, 0.0]) + view.camera_from_world[:3, 3]
    )
    pixel = view.intrinsics @ np.array([right, down, ahead])
    inside = ahead > 0.5 and 0 <= pixel[0] / ahead <= 256 and 0 <= pixel[1] / ahead <= 144
    assert not inside or Sector(camera).contains(x, y, 0.5)
