"""Commands as letters and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import DrivingCommand, Lateral, Longitudinal
from drive.model.vla.command import LETTERS, SLOTS, read, spell


@given(
    st.sampled_from(Lateral),
    st.sampled_from(Longitudinal),
    st.floats(0, 25),
    st.floats(-12, 88),
    st.floats(-24, 24),
)
def test_a_spelled_command_is_read_back_to_half_a_step(
    lateral: Lateral, longitudinal: Longitudinal, speed: float, ahead: float, left: float
) -> None:
    label = np.zeros((1, 40, 3), np.float32)
    label[0, -1, :2] = ahead, left
    label[0, -6, :2] = ahead - speed / 2, left
    letters = [LETTERS[i] for i in spell(np.array([[lateral, longitudinal]]), label)[0]]
    found = read(letters, 0.5)
    assert isinstance(found, DrivingCommand)
    assert (found.lateral, found.longitudinal, found.confidence) == (lateral, longitudinal, 0.5)
    assert abs(found.target_speed_mps - speed) < 0.51
    assert abs(found.goal_ego[0] - ahead) < 2.01
    assert abs(found.goal_ego[1] - left) < 1.01


@given(st.lists(st.sampled_from([*LETTERS, "", "AB", "a", "é"]), max_size=7), st.floats())
def test_any_letters_are_a_command_or_a_reason(letters: list[str], confidence: float) -> None:
    found = read(letters, confidence)
    if isinstance(found, str):
        assert found
    else:
        assert len(letters) == len(SLOTS)
        assert [LETTERS.index(letter) for letter in letters][:2] == [found.lateral, found.longitudinal]
        assert np.isfinite([found.target_speed_mps, *found.goal_ego, found.confidence]).all()


@pytest.mark.parametrize(
    ("letters", "said"),
    [
        ("GAAAA", "'G' is no lateral"),
        ("AFAAA", "'F' is no longitudinal"),
        ("AAAAZ", "goal to the left"),
        ("AA", "2 letters"),
    ],
)
def test_letters_out_of_the_vocabulary_are_refused(letters: str, said: str) -> None:
    found = read(list(letters), 0.5)
    assert isinstance(found, str)
    assert said in found
