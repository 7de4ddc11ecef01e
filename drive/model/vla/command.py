"""The driving command as five letters, one token each, and back; nothing is guessed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.contracts import F32, I64, DrivingCommand, Lateral, Longitudinal

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_END_S, _DT_S = 0.5, 0.1


@dataclass(frozen=True)
class Slot:
    """One place of the command: letter i stands for low + i * step.

    Attributes:
        name: What it says.
        count: Letters in use, from "A".
        low, step: Of the numbers; 0 and 1 for words.
    """

    name: str
    count: int
    low: float = 0.0
    step: float = 1.0

    def letters_of(self, value: Any) -> I64:
        """Indices of the nearest letters, int64, of values of any shape; beyond the ends the last letter."""
        index = np.rint((np.asarray(value, np.float64) - self.low) / self.step)
        return np.clip(index, 0, self.count - 1).astype(np.int64)

    def value(self, index: int) -> float:
        """What a letter stands for."""
        return self.low + index * self.step


SLOTS = (
    Slot("lateral", len(Lateral)),
    Slot("longitudinal", len(Longitudinal)),
    Slot("target speed [m/s]", 26),
    Slot("goal ahead [m]", 26, -12.0, 4.0),
    Slot("goal to the left [m]", 25, -24.0, 2.0),
)


def spell(command: I64, label_ego: F32) -> I64:
    """Commands as letters.

    Args:
        command: int64 (B, 2), Lateral and Longitudinal.
        label_ego: float32 (B, 40, 3), trajectory that carries them out, ego frame [m].

    Returns:
        int64 (B, 5), indices into LETTERS: command, speed over the last 0.5 s, place at the end.
    """
    end = label_ego[:, -1]
    before = label_ego[:, -1 - round(_END_S / _DT_S)]
    speed = np.hypot(end[:, 0] - before[:, 0], end[:, 1] - before[:, 1]) / _END_S
    columns = [command[:, 0], command[:, 1], speed, end[:, 0], end[:, 1]]
    return np.stack([slot.letters_of(column) for slot, column in zip(SLOTS, columns, strict=True)], 1)


def read(letters: Sequence[str], confidence: float) -> DrivingCommand | str:
    """The command that five letters spell, or why they spell none.

    Args:
        letters: What was replied, one string per slot.
        confidence: Probability of the first two, in [0, 1].
    """
    if len(letters) != len(SLOTS):
        return f"{len(letters)} letters, not {len(SLOTS)}"
    found = []
    for slot, letter in zip(SLOTS, letters, strict=True):
        index = LETTERS.find(letter) if len(letter) == 1 else -1
        if not 0 <= index < slot.count:
            return f"{letter[:20]!r} is no {slot.name}"
        found.append(index)
    if not 0.0 <= confidence <= 1.0:  # NaN as well
        return f"confidence {confidence} is not in [0, 1]"
    speed, ahead, left = (slot.value(index) for slot, index in zip(SLOTS[2:], found[2:], strict=True))
    return DrivingCommand(Lateral(found[0]), Longitudinal(found[1]), speed, (ahead, left), confidence)
