"""What a policy returns, and the one interface it implements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from drive.contracts.arrays import F32, expect
from drive.contracts.command import DrivingCommand
from drive.contracts.observation import Observation

DT_S = 0.1
USER_COLUMNS = 12
NOBODY = np.zeros((0, USER_COLUMNS), np.float32)
STEPS = 40


@dataclass(frozen=True)
class Trajectory:
    """Future ego poses in the ego frame at plan time.

    Attributes:
        pose_ego: float32 (T, 3), [x_m, y_m, yaw_rad]; row i is the pose at (i + 1) * dt_s.
        dt_s: Spacing between rows.
    """

    pose_ego: F32
    dt_s: float = DT_S

    def __post_init__(self) -> None:
        expect("pose_ego", self.pose_ego, (None, 3), np.float32)


@dataclass(frozen=True)
class Plan:
    """The chosen trajectory and the proposals it was chosen from.

    Attributes:
        best: Trajectory to drive.
        proposals_ego: float32 (P, T, 3); row `scores.argmax()` equals `best` unless a flag says otherwise.
        scores: float32 (P,), higher is better.
        command: The driving command the planner emitted, None for planners that emit none.
        critique: Reward term -> value in [0, 1] on the scene the planner predicts; may be empty.
        flags: Any of "split_brain" (command and trajectory disagree), "fallback" (output was not usable and
            was replaced by a safe brake), "refined" (changed after selection for a better critique),
            "own_command" (the VLA's command was missing or too old, the planner used its own).
        latency_ms: Stage -> milliseconds.
        road_users: float32 (N, 12), other road users that the planner sees, in the ego frame at plan time:
            box centre x, y [m], yaw [rad], length, width [m], probability, and the centre in 1, 2 and 3 s.
        command_age_s: How long ago what the command was made of was seen; 0 for the planner's own command.
    """

    best: Trajectory
    proposals_ego: F32
    scores: F32
    command: DrivingCommand | None = None
    critique: Mapping[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    command_age_s: float = 0.0
    road_users: F32 = field(default_factory=lambda: NOBODY)

    def __post_init__(self) -> None:
        expect("proposals_ego", self.proposals_ego, (None, None, 3), np.float32)
        expect("scores", self.scores, (len(self.proposals_ego),), np.float32)
        expect("road_users", self.road_users, (None, USER_COLUMNS), np.float32)


class Policy(Protocol):
    """Anything that drives: a network, a rule, a replay."""

    name: str
    needs_images: bool

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        """Plan for each observation; the same inputs and seed give the same plans."""
        ...
