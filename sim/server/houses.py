"""Houses beside the roads, which OpenDRIVE does not know; the same ones every time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drive.contracts import F64
from drive.viz.figures import Colour, place, solid
from drive.viz.quads import Layer, Quads, Tag
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
_FLOOR_M, _SILL_M, _WINDOW_M, _PARAPET_M, _BURIED_M = 3.2, 1.1, 1.5, 0.9, 1.5
_LIT_SHARE = 0.4  # of the rows of windows, at night
_SIDES = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
_SIDE_SHADE = (0.74, 0.9, 0.66, 0.82)  # as of boxes
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
        # Lit windows have numbers of their own: houses stand where they stood before there were any.
        windows = np.random.default_rng([round(abs(self.x) * 10), round(abs(self.y) * 10)])
        figure = _house(self.half_x, self.half_y, self.height, colour, windows)
        return place(figure, self.x, self.y, self.z - _BURIED_M, self.heading)


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


def _house(half_x: float, half_y: float, height: float, colour: Colour, rng: np.random.Generator) -> Quads:
    """Walls in rows that do not overlap, so that the order in which they are drawn does not matter."""
    foot = _SIDES * np.array([half_x, half_y])
    wall, glass = np.array(colour, float), np.array(_WINDOWS, float)
    levels, looks = [0.0], []
    sill = _BURIED_M + _SILL_M
    while sill + _WINDOW_M + _PARAPET_M <= height:
        levels += [sill, sill + _WINDOW_M]
        looks += [False, True]
        sill += _FLOOR_M
    levels.append(height)
    looks.append(False)
    corners, colours, layers = [], [], []
    for side, shade in enumerate(_SIDE_SHADE):
        a, b = foot[side], foot[(side + 1) % 4]
        for low, high, window in zip(levels[:-1], levels[1:], looks, strict=True):
            first, last = sorted(rng.uniform(0.08, 0.92, 2).tolist()) if window else (0.0, 1.0)
            lit = window and rng.uniform() < _LIT_SHARE and last - first > 0.15
            for start, end, pane in (
                ((0, first, False), (first, last, True), (last, 1, False)) if lit else ((0, 1, False),)
            ):
                p, q = a + (b - a) * start, a + (b - a) * end
                corners.append([[*p, low], [*q, low], [*q, high], [*p, high]])
                colours.append((glass if window else wall) * shade)
                layers.append(Layer.PANE if pane else Layer.SOLID)
    corners.append([[*point, height] for point in foot])
    colours.append(wall)
    layers.append(Layer.SOLID)
    made = solid(np.array(corners), np.array(colours), Tag.BUILDINGS)
    return Quads(made.corners, made.colour, np.array(layers, np.uint8), made.tag)
