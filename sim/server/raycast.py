"""What rays hit: the ground of the town and the boxes of actors; CARLA frame, metres."""

import math
from collections.abc import Iterator, Sequence

import carla

from sim.server.actors import Actor
from sim.server.town import Town
from sim.server.world import World

ROADS, SIDEWALKS, TERRAIN = 1, 2, 10  # CityObjectLabel
LONGEST_M = 10_000.0
_STEP_M, _MOST_STEPS = 1.0, 400
_START_BELOW_M = 0.1  # a ray may start this deep in the ground and still hits it
_LANE_TYPES = carla.LaneType.Any
Vec = Sequence[float]
LabelledPoint = list[object]


def cast(world: World, start: Vec, end: Vec) -> list[LabelledPoint]:
    """All that the line from start to end enters, nearest first: rows [[x, y, z], label]."""
    way = [b - a for a, b in zip(start, end, strict=True)]
    length = math.sqrt(sum(part * part for part in way))
    if length == 0.0:
        return []
    reach = min(length, LONGEST_M)
    direction = [part / length for part in way]
    return [
        [_along(start, direction, t), label] for t, label in sorted(_hits(world, start, direction, reach))
    ]


def project(world: World, start: Vec, direction: Vec, reach_m: float) -> LabelledPoint | None:
    """First thing that a ray of reach_m metres enters; None when it enters nothing."""
    length = math.sqrt(sum(part * part for part in direction))
    if length == 0.0:
        return None
    unit = [part / length for part in direction]
    hit = min(_hits(world, start, unit, min(reach_m, LONGEST_M)), default=None)
    return None if hit is None else [_along(start, unit, hit[0]), hit[1]]


def _along(start: Vec, direction: Vec, t: float) -> list[float]:
    return [a + t * d for a, d in zip(start, direction, strict=True)]


def _hits(world: World, start: Vec, direction: Vec, reach: float) -> Iterator[tuple[float, int]]:
    for actor in world.actors.values():
        if actor.half_size is not None:
            t = entry_m(actor, start, direction)
            if t is not None and t <= reach:
                yield t, actor.label
    ground = _ground_hit(world.town, start, direction, reach)
    if ground is not None:
        yield ground


def entry_m(actor: Actor, start: Vec, direction: Vec) -> float | None:
    """Distance at which a ray (unit direction) enters an actor's box; None if it misses or starts inside."""
    assert actor.half_size is not None
    yaw = math.radians(actor.yaw)
    c, s = math.cos(yaw), math.sin(yaw)
    dx, dy = start[0] - actor.x, start[1] - actor.y
    origin = (c * dx + s * dy, c * dy - s * dx, start[2] - actor.z - actor.box[0][2])
    way = (c * direction[0] + s * direction[1], c * direction[1] - s * direction[0], direction[2])
    enter, leave = -math.inf, math.inf
    for o, w, half in zip(origin, way, actor.half_size, strict=True):
        if abs(w) < 1e-12:
            if abs(o) > half:
                return None
            continue
        near, far = sorted(((-half - o) / w, (half - o) / w))
        enter, leave = max(enter, near), min(leave, far)
    return enter if 0.0 <= enter <= leave else None


def _ground(town: Town, x: float, y: float, z: float) -> tuple[float, int] | None:
    waypoint = town.map.get_waypoint(carla.Location(x, y, z), True, _LANE_TYPES)
    if waypoint is None:
        return None
    at = waypoint.transform.location
    if math.hypot(at.x - x, at.y - y) > waypoint.lane_width / 2 + 0.05:
        return at.z, TERRAIN
    return at.z, SIDEWALKS if waypoint.lane_type == carla.LaneType.Sidewalk else ROADS


def _ground_hit(town: Town, start: Vec, direction: Vec, reach: float) -> tuple[float, int] | None:
    """First crossing of the ground from above; beyond the lanes the ground is as high as the nearest one."""
    flat = math.hypot(direction[0], direction[1])
    found = _ground(town, *start)
    if found is None or (direction[2] >= 0.0 and flat == 0.0):
        return None
    above = start[2] - found[0]
    if above < -_START_BELOW_M:
        return None
    if flat < 1e-9:
        return (above, found[1]) if above <= reach else None
    steps = max(1, min(_MOST_STEPS, math.ceil(reach * flat / _STEP_M)))
    before = 0.0
    for number in range(1, steps + 1):
        t = reach * number / steps
        below = _ground(town, *_along(start, direction, t))
        if below is None:
            return None
        height = start[2] + t * direction[2] - below[0]
        if height <= 0.0:
            share = above / (above - height) if above > 0.0 else 0.0
            return before + share * (t - before), below[1]
        before, above = t, height
    return None
