"""Intervals: coverage, pairing, determinism and the edges of Wilson's formula."""

import math

import numpy as np
import pytest

from drive.score.bootstrap import crossed_interval, interval, paired_bootstrap, wilson


def test_the_same_seed_gives_the_same_interval(rng: np.random.Generator) -> None:
    values = rng.normal(size=30)
    assert interval(values, 7) == interval(values, 7)
    assert interval(values, 7) != interval(values, 8)


def test_interval_is_close_to_the_normal_one(rng: np.random.Generator) -> None:
    values = rng.normal(3.0, 2.0, 400)
    got = interval(values, 0)
    half = 1.96 * values.std() / math.sqrt(400)
    assert got.mean == pytest.approx(values.mean())
    assert got.low == pytest.approx(values.mean() - half, abs=0.03)
    assert got.high == pytest.approx(values.mean() + half, abs=0.03)


def test_intervals_cover_the_truth_about_95_times_in_a_hundred(rng: np.random.Generator) -> None:
    hits = 0
    for trial in range(200):
        got = interval(rng.normal(0.0, 1.0, 40), trial, n=500)
        hits += got.low <= 0.0 <= got.high
    assert 175 <= hits <= 200


def test_pairing_finds_a_small_steady_difference(rng: np.random.Generator) -> None:
    a = rng.normal(50, 30, 60)
    b = a - 1.0 + rng.normal(0, 0.5, 60)
    got = paired_bootstrap(a, b, seed=1)
    assert got.low > 0.5
    assert paired_bootstrap(b, a, seed=1).mean == pytest.approx(-got.mean)


def test_equal_values_give_a_zero_interval() -> None:
    got = paired_bootstrap([1.0, 2.0], [1.0, 2.0], seed=0)
    assert (got.mean, got.low, got.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("a", "b"), [([], []), ([1.0], [1.0, 2.0]), ([math.nan], [1.0]), ([math.inf], [1.0])]
)
def test_nonsense_is_refused(a: list, b: list) -> None:
    with pytest.raises(ValueError, match=r"finite|differ"):
        paired_bootstrap(a, b, seed=0)


def test_wilson_against_published_values() -> None:
    assert wilson(10, 10).high == pytest.approx(1.0)
    assert wilson(10, 10).low == pytest.approx(0.7225, abs=1e-4)
    assert wilson(0, 10).high == pytest.approx(0.2775, abs=1e-4)
    assert wilson(5, 10).low == pytest.approx(0.2366, abs=1e-4)
    assert math.isnan(wilson(0, 0).mean)
    with pytest.raises(ValueError, match="successes"):
        wilson(3, 2)


def test_one_row_is_the_plain_bootstrap_over_columns(rng: np.random.Generator) -> None:
    values = rng.normal(3.0, 2.0, 60)
    crossed, plain = crossed_interval(values[None], np.ones((1, 60)), 0), interval(values, 0)
    assert crossed.mean == pytest.approx(plain.mean)
    assert crossed.low == pytest.approx(plain.low, abs=0.05)
    assert crossed.high == pytest.approx(plain.high, abs=0.05)


def test_repeated_rows_add_no_certainty_and_different_rows_take_some(rng: np.random.Generator) -> None:
    values = rng.normal(0.0, 1.0, 60)
    one = crossed_interval(values[None], np.ones((1, 60)), 0)
    same = crossed_interval(np.tile(values, (3, 1)), np.ones((3, 60)), 0)
    apart = crossed_interval(values + np.array([[-2.0], [0.0], [2.0]]), np.ones((3, 60)), 0)
    assert same.high - same.low == pytest.approx(one.high - one.low, rel=0.05)
    assert apart.high - apart.low > 3 * (one.high - one.low)


def test_crossed_intervals_cover_the_truth_with_effects_of_rows_and_columns(rng: np.random.Generator) -> None:
    hits = 0
    for trial in range(150):
        cells = rng.normal(size=(6, 1)) + rng.normal(size=(1, 30)) + rng.normal(size=(6, 30))
        got = crossed_interval(cells, np.ones_like(cells), trial, n=400)
        hits += got.low <= 0.0 <= got.high
    assert 125 <= hits <= 150


def test_cells_count_as_often_as_they_hold_values() -> None:
    total, count = np.array([[10.0, 1.0, 0.0]]), np.array([[10.0, 1.0, 0.0]])
    got = crossed_interval(total, count, 0)
    assert (got.mean, got.low, got.high) == (1.0, 1.0, 1.0)
    assert crossed_interval([[8.0, 3.0]], [[4.0, 1.0]], 0).mean == pytest.approx(11 / 5)


@pytest.mark.parametrize(
    ("total", "count"),
    [([[]], [[]]), ([[1.0]], [[0.0]]), ([[math.nan]], [[1.0]]), ([1.0], [1.0]), ([[1.0, 2.0]], [[1.0]])],
)
def test_nonsense_cells_are_refused(total: list, count: list) -> None:
    with pytest.raises(ValueError, match="need finite cells"):
        crossed_interval(total, count, 0)


def test_wilson_takes_means_over_repetitions() -> None:
    assert wilson(54.5, 60).mean == pytest.approx(54.5 / 60)
    assert wilson(54, 60).low < wilson(54.5, 60).low < wilson(55, 60).low
