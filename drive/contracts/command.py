"""The closed vocabulary in which the planner states what it is about to do."""

from dataclasses import dataclass
from enum import IntEnum


class Lateral(IntEnum):
    """Sideways intention."""

    KEEP = 0
    LANE_LEFT = 1
    LANE_RIGHT = 2
    TURN_LEFT = 3
    TURN_RIGHT = 4
    U_TURN = 5


class Longitudinal(IntEnum):
    """Speed intention; FOLLOW and CRUISE are the same motion with and without a lead vehicle."""

    STOP = 0
    YIELD = 1
    FOLLOW = 2
    CRUISE = 3
    ACCELERATE = 4


@dataclass(frozen=True)
class DrivingCommand:
    """One driving command.

    Attributes:
        lateral, longitudinal: Closed vocabularies.
        target_speed_mps: Intended speed at the end of the plan.
        goal_ego: (x_m, y_m) intended position at the end of the plan.
        confidence: Probability in [0, 1] that the planner gives this command.
        reason: Free text, may be empty.
    """

    lateral: Lateral
    longitudinal: Longitudinal
    target_speed_mps: float
    goal_ego: tuple[float, float]
    confidence: float
    reason: str = ""

    @property
    def name(self) -> str:
        """Readable form, e.g. "turn_left/cruise"."""
        return f"{self.lateral.name}/{self.longitudinal.name}".lower()
