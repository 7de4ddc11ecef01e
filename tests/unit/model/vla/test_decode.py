"""Greedy decoding with verified drafts gives the tokens of plain decoding, in fewer passes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.model.vla.decode import COMMAND_TOKENS, Question, drafted, in_doubt, plain, probability
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
    assert got.passes >= 2
    assert want.passes == COMMAND_TOKENS


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


@pytest.mark.parametrize("family", ["smolvlm", "qwen2_vl", "internvl"])
def test_near_words_are_decoded_one_by_one(family: str) -> None:
    """Every word has a twin that is as likely, so that rounding alone would choose between them."""
    speaker = tiny_speaker(family, 4)  # type: ignore[arg-type]
    head = speaker.network.vlm.get_output_embeddings().weight  # type: ignore[operator,union-attr]
    with torch.no_grad():
        head[1::2] = head[::2][: len(head[1::2])]
    asked = question(speaker)
    want = plain(speaker.network, asked)
    got = drafted(speaker.network, asked, want.ids[1:])
    assert got.ids == want.ids
    assert torch.equal(got.logits, want.logits)  # bit by bit: the same passes in the same order
    assert got.passes == 1 + 1 + (COMMAND_TOKENS - 1)


@pytest.mark.parametrize("family", ["smolvlm", "qwen2_vl", "internvl"])
def test_drafts_change_no_token_in_bfloat16(family: str) -> None:
    speaker = tiny_speaker(family, 5)  # type: ignore[arg-type]
    speaker.network.bfloat16()
    for seed in range(4):
        asked = question(speaker, seed)
        want = plain(speaker.network, asked).ids
        assert drafted(speaker.network, asked, want[1:]).ids == want
        assert drafted(speaker.network, asked).ids == want


def test_doubt_goes_by_the_type_and_the_size_of_the_logits() -> None:
    near = torch.tensor([[10.0, 0.0, -3.0], [10.0, 9.9, 0.0]])
    assert in_doubt(near, torch.bfloat16)
    assert not in_doubt(near, torch.float32)
    assert not in_doubt(near[:1], torch.bfloat16)
    assert in_doubt(torch.tensor([[10.0, 10.0, 0.0]]), torch.float32)


def test_trained_heads_draft_the_command() -> None:
    speaker = taught_speaker()
    assert drafted(speaker.network, question(speaker)).passes == 2
    assert drafted(speaker.network, question(speaker)).ids == plain(speaker.network, question(speaker)).ids


def test_probability_is_the_product() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    assert probability(logits, [0, 2]) == pytest.approx(0.4)
