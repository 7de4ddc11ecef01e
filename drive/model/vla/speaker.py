"""Asks a VLA: an observation in, a driving command or a typed reasoning out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drive.contracts import F32, U8, DrivingCommand, Observation, UserError
from drive.data.camera import conform
from drive.data.frames import COLOURS
from drive.model.vla import command as spelling
from drive.model.vla.command import LETTERS
from drive.model.vla.config import VlaConfig
from drive.model.vla.decode import Question, drafted, probability, reply
from drive.model.vla.families import facts_of
from drive.model.vla.network import VlaNetwork
from drive.model.vla.prompt import Advice, Picture, PromptInput, Task, parts, prompt_of
from drive.model.vla.reasoning import Reasoning, parse
from drive.model.vla.words import encode, letter_ids, mark_id


@dataclass(frozen=True)
class CommandReply:
    """Answer to "command:".

    Attributes:
        command: None if the reply was malformed.
        problem: Why it was, else "".
        embedding: float32 (width,), hidden state of the language model at the end of the prompt.
        passes: Forward passes it took.
        latency_ms: Time it took on this machine.
    """

    command: DrivingCommand | None
    problem: str
    embedding: F32
    passes: int
    latency_ms: float


@dataclass(frozen=True)
class ReasoningReply:
    """Answer to "reasoning:": None with the problem if malformed; the text as it came."""

    reasoning: Reasoning | None
    problem: str
    text: str


@dataclass
class Counts:
    """How often a VLA was asked, and how often a reply was malformed, by reason."""

    commands: int = 0
    reasonings: int = 0
    malformed: dict[str, int] = field(default_factory=dict)

    def refuse(self, problem: str) -> None:
        """Count one malformed reply."""
        self.malformed[problem] = self.malformed.get(problem, 0) + 1


class Speaker:
    """A network with its tokenizer; observations are asked about one by one, apart from each other."""

    def __init__(self, network: VlaNetwork, tokenizer: Any, config: VlaConfig) -> None:
        self.network, self.tokenizer, self.config = network, tokenizer, config
        self.counts = Counts()
        model: Any = network.vlm
        facts = facts_of(model.config)
        layout = facts.layout(model.config, config.picture_px)
        if mark_id(tokenizer, facts.token) != model.config.image_token_id:
            raise UserError(f"tokenizer: {facts.token!r} is not the picture token of this model")
        before, after = (
            [mark_id(tokenizer, mark) for mark in marks] for marks in (facts.before, facts.after)
        )
        self._picture = [*before, *[model.config.image_token_id] * layout.tokens, *after]
        self._size_px = layout.size_px
        self.letters = letter_ids(tokenizer)
        self.pad = int(
            tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        )
        self.end = int(tokenizer.eos_token_id)

    @property
    def size_px(self) -> tuple[int, int]:
        """Width and height at which the model sees a picture."""
        return self._size_px

    def prompt_ids(self, prompt: PromptInput, task: Task) -> list[int]:
        """Tokens of a prompt, pictures laid out."""
        ids: list[int] = []
        for part in parts(prompt, task):
            ids += self._picture if isinstance(part, Picture) else encode(self.tokenizer, part)
        return ids

    def reply_ids(self, reasoning: Reasoning) -> list[int]:
        """Tokens of a reasoning, with the one that ends it."""
        return [*encode(self.tokenizer, reasoning.text()), self.end]

    def command(self, observation: Observation, advice: Sequence[Advice] = ()) -> CommandReply:
        """Ask for the driving command.

        Raises:
            UserError: the observation lacks one of this VLA's cameras.
        """
        start = time.perf_counter()
        self.counts.commands += 1
        decoded = drafted(self.network, self._question(observation, advice, Task.COMMAND))
        embedding = decoded.embedding.float().cpu().numpy()
        confidence = probability(decoded.logits[:2], decoded.ids[:2])
        said = spelling.read([self._letter(word) for word in decoded.ids], confidence)
        problem = said if isinstance(said, str) else ""
        if not problem and not np.isfinite(embedding).all():
            problem = "hidden state is not finite"
        if problem:
            self.counts.refuse(problem)
        took = 1e3 * (time.perf_counter() - start)
        command = None if problem or isinstance(said, str) else said
        return CommandReply(command, problem, embedding, decoded.passes, took)

    def reasoning(self, observation: Observation, advice: Sequence[Advice] = ()) -> ReasoningReply:
        """Ask for the reasoning.

        Raises:
            UserError: the observation lacks one of this VLA's cameras.
        """
        self.counts.reasonings += 1
        question = self._question(observation, advice, Task.REASONING)
        ids = reply(self.network, question, {self.end}, self.config.max_reply_tokens)
        text = self.tokenizer.decode(ids, skip_special_tokens=False)
        found = parse(text)
        if isinstance(found, str):
            self.counts.refuse(found)
            return ReasoningReply(None, found, text)
        return ReasoningReply(found, "", text)

    def _letter(self, word: int) -> str:
        """The letter a token stands for, or the token as text."""
        if word in self.letters:
            return LETTERS[self.letters.index(word)]
        return f"token {self.tokenizer.decode([word])!r}"

    def _question(self, observation: Observation, advice: Sequence[Advice], task: Task) -> Question:
        cameras = [camera.name for camera in self.config.cameras]
        ids = self.prompt_ids(prompt_of(observation, cameras, advice), task)
        device = next(self.network.parameters()).device
        pictures = torch.from_numpy(np.stack(self._pictures(observation)))[None]
        return Question(torch.tensor([ids], device=device), pictures.to(device), self._size_px)

    def _pictures(self, observation: Observation) -> list[U8]:
        """uint8 (H, W, 3) per camera, all of the first one's size."""
        found = []
        first = self.config.cameras[0]
        for spec in self.config.cameras:
            if spec.name not in observation.images:
                have = ", ".join(sorted(observation.images)) or "none"
                raise UserError(f"this VLA needs images of camera {spec.name!r}, the observation has {have}")
            image = observation.images[spec.name][-1]
            view = conform(image[..., :COLOURS], observation.cameras[spec.name], spec)
            if view.shape[:2] != (first.height_px, first.width_px):
                import cv2

                size = (first.width_px, first.height_px)
                view = np.asarray(cv2.resize(view, size, interpolation=cv2.INTER_AREA), np.uint8)
            found.append(view)
        return found


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as int64 (B, L), filled up at the end, and the mask (B, L)."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids, mask
