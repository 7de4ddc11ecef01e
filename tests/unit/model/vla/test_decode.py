"""Greedy decoding with verified drafts gives the tokens of plain decoding, in fewer passes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.model.vla.decode import COMMAND_TOKENS, Question, drafted, plain, probability
from drive.model.vla.prompt import Task, prompt_of
from drive.model.vla.speaker import Speaker
from tests import builders
from tests.unit.model.vla.speakers import taught_speaker, tiny_speaker


def question(speaker: Speaker, seed: int = 0) -> Question:
    rng = np.random.default_rng(seed)
    prompt = prompt_of(builders.observation(float(rng.uniform(0, 14))), ["front"])
    picture = torch.from_numpy(rng.integers(0, 256, (1, 1, 36, 64, 3)).astype(np.uint8))
    return Question(torch.tensor([speaker.prompt_ids(prompt, Task.COMMAND)]), picture, speaker.size_px)


@settings(max_examples=15)
@given(
    st.sampled_from(["smolvlm", "qwen2_vl", "internvl"]),
    st.integers(0, 1000),
    st.none() | st.lists(st.integers(60, 400), min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_drafts_never_change_the_tokens(
    family: str, seed: int, drafts: list[int] | None, corrected: list[bool]
) -> None:
    speaker = tiny_speaker(family, seed)  # type: ignore[arg-type]
    asked = question(speaker, seed)
    want = plain(speaker.network, asked)
    if drafts is not None:  # some right, some wrong
        drafts = [
            right if fix else draft for fix, right, draft in zip(corrected, want.ids[1:], drafts, strict=True)
        ]
    got = drafted(speaker.network, asked, drafts)
    assert got.ids == want.ids
    torch.testing.assert_close(got.logits, want.logits, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(got.embedding, want.embedding, atol=1e-4, rtol=1e-4)
    assert 2 <= got.passes <= want.passes == COMMAND_TOKENS


@pytest.mark.parametrize("wrong", [None, 0, 1, 2])
def test_passes_are_saved_by_right_drafts(wrong: int | None) -> None:
    speaker = tiny_speaker("qwen2_vl", 3)
    asked = question(speaker)
    drafts = plain(speaker.network, asked).ids[1:]
    if wrong is not None:
        drafts[wrong] += 1
    got = drafted(speaker.network, asked, drafts)
    assert got.ids == plain(speaker.network, asked).ids
    assert got.passes == (2 if wrong is None else 3)


def test_trained_heads_draft_the_command() -> None:
    speaker = taught_speaker()
    assert drafted(speaker.network, question(speaker)).passes == 2
    assert drafted(speaker.network, question(speaker)).ids == plain(speaker.network, question(speaker)).ids


def test_probability_is_the_product() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    assert probability(logits, [0, 2]) == pytest.approx(0.4)
