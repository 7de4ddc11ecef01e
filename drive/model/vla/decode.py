"""Greedy decoding of the command, plain and with verified drafts; both give the same tokens."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from drive.model.vla.command import SLOTS
from drive.model.vla.network import VlaNetwork

COMMAND_TOKENS = len(SLOTS)


class Question(NamedTuple):
    """A prompt: ids int64 (1, L), pictures uint8 (1, N, H, W, 3), and the size at which they are seen."""

    ids: Tensor
    pictures: Tensor
    size_px: tuple[int, int]


class Decoded(NamedTuple):
    """What was decoded.

    Attributes:
        ids: Tokens, one per slot.
        logits: float32 (slots, vocabulary), of the language model, from which they were taken.
        embedding: (width,), hidden state at the end of the prompt.
        passes: Forward passes it took.
    """

    ids: list[int]
    logits: Tensor
    embedding: Tensor
    passes: int


@torch.inference_mode()
def plain(network: VlaNetwork, question: Question) -> Decoded:
    """One token per pass."""
    seen = network.read(*question, keep=True)
    embedding = seen.hidden[0, -1]
    ids, logits = [], []
    for place in range(COMMAND_TOKENS):
        logits.append(network.words(seen.hidden[0, -1]))
        ids.append(int(logits[-1].argmax()))
        if place + 1 < COMMAND_TOKENS:
            seen = network.read(_row(ids[-1:], question), cache=seen.cache, keep=True)
    return Decoded(ids, torch.stack(logits), embedding, COMMAND_TOKENS)


@torch.inference_mode()
def drafted(network: VlaNetwork, question: Question, drafts: list[int] | None = None) -> Decoded:
    """All tokens are drafted in the first pass; the language model checks the drafts in the next.

    A wrong draft is replaced by what the language model says there, and the drafts after it are checked in
    another pass. The tokens are those of `plain`, up to ties within rounding; right drafts take 2 passes.

    Args:
        network: In eval mode.
        question: Prompt.
        drafts: To be checked instead of those of the network's heads; one per slot but the first.
    """
    seen = network.read(*question, keep=True)
    embedding = seen.hidden[0, -1]
    if drafts is None:
        drafts = network.drafts(embedding[None])[0].argmax(1).tolist()
    logits = [network.words(embedding)]
    ids, passes = [int(logits[0].argmax())], 1
    while len(ids) < COMMAND_TOKENS:
        tried = [ids[-1], *drafts[len(ids) - 1 : -1]]  # the last draft needs no successor
        seen = network.read(_row(tried, question), cache=seen.cache, keep=True)
        passes += 1
        said = network.words(seen.hidden[0])
        right = 0
        while right < len(tried) - 1 and int(said[right].argmax()) == tried[right + 1]:
            right += 1
        ids += said[: right + 1].argmax(1).tolist()
        logits += list(said[: right + 1])
        surplus = len(tried) - 1 - right
        if surplus:
            seen.cache.crop(-surplus)
    return Decoded(ids, torch.stack(logits), embedding, passes)


@torch.inference_mode()
def reply(network: VlaNetwork, question: Question, end: set[int], limit: int) -> list[int]:
    """Greedy tokens up to one that ends the reply (left out), or `limit` of them."""
    seen = network.read(*question, keep=True)
    ids: list[int] = []
    while len(ids) < limit:
        word = int(network.words(seen.hidden[0, -1]).argmax())
        if word in end:
            break
        ids.append(word)
        seen = network.read(_row([word], question), cache=seen.cache, keep=True)
    return ids


def _row(ids: list[int], question: Question) -> Tensor:
    return torch.tensor([ids], device=question.ids.device)


def probability(logits: Tensor, ids: list[int]) -> float:
    """Product of the probabilities of tokens under logits (n, vocabulary)."""
    chosen: Any = logits.log_softmax(1)[torch.arange(len(ids)), torch.tensor(ids)]
    return float(chosen.sum().exp())
