"""The tracked bicycle: follows what can be driven, stays a car where it cannot, mirrors, and batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.score.tracking import Driven, _bends, _Longways, _steer, _steering_plan, track

DT_S, STEPS = 0.1, 40
T = DT_S * np.arange(1, STEPS + 1)


def arc(speed: float, yaw_rate: float, accel: float = 0.0) -> np.ndarray:
    """Reference (40, 3) with steady acceleration (until standstill) and yaw rate."""
    fine = np.linspace(0, T[-1], STEPS * 100 + 1)
    v = np.maximum(speed + accel * fine, 0.0)
    yaw = (
        np.cumsum(np.where(v > 0, yaw_rate, 0.0) * np.gradient(fine))
        - np.where(v[0] > 0, yaw_rate, 0.0) * 1e-3
    )
    x, y = (np.append(0, np.cumsum((v * f(yaw))[:-1] * np.diff(fine))) for f in (np.cos, np.sin))
    return np.stack([x, y, yaw], -1)[100::100]


def drive(reference: np.ndarray, speed: float, yaw_rate: float = 0.0, accel: float = 0.0) -> Driven:
    reference = np.atleast_3d(reference).reshape(-1, STEPS, 3)
    n = len(reference)
    return track(reference, *(np.full(n, v) for v in (speed, accel, yaw_rate, 2.86)), dt_s=DT_S)


@pytest.mark.parametrize(
    ("speed", "yaw_rate", "accel"),
    [
        (10.0, 0.0, 0.0),
        (6.0, 0.3, 0.0),
        (12.0, -0.15, 0.0),
        (8.0, 0.0, 1.5),
        (10.0, 0.0, -3.0),
        (3.0, 0.5, 0.0),
    ],
)
def test_what_can_be_driven_is_followed(speed: float, yaw_rate: float, accel: float) -> None:
    reference = arc(speed, yaw_rate, accel)
    driven = drive(reference, speed, yaw_rate, accel)
    gap = driven.pose[0, :, :2] - reference[:, :2]
    across = -gap[:, 0] * np.sin(reference[:, 2]) + gap[:, 1] * np.cos(reference[:, 2])
    assert np.abs(across).max() < 0.25
    assert np.hypot(gap[:, 0], gap[:, 1]).max() < 1.6  # the speed lags
    assert np.abs(driven.pose[0, :, 2] - reference[:, 2]).max() < 0.1


def test_braking_ends_in_standstill() -> None:
    driven = drive(arc(8.0, 0.0, -4.0), 8.0, 0.0, -4.0)
    assert abs(driven.speed_mps[0, -1]) < 0.4
    assert np.diff(driven.pose[0, :, 0]).min() > -0.05
    still = drive(np.zeros((STEPS, 3)), 0.0)
    assert np.abs(still.pose).max() < 1e-9


def test_a_jump_aside_is_driven_as_a_car_can() -> None:
    reference = arc(10.0, 0.0)
    reference[5:, 1] += 8.0
    driven = drive(reference, 10.0)
    step = np.diff(driven.pose[0], axis=0)
    assert np.hypot(step[:, 0], step[:, 1]).max() < 1.3
    assert np.abs(step[:, 2]).max() < 10.0 * np.tan(np.pi / 3) / 2.86 * DT_S + 1e-9
    assert driven.pose[0, 6, 1] < 3.0


@settings(max_examples=20)
@given(st.floats(0.5, 15), st.floats(-0.3, 0.3), st.integers(0, 2**32 - 1))
def test_mirrored_input_gives_mirrored_output(speed: float, yaw_rate: float, seed: int) -> None:
    reference = arc(speed, yaw_rate) + np.random.default_rng(seed).normal(0, [0.1, 0.1, 0.02], (STEPS, 3))
    one = drive(reference, speed, yaw_rate)
    other = drive(reference * [1, -1, -1], speed, -yaw_rate)
    assert np.allclose(one.pose, other.pose * [1, -1, -1], atol=1e-9)
    assert np.allclose(one.yaw_rate_radps, -other.yaw_rate_radps, atol=1e-9)
    assert np.isfinite(one.pose).all()


def test_a_batch_is_many_single_drives(rng: np.random.Generator) -> None:
    references = np.stack([arc(s, r) for s, r in ((3.0, 0.2), (8.0, 0.0), (12.0, -0.1))])
    together = drive(references, 8.0)
    for i, reference in enumerate(references):
        alone = drive(reference, 8.0)
        for name in ("pose", "speed_mps", "accel_mps2", "yaw_rate_radps"):
            assert np.allclose(getattr(together, name)[i], getattr(alone, name)[0], atol=1e-9)


def regulator(error: np.ndarray, v: float, accel: float, curvature: np.ndarray, wheelbase_m: float) -> float:
    """Steering rate by the textbook: ten steps of the matrices, then one least-squares input."""
    a, b, g = np.eye(3), np.zeros(3), np.zeros(3)
    for k in range(10):
        speed = v + accel * DT_S * k
        step = np.eye(3)
        step[0, 1], step[1, 2] = speed * DT_S, speed * DT_S / wheelbase_m
        a, b, g = step @ a, step @ b + [0, 0, DT_S], step @ g - [0, speed * curvature[k] * DT_S, 0]
    q = np.diag([1.0, 10.0, 0.0])
    return float(-(b @ q @ (a @ error + g)) / (b @ q @ b + 1.0))


def test_the_regulator_equals_its_matrices(rng: np.random.Generator) -> None:
    for _ in range(20):
        error, curvature = rng.normal(0, [1.0, 0.2, 0.1]), rng.normal(0, 0.05, 40)
        v, accel = rng.uniform(0.5, 15), rng.normal(0, 2)
        here = np.zeros((3, 2, 1))
        here[:, 0, 0] = rng.normal(0, [20.0, 20.0, 1.0])
        longways = _Longways(
            np.full((2, 1), v), np.zeros((1, 1)), np.full((1, 1), accel), np.zeros((1, 1), bool)
        )
        plan = _steering_plan(here, longways, _bends(curvature[None])[3:4], np.array([2.86]), DT_S)
        _, tangent = _steer(plan, np.array([error[2]]), _beside(here[:, 0, 0], error))
        rate = (np.arctan(tangent[1, 0]) - error[2]) * (DT_S + 0.05) / DT_S**2
        assert rate == pytest.approx(regulator(error, v, accel, curvature[3:13], 2.86), rel=1e-6)


def _beside(pose: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Pose (3, 1) that is so far to the left of another one and turned."""
    x, y, yaw = pose
    return np.array([[x - error[0] * np.sin(yaw)], [y + error[0] * np.cos(yaw)], [yaw + error[1]]])
