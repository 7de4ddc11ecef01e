"""Percentiles over many drives from counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.latency import counts, percentiles

TIMES = st.lists(st.floats(0.02, 5e4), min_size=1, max_size=200)


@given(TIMES, TIMES)
def test_counts_of_two_drives_add_up_to_the_percentiles_of_both(one: list[float], two: list[float]) -> None:
    found = percentiles([counts(one), counts(two)])
    ranked = np.sort([*one, *two])
    for p in (50, 95, 99):
        true = ranked[max(1, int(np.ceil(len(ranked) * p / 100))) - 1]
        assert found[f"p{p}"] == pytest.approx(true, rel=0.011)
    assert sum(counts(one).values()) == len(one)


def test_nothing_planned_has_no_percentiles() -> None:
    assert percentiles([]) == percentiles([{}, counts([])]) == {}
    assert percentiles([counts([0.0])])["p50"] < 0.02
