"""What the VLA is told: cameras, ego state, route hint and advice, as text with pictures."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from drive.contracts import F32, Lateral, Longitudinal, Observation, Turn

MOST_ADVICE = 3
_ADVICE_LETTERS = 80
_PLAIN = re.compile(r"[^A-Za-z0-9 .,;:%/+-]+")


class Task(Enum):
    """What is asked: the driving command, or the reasoning."""

    COMMAND = "command"
    REASONING = "reasoning"


@dataclass(frozen=True)
class Picture:
    """Place of a camera's picture in the prompt."""

    camera: str


@dataclass(frozen=True)
class Advice:
    """One remembered case that resembles the present one.

    Attributes:
        situation: What it was, free text; at most 80 letters are used, marks of tokenizers are taken out.
        lateral, longitudinal: What was done.
        outcome: How it ended.
        likeness: How alike it is, in [0, 1].
    """

    situation: str
    lateral: Lateral
    longitudinal: Longitudinal
    outcome: Literal["good", "bad"]
    likeness: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.likeness <= 1.0:
            raise ValueError(f"likeness: must be in [0, 1], got {self.likeness}")

    def text(self) -> str:
        """One line; the same advice gives the same text."""
        words = " ".join(_PLAIN.sub(" ", self.situation).split())[:_ADVICE_LETTERS].strip()
        done = f"{self.lateral.name}/{self.longitudinal.name}".lower()
        return f"advice {100 * self.likeness:.0f}% alike: {words}: {done} was {self.outcome}"


@dataclass(frozen=True)
class PromptInput:
    """What a prompt is made of.

    Attributes:
        cameras: Names in order.
        speed_mps: Now; NaN = unknown.
        speed_limit_mps: Posted limit.
        turn: Route instruction.
        targets_ego: float32 (2, 2), route points about 10 m and 25 m ahead [m].
        advice: Remembered cases, the most alike are used.
    """

    cameras: tuple[str, ...]
    speed_mps: float
    speed_limit_mps: float
    turn: Turn
    targets_ego: F32
    advice: tuple[Advice, ...] = ()


def prompt_of(observation: Observation, cameras: Sequence[str], advice: Sequence[Advice] = ()) -> PromptInput:
    """The prompt's content for an observation."""
    route = observation.route
    return PromptInput(
        tuple(cameras),
        observation.speed_mps,
        route.speed_limit_mps,
        route.turn,
        route.target_points_ego,
        tuple(advice),
    )


def parts(prompt: PromptInput, task: Task) -> list[str | Picture]:
    """The prompt as text and pictures in order; it ends where the reply begins."""
    found: list[str | Picture] = []
    for camera in prompt.cameras:
        found += [f"{camera} ", Picture(camera)]
    speed = f"{prompt.speed_mps:.1f}" if math.isfinite(prompt.speed_mps) else "unknown"
    ahead = " ".join(f"{value:+.1f}" for value in prompt.targets_ego.ravel().tolist())
    lines = [
        "",
        f"speed {speed} limit {prompt.speed_limit_mps:.1f}",
        f"route {prompt.turn.name.lower()} at {ahead}",
    ]
    best = sorted(prompt.advice, key=lambda a: (-a.likeness, a.text()))[:MOST_ADVICE]
    lines += [advice.text() for advice in best]
    found.append("\n".join([*lines, f"{task.value}:"]))
    return found
