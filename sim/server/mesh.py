"""OpenDRIVE towns as coloured quads: lanes, markings, kerbs, crossings, stop lines, verges, houses."""

import itertools
import math
from xml.etree import ElementTree

import numpy as np

from drive.contracts import F32, F64
from drive.viz.figures import Colour, box, place
from drive.viz.quads import Layer, Quads, Tag, concatenate
from sim.server.road_geometry import Lane, LaneSection, Road, RoadMark, Stations, polynomial, read_road

VERSION = 3  # part of the cache key: raise it when the quads of a town change

_COLOURS: dict[str, Colour] = {
    "driving": (74, 74, 78),
    "bidirectional": (74, 74, 78),
    "parking": (84, 82, 82),
    "biking": (96, 70, 62),
    "shoulder": (92, 90, 86),
    "sidewalk": (150, 146, 140),
    "median": (92, 112, 70),
    "border": (104, 100, 94),
    "none": (88, 108, 66),
}
_VERGE, _KERB, _WHITE, _YELLOW, _CROSSWALK = (
    (96, 118, 72),
    (184, 180, 172),
    (232, 232, 228),
    (226, 178, 52),
    (224, 224, 220),
)
_TAGS = {
    "driving": Tag.ROADS,
    "bidirectional": Tag.ROADS,
    "parking": Tag.ROADS,
    "biking": Tag.ROADS,
    "shoulder": Tag.ROADS,
    "sidewalk": Tag.SIDEWALKS,
    "border": Tag.GROUND,
}
_LAYERS = {
    "sidewalk": Layer.SIDEWALK,
    "shoulder": Layer.SHOULDER,
    "parking": Layer.SHOULDER,
    "biking": Layer.SHOULDER,
    "driving": Layer.ROAD,
    "bidirectional": Layer.ROAD,
}
_LIFT_M = {
    Layer.VERGE: -0.12,
    Layer.TERRAIN: -0.06,
    Layer.SHOULDER: -0.01,
    Layer.ROAD: 0.0,
    Layer.SIDEWALK: 0.14,
    Layer.CROSSWALK: 0.015,
    Layer.MARKING: 0.025,
}
_DRIVABLE = ("driving", "bidirectional")
_VERGE_M, _VERGE_DROP_M = 9.0, 0.4
_KERB_M, _KERB_EDGE_M = 0.16, 0.18
_MARK_HALF_M, _DASH_M, _DASH_EVERY_M, _DOUBLE_M = 0.08, 3.5, 9.0, 0.13
_FACADES: tuple[Colour, ...] = (
    (150, 110, 90),
    (168, 158, 140),
    (120, 124, 132),
    (186, 170, 140),
    (112, 92, 84),
    (140, 150, 158),
    (176, 142, 118),
)
_WINDOWS: Colour = (70, 84, 100)
_SLOW_MPS = 17.0
_DECK_CELL_M, _DECK_M = 40.0, 5.0


class _Builder:
    """Collects quads; flat ones are turned face up."""

    def __init__(self) -> None:
        self._corners: list[F32] = []
        self._looks: list[tuple[Colour, Layer, Tag]] = []
        self.houses: list[Quads] = []

    def flat(self, corners: F64, colour: Colour, layer: Layer, tag: Tag) -> None:
        if not len(corners):
            return
        diagonal_a, diagonal_b = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
        down = diagonal_a[:, 0] * diagonal_b[:, 1] - diagonal_a[:, 1] * diagonal_b[:, 0] < 0
        if down.any():
            corners = np.where(down[:, None, None], corners[:, ::-1], corners)
        self.facing(corners, colour, layer, tag)

    def facing(self, corners: F64, colour: Colour, layer: Layer, tag: Tag) -> None:
        self._corners.append(corners.astype(np.float32))
        self._looks.append((colour, layer, tag))

    def quads(self) -> Quads:
        """All quads, houses last."""
        if not self._corners:
            return concatenate(self.houses)
        counts = [len(part) for part in self._corners]
        colour, layer, tag = (
            np.repeat(np.array(look, np.uint8), counts, axis=0) for look in zip(*self._looks, strict=True)
        )
        return concatenate([Quads(np.concatenate(self._corners), colour, layer, tag), *self.houses])


