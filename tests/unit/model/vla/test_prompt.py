"""Prompts are deterministic text with places for pictures; no text is a special token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import Lateral, Longitudinal, Turn
from drive.model.vla.families import FAMILIES
from drive.model.vla.prompt import Advice, Picture, PromptInput, Task, parts
from drive.model.vla.words import encode, letter_ids, mark_id, small_tokenizer
from tests.unit.model.vla.speakers import tiny_speaker, tokenizer

POINTS = np.array([[9.5, -0.4], [24.1, 1.2]], np.float32)


def text_of(prompt: PromptInput, task: Task = Task.COMMAND) -> str:
    return "".join(part if isinstance(part, str) else f"[{part.camera}]" for part in parts(prompt, task))


def advice(situation: str = "red light", likeness: float = 0.9) -> Advice:
    return Advice(situation, Lateral.KEEP, Longitudinal.STOP, "good", likeness)


def test_a_prompt_says_all_that_is_known() -> None:
    prompt = PromptInput(("front", "left"), 8.34, 13.9, Turn.LEFT, POINTS, (advice(),))
    assert text_of(prompt) == (
        "front [front]left [left]\nspeed 8.3 limit 13.9\nroute left at +9.5 -0.4 +24.1 +1.2\n"
        "advice 90% alike: red light: keep/stop was good\ncommand:"
    )
    assert text_of(prompt, Task.REASONING).endswith("\nreasoning:")


def test_a_hidden_speed_is_unknown() -> None:
    assert "speed unknown" in text_of(PromptInput(("front",), float("nan"), 13.9, Turn.FOLLOW, POINTS))


def test_the_most_alike_advice_is_used_in_any_order() -> None:
    many = [advice(f"case {i}", likeness=i / 10) for i in range(6)]
    one = text_of(PromptInput(("front",), 1.0, 2.0, Turn.LEFT, POINTS, tuple(many)))
    other = text_of(PromptInput(("front",), 1.0, 2.0, Turn.LEFT, POINTS, tuple(many[::-1])))
    assert one == other
    assert [f"case {i}" in one for i in range(6)] == [False, False, False, True, True, True]


@given(st.text(max_size=200))
def test_advice_is_one_plain_line(situation: str) -> None:
    text = advice(situation).text()
    assert "\n" not in text
    assert len(text) < 140
    assert not set(text) & set('<>|{}"')


@pytest.mark.parametrize("likeness", [-0.1, 1.1, float("nan")])
def test_likeness_is_a_share(likeness: float) -> None:
    with pytest.raises(ValueError, match="likeness"):
        advice(likeness=likeness)


@given(st.text(max_size=60))
def test_the_small_tokenizer_spells_any_text(text: str) -> None:
    ids = encode(tokenizer(), text)
    assert (
        tokenizer().decode(ids) == text.encode(errors="replace").decode()
        or "\ud800" <= max(text, default="") <= "\udfff"
    )


def test_text_is_never_a_special_token() -> None:
    special = {mark_id(tokenizer(), mark) for facts in FAMILIES.values() for mark in facts.marks()}
    for facts in FAMILIES.values():
        assert not special & set(encode(tokenizer(), "".join(facts.marks())))


def test_the_small_tokenizer_is_always_the_same() -> None:
    assert small_tokenizer().get_vocab() == tokenizer().get_vocab()
    assert len(set(letter_ids(tokenizer()))) == 26


@pytest.mark.parametrize("family", ["smolvlm", "qwen2_vl", "internvl"])
def test_every_picture_has_its_place(family: str) -> None:
    speaker = tiny_speaker(family)  # type: ignore[arg-type]
    facts = FAMILIES[family]
    ids = speaker.prompt_ids(PromptInput(("front", "left"), 8.3, 13.9, Turn.LEFT, POINTS), Task.COMMAND)
    assert ids.count(mark_id(speaker.tokenizer, facts.token)) == 2 * (4 if family != "qwen2_vl" else 2)
    assert [
        part
        for part in parts(PromptInput(("a", "b"), 1, 1, Turn.LEFT, POINTS), Task.COMMAND)
        if isinstance(part, Picture)
    ] == [Picture("a"), Picture("b")]
