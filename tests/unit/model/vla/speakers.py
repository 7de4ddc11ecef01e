"""Very small VLAs for tests."""

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from drive.model.vla.build import build_vlm
from drive.model.vla.command import LETTERS
from drive.model.vla.config import Family, Shape, VlaConfig, VlmSpec
from drive.model.vla.network import VlaNetwork
from drive.model.vla.prompt import Task, prompt_of
from drive.model.vla.speaker import Speaker
from drive.model.vla.words import small_tokenizer
from tests import builders

SHAPE = Shape(
    text_width=32,
    text_layers=2,
    text_heads=2,
    text_kv_heads=1,
    text_inner=64,
    vision_width=32,
    vision_layers=1,
    vision_heads=2,
    vision_inner=64,
    image_px=56,
    patch_px=14,
)
TAUGHT = "AACFM"  # keep/stop, 2 m/s at (8, 0)
CONFIG = VlaConfig(vlm=VlmSpec(shape=SHAPE), picture_px=(56, 28), max_reply_tokens=12)


@cache
def tokenizer() -> Any:
    return small_tokenizer()


def config_of(family: Family = "smolvlm", **changes: Any) -> VlaConfig:
    """`changes`: other values of VlaConfig."""
    return replace(CONFIG, vlm=VlmSpec(shape=replace(SHAPE, family=family)), **changes)


def tiny_speaker(family: Family = "smolvlm", seed: int = 0, **changes: Any) -> Speaker:
    """Random weights, far enough from zero that replies vary with the prompt; heads that draft anything."""
    network = copy.deepcopy(_network(family))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in network.vlm.parameters():
            if value.ndim > 1:
                value.normal_(0, 0.1, generator=generator)
        for head in network.heads:
            head.weight.normal_(0, 0.5, generator=generator)
    return Speaker(network.eval(), tokenizer(), config_of(family, **changes))


@cache
def _network(family: Family) -> VlaNetwork:
    return VlaNetwork(build_vlm(config_of(family).vlm, tokenizer()))


@cache
def taught_speaker() -> Speaker:
    """Trained for a moment to answer every prompt with TAUGHT, language model and heads alike."""
    speaker = tiny_speaker()
    network = speaker.network
    target = torch.tensor([speaker.letters[LETTERS.index(letter)] for letter in TAUGHT])
    prompt = speaker.prompt_ids(prompt_of(builders.observation(6.0), ["front"]), Task.COMMAND)
    ids = torch.tensor([[*prompt, *target[:-1].tolist()]])
    picture = torch.full((1, 1, 36, 64, 3), 90, dtype=torch.uint8)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for _ in range(40):
        hidden = network.read(ids, picture, speaker.size_px).hidden
        loss = cross_entropy(network.words(hidden[0, len(prompt) - 1 :]), target)
        loss = loss + cross_entropy(network.drafts(hidden[:, len(prompt) - 1])[0], target[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return speaker