def build_mesh(xodr: str) -> Quads:
    """All quads of a town (10 k for Town01, 900 k for Town12)."""
    root = ElementTree.fromstring(xodr)
    roads = [read_road(element) for element in root.findall("road")]
    out = _Builder()
    edges: list[_Edge] = []
    surface: list[F64] = []
    for road in roads:
        for section in road.sections:
            if section.end_m - section.start_m > 0.02 and any(section.lanes):
                edge = _section(road, section, out)
                if any(lane.kind in _DRIVABLE for lane in section.lanes.values()):
                    surface += [edge.across(f) for f in np.linspace(0, 1, 5)]
                    edges += [] if road.in_junction else [edge]
        _objects(road, out)
    if surface:
        _buildings(edges, np.concatenate(surface), out)
    return out.quads()


class _Edge:
    """Outer borders of a lane section: stations s (n,), lateral offsets left and right (n,)."""

    def __init__(self, road: Road, stations: Stations, left: F64, right: F64) -> None:
        self.road, self.s, self.left, self.right = road, stations.s, left, right
        self._stations = stations

    def across(self, share: float) -> F64:
        return self._stations.points(self.left * share + self.right * (1 - share))


def _strip(a: F64, b: F64) -> F64:
    """Quads (n-1, 4, 3) between two polylines (n, 3)."""
    quads: F64 = np.stack([a[:-1], a[1:], b[1:], b[:-1]], 1)
    return quads


def _raised(points: F64, height: float) -> F64:
    lifted: F64 = points + np.array([0.0, 0.0, height])
    return lifted


def _stations(road: Road, section: LaneSection) -> F64:
    """Stations (n,) dense enough for the curvature, with a break wherever a width polynomial starts."""
    start, end = section.start_m, section.end_m
    breaks = {start, end} | {float(x) for x in road.lines[:, 0] if start < x < end}
    for lane in section.lanes.values():
        breaks |= {start + float(x) for x in lane.widths[:, 0] if 0 < x < end - start}
    ordered = sorted(breaks)
    s: list[float] = []
    for a, b in itertools.pairwise(ordered):
        bend = road.curvature((a + b) / 2)
        step = 1.5 if bend > 0.02 else 3.0 if bend > 0.002 else 5.0
        s += np.linspace(a, b, max(1, math.ceil((b - a) / step)) + 1)[:-1].tolist()
    return np.array([*s, end])


def _section(road: Road, section: LaneSection, out: _Builder) -> _Edge:
    s = _stations(road, section)
    stations = Stations(road, s)
    centre = polynomial(road.lane_offset, s)
    outer = {}
    for side in (1, -1):
        border, inner_layer = centre, None
        lane = section.lanes.get(side)
        while lane is not None:
            width = np.maximum(polynomial(lane.widths, s - section.start_m), 0)
            beyond = border + side * width
            if width.max() > 0.03:
                inner_layer = _lane(stations, border, beyond, side, lane, inner_layer, out)
            _markings(road, section, s, beyond, lane.marks, side, out)
            border = beyond
            lane = section.lanes.get(lane.lane_id + side)
        outer[side] = border
        if not road.in_junction:
            near = _raised(stations.points(border), _LIFT_M[Layer.VERGE])
            far = _raised(stations.points(border + side * _VERGE_M), _LIFT_M[Layer.VERGE] - _VERGE_DROP_M)
            out.flat(_strip(near, far), _VERGE, Layer.VERGE, Tag.TERRAIN)
    if 0 in section.lanes:
        _markings(road, section, s, centre, section.lanes[0].marks, 1, out)
    return _Edge(road, stations, outer[1], outer[-1])


