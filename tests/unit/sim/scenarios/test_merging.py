"""A car that merges before the ego: how fast it goes."""

import hypothesis.strategies as st
from hypothesis import given

from sim.scenarios.manoeuvres import ABREAST_M, BRAKE_MPS2, GONE_M, merge_speed

METRES, SPEEDS = st.floats(0.5, 80.0), st.floats(0.0, 14.0)


@given(METRES, METRES, SPEEDS)
def test_abreast_of_the_ego_it_can_stop_before_the_lanes_meet(mine: float, ego: float, speed: float) -> None:
    merging = merge_speed(mine, ego, speed, 9.0)
    assert 0.0 <= merging <= 13.0
    if -GONE_M < ego - mine < ABREAST_M:
        assert merging**2 / (2 * BRAKE_MPS2) <= mine


@given(METRES, SPEEDS)
def test_it_is_faster_the_less_it_leads(mine: float, speed: float) -> None:
    near, far = (merge_speed(mine, mine + lead, speed, 9.0) for lead in (8.0, 12.0))
    assert near >= far


@given(st.floats(0.5, 20.0), SPEEDS)
def test_behind_the_ego_it_does_not_race_it_to_the_place(mine: float, speed: float) -> None:
    assert merge_speed(mine, mine - 20.0, speed, 9.0) <= max(3.0, speed)


@given(SPEEDS)
def test_before_the_ego_it_does_not_brake_the_ego_hard(speed: float) -> None:
    assert merge_speed(-1.0, 8.0, speed, 9.0) >= speed - 1.0
