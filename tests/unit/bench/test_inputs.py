"""Inputs at a key frame: exact on constructed motion, causal, and honest about where the hint comes from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.bench.inputs import ego_motion, future_ego, history, observation_at, oracle_route
from drive.contracts import Observation, Turn
from drive.geometry.se2 import to_local
from tests import builders

KEY_US = 500_000


def track(accel_mps2: float, yaw_rate_radps: float, frames: int = 16) -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(frames) * 0.5
    fine = np.linspace(0, t[-1], 20 * frames * 50 + 1)
    speed, yaw = 5.0 + accel_mps2 * fine, 0.4 + yaw_rate_radps * fine
    step = np.diff(fine)
    x = np.append(0, np.cumsum((speed * np.cos(yaw))[:-1] * step))
    y = np.append(0, np.cumsum((speed * np.sin(yaw))[:-1] * step))
    pose = np.stack([np.interp(t, fine, x), np.interp(t, fine, y), np.interp(t, fine, yaw)], -1)
    return (t * 1e6).astype(np.int64), pose + np.array([300.0, 900.0, 0.0])


def same(a: Observation, b: Observation) -> bool:
    scalars = ("t_us", "speed_mps", "accel_mps2", "yaw_rate_radps")
    return (
        all(getattr(a, name) == getattr(b, name) for name in scalars)
        and a.history_ego.tobytes() == b.history_ego.tobytes()
        and a.route.target_points_ego.tobytes() == b.route.target_points_ego.tobytes()
        and (a.route.turn, a.route.speed_limit_mps) == (b.route.turn, b.route.speed_limit_mps)
    )


@given(st.floats(-0.5, 1.0), st.floats(-0.3, 0.3))
def test_motion_is_exact_for_steady_acceleration_and_turning(accel: float, rate: float) -> None:
    t_us, pose = track(accel, rate)
    speed, got_accel, got_rate = ego_motion(t_us[:9], pose[:9])
    assert speed == pytest.approx(5.0 + accel * 4.0, abs=0.05)
    assert got_accel == pytest.approx(accel, abs=0.05)
    assert got_rate == pytest.approx(rate, abs=1e-6)


def test_two_frames_give_a_speed_and_no_acceleration() -> None:
    t_us, pose = track(0.0, 0.0)
    assert ego_motion(t_us[:2], pose[:2]) == pytest.approx((5.0, 0.0, 0.0), abs=1e-3)


def test_braking_to_standstill_does_not_turn_into_reversing() -> None:
    t_us = np.arange(3) * KEY_US
    pose = np.array([[0.0, 0, 0], [4.0, 0, 0], [4.3, 0, 0]])
    assert ego_motion(t_us, pose)[0] == 0.0
    reversing = np.array([[0.0, 0, 0], [-1.0, 0, 0], [-2.0, 0, 0]])
    assert ego_motion(t_us, reversing)[0] == pytest.approx(-2.0)


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_no_future_leaks_into_the_inputs(k: int, seed: int) -> None:
    t_us, pose = track(0.3, 0.1)
    noise = np.random.default_rng(seed)
    changed, later = pose.copy(), t_us.copy()
    changed[k + 1 :] += noise.normal(0, 50, changed[k + 1 :].shape)
    later[k + 1 :] += noise.integers(1, 10**6, len(later) - k - 1).cumsum()
    assert same(observation_at(t_us, pose, k), observation_at(later, changed, k))
    assert same(observation_at(t_us, pose, k), observation_at(t_us[: k + 1], pose[: k + 1], k))


def test_only_the_oracle_hint_depends_on_the_future_and_says_so() -> None:
    t_us, pose = track(0.0, 0.1)
    changed = pose.copy()
    changed[6:, 1] -= 30.0
    one, two = (observation_at(t_us, p, 5, route="oracle") for p in (pose, changed))
    assert one.route.provenance == two.route.provenance == "oracle"
    assert observation_at(t_us, pose, 5).route.provenance == "navigation"
    assert not same(one, two)
    assert one.history_ego.tobytes() == two.history_ego.tobytes()
    assert one.speed_mps == two.speed_mps


def test_history_is_at_half_seconds_and_ends_at_zero() -> None:
    t_us, pose = track(0.0, 0.0)
    full = history(t_us[:9], pose[:9])
    assert full.dtype == np.float32
    assert np.allclose(full[:, 0], [-10, -7.5, -5, -2.5, 0], atol=1e-3)
    assert np.allclose(full[:, 1:], 0, atol=1e-4)
    assert (full[-1] == 0).all()
    assert len(history(t_us[:3], pose[:3])) == 3


def test_history_is_interpolated_between_uneven_key_frames() -> None:
    t_us = np.array([0, 400_000, 1_000_000], np.int64)
    pose = np.stack([10.0 * t_us * 1e-6, 0 * t_us, 0 * t_us], -1)
    assert np.allclose(history(t_us, pose)[:, 0], [-10, -5, 0])


@pytest.mark.parametrize(
    ("rate", "turn"), [(0.3, Turn.LEFT), (-0.3, Turn.RIGHT), (0.0, Turn.FOLLOW), (0.02, Turn.FOLLOW)]
)
def test_a_turn_is_named_by_its_side(rate: float, turn: Turn) -> None:
    _, pose = track(0.0, rate)
    assert oracle_route(pose, 4).turn == turn


def test_target_points_lie_on_the_driven_path_and_beyond_its_end() -> None:
    _, pose = track(0.0, 0.0)
    assert np.allclose(oracle_route(pose, 0).target_points_ego, [[10, 0], [25, 0]], atol=1e-2)
    assert np.allclose(oracle_route(pose, 14).target_points_ego, [[10, 0], [25, 0]], atol=1e-2)
    standing = np.zeros((10, 3))
    assert np.allclose(oracle_route(standing, 3).target_points_ego, [[10, 0], [25, 0]])


def test_future_is_in_the_frame_of_now() -> None:
    _, pose = track(0.0, 0.0)
    assert np.allclose(future_ego(pose, 2), [[2.5 * i, 0, 0] for i in range(1, 7)], atol=1e-2)


def test_the_first_key_frame_has_no_speed() -> None:
    t_us, pose = track(0.0, 0.0)
    with pytest.raises(ValueError, match="earlier key frame"):
        observation_at(t_us, pose, 0)


@pytest.mark.parametrize(("gap_us", "frames"), [(500_000, 2), (1_000_000, 1)])
def test_the_key_frame_before_is_shown_if_it_is_near_enough_in_time(gap_us: int, frames: int) -> None:
    _, pose = track(0.3, 0.1)
    t_us = np.arange(len(pose), dtype=np.int64) * gap_us
    camera = builders.camera(4)
    now, earlier = (np.full((4, 4, 3), level, np.uint8) for level in (9, 5))
    seen = observation_at(t_us, pose, 5, image=(now, camera), earlier=earlier)
    assert [int(one.max()) for one in seen.images["front"]] == [5, 9][-frames:]
    assert seen.before_ego.shape == (frames - 1, 3)
    if frames == 2:
        np.testing.assert_allclose(seen.before_ego[0], to_local(pose[4], pose[5]), atol=1e-4)
    blind = observation_at(t_us, pose, 5)
    assert (dict(blind.images), blind.before_ego.shape) == ({}, (0, 3))
