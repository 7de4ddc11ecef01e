"""The fourth channel: flat ground vanishes however the ego moved, what moves remains."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.contracts import CameraModel, Observation, RouteHint, Turn
from drive.data.camera import CameraSpec
from drive.data.frames import COLOURS, SAME, frame, frame_of

SPEC = CameraSpec()
PLACE_M = np.array([1.9, 0.0, 1.7])


def camera() -> CameraModel:
    matrix = np.eye(4)
    matrix[:3, :3] = SPEC.rotation
    matrix[:3, 3] = -SPEC.rotation @ PLACE_M
    return CameraModel(SPEC.intrinsics, matrix, (SPEC.width_px, SPEC.height_px))


def picture(pose: tuple[float, float, float], *things: tuple[float, float]) -> np.ndarray:
    """The ground, in smooth waves, seen from an ego pose in the world; things are dark discs on it."""
    look = SPEC.intrinsics @ SPEC.rotation
    column, row = np.meshgrid(np.arange(SPEC.width_px), np.arange(SPEC.height_px))
    ray = np.linalg.inv(look) @ np.stack([column.ravel(), row.ravel(), np.ones(column.size)])
    down = ray[2] < -0.02
    far = np.where(down, PLACE_M[2] / np.maximum(-ray[2], 0.02), 0.0)
    x, y = PLACE_M[0] + far * ray[0], far * ray[1]
    c, s = np.cos(pose[2]), np.sin(pose[2])
    wx, wy = pose[0] + c * x - s * y, pose[1] + s * x + c * y
    grey = 128 + 50 * np.sin(wx / 3.0) * np.cos(wy / 3.0)
    for px, py in things:
        grey = np.where(np.hypot(wx - px, wy - py) < 1.0, 10.0, grey)
    grey = np.where(down & (far < 40), grey, 128.0)
    return np.repeat(grey.reshape(SPEC.height_px, -1)[..., None], 3, 2).astype(np.uint8)


def near(difference: np.ndarray) -> np.ndarray:
    """The rows that show the ground from 4 to 15 m ahead, without the columns that may just have come in."""
    return difference[84:120, 40:-40].astype(int) - SAME


def mirrored(image: np.ndarray) -> np.ndarray:
    """Seen in a mirror: the middle of the picture is column W / 2, so the edge column goes."""
    return cv2.warpAffine(image, np.array([[-1.0, 0, SPEC.width_px], [0, 1, 0]]), image.shape[1::-1])


@settings(deadline=None, max_examples=15)
@given(st.floats(0, 4), st.floats(-0.2, 0.2), st.floats(-0.08, 0.08))
def test_flat_ground_vanishes_however_the_ego_moved(ahead: float, aside: float, turned: float) -> None:
    before = np.array([-ahead, aside, turned], np.float32)
    out = frame(picture((0, 0, 0)), camera(), SPEC, picture((-ahead, aside, turned)), before)
    assert np.abs(near(out[..., COLOURS])).max() <= 6
    unmoved = frame(picture((0, 0, 0)), camera(), SPEC, picture((-4.0, 0, 0)), np.zeros(3, np.float32))
    assert np.abs(near(unmoved[..., COLOURS])).max() > 30


def test_what_moved_on_the_ground_remains_where_it_came_from_and_went_to() -> None:
    before = np.array([-3.0, 0, 0], np.float32)
    out = frame(picture((0, 0, 0), (9.0, 1.0)), camera(), SPEC, picture((-3, 0, 0), (9.0, -1.0)), before)
    change = near(out[..., COLOURS])
    left, right = change[:, : change.shape[1] // 2], change[:, change.shape[1] // 2 :]
    assert left.min() < -60  # dark now on the left (y > 0)
    assert right.max() > 60  # and no longer on the right


def test_without_an_earlier_image_nothing_is_known_to_move() -> None:
    out = frame(picture((0, 0, 0)), camera(), SPEC)
    assert (out[..., COLOURS] == SAME).all()
    np.testing.assert_array_equal(out[..., :COLOURS], picture((0, 0, 0)))
    lost = frame(picture((0, 0, 0)), camera(), SPEC, picture((0, 0, 0)), np.full(3, np.nan, np.float32))
    np.testing.assert_array_equal(lost, out)


def test_a_mirrored_world_gives_the_mirrored_difference() -> None:
    now, earlier = picture((0, 0, 0), (9.0, 1.0)), picture((-3, 0.1, 0.02), (9.0, -1.0))
    before = np.array([-3, 0.1, 0.02], np.float32)
    one = frame(now, camera(), SPEC, earlier, before)[:, 1:]
    other = frame(
        mirrored(now), camera(), SPEC, mirrored(earlier), before * np.array([1, -1, -1], np.float32)
    )[:, 1:]
    middle = (slice(80, 120), slice(40, -40))
    gap = other[..., COLOURS].astype(int)[middle] - one[:, ::-1, COLOURS].astype(int)[middle]
    assert np.abs(gap).mean() < 1.0


@pytest.mark.parametrize("frames", [1, 2])
def test_an_observation_brings_its_images_and_where_the_ego_was(frames: int) -> None:
    images = np.stack([picture((-3.0, 0, 0)), picture((0, 0, 0))])[-frames:]
    seen = Observation(
        0, {"front": images}, {"front": camera()}, np.zeros((1, 3), np.float32), 7.5, 0.0, 0.0,
        RouteHint(Turn.FOLLOW, np.zeros((2, 2), np.float32), 13.9),
        before_ego=np.array([[-3.0, 0, 0]], np.float32)[: frames - 1],
    )  # fmt: skip
    out = frame_of(seen, SPEC)
    assert out.shape == (SPEC.height_px, SPEC.width_px, 4)
    assert (out[..., COLOURS] == SAME).all() == (frames == 1)
