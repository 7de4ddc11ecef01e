"""Greedy decoding of the command, plain and with verified drafts; both give the same tokens."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from drive.model.vla.command import SLOTS
from drive.model.vla.network import Pass, VlaNetwork

COMMAND_TOKENS = len(SLOTS)
# In last places of the largest logit. Small random models were up to 7 (float32) and 0.9 (bfloat16) apart.
_ROUNDINGS = {torch.float32: 64, torch.bfloat16: 4, torch.float16: 8}


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
    return _one_by_one(network, question, network.read(*question, keep=True), 1)


def _one_by_one(network: VlaNetwork, question: Question, seen: Pass, passes: int) -> Decoded:
    """The command from what was seen of the prompt, after so many passes."""
    embedding = seen.hidden[0, -1]
    ids, logits = [], []
    for place in range(COMMAND_TOKENS):
        logits.append(network.words(seen.hidden[0, -1]))
        ids.append(int(logits[-1].argmax()))
        if place + 1 < COMMAND_TOKENS:
            seen = network.read(_row(ids[-1:], question), cache=seen.cache, keep=True)
            passes += 1
    return Decoded(ids, torch.stack(logits), embedding, passes)


@torch.inference_mode()
def drafted(network: VlaNetwork, question: Question, drafts: list[int] | None = None) -> Decoded:
    """All tokens are drafted in the first pass; the language model checks the drafts in the next.

    A wrong draft is replaced by what the language model says there, and the drafts after it are checked in
    another pass. Several tokens in one pass are rounded otherwise than one by one: where the first two words
    are so near that this could change the answer, everything after the prompt is decoded again as in `plain`.
    So the tokens are those of `plain`; right drafts take 2 passes.

    Args:
        network: In eval mode.
        question: Prompt.
        drafts: To be checked instead of those of the network's heads; one per slot but the first.
    """
    start = seen = network.read(*question, keep=True)
    embedding = seen.hidden[0, -1]
    if drafts is None:
        drafts = network.drafts(embedding[None])[0].argmax(1).tolist()
    logits = [network.words(embedding)]
    ids, passes, kept = [int(logits[0].argmax())], 1, 0
    while len(ids) < COMMAND_TOKENS:
        tried = [ids[-1], *drafts[len(ids) - 1 : -1]]  # the last draft needs no successor
        seen = network.read(_row(tried, question), cache=seen.cache, keep=True)
        passes += 1
        said = network.words(seen.hidden[0])
        right = 0
        while right < len(tried) - 1 and int(said[right].argmax()) == tried[right + 1]:
            right += 1
        if in_doubt(said[: right + 1], embedding.dtype):
            seen.cache.crop(-kept - len(tried))
            return _one_by_one(network, question, Pass(start.hidden, seen.cache), passes)
        ids += said[: right + 1].argmax(1).tolist()
        logits += list(said[: right + 1])
        surplus = len(tried) - 1 - right
        kept += len(tried) - surplus
        if surplus:
            seen.cache.crop(-surplus)
    return Decoded(ids, torch.stack(logits), embedding, passes)


def in_doubt(logits: Tensor, dtype: torch.dtype) -> bool:
    """Are the first two of any row (n, vocabulary) nearer than the rounding of a model of this type?"""
    first, second = logits.topk(2, -1).values.unbind(-1)
    rounding = _ROUNDINGS[dtype] * torch.finfo(dtype).eps * logits.abs().amax(-1)
    return bool((first - second <= rounding).any())


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
