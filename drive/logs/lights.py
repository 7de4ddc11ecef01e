"""Traffic lights along a driven path, from what py123d stores by lane."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drive.contracts import F32, F64, I32, I64
from drive.logs import columns
from drive.logs.maps import lanes_around

if TYPE_CHECKING:
    from py123d.datatypes.map_objects.map_objects import Lane

LIGHTS = "traffic_light_detections"
STATES = {2: 0.0, 1: 1.0, 0: 2.0}  # py123d's red, yellow, green -> PlanSteps.aux
MAX_AGE_S = 0.6
FAR_M = 100.0
FORK_M, SLACK_M, SHORTEST_M = 3.0, 0.5, 2.0


def lights_ahead(folder: Path, place: Path, path_world: F64, t_us: I64, step: I32, front_m: float) -> F32:
    """State of the next light on the driven path, and the distance to it, at steps of a log.

    The stop line is where a lane with a light begins, if the path follows that lane. As driven: which lane
    that is comes from the recorded future.

    Args:
        folder: Of the log.
        place: Its map.
        path_world: float64 (N, 2), the driven path, one point per time.
        t_us: int64 (N,).
        step: int32 (D,), rows of the path.
        front_m: From the rear axle to the front bumper.

    Returns:
        float32 (D, 2), state as in PlanSteps.aux and metres from the front bumper; NaN where none is known.
    """
    out = np.full((len(step), 2), np.nan, np.float32)
    file = folder / f"{LIGHTS}.arrow"
    if not file.is_file() or len(path_world) < 2:
        return out
    table = columns.open_table(file)
    sent = columns.times_us(table)
    lanes, states = table["lane_id"].to_pylist(), table["status"].to_pylist()
    begins = _begins(place, path_world, {str(lane) for row in lanes for lane in row})
    along = np.append(0.0, np.cumsum(np.hypot(*np.diff(path_world, axis=0).T)))
    for i, k in enumerate(step):
        row = int(np.searchsorted(sent, t_us[k], "right")) - 1
        if row < 0 or t_us[k] - sent[row] > MAX_AGE_S * 1e6:
            continue
        ahead = [
            (begins[str(lane)] - along[k] - front_m, STATES[state])
            for lane, state in zip(lanes[row], states[row], strict=True)
            if str(lane) in begins and state in STATES
        ]
        near = [one for one in ahead if 0.0 <= one[0] <= FAR_M]
        if near:
            distance, state = min(near)
            out[i] = state, distance
    return out


def _begins(place: Path, path_world: F64, wanted: set[str]) -> dict[str, float]:
    """Where along the path [m] lanes begin that it follows, of those wanted; of lanes that fork the best."""
    found: list[tuple[float, float, str]] = []
    for lane in lanes_around(place, path_world):
        follows = _follows(lane, path_world) if str(lane.object_id) in wanted else None
        if follows is not None:
            found.append((*follows, str(lane.object_id)))
    best: dict[str, float] = {}
    for _, begin, name in sorted(found):
        if all(abs(begin - other) > FORK_M for other in best.values()):
            best[name] = begin
    return best


def _follows(lane: "Lane", path_world: F64) -> tuple[float, float] | None:
    """Mean distance from the path and where along it the lane begins; None if the path does not follow it."""
    from shapely import LineString, distance, line_interpolate_point, line_locate_point, points

    path, line = LineString(path_world), lane.centerline_2d.linestring
    place = line_interpolate_point(line, np.linspace(0.0, line.length, 12))
    along, off = line_locate_point(path, place), distance(path, place)
    on = along < path.length - SLACK_M
    if along[0] < SLACK_M or not on[0] or on.sum() < 2:
        return None
    start = points(line.coords[0][:2])
    sides = [distance(one.linestring, start) for one in (lane.left_boundary_2d, lane.right_boundary_2d)]
    runs = np.diff(along[on])
    if off[on].max() > sum(sides) / 2 or (runs <= 0).any() or runs.sum() < SHORTEST_M:
        return None
    return float(off[on].mean()), float(along[0])
