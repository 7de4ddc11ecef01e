"""Both L2 protocols, masks and failed predictions."""

import numpy as np
import pytest

from drive.score.openloop import FAILED_L2_M, by_horizon, displacement, strict

ERRORS = np.array([[0.2, 0.4, 0.6, 0.8, 1.0, 1.2]])
ALL = np.ones((1, 6), bool)


def test_the_worked_example_of_both_protocols() -> None:
    got = by_horizon(ERRORS, ALL)
    assert np.allclose(got.at, [0.4, 0.8, 1.2])
    assert np.allclose(got.up_to, [0.3, 0.5, 0.7])
    assert got.n_at.tolist() == [1, 1, 1]
    assert got.n_up_to.tolist() == [2, 4, 6]


@pytest.mark.parametrize("junk", [0.0, 1e9, np.nan, np.inf])
def test_masked_steps_change_neither_sum_nor_count(junk: float) -> None:
    more = np.concatenate([ERRORS, np.full((1, 6), junk)])
    mask = np.concatenate([ALL, ~ALL])
    got, alone = by_horizon(more, mask), by_horizon(ERRORS, ALL)
    assert np.array_equal(got.at, alone.at)
    assert np.array_equal(got.up_to, alone.up_to)
    assert np.array_equal(got.n_at, alone.n_at)


def test_counts_are_per_horizon() -> None:
    mask = np.array([[True] * 6, [True, True, False, False, False, False]])
    got = by_horizon(np.vstack([ERRORS, ERRORS * 3]), mask)
    assert got.n_at.tolist() == [2, 1, 1]
    assert np.allclose(got.at, [0.8, 0.8, 1.2])


def test_a_horizon_without_steps_is_nan() -> None:
    got = by_horizon(ERRORS, ~ALL)
    assert np.isnan(got.at).all()
    assert np.isnan(got.up_to).all()


def test_a_counted_value_must_be_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        by_horizon(np.full((1, 6), np.nan), ALL)
    with pytest.raises(ValueError, match="mask"):
        by_horizon(ERRORS, np.ones((2, 6), bool))


def test_failed_predictions_stay_in_the_strict_mean() -> None:
    values = np.vstack([ERRORS, np.full((1, 6), np.nan)])
    got = strict(values, np.array([False, True]), FAILED_L2_M)
    assert np.array_equal(got[0], ERRORS[0])
    assert (got[1] == FAILED_L2_M).all()


def test_failing_never_pays(rng: np.random.Generator) -> None:
    values = rng.exponential(60.0, (50, 6))
    nobody = np.zeros(50, bool)
    base = by_horizon(strict(values, nobody, FAILED_L2_M), np.ones((50, 6), bool))
    for i in range(50):
        failed = nobody.copy()
        failed[i] = True
        got = by_horizon(strict(values, failed, FAILED_L2_M), np.ones((50, 6), bool))
        assert (got.at >= base.at).all()
        assert (got.up_to >= base.up_to).all()


def test_displacement_is_euclidean() -> None:
    assert displacement([[[3.0, 4.0]]], [[[0.0, 0.0]]]).tolist() == [[5.0]]
