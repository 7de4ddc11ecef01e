"""Planar transforms: round trips to 1e-9, against plain matrices, and across the wrap of the angle."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drive.geometry.se2 import resample_poses, to_local, to_world, wrap, yaw_from_path

metres = st.floats(-1e3, 1e3)
angles = st.floats(-20.0, 20.0)
poses = st.tuples(metres, metres, angles).map(np.array)


def matrix(pose: np.ndarray) -> np.ndarray:
    c, s = np.cos(pose[2]), np.sin(pose[2])
    return np.array([[c, -s, pose[0]], [s, c, pose[1]], [0, 0, 1]])


@given(poses, poses)
def test_to_world_undoes_to_local(pose: np.ndarray, origin: np.ndarray) -> None:
    back = to_world(to_local(pose, origin), origin)
    assert np.abs(back[:2] - pose[:2]).max() <= 1e-9
    assert abs(wrap(back[2] - pose[2])) <= 1e-9


@given(poses, poses)
def test_to_local_undoes_to_world(pose: np.ndarray, origin: np.ndarray) -> None:
    back = to_local(to_world(pose, origin), origin)
    assert np.abs(back[:2] - pose[:2]).max() <= 1e-9
    assert abs(wrap(back[2] - pose[2])) <= 1e-9


@given(poses, poses)
def test_transforms_equal_homogeneous_matrices(pose: np.ndarray, origin: np.ndarray) -> None:
    expected = np.linalg.inv(matrix(origin)) @ matrix(pose)
    local = to_local(pose, origin)
    assert np.allclose(matrix(local), expected, atol=1e-8)
    assert np.allclose(to_local(pose[:2], origin), local[:2])


@given(poses)
def test_every_pose_is_the_origin_of_its_own_frame(pose: np.ndarray) -> None:
    assert np.abs(to_local(pose, pose)).max() <= 1e-9


@given(angles)
def test_wrap_keeps_the_direction_and_the_half_open_range(angle: float) -> None:
    wrapped = float(wrap(angle))
    assert -np.pi <= wrapped < np.pi
    assert np.allclose([np.cos(wrapped), np.sin(wrapped)], [np.cos(angle), np.sin(angle)])


def test_wrap_stays_below_pi_for_tiny_negative_excess() -> None:
    assert -np.pi <= float(wrap(-np.pi - 1e-17)) < np.pi
    assert -np.pi <= float(wrap(np.nextafter(-np.pi, -4))) < np.pi


def test_transforms_do_not_change_their_input() -> None:
    pose = np.array([[1.0, 2.0, 3.0]])
    to_local(pose, np.array([1.0, 1.0, 1.0]))
    to_world(pose, np.array([1.0, 1.0, 1.0]))
    assert pose.tolist() == [[1.0, 2.0, 3.0]]


def test_resampling_turns_the_short_way_round() -> None:
    pose = np.array([[0.0, 0.0, np.pi - 0.1], [2.0, 4.0, -np.pi + 0.1]])
    middle = resample_poses(pose, [0.0, 1.0], [0.0, 0.5, 1.0])
    assert np.allclose(middle[:, :2], [[0, 0], [1, 2], [2, 4]])
    assert np.allclose(np.abs(wrap(middle[:, 2])), [np.pi - 0.1, np.pi, np.pi - 0.1])


def test_heading_follows_the_path_and_holds_when_standing() -> None:
    path = np.array([[1.0, 0.0], [2.0, 1.0], [2.01, 1.0], [2.01, 2.0]])
    assert np.allclose(yaw_from_path(path), [0.0, np.pi / 4, np.pi / 4, np.pi / 2])
    still = np.zeros((2, 5, 2))
    assert np.allclose(yaw_from_path(still, start_yaw_rad=0.3), 0.3)


def test_wrap_passes_non_finite_angles_on() -> None:
    assert np.isnan(wrap(np.nan))
