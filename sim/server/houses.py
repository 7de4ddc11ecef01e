"""Houses beside the roads, which OpenDRIVE does not know; the same ones every time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drive.contracts import F64
from drive.viz.figures import Colour, box, place
from drive.viz.quads import Quads, Tag, concatenate
from sim.server.road_geometry import Edge

Cell = tuple[int, int]

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
_SURFACE_CELL_M, LOT_CELL_M, _DECK_CELL_M, _DECK_M = 4.0, 14.0, 40.0, 5.0


@dataclass(frozen=True)
class Lot:
    """Ground for one house: middle, half sizes and height [m], heading of the road [rad]."""

    x: float
    y: float
    z: float
    half_x: float
    half_y: float
    height: float
    heading: float

    @property
    def cell(self) -> Cell:
        """At most one house stands in a cell of 14 m."""
        return int(self.x // LOT_CELL_M), int(self.y // LOT_CELL_M)

    def house(self, rng: np.random.Generator) -> Quads:
        """A house of random colour."""
        shade = rng.uniform(0.85, 1.1)
        r, g, b = _FACADES[rng.integers(len(_FACADES))]
        colour = (int(r * shade), int(g * shade), int(b * shade))
        figure = _house(self.half_x, self.half_y, self.height, colour)
        return place(figure, self.x, self.y, self.z - 1.5, self.heading)


class Streets:
    """Drivable surface that has been seen so far; it tells whether a lot is free."""

    def __init__(self) -> None:
        self._cells: set[Cell] = set()
        self._top: dict[Cell, float] = {}

    def add(self, surface: F64) -> None:
        """Add points (n, 3)."""
        fine = np.unique((surface[:, :2] // _SURFACE_CELL_M).astype(int), axis=0)
        self._cells |= set(map(tuple, fine.tolist()))
        cells, owner = np.unique((surface[:, :2] // _DECK_CELL_M).astype(int), axis=0, return_inverse=True)
        top = np.full(len(cells), -np.inf)
        np.maximum.at(top, owner, surface[:, 2])
        for (column, row), z in zip(cells.tolist(), top.tolist(), strict=True):
            self._top[column, row] = max(z, self._top.get((column, row), z))

    def leave_free(self, lot: Lot) -> bool:
        """Is there no surface on the lot, and no deck above it, below which the painter puts no house?"""
        column, row = int(lot.x // _DECK_CELL_M), int(lot.y // _DECK_CELL_M)
        tops = (self._top.get(cell, -math.inf) for cell in _block(column, row, 1))
        if max(tops) - lot.z > _DECK_M:
            return False
        reach = int(math.hypot(lot.half_x, lot.half_y) // 4) + 1
        around = _block(int(lot.x // _SURFACE_CELL_M), int(lot.y // _SURFACE_CELL_M), reach)
        return self._cells.isdisjoint(around)


def _block(column: int, row: int, reach: int) -> Iterator[Cell]:
    span = range(-reach, reach + 1)
    return ((column + i, row + j) for i in span for j in span)


def lots(edge: Edge, rng: np.random.Generator) -> Iterator[Lot]:
    """Lots on both sides of a section, in order; each draws from rng when it is asked for."""
    slow = edge.road.limit_mps < _SLOW_MPS
    for border, side in ((edge.left, 1), (edge.right, -1)):
        for s in np.arange(edge.s[0] + 6, edge.s[-1] - 4, 19 if slow else 45):
            half_x, half_y, height = rng.uniform(5, 8.5), rng.uniform(4, 8), rng.uniform(5, 20)
            gap = rng.uniform(3, 8) if slow else rng.uniform(12, 25)
            t = np.interp(s, edge.s, border) + side * (gap + half_y)
            x, y, z = edge.road.points(np.array([s]), np.array([t]))[0].tolist()
            heading = float(edge.road.reference(np.array([s]))[2][0])
            yield Lot(x, y, z, half_x, half_y, height, heading)


def place_houses(edges: list[Edge], surface: F64) -> list[Quads]:
    """Houses of a whole town, whose edges and drivable surface (n, 3) are given."""
    rng = np.random.default_rng(7)
    streets = Streets()
    streets.add(surface)
    taken: set[Cell] = set()
    houses = []
    for edge in edges:
        for lot in lots(edge, rng):
            if lot.cell not in taken and streets.leave_free(lot):
                taken.add(lot.cell)
                houses.append(lot.house(rng))
    return houses


def _house(half_x: float, half_y: float, height: float, colour: Colour) -> Quads:
    parts = [box((0, 0, 0), (half_x, half_y), height, colour, Tag.BUILDINGS)]
    for floor in np.arange(3.0, height - 2.5, 3.2):
        band = box((0, 0, float(floor)), (half_x + 0.06, half_y + 0.06), 1.3, _WINDOWS, Tag.BUILDINGS)
        parts.append(band.take(np.arange(4)))
    return concatenate(parts)