def _lane(
    stations: Stations,
    inner: F64,
    outer: F64,
    side: int,
    lane: Lane,
    inner_layer: Layer | None,
    out: _Builder,
) -> Layer:
    layer = _LAYERS.get(lane.kind, Layer.TERRAIN)
    near, far = (_raised(stations.points(t), _LIFT_M[layer]) for t in (inner, outer))
    colour, tag = _COLOURS.get(lane.kind, _COLOURS["none"]), _TAGS.get(lane.kind, Tag.TERRAIN)
    out.flat(_strip(near, far), colour, layer, tag)
    if layer == Layer.SIDEWALK and inner_layer not in (None, Layer.SIDEWALK):
        low = _raised(near, -_KERB_M)
        out.facing(_strip(low, near) if side == 1 else _strip(near, low), _KERB, Layer.KERB, Tag.SIDEWALKS)
        edge = _raised(stations.points(inner + side * _KERB_EDGE_M), _LIFT_M[layer] + 0.004)
        out.flat(_strip(near, edge), _KERB, Layer.CROSSWALK, Tag.SIDEWALKS)
    return layer


def _markings(
    road: Road, section: LaneSection, s: F64, t: F64, marks: tuple[RoadMark, ...], side: int, out: _Builder
) -> None:
    for i, mark in enumerate(marks):
        start = section.start_m + mark.offset_m
        end = section.start_m + marks[i + 1].offset_m if i + 1 < len(marks) else section.end_m
        if mark.kind in ("none", "curb", "grass", "botts dots") or end - start < 0.3:
            continue
        colour = _YELLOW if mark.colour == "yellow" else _WHITE
        kinds = mark.kind.split()
        shifts = (0.0,) if len(kinds) == 1 else (_DOUBLE_M * side, -_DOUBLE_M * side)
        for shift, kind in zip(shifts, kinds, strict=False):
            dashes = _dashes(start, end) if kind == "broken" else _within(s, start, end)[None]
            stations = dashes.ravel()
            at = np.interp(stations, s, t) + shift
            line = Stations(road, stations)
            right, left = (
                _raised(line.points(at + edge), _LIFT_M[Layer.MARKING]).reshape(*dashes.shape, 3)
                for edge in (-_MARK_HALF_M, _MARK_HALF_M)
            )
            quads = np.stack([right[:, :-1], right[:, 1:], left[:, 1:], left[:, :-1]], 2)
            out.flat(quads.reshape(-1, 4, 3), colour, Layer.MARKING, Tag.ROAD_LINES)


def _within(s: F64, start: float, end: float) -> F64:
    inside: F64 = np.unique(np.clip(np.concatenate([s, [start, end]]), start, end))
    return inside


def _dashes(start: float, end: float) -> F64:
    """Three stations of each dash, (n, 3)."""
    first = np.arange(start, end - 0.5, _DASH_EVERY_M)
    stations: F64 = np.linspace(first, np.minimum(first + _DASH_M, end), 3, axis=1)
    return stations


def _objects(road: Road, out: _Builder) -> None:
    for element in road.element.findall("objects/object"):
        name = element.get("name") or ""
        if element.get("type") == "crosswalk" or "Crosswalk" in name:
            corners = [(float(c.get("u", 0)), float(c.get("v", 0))) for c in element.iter("cornerLocal")]
            if len(corners) >= 4:
                heading = float(element.get("hdg") or 0)
                _crosswalk(*_object_place(road, element), heading, np.array(corners[:4]), out)
        elif name in ("StopLine", "SolidSingleWhite"):
            width, length = sorted((_number(element.get("width")), _number(element.get("length"))))
            if width > 0 and length < 30:
                _stop_line(*_object_place(road, element), max(width, 0.4), length, out)


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _object_place(road: Road, element: ElementTree.Element) -> tuple[F64, float]:
    """World position of an object's origin, and the heading of the road there."""
    s = np.array([float(element.get("s", 0))])
    point = road.points(s, np.array([float(element.get("t", 0))]))[0]
    return point, float(road.reference(s)[2][0])


def _stop_line(centre: F64, heading: float, width: float, length: float, out: _Builder) -> None:
    along = np.array([math.cos(heading), math.sin(heading), 0]) * width / 2
    across = np.array([-math.sin(heading), math.cos(heading), 0]) * length / 2
    middle = _raised(centre, _LIFT_M[Layer.MARKING])
    corners = [
        middle + along - across,
        middle + along + across,
        middle - along + across,
        middle - along - across,
    ]
    out.flat(np.array([corners]), _WHITE, Layer.MARKING, Tag.ROAD_LINES)


