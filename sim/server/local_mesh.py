"""The mesh of a large town, made road by road around the cameras."""

import math
import re
from collections import defaultdict
from xml.etree import ElementTree

import numpy as np

from drive.contracts import F64, I64
from drive.viz.quads import Landscape, Surroundings
from sim.server.houses import LOT_CELL_M, Cell, Lot, Streets, lots
from sim.server.mesh import Builder, add_road
from sim.server.road_geometry import read_road

_LARGE_TEXT = 20_000_000  # characters: Town11, Town12 and Town13
_ASIDE_M = 75.0  # farthest that lanes, verges and houses are from their road's reference line
_HOUSE_M = 15.0  # a house reaches this far from its middle
# A house looks for decks in cells of 40 m next to its own, and at houses within a cell of 14 m.
_HOUSE_SEES_M = 150.0
_SEED = 7
_GEOMETRY = re.compile(r"<geometry\s([^>]*)>\s*<(\w+)")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


def is_large(xodr: str) -> bool:
    """Is a town so large that its mesh is made bit by bit?"""
    return len(xodr) > _LARGE_TEXT


class LocalMesh(Landscape):
    """Quads of an OpenDRIVE text; the same ones around a place whatever was looked at before."""

    def __init__(self, xodr: str) -> None:
        super().__init__()
        self._xodr = xodr
        starts = [match.start() for match in re.finditer(r"<road\s", xodr)]
        self._spans = [(start, xodr.index("</road>", start) + len("</road>")) for start in starts]
        self._owner, self._middle, self._radius = _circles(xodr, self._spans)
        self._quads: dict[int, Surroundings] = {}
        self._streets = Streets()
        self._lots: dict[Cell, list[tuple[int, int, Lot]]] = defaultdict(list)
        self._houses: dict[Cell, Surroundings | None] = {}

    def around(self, centre: F64, reach_m: float) -> Surroundings:
        """Quads that reach into a circle on the ground, road after road, then houses."""
        for number in self._roads_within(centre, reach_m + _HOUSE_SEES_M + _ASIDE_M):
            if number not in self._quads:
                self._explore(number)
        parts = [self._quads[number] for number in self._roads_within(centre, reach_m + _ASIDE_M)]
        parts += self._houses_within(centre, reach_m + _HOUSE_M)
        return Surroundings.join(parts).within(centre, reach_m)

    def _roads_within(self, centre: F64, reach_m: float) -> list[int]:
        distance = np.hypot(self._middle[:, 0] - centre[0], self._middle[:, 1] - centre[1])
        found: list[int] = np.unique(self._owner[distance - self._radius < reach_m]).tolist()
        return found

    def _explore(self, number: int) -> None:
        """Make a road's quads; note its surface and the lots beside it."""
        start, end = self._spans[number]
        road = read_road(ElementTree.fromstring(self._xodr[start:end]))
        out = Builder()
        edges = add_road(road, out)
        self._quads[number] = Surroundings.of(out.quads())
        if edges:
            self._streets.add(np.concatenate([line for edge in edges for line in edge.surface()]))
        if not road.in_junction:
            rng = np.random.default_rng([_SEED, number])
            for at, lot in enumerate(lot for edge in edges for lot in lots(edge, rng)):
                self._lots[lot.cell].append((number, at, lot))

    def _houses_within(self, centre: F64, reach_m: float) -> list[Surroundings]:
        columns, rows = (
            range(math.floor((c - reach_m) / LOT_CELL_M), math.floor((c + reach_m) / LOT_CELL_M) + 1)
            for c in centre.tolist()
        )
        cells = ((column, row) for column in columns for row in rows)
        houses = (self._house(cell) for cell in cells if cell in self._lots)
        return [house for house in houses if house is not None]

    def _house(self, cell: Cell) -> Surroundings | None:
        """The house on the cell's first free lot; all surface around it has to be known."""
        if cell not in self._houses:
            self._houses[cell] = None
            for road, at, lot in sorted(self._lots[cell], key=_order):
                if self._streets.leave_free(lot):
                    look = np.random.default_rng([_SEED, road, at])
                    self._houses[cell] = Surroundings.of(lot.house(look))
                    break
        return self._houses[cell]


def _order(entry: tuple[int, int, Lot]) -> tuple[int, int]:
    return entry[:2]


def _circles(xodr: str, spans: list[tuple[int, int]]) -> tuple[I64, F64, F64]:
    """Circles that hold the reference lines: number of the road (n,), middle (n, 2) and radius (n,) [m]."""
    owner, rows = [], []
    for number, (start, end) in enumerate(spans):
        for match in _GEOMETRY.finditer(xodr, start, end):
            given = dict(_ATTRIBUTE.findall(match.group(1)))
            x, y, heading, length = (float(given.get(name, 0)) for name in ("x", "y", "hdg", "length"))
            half = length / 2 if match.group(2) == "line" else 0.0
            rows.append((x + half * math.cos(heading), y + half * math.sin(heading), length - half))
            owner.append(number)
    table = np.array(rows, np.float64).reshape(-1, 3)
    return np.array(owner, np.int64), table[:, :2], table[:, 2]
