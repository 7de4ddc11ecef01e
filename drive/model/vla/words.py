"""Tokenizers: a small one made here without any download, and ids of the command's letters."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from drive.contracts import Lateral, Longitudinal, Turn, UserError
from drive.model.vla.command import LETTERS
from drive.model.vla.families import FAMILIES
from drive.model.vla.prompt import Advice, PromptInput, Task, parts
from drive.model.vla.reasoning import BEHAVIOURS, LIGHTS, Reasoning, SceneFacts, SeenObject

PAD, END = "<|pad|>", "<|end|>"
_VOCABULARY = 640
_VIDEO = "<|video_pad|>"


def small_tokenizer() -> Any:
    """Byte-level tokenizer: spells any text, has whole words for prompts and replies; always the same."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained()),
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens=_marks(),
    )


def _marks() -> list[str]:
    return sorted({mark for facts in FAMILIES.values() for mark in facts.marks()} | {_VIDEO})


@cache
def _trained() -> str:
    """The small tokenizer as JSON; training it takes a second."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        min_frequency=2,
        special_tokens=[PAD, END, *_marks()],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    text: str = tokenizer.to_str()
    return text


def encode(tokenizer: Any, text: str) -> list[int]:
    """Ids of a piece of text; nothing in it is taken for a special token of the model."""
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def letter_ids(tokenizer: Any) -> list[int]:
    """Id of each letter of the command, in order.

    Raises:
        UserError: the tokenizer has no token of its own for one of them.
    """
    ids = [encode(tokenizer, letter) for letter in LETTERS]
    for letter, found in zip(LETTERS, ids, strict=True):
        if len(found) != 1 or tokenizer.decode(found).strip() != letter:
            raise UserError(f"tokenizer: letter {letter!r} is not one token; this model cannot say commands")
    return [found[0] for found in ids]


def mark_id(tokenizer: Any, mark: str) -> int:
    """Id of a special token.

    Raises:
        UserError: the tokenizer does not have it.
    """
    found = tokenizer.get_vocab().get(mark)
    if found is None:
        raise UserError(f"tokenizer: has no token {mark!r}; it belongs to another model")
    return int(found)


def _texts() -> list[str]:
    """Prompts and replies that cover the closed vocabulary."""
    points = np.array([[9.5, -0.4], [24.1, 1.2]], np.float32)
    texts = []
    for turn, task, (a, b) in product(
        Turn, Task, zip(Lateral, (*Longitudinal, Longitudinal.STOP), strict=True)
    ):
        advice = Advice("red light ahead, vehicle ahead, walker", a, b, "good", 0.5)
        for prompt in (
            PromptInput(("front",), float("nan"), 13.9, turn, points, (advice,)),
            PromptInput(("front", "left", "right", "back"), 8.3, 8.3, turn, points),
        ):
            texts += [piece for piece in parts(prompt, task) if isinstance(piece, str)]
    for light, behaviour, a, b in product(LIGHTS, BEHAVIOURS, Lateral, Longitudinal):
        for stop_m, lead_m, count in ((12, None, 1), (None, 7, 0), (None, None, 3)):
            scene = SceneFacts(light, stop_m, lead_m)  # type: ignore[arg-type]
            seen = (SeenObject(12, -3), SeenObject(20, 4), SeenObject(31, 0))[:count]
            texts.append(Reasoning(scene, seen, (behaviour,) * count, a, b).text())  # type: ignore[arg-type]
    return texts
