"""Does a run of the ego meet others that do not make room for it?

The poses of a plan against where everybody will be at their present speed.
"""

import math
from dataclasses import dataclass

import numpy as np

from drive.contracts import DT_S, EGO_MKZ, F64, STEPS, AgentKind, Bool
from drive.geometry.boxes import centre_pose, overlap
from sim.predict import boxes_ahead
from sim.situation import Agents

TIMES_S = np.arange(1, STEPS + 1) * DT_S  # at every pose: in twice that time a bicycle is passed unseen


@dataclass(frozen=True)
class Berth:
    """Room that has to stay free around the ego.

    Attributes:
        side_m, walker_m: To its sides, from vehicles and from walkers.
        ahead_m: Before and behind it.
        later_mps: By so much the latter grows with every second of looking ahead.
        closing_s: At the end of the run somebody faster behind is still so far behind.
        until_s: How far to look ahead.
    """

    side_m: float = 0.35
    walker_m: float = 0.8
    ahead_m: float = 1.0
    later_mps: float = 0.25
    closing_s: float = 1.0
    until_s: float = 4.0


WIDE = Berth()
BEGUN = Berth(
    side_m=0.2, walker_m=0.6, ahead_m=0.5, later_mps=0.1, closing_s=0.6
)  # a run is not given up lightly
LEAST = Berth(side_m=0.1, walker_m=0.3, ahead_m=0.4, later_mps=0.0, closing_s=0.0, until_s=2.6)


def first_touch_s(
    poses: F64, agents: Agents, ignored: Bool, berth: Berth = WIDE, late_s: float = 0.0
) -> float:
    """When the ego meets the first of the others; inf if it meets nobody.

    Args:
        poses: (40, 3), rear axle in the world at 0.1, ..., 4 s.
        agents: Everybody; those that stand are left to the car-following model.
        ignored: bool (A,), agents that do not count.
        berth: Room to keep.
        late_s: So much later than planned the ego will be everywhere.
    """
    boxes, rows = boxes_ahead(agents, TIMES_S + late_s, rising=False)
    if not len(boxes):
        return math.inf
    who, t_s = rows[:, 0].astype(int), rows[:, 1] - late_s
    step = np.clip(np.round(t_s / DT_S).astype(int) - 1, 0, len(poses) - 1)
    ego = centre_pose(poses, EGO_MKZ.centre_from_axle_m)[step]
    walker = agents.kind[who] == AgentKind.PEDESTRIAN
    wide = EGO_MKZ.width_m + 2 * np.where(walker, berth.walker_m, berth.side_m)
    long = EGO_MKZ.length_m + 2 * (berth.ahead_m + berth.later_mps * t_s)
    hit = overlap(ego, np.stack([long, wide], -1), boxes, agents.size_m[who])
    speed = float(np.hypot(*(poses[-1, :2] - poses[-6, :2]))) / (5 * DT_S)
    last = t_s > TIMES_S[-1] - 1e-6
    closing = np.maximum(0.0, agents.speed_mps[who] - speed) * berth.closing_s
    hit |= last & overlap(ego, np.stack([long + 2 * closing, wide], -1), boxes, agents.size_m[who])
    hit &= ~ignored[who] & (t_s <= berth.until_s)
    return float(t_s[hit].min(initial=math.inf))
