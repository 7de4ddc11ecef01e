"""Comfort: the filters are scipy's, the past counts, bounds bind, and EC compares what overlaps."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import savgol_filter

from drive.bench.pdm_comfort import _filter, alike, comfortable
from drive.score.tracking import Driven
from tests.unit.bench.test_pdm import T, scene


def driven(accel: np.ndarray, rate: np.ndarray | float = 0.0, count: int = 1) -> Driven:
    """Straight numbers: acceleration (40,) and yaw rate, and what follows from them."""
    accel, rate = np.broadcast_to(accel, (count, 40)), np.broadcast_to(rate, (count, 40))
    speed = 8.0 + np.cumsum(accel, 1) * 0.1
    yaw = np.cumsum(rate, 1) * 0.1
    pose = np.stack([np.cumsum(speed, 1) * 0.1, 0 * yaw, yaw], -1)
    return Driven(pose, speed, accel.copy(), rate.copy())


@pytest.mark.parametrize(("window", "order", "derivative"), [(8, 2, 0), (15, 2, 1), (5, 2, 1), (5, 3, 2)])
def test_the_filter_is_scipys(rng: np.random.Generator, window: int, order: int, derivative: int) -> None:
    row = rng.normal(0, 1, (3, 56))
    expected = savgol_filter(row, window, order, derivative, 0.1, axis=1)
    assert np.abs(row @ _filter(56, window, order, derivative, 0.1) - expected).max() < 1e-9


@pytest.mark.parametrize(
    ("accel", "rate", "good"),
    [
        (np.zeros(40), 0.0, True),
        (np.minimum(2.0, 1.5 * T), 0.0, True),
        (np.minimum(3.0, 1.5 * T), 0.0, False),  # 2.4 m/s2
        (np.maximum(-3.5, -2.0 * T), 0.0, True),
        (np.maximum(-4.5, -2.0 * T), 0.0, False),  # -4.05 m/s2
        (np.where(T < 2, np.minimum(2.0, 1.5 * T), -3.5), 0.0, False),  # jerk
        (np.zeros(40), np.minimum(0.8, 0.6 * T), True),
        (np.zeros(40), np.minimum(1.1, 0.6 * T), False),  # 0.95 rad/s
        (np.zeros(40), np.where(T < 2, 0.0, 0.8), False),  # yaw acceleration
    ],
)
def test_bounds(accel: np.ndarray, rate: np.ndarray | float, good: bool) -> None:
    one = replace(scene(), ego_size=replace(scene().ego_size, centre_from_axle_m=0.0))
    assert comfortable(one, driven(accel, rate), 0.1)[0] == good


def test_the_past_counts() -> None:
    calm = np.zeros((15, 3))
    hard = calm + np.array([-6.0, 0.0, 0.0])
    assert comfortable(scene(past=calm), driven(np.zeros(40)), 0.1)[0]
    assert not comfortable(scene(past=hard), driven(np.zeros(40)), 0.1)[0]


def test_the_turn_moves_the_centre() -> None:
    """1.4 m ahead of the rear axle a yaw acceleration is felt as acceleration along the car."""
    rate = np.minimum(0.9, 1.5 * np.maximum(T - 1.0, 0.0))
    accel = np.where(T < 0.8, 2.4 * T, 2.0)
    still = replace(scene(), ego_size=replace(scene().ego_size, centre_from_axle_m=0.0))
    assert comfortable(still, driven(accel, rate), 0.1)[0]
    assert not comfortable(scene(), driven(accel, rate), 0.1)[0]


def test_ec_compares_what_overlaps() -> None:
    same = driven(0.5 * np.sin(T))
    ahead = driven(0.5 * np.sin(T + 0.4))
    assert alike(scene(accel_mps2=0.5 * np.sin(0.4)), ahead, same, 4, 0.1)[0] == 1.0
    assert (
        alike(scene(accel_mps2=0.5 * np.sin(0.4)), driven(0.5 * np.sin(T + 0.4) + 0.8), same, 4, 0.1)[0]
        == 0.0
    )
    assert alike(scene(), driven(np.zeros(40), 0.2), driven(np.zeros(40)), 4, 0.1)[0] == 0.0
    assert np.isnan(alike(scene(), ahead, None, 4, 0.1)[0])
    assert np.isnan(alike(scene(), ahead, same, 0, 0.1)[0])
