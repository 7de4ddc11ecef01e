"""Geometry of OpenDRIVE roads: reference line, elevation, lanes. Right-handed world, metres, radians."""

from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from drive.contracts import F64

_STRAIGHT = 1e-9
_MPS = {"mph": 0.44704, "km/h": 1 / 3.6}


@dataclass(frozen=True)
class RoadMark:
    """Marking on the outer border of a lane, from an offset [m] within its lane section."""

    offset_m: float
    kind: str
    colour: str


@dataclass(frozen=True)
class Lane:
    """One lane: id (left positive), type, width polynomials (K, 5) and markings in order."""

    lane_id: int
    kind: str
    widths: F64
    marks: tuple[RoadMark, ...]


@dataclass(frozen=True)
class LaneSection:
    """Lanes between two stations [m]."""

    start_m: float
    end_m: float
    lanes: dict[int, Lane]


@dataclass(frozen=True)
class Road:
    """One road.

    Attributes:
        length_m: Length of the reference line.
        in_junction: Is it a connecting road?
        limit_mps: First posted limit, 13.4 m/s without one.
        lines: float64 (K, 6), pieces of the reference line [s, x, y, heading, length, curvature].
        elevation, lane_offset: float64 (K, 5), cubic polynomials [s, a, b, c, d].
        sections: Lane sections in order.
        element: XML element, for its objects.
    """

    length_m: float
    in_junction: bool
    limit_mps: float
    lines: F64
    elevation: F64
    lane_offset: F64
    sections: tuple[LaneSection, ...]
    element: Element

    def reference(self, s: F64) -> tuple[F64, F64, F64, F64]:
        """x, y, heading and z of the reference line at stations s (n,)."""
        row = self.lines[_row(self.lines[:, 0], s)]
        ahead, heading, curvature = s - row[:, 0], row[:, 3], row[:, 5]
        straight = np.abs(curvature) < _STRAIGHT
        safe = np.where(straight, 1.0, curvature)
        end = heading + curvature * ahead
        dx = np.where(straight, ahead * np.cos(heading), (np.sin(end) - np.sin(heading)) / safe)
        dy = np.where(straight, ahead * np.sin(heading), (np.cos(heading) - np.cos(end)) / safe)
        return row[:, 1] + dx, row[:, 2] + dy, end, polynomial(self.elevation, s)

    def points(self, s: F64, t: F64) -> F64:
        """World points (n, 3) at stations s and lateral offsets t (left positive)."""
        return Stations(self, s).points(t)

    def curvature(self, s: float) -> float:
        """Absolute curvature [1/m] of the piece at station s."""
        return float(abs(self.lines[_row(self.lines[:, 0], np.array([s]))[0], 5]))


class Stations:
    """Fixed stations s (n,) of a road, where many lateral offsets are wanted."""

    def __init__(self, road: Road, s: F64) -> None:
        self.s = s
        self._x, self._y, heading, self._z = road.reference(s)
        self._sin, self._cos = np.sin(heading), np.cos(heading)

    def points(self, t: F64) -> F64:
        """World points (n, 3) at lateral offsets t (n,), left positive."""
        out = np.empty((len(self.s), 3))
        out[:, 0], out[:, 1], out[:, 2] = self._x - t * self._sin, self._y + t * self._cos, self._z
        return out


class Edge:
    """Outer borders of a lane section: stations s (n,), lateral offsets left and right (n,)."""

    def __init__(self, road: Road, stations: Stations, left: F64, right: F64) -> None:
        self.road, self.s, self.left, self.right = road, stations.s, left, right
        self._stations = stations

    def surface(self) -> list[F64]:
        """Points (n, 3) of the section from its right to its left border, five lines of them."""
        return [
            self._stations.points(self.left * share + self.right * (1 - share))
            for share in np.linspace(0, 1, 5)
        ]


def _row(starts: F64, s: F64) -> F64:
    return np.clip(np.searchsorted(starts, s + 1e-6, side="right") - 1, 0, len(starts) - 1)


def polynomial(table: F64, s: F64) -> F64:
    """Piecewise cubic: rows [s0, a, b, c, d] of table (K, 5) evaluated at s (n,); zero for an empty table."""
    if len(table) == 0:
        return np.zeros_like(s)
    row = table[_row(table[:, 0], s)]
    d = s - row[:, 0]
    value: F64 = row[:, 1] + d * (row[:, 2] + d * (row[:, 3] + d * row[:, 4]))
    return value


def _table(elements: Iterable[Element], key: str = "s") -> F64:
    rows = [[float(e.get(name, 0)) for name in (key, "a", "b", "c", "d")] for e in elements]
    return np.array(sorted(rows), np.float64).reshape(-1, 5)


def read_road(element: Element) -> Road:
    """Parse one <road>; only lines and arcs occur in CARLA's towns."""
    length = float(element.get("length", 0))
    pieces = []
    for geometry in element.findall("planView/geometry"):
        arc = geometry.find("arc")
        curvature = float(arc.get("curvature", 0)) if arc is not None else 0.0
        pieces.append(
            [float(geometry.get(name, 0)) for name in ("s", "x", "y", "hdg", "length")] + [curvature]
        )
    speed = element.find("type/speed")
    limit = (
        float(speed.get("max", 13.4)) * _MPS.get(speed.get("unit", ""), 1.0) if speed is not None else 13.4
    )
    sections = sorted(element.findall("lanes/laneSection"), key=lambda e: float(e.get("s", 0)))
    starts = [float(e.get("s", 0)) for e in sections]
    return Road(
        length_m=length,
        in_junction=element.get("junction") != "-1",
        limit_mps=limit,
        lines=np.array(sorted(pieces)),
        elevation=_table(element.findall("elevationProfile/elevation")),
        lane_offset=_table(element.findall("lanes/laneOffset")),
        sections=tuple(
            LaneSection(start, end, _lanes(section))
            for start, end, section in zip(starts, [*starts[1:], length], sections, strict=True)
        ),
        element=element,
    )


def _lanes(section: Element) -> dict[int, Lane]:
    lanes = {}
    for element in section.iter("lane"):
        marks = sorted(
            (float(m.get("sOffset", 0)), m.get("type", "none"), m.get("color", "white"))
            for m in element.findall("roadMark")
        )
        lane_id = int(element.get("id", 0))
        widths = _table(element.findall("width"), "sOffset")
        lanes[lane_id] = Lane(
            lane_id, element.get("type", "none"), widths, tuple(RoadMark(*m) for m in marks)
        )
    return lanes
