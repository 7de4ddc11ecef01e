"""Trajectory knots and the 10 Hz poses between them."""

import numpy as np
import pytest

from drive.model.horizon import brake_poses, knots_from_poses, poses_from_knots

T8, T40 = (np.arange(8) + 1) * 0.5, (np.arange(40) + 1) * 0.1


def test_constant_speed_comes_back_exactly() -> None:
    knots = np.stack([10 * T8, 0 * T8], -1)
    pose = poses_from_knots(knots, 10.0)
    np.testing.assert_allclose(pose[:, 0], 10 * T40, atol=1e-4)
    np.testing.assert_allclose(pose[:, 1:], 0, atol=1e-6)


def test_every_fifth_row_is_a_knot(rng: np.random.Generator) -> None:
    knots = np.cumsum(rng.uniform(0, 3, (4, 3, 8, 2)), axis=-2).astype(np.float32)
    np.testing.assert_allclose(
        knots_from_poses(poses_from_knots(knots, np.full((4, 3), 5.0))), knots, atol=1e-5
    )


@pytest.mark.parametrize("speed", [0.0, 4.0, 9.0])
def test_a_stop_never_rolls_back(speed: float) -> None:
    x = np.minimum(speed * T8, speed * 0.9)
    pose = poses_from_knots(np.stack([x, 0 * x], -1), speed)
    assert (np.diff(pose[:, 0], prepend=0) >= -1e-6).all()
    np.testing.assert_allclose(pose[-5:, 0], x[-1], atol=1e-5)


def test_standing_keeps_the_heading(rng: np.random.Generator) -> None:
    pose = poses_from_knots(rng.normal(0, 0.01, (8, 2)), 0.0)
    np.testing.assert_allclose(pose[:, 2], 0)


def test_a_left_curve_turns_left_smoothly() -> None:
    angle = 6.0 * T8 / 12.0
    pose = poses_from_knots(np.stack([12 * np.sin(angle), 12 * (1 - np.cos(angle))], -1), 6.0)
    np.testing.assert_allclose(pose[:, 2], 6.0 * T40 / 12.0, atol=0.08)
    truth = np.stack([12 * np.sin(T40 / 2), 12 * (1 - np.cos(T40 / 2))], -1)
    assert np.abs(pose[:, :2] - truth).max() < 0.05


def test_braking_stops_and_takes_any_speed() -> None:
    pose = brake_poses(8.0)
    assert pose[0, 0] == pytest.approx(0.78)
    assert pose[-1, 0] == pytest.approx(8.0)
    assert (brake_poses(float("nan")) == 0).all()
    assert (brake_poses(-1.0) == 0).all()
