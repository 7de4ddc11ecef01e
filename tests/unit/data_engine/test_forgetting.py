"""Measures of forgetting on matrices small enough to work out by hand."""

import numpy as np
import pytest

from data_engine.forgetting import (
    Matrix,
    backward_transfer,
    forward_transfer_gem,
    forward_transfer_libero,
    matrix_of,
    negative_backward_transfer,
    normalised_nbt,
    success_by_kind,
)
from drive.contracts import CaseScore, EvalResult

# kind k is learned on night k; rows are nights
THREE = Matrix(
    ("n1", "n2", "n3"),
    ("a", "b", "c"),
    np.array([[0.8, 0.1, 0.0], [0.7, 0.6, 0.2], [0.5, 0.6, 0.9]]),
    (0, 1, 2),
)


def test_by_hand() -> None:
    # a: 0.8 - mean(0.7, 0.5) = 0.2; b: 0.6 - 0.6 = 0; c has no later night
    assert negative_backward_transfer(THREE) == pytest.approx(0.1)
    assert normalised_nbt(THREE) == pytest.approx(0.2 / 1.4)
    assert backward_transfer(THREE) == pytest.approx((0.5 - 0.8 + 0.6 - 0.6) / 2)
    assert forward_transfer_gem(THREE) == pytest.approx((0.1 + 0.2) / 2)
    assert forward_transfer_gem(THREE, {"b": 0.1, "c": 0.1}) == pytest.approx((0.0 + 0.1) / 2)
    assert forward_transfer_libero(THREE) == pytest.approx((0.8 + 0.6 + 0.9) / 3)


def test_what_was_not_measured_does_not_count() -> None:
    gap = np.nan
    made = Matrix(("n1", "n2"), ("a", "b"), np.array([[0.8, gap], [0.6, 0.5]]), (0, 1))
    assert negative_backward_transfer(made) == pytest.approx(0.2)
    empty = Matrix((), (), np.zeros((0, 0)), ())
    assert negative_backward_transfer(empty) == backward_transfer(empty) == normalised_nbt(empty) == 0.0


def test_rows_of_nights_become_a_matrix() -> None:
    made = matrix_of([("n1", {"a": 1.0}), ("n2", {"a": 0.5, "b": 0.25})])
    assert made.kinds == ("a", "b")
    assert made.learned == (0, 1)
    assert np.isnan(made.success[0, 1])
    assert matrix_of([("n1", {"a": 1.0}), ("n2", {"a": 0.5})], {"a": 1}).learned == (1,)


def test_success_by_kind_leaves_out_what_the_simulator_spoilt() -> None:
    cases = (
        CaseScore("r1", "ok", 100.0, {"success": 1.0}),
        CaseScore("r2", "ok", 60.0, {"success": 0.0}),
        CaseScore("r3", "failed", 0.0, {}),
        CaseScore("r4", "infrastructure", 0.0, {}),
    )
    result = EvalResult("s", "p", "m", 4, cases, {})
    kinds = {"r1": "traffic", "r2": "traffic", "r3": "empty", "r4": "empty"}
    assert success_by_kind(result, kinds) == {"empty": 0.0, "traffic": 0.5}
