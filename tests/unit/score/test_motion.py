"""The smoothing filter equals scipy's, and speeds come from poses."""

import numpy as np
import pytest
from scipy.signal import savgol_filter

from drive.score.motion import comfortable, fitted, smooth, smoothness, speeds


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


@pytest.mark.parametrize("derivative", [0, 1])
@pytest.mark.parametrize("frames", [3, 5, 7, 20, 33])
def test_fitted_ends_equal_scipy(rng: np.random.Generator, derivative: int, frames: int) -> None:
    values = rng.normal(size=frames)
    window = min(7, frames)
    expected = savgol_filter(values, window, 2, deriv=derivative, delta=0.1)
    assert np.allclose(fitted(values, derivative, 0.1), expected)


def share(lon: np.ndarray, lat: float = 0.0, rate: float = 0.0) -> float | None:
    return smoothness(lon, np.full(len(lon), lat), np.full(len(lon), rate))


def test_smoothness_is_the_share_of_whole_windows() -> None:
    lon = np.zeros(65)
    lon[25:35] = 3.0  # harder than 2.4 m/s^2, in the second window only
    assert share(lon) == pytest.approx(2 / 3)
    lon[62] = 50.0  # in the window that is not whole
    assert share(lon) == pytest.approx(2 / 3)
    assert share(lon[:20]) == 1.0
    assert share(lon[:2]) is None
    assert share(np.zeros(5)) == 1.0


@pytest.mark.parametrize(
    ("lon", "lat", "rate", "good"),
    [(2.3, 0.0, 0.0, 1), (2.5, 0.0, 0.0, 0), (-4.0, 0.0, 0.0, 1), (-4.1, 0.0, 0.0, 0), (0.0, 4.8, 0.0, 1),
     (0.0, -4.95, 0.0, 0), (0.0, 0.0, 0.9, 1), (0.0, 0.0, -1.0, 0)],
)  # fmt: skip
def test_smoothness_bounds(lon: float, lat: float, rate: float, good: int) -> None:
    assert share(np.full(20, lon), lat, rate) == good


def test_smoothness_bounds_jerk() -> None:
    t = np.arange(20) * 0.1
    assert share(4.0 * t[:15] - 4.0) == 1.0
    assert share(4.3 * t[:15] - 4.0) == 0.0
    across = smoothness(np.zeros(20), 8.6 * t - 4.2, np.zeros(20))
    assert across == 0.0  # sideways only the whole jerk is bounded
    assert smoothness(np.zeros(20), 2.0 * t, np.zeros(20)) == 1.0


def test_the_corrected_smoothness_bounds_the_yaw_acceleration() -> None:
    t = np.arange(20) * 0.1
    swerve = 0.9 * np.sin(2 * np.pi * t / 1.0)  # below 0.95 rad/s, up to 5.6 rad/s2
    still = np.zeros(20)
    assert smoothness(still, still, swerve) == 1.0
    assert smoothness(still, still, swerve, yaw_accel=True) == 0.0
    assert smoothness(still, still, swerve / 6, yaw_accel=True) == 1.0
