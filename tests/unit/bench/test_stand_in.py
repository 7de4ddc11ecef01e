"""Stand-in pictures: geometry of the drivable area, what is drawn where, and refusals."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from drive.bench.nuscenes_tables import CameraFrame, SceneTrack
from drive.bench.stand_in import StandIn, _trapezoids
from drive.contracts import AgentKind, UserError
from tests import builders

ROAD = (74, 74, 78)
MAP_M = 300


def scene(car_x_m: float | None, map_file: str = "road.png") -> SceneTrack:
    """Two key frames at (150, 150) facing east, with a car ahead."""
    pose = np.array([[149.0, 150.0, 0.0], [150.0, 150.0, 0.0]])
    there = (
        []
        if car_x_m is None
        else [(AgentKind.CAR, (4.5, 1.9), builders.along_x(150.0 + np.full(2, car_x_m), 150.0))]
    )
    frame = CameraFrame("", np.eye(3), np.eye(4), (1600, 900))
    return SceneTrack(
        name="hand-made",
        location="nowhere",
        map_file=map_file,
        tokens=("a", "b"),
        t_us=np.array([0, 500_000]),
        pose_world=pose,
        agents=builders.agents(there, 2),
        frames=(frame, frame),
        files=({}, {}),
    )


@pytest.fixture
def dataroot(tmp_path: Path) -> Path:
    """A map with one road along y = 150 m, from 5 m south to 3 m north of it."""
    mask = np.zeros((MAP_M * 10, MAP_M * 10), np.uint8)
    top, bottom = (MAP_M - 153) * 10, (MAP_M - 145) * 10
    mask[top:bottom] = 255
    Image.fromarray(mask).save(tmp_path / "road.png")
    return tmp_path


def pixel(draw: StandIn, x: float, y: float, z: float = 0.0) -> tuple[int, int]:
    point = draw.camera.intrinsics @ (draw.camera.camera_from_ego @ [x, y, z, 1.0])[:3]
    return int(point[1] / point[2]), int(point[0] / point[2])


def is_road(colour: np.ndarray) -> bool:
    return bool(np.abs(colour.astype(int) - ROAD).max() < 20)


def test_road_is_drawn_where_the_mask_says(dataroot: Path) -> None:
    draw = StandIn(dataroot, [scene(None)])
    image, camera = draw(scene(None), 1)
    assert image.shape == (144, 256, 3)
    assert image.dtype == np.uint8
    assert camera.size_px == (256, 144)
    for y in (-4.3, -2.0, 0.0, 2.3):
        assert is_road(image[pixel(draw, 10.0, y)]), y
    for y in (-5.7, 3.7, 6.0):
        assert not is_road(image[pixel(draw, 10.0, y)]), y


def test_the_camera_is_the_planners_own(dataroot: Path) -> None:
    draw = StandIn(dataroot, [scene(None)])
    ego_from_camera = np.linalg.inv(draw.camera.camera_from_ego)
    assert np.allclose(ego_from_camera[:3, 3], [1.9, 0.0, 1.7])
    forward = ego_from_camera[:3, 2]
    assert np.rad2deg(np.arcsin(forward[2])) == pytest.approx(-4.0)
    assert draw.camera.intrinsics[0, 0] == pytest.approx(128 / np.tan(np.deg2rad(50)))


def test_a_car_hides_the_road_behind_it(dataroot: Path) -> None:
    draw = StandIn(dataroot, [scene(None)])
    image, _ = draw(scene(15.0), 1)
    bare, _ = draw(scene(None), 1)
    row, column = pixel(draw, 15.0, 0.0, 0.8)
    assert not np.array_equal(image[row, column], bare[row, column])
    assert np.array_equal(image[:20], bare[:20])


def test_pictures_are_repeatable_and_only_show_this_key_frame(dataroot: Path) -> None:
    draw = StandIn(dataroot, [scene(12.0)])
    assert np.array_equal(draw(scene(12.0), 1)[0], draw(scene(12.0), 1)[0])
    moved = scene(12.0)
    moved.agents.pose_world[:, 1] += 40.0
    moved.pose_world[1] += 3.0
    assert np.array_equal(draw(scene(12.0), 0)[0], draw(moved, 0)[0])


def test_trapezoids_cover_exactly_what_is_inside() -> None:
    y = np.arange(-2.0, 2.0, 0.1)
    inside = np.zeros((3, len(y)), bool)
    inside[0, 5:20] = inside[1, 10:25] = True
    inside[2, 12:14] = inside[2, 20:22] = True
    quads = _trapezoids(inside, np.array([0.0, 1.0, 2.0]), y)
    assert quads.shape == (3, 4, 3)
    slanted = quads[quads[:, 0, 0] == 0][0]
    assert np.allclose(slanted[:, :2], [[0, -1.5], [1, -1.0], [1, 0.5], [0, 0.0]], atol=1e-6)
    split = quads[quads[:, 0, 0] == 1]
    assert np.allclose(split[:, 2, 1] - split[:, 0, 1], 0.2, atol=1e-6)
    assert len(_trapezoids(np.zeros((3, 4), bool), np.arange(3.0), y[:4])) == 0


def test_a_missing_or_broken_map_is_named(dataroot: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.png"):
        StandIn(dataroot, [scene(None, "nowhere.png")])
    (dataroot / "broken.png").write_bytes(b"not a picture")
    with pytest.raises(UserError, match=r"broken\.png"):
        StandIn(dataroot, [scene(None, "broken.png")])
