"""CARLA <-> ours: round trips, handedness and the camera."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import frames

NUMBER = st.floats(-5000, 5000, allow_nan=False)


@given(NUMBER, NUMBER, st.floats(-179.9, 179.9))
def test_pose_round_trip(x: float, y: float, yaw_deg: float) -> None:
    back = frames.pose_to_carla(frames.pose_from_carla(x, y, yaw_deg))
    assert back == pytest.approx((x, y, yaw_deg), abs=1e-9)


def test_right_of_the_car_is_negative_y() -> None:
    x, y, yaw = frames.pose_from_carla(3.0, 2.0, 90.0)  # CARLA: y to the right, yaw clockwise
    assert (x, y) == (3.0, -2.0)
    assert yaw == pytest.approx(-math.pi / 2)


@given(NUMBER, NUMBER, st.floats(-3.1, 3.1))
def test_axle_and_centre_are_inverse(x: float, y: float, yaw: float) -> None:
    pose = np.array([x, y, yaw])
    assert frames.centre_from_axle(frames.axle_from_centre(pose)) == pytest.approx(pose, abs=1e-9)


def test_axle_lies_behind_the_centre() -> None:
    assert frames.axle_from_centre([10.0, 0.0, 0.0])[0] == pytest.approx(8.6)


def _project(point_ego: tuple[float, float, float]) -> tuple[float, float]:
    camera = frames.front_camera()
    x, y, z = (camera.camera_from_ego @ np.array([*point_ego, 1.0]))[:3]
    u, v, w = camera.intrinsics @ np.array([x, y, z])
    return u / w, v / w


def test_camera_sees_left_on_the_left_and_the_ground_below() -> None:
    width, height = frames.CAMERA_SIZE_PX
    assert _project((20.0, 3.0, 0.0))[0] < width / 2 < _project((20.0, -3.0, 0.0))[0]
    assert _project((8.0, 0.0, 0.0))[1] > height / 2
    assert (
        _project((100.0, 0.0, 1.7))[1] < height / 2
    )  # looking 4 degrees down, the horizon is above the middle


def test_camera_rotation_is_proper() -> None:
    rotation = frames.front_camera().camera_from_ego[:3, :3]
    assert rotation @ rotation.T == pytest.approx(np.eye(3), abs=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1.0)