def _crosswalk(centre: F64, road_heading: float, heading: float, corners: F64, out: _Builder) -> None:
    """Stripes across the longer side of a quadrilateral given in the object's frame."""
    if np.linalg.norm(corners[1] - corners[0]) < np.linalg.norm(corners[2] - corners[1]):
        corners = np.roll(corners, -1, 0)
    a, b, c, d = corners
    n = max(2, int(np.linalg.norm(b - a)))
    start = (np.arange(n)[:, None] + 0.2) / n
    end = start + 0.5 / n
    stripes = np.stack([a + (b - a) * start, a + (b - a) * end, d + (c - d) * end, d + (c - d) * start], 1)
    angle = road_heading + heading
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    world = np.concatenate([stripes @ rotation.T, np.zeros((n, 4, 1))], -1) + centre
    out.flat(_raised(world, _LIFT_M[Layer.CROSSWALK]), _CROSSWALK, Layer.CROSSWALK, Tag.ROAD_LINES)


def _buildings(edges: list[_Edge], surface: F64, out: _Builder) -> None:
    """Blocks beside the roads where they stay clear of all drivable surface; the same ones every time."""
    rng = np.random.default_rng(7)
    cells = set(map(tuple, np.unique((surface[:, :2] // 4).astype(int), axis=0).tolist()))
    highest = _highest_nearby(surface)
    taken: set[tuple[int, int]] = set()
    for edge in edges:
        slow = edge.road.limit_mps < _SLOW_MPS
        for border, side in ((edge.left, 1), (edge.right, -1)):
            for s in np.arange(edge.s[0] + 6, edge.s[-1] - 4, 19 if slow else 45):
                half_x, half_y, height = rng.uniform(5, 8.5), rng.uniform(4, 8), rng.uniform(5, 20)
                gap = rng.uniform(3, 8) if slow else rng.uniform(12, 25)
                t = np.interp(s, edge.s, border) + side * (gap + half_y)
                x, y, z = edge.road.points(np.array([s]), np.array([t]))[0]
                reach = int(math.hypot(half_x, half_y) // 4) + 1
                i, j, key = int(x // 4), int(y // 4), (int(x // 14), int(y // 14))
                around = ((i + u, j + v) for u in range(-reach, reach + 1) for v in range(-reach, reach + 1))
                over = highest.get((int(x // _DECK_CELL_M), int(y // _DECK_CELL_M)), z) - z
                if key in taken or over > _DECK_M or any(cell in cells for cell in around):
                    continue
                taken.add(key)
                shade = rng.uniform(0.85, 1.1)
                r, g, b = _FACADES[rng.integers(len(_FACADES))]
                house = _house(half_x, half_y, height, (int(r * shade), int(g * shade), int(b * shade)))
                heading = float(edge.road.reference(np.array([s]))[2][0])
                out.houses.append(place(house, float(x), float(y), float(z) - 1.5, heading))


def _highest_nearby(surface: F64) -> dict[tuple[int, int], float]:
    """Per coarse cell the highest road in or next to it: the painter cannot put houses below a deck."""
    column_row = (surface[:, :2] // _DECK_CELL_M).astype(int)
    cells, owner = np.unique(column_row, axis=0, return_inverse=True)
    top = np.full(len(cells), -np.inf)
    np.maximum.at(top, owner, surface[:, 2])
    highest: dict[tuple[int, int], float] = {}
    for (column, row), z in zip(cells.tolist(), top.tolist(), strict=True):
        for key in ((column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
            highest[key] = max(z, highest.get(key, z))
    return highest


def _house(half_x: float, half_y: float, height: float, colour: Colour) -> Quads:
    parts = [box((0, 0, 0), (half_x, half_y), height, colour, Tag.BUILDINGS)]
    for floor in np.arange(3.0, height - 2.5, 3.2):
        band = box((0, 0, float(floor)), (half_x + 0.06, half_y + 0.06), 1.3, _WINDOWS, Tag.BUILDINGS)
        parts.append(band.take(np.arange(4)))
    return concatenate(parts)
