"""The smoothing filter equals scipy's, and speeds come from poses."""

import numpy as np
import pytest
from scipy.signal import savgol_filter

from drive.score.motion import comfortable, smooth, speeds


@pytest.mark.parametrize("derivative", [0, 1, 2])
def test_smoothing_equals_scipy(rng: np.random.Generator, derivative: int) -> None:
    values = rng.normal(size=(3, 40))
    expected = savgol_filter(values, 7, 2, deriv=derivative, delta=0.1, mode="nearest")
    assert np.allclose(smooth(values, derivative, 0.1), expected)


def test_speeds_start_at_the_origin() -> None:
    pose = np.array([[[1.0, 0.0, 0.0], [1.0, 2.0, 0.0]]])
    assert speeds(pose, 0.5).tolist() == [[2.0, 4.0]]


def test_constant_speed_and_gentle_turns_are_comfortable() -> None:
    t = np.arange(1, 41) * 0.1
    yaw = 0.02 * t**2
    xy = np.cumsum(np.stack([np.cos(yaw), np.sin(yaw)], -1) * 0.8, 0)
    assert comfortable(np.concatenate([xy, yaw[:, None]], -1)[None], 8.0, 0.1).all()
    jump = np.stack([12.0 * t, 0 * t, 0 * t], -1)[None]
    assert not comfortable(jump, 6.0, 0.1).all()
