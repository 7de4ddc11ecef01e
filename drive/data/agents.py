"""Other road users around the ego as a table: where they are, how large, and where they will be."""

import numpy as np

from drive.contracts import F32, AgentKind, DriveLog
from drive.data.ground import FROM_X_M, HALF_Y_M, TO_X_M
from drive.geometry.se2 import to_local

MOST = 24
LATER_S = (1.0, 2.0, 3.0)
X, Y, YAW, LENGTH, WIDTH, WALKER, LATER = range(7)  # columns; LATER is the first of 2 * len(LATER_S)
COLUMNS = LATER + 2 * len(LATER_S)
_LATE_S = 0.3


def agents_of(log: DriveLog, plan_index: int) -> F32:
    """The nearest road users at a planning step, on the ground that drive.data.ground describes.

    Returns:
        float32 (MOST, COLUMNS): x, y [m], yaw [rad] in the ego frame, length, width [m], 1 for walkers, then
        x, y at LATER_S in the same frame (NaN = not recorded). Rows of NaN are empty.
    """
    step = int(log.plans.step[plan_index])
    origin = log.ego.pose_world[step]
    table = np.full((MOST, COLUMNS), np.nan, np.float32)
    here = np.flatnonzero(log.agents.valid[:, step])
    pose = to_local(log.agents.pose_world[here, step], origin)
    inside = (pose[:, 0] >= FROM_X_M) & (pose[:, 0] < TO_X_M) & (np.abs(pose[:, 1]) < HALF_Y_M)
    order = np.argsort(np.hypot(pose[inside, 0], pose[inside, 1]), kind="stable")[:MOST]
    chosen, pose = here[inside][order], pose[inside][order]
    rows = slice(0, len(chosen))
    table[rows, X : YAW + 1] = pose
    table[rows, LENGTH : WIDTH + 1] = log.agents.size_m[chosen]
    table[rows, WALKER] = log.agents.kind[chosen] == AgentKind.PEDESTRIAN
    t_s = (log.ego.t_us - log.ego.t_us[step]) * 1e-6
    for k, at_s in enumerate(LATER_S):
        at = int(np.abs(t_s - at_s).argmin())
        if abs(t_s[at] - at_s) > _LATE_S:
            continue
        later = to_local(log.agents.pose_world[chosen, at, :2], origin)
        known = log.agents.valid[chosen, at]
        table[rows, LATER + 2 * k : LATER + 2 * k + 2] = np.where(known[:, None], later, np.nan)
    return table
