"""Blind floors: what they predict, that they ignore images and hints, and that training is repeatable."""

import dataclasses

import numpy as np
import pytest

from drive.bench.floors import FLOORS, ConstantVelocity, EgoMLP, GoStraight, ego_features
from drive.contracts import DT_S, STEPS, Observation, RouteHint, Turn, UserError
from tests import builders

TIMES = np.arange(1, STEPS + 1) * DT_S


def moving(speed_mps: float, yaw_rate_radps: float, accel_mps2: float = 0.0, rows: int = 5) -> Observation:
    back = -0.5 * np.arange(rows - 1, -1, -1)
    yaw = yaw_rate_radps * back
    chord = (speed_mps * back + accel_mps2 * back**2 / 2) * np.sinc(yaw / 2 / np.pi)
    history = np.stack([chord * np.cos(yaw / 2), chord * np.sin(yaw / 2), yaw], -1).astype(np.float32)
    return dataclasses.replace(
        builders.observation(speed_mps),
        history_ego=history,
        speed_mps=speed_mps,
        accel_mps2=accel_mps2,
        yaw_rate_radps=yaw_rate_radps,
    )


def future(speed_mps: float, yaw_rate_radps: float) -> np.ndarray:
    at = np.arange(1, 7) * 0.5
    yaw = yaw_rate_radps * at
    chord = speed_mps * at * np.sinc(yaw / 2 / np.pi)
    return np.stack([chord * np.cos(yaw / 2), chord * np.sin(yaw / 2), yaw], -1)


def test_go_straight_keeps_speed_and_heading() -> None:
    pose = GoStraight().plan([moving(7.0, 0.3)], seed=0)[0].best.pose_ego
    assert np.allclose(pose, np.stack([7.0 * TIMES, 0 * TIMES, 0 * TIMES], -1), atol=1e-5)


def test_constant_velocity_keeps_the_last_half_second() -> None:
    observation = moving(7.0, 0.4)
    pose = ConstantVelocity().plan([observation], seed=0)[0].best.pose_ego
    velocity = -observation.history_ego[-2, :2] / 0.5
    assert np.allclose(pose[:, :2], TIMES[:, None] * velocity, atol=1e-5)
    assert (pose[:, 2] == 0).all()


def test_constant_velocity_without_history_uses_the_speed() -> None:
    pose = ConstantVelocity().plan([moving(7.0, 0.4, rows=1)], seed=0)[0].best.pose_ego
    assert np.allclose(pose[:, 0], 7.0 * TIMES, atol=1e-5)


@pytest.fixture(scope="module")
def trained() -> EgoMLP:
    grid = [(v, w) for v in np.linspace(2, 12, 12) for w in np.linspace(-0.3, 0.3, 7)]
    return EgoMLP().fit([moving(v, w) for v, w in grid], np.array([future(v, w) for v, w in grid]))


def test_ego_mlp_extrapolates_steady_motion(trained: EgoMLP) -> None:
    for speed, rate in ((5.0, 0.0), (8.0, 0.2), (8.0, -0.2)):
        pose = trained.plan([moving(speed, rate)], seed=0)[0].best.pose_ego
        assert pose.shape == (STEPS, 3)
        assert np.abs(pose[4:30:5, :2] - future(speed, rate)[:, :2]).max() < 0.2


def test_ego_mlp_training_is_repeatable(trained: EgoMLP) -> None:
    grid = [(v, w) for v in np.linspace(2, 12, 12) for w in np.linspace(-0.3, 0.3, 7)]
    again = EgoMLP().fit([moving(v, w) for v, w in grid], np.array([future(v, w) for v, w in grid]))
    one, two = (m.plan([moving(6.3, 0.1)], seed=0)[0].best.pose_ego for m in (trained, again))
    assert np.array_equal(one, two)


def test_floors_are_blind_to_images_hint_and_seed(trained: EgoMLP) -> None:
    plain = moving(6.0, 0.1)
    hint = RouteHint(Turn.RIGHT, np.array([[0, -10], [0, -25]], np.float32), 5.0, "oracle")
    picture = builders.observation(6.0, image_size=16)
    seen = dataclasses.replace(plain, route=hint, images=picture.images, cameras=picture.cameras)
    for policy in (GoStraight(), ConstantVelocity(), trained):
        one, two = policy.plan([plain], seed=0)[0], policy.plan([seen], seed=9)[0]
        assert np.array_equal(one.best.pose_ego, two.best.pose_ego)
        assert not policy.needs_images


def test_short_histories_repeat_the_oldest_row() -> None:
    assert ego_features(moving(5.0, 0.0, rows=1)).shape == ego_features(moving(5.0, 0.0, rows=5)).shape
    short = ego_features(moving(5.0, 0.0, rows=3))
    assert np.array_equal(short[0:3], short[3:6])


def test_untrained_and_undersized_ego_mlp_say_what_to_do() -> None:
    with pytest.raises(UserError, match="drive bench nuscenes"):
        EgoMLP().plan([moving(5.0, 0.0)], seed=0)
    with pytest.raises(UserError, match="at least 10"):
        EgoMLP().fit([moving(5.0, 0.0)], future(5.0, 0.0)[None])


def test_every_floor_is_registered_under_its_name() -> None:
    assert {name: make().name for name, make in FLOORS.items()} == {name: name for name in FLOORS}
