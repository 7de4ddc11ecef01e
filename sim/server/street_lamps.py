"""Street lamps on the sidewalks of slow roads; OpenDRIVE has none. The same ones every time."""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from drive.viz.figures import Colour, box, place, solid
from drive.viz.quads import Layer, Quads, Tag, concatenate
from sim.server.road_geometry import Edge, LaneSection

_SLOW_MPS = 17.0
_EVERY_M, _FIRST_M, _INSIDE_M = 34.0, 9.0, 0.4
_LAMP_HIGH_M, _LAMP_ARM_M = 6.8, 1.9
_POLE: Colour = (104, 108, 110)
_LAMP_GLASS: Colour = (226, 222, 206)


def street_lamps(edge: Edge, section: LaneSection) -> Iterator[Quads]:
    """Lamps at the outer edge of a section's sidewalks, on both sides in turn; none without sidewalks."""
    if edge.road.limit_mps >= _SLOW_MPS:
        return
    outermost = {
        side: section.lanes.get(side * max((side * n for n in section.lanes), default=0)) for side in (1, -1)
    }
    stations = np.arange(edge.s[0] + _FIRST_M, edge.s[-1] - _FIRST_M, _EVERY_M)
    for turn, s in enumerate(stations.tolist()):
        border, side = ((edge.left, 1), (edge.right, -1))[turn % 2]
        lane = outermost[side]
        if lane is None or lane.kind != "sidewalk":
            continue
        t = float(np.interp(s, edge.s, border)) - side * _INSIDE_M
        x, y, z = edge.road.points(np.array([s]), np.array([t]))[0].tolist()
        heading = float(edge.road.reference(np.array([s]))[2][0]) - side * math.pi / 2
        yield place(_street_lamp(), x, y, z, heading)


@lru_cache(maxsize=1)
def _street_lamp() -> Quads:
    """A pole, and an arm along +x with the lamp below its end."""
    pole = box((0, 0, -0.4), (0.07, 0.07), _LAMP_HIGH_M + 0.4, _POLE, Tag.POLES).take(np.arange(4))
    arm = box((_LAMP_ARM_M / 2, 0, _LAMP_HIGH_M), (_LAMP_ARM_M / 2, 0.06), 0.12, _POLE, Tag.POLES).take(
        np.arange(4)
    )
    head, half = _LAMP_ARM_M, 0.22
    glass = [
        [head + u, v, _LAMP_HIGH_M - 0.02]
        for u, v in ((-2 * half, half), (0, half), (0, -half), (-2 * half, -half))
    ]
    lamp = solid(np.array([glass]), np.array([_LAMP_GLASS], float), Tag.POLES)
    lamp = Quads(lamp.corners, lamp.colour, np.full(1, Layer.LAMP, np.uint8), lamp.tag)
    return concatenate([pole, arm, lamp])
