"""Anchors, frozen statistics, and which proposals carry out a command."""

import numpy as np

from drive.contracts import Lateral, Longitudinal
from drive.geometry.commands import classify
from drive.geometry.se2 import yaw_from_path
from drive.model.anchors import carries_out, explicit_anchors, fit_statistics
from tests.unit.model.networks import statistics


def command_of(knots: np.ndarray, speed: float) -> list[int]:
    yaw = yaw_from_path(knots, min_step_m=0.25)
    return classify(np.concatenate([knots, yaw[:, None]], -1), speed, dt_s=0.5).tolist()


def test_explicit_anchors_are_what_they_are_called() -> None:
    stand, left, right, u_turn = explicit_anchors()
    assert command_of(stand, 0.0) == [Lateral.KEEP, Longitudinal.STOP]
    assert command_of(left, 8.0) == [Lateral.LANE_LEFT, Longitudinal.CRUISE]
    assert command_of(right, 8.0) == [Lateral.LANE_RIGHT, Longitudinal.CRUISE]
    assert command_of(u_turn, 4.3)[0] == Lateral.U_TURN


def test_statistics_are_deterministic_and_cap_the_lateral_scale(rng: np.random.Generator) -> None:
    knots = rng.normal(0, 5, (300, 8, 2)).astype(np.float32) + np.float32(3)
    a, b = fit_statistics(knots, 6, 1), fit_statistics(knots, 6, 1)
    np.testing.assert_array_equal(a.anchors, b.anchors)
    assert a.anchors.shape == (10, 8, 2)
    assert a.std[:, 1].max() <= np.float32(0.8)
    assert a.std[:, 0].min() >= 0.5


def test_kmeans_anchors_stay_near_the_data() -> None:
    fitted = statistics()
    assert np.isfinite(fitted.anchors).all()
    assert fitted.anchors[4:, -1, 0].min() >= 0
    assert fitted.anchors[4:, -1, 0].max() <= 48


def test_which_proposals_carry_out_a_command() -> None:
    knots = explicit_anchors()[None]
    stop = carries_out([[Lateral.KEEP, Longitudinal.STOP]], knots, [3.0])[0]
    assert stop.tolist() == [True, False, False, False]
    change = carries_out([[Lateral.LANE_LEFT, Longitudinal.CRUISE]], knots, [8.0])[0]
    assert change.tolist() == [False, True, False, False]
