"""OpenDRIVE towns as coloured quads: lanes, markings, kerbs, crossings, stop lines, verges, houses."""

import itertools
import math
from xml.etree import ElementTree

import numpy as np

from drive.contracts import F32, F64
from drive.viz.figures import Colour
from drive.viz.quads import Layer, Quads, Tag, concatenate
from sim.server.houses import place_houses
from sim.server.road_geometry import Edge, Lane, LaneSection, Road, RoadMark, Stations, polynomial, read_road
from sim.server.street_lamps import street_lamps

VERSION = 5  # part of the cache key: raise it when the quads of a town change

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


class Builder:
    """Collects quads; flat ones are turned face up."""

    def __init__(self) -> None:
        self._corners: list[F32] = []
        self._looks: list[tuple[Colour, Layer, Tag]] = []
        self.figures: list[Quads] = []

    def flat(self, corners: F64, colour: Colour, layer: Layer, tag: Tag) -> None:
        """Add quads (n, 4, 3) that lie on the ground."""
        if not len(corners):
            return
        diagonal_a, diagonal_b = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
        down = diagonal_a[:, 0] * diagonal_b[:, 1] - diagonal_a[:, 1] * diagonal_b[:, 0] < 0
        if down.any():
            corners = np.where(down[:, None, None], corners[:, ::-1], corners)
        self.facing(corners, colour, layer, tag)

    def facing(self, corners: F64, colour: Colour, layer: Layer, tag: Tag) -> None:
        """Add quads (n, 4, 3) whose fronts are where their corners say."""
        self._corners.append(corners.astype(np.float32))
        self._looks.append((colour, layer, tag))

    def quads(self) -> Quads:
        """All quads in the order in which they came, figures last."""
        if not self._corners:
            return concatenate(self.figures)
        counts = [len(part) for part in self._corners]
        colour, layer, tag = (
            np.repeat(np.array(look, np.uint8), counts, axis=0) for look in zip(*self._looks, strict=True)
        )
        return concatenate([Quads(np.concatenate(self._corners), colour, layer, tag), *self.figures])


def build_mesh(xodr: str) -> Quads:
    """All quads of a town (10 k for Town01), houses last."""
    root = ElementTree.fromstring(xodr)
    out = Builder()
    edges: list[Edge] = []
    surface: list[F64] = []
    for road in [read_road(element) for element in root.findall("road")]:
        for edge in add_road(road, out):
            surface += edge.surface()
            edges += [] if road.in_junction else [edge]
    houses = place_houses(edges, np.concatenate(surface)) if surface else []
    return concatenate([out.quads(), *houses])


def add_road(road: Road, out: Builder) -> list[Edge]:
    """Add a road's quads, houses apart; returns the borders of its drivable sections."""
    edges = []
    for section in road.sections:
        if section.end_m - section.start_m > 0.02 and any(section.lanes):
            edge = _section(road, section, out)
            if any(lane.kind in _DRIVABLE for lane in section.lanes.values()):
                edges.append(edge)
                out.figures += [] if road.in_junction else street_lamps(edge, section)
    _objects(road, out)
    return edges


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


def _section(road: Road, section: LaneSection, out: Builder) -> Edge:
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
    return Edge(road, stations, outer[1], outer[-1])


def _lane(
    stations: Stations,
    inner: F64,
    outer: F64,
    side: int,
    lane: Lane,
    inner_layer: Layer | None,
    out: Builder,
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
    road: Road, section: LaneSection, s: F64, t: F64, marks: tuple[RoadMark, ...], side: int, out: Builder
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


def _objects(road: Road, out: Builder) -> None:
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


def _stop_line(centre: F64, heading: float, width: float, length: float, out: Builder) -> None:
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


def _crosswalk(centre: F64, road_heading: float, heading: float, corners: F64, out: Builder) -> None:
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
