"""Coloured, labelled quads, and a whole town of them sorted into tiles; right-handed world, z up."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from drive.contracts import F32, F64, I64, U8, expect

_CELL_M = 8.0
_CELLS_KEPT = 8


class Layer(IntEnum):
    """Drawing order of surfaces; those below SOLID lie on the ground with their front side up.

    LAMP and PANE are drawn like SOLID; in the dark a lamp shines and a pane is a lit window.
    """

    VERGE = 0
    TERRAIN = 1
    SHOULDER = 2
    ROAD = 3
    KERB = 4
    SIDEWALK = 5
    CROSSWALK = 6
    MARKING = 7
    SOLID = 8
    LAMP = 9
    PANE = 10


class Tag(IntEnum):
    """What a quad is, with the numbers of CARLA 0.9.16's semantic tags (carla.CityObjectLabel)."""

    NONE = 0
    ROADS = 1
    SIDEWALKS = 2
    BUILDINGS = 3
    POLES = 6
    TRAFFIC_LIGHT = 7
    TRAFFIC_SIGNS = 8
    TERRAIN = 10
    SKY = 11
    PEDESTRIANS = 12
    RIDER = 13
    CAR = 14
    TRUCK = 15
    BUS = 16
    MOTORCYCLE = 18
    BICYCLE = 19
    STATIC = 20
    DYNAMIC = 21
    ROAD_LINES = 24
    GROUND = 25
    BRIDGE = 26


@dataclass(frozen=True)
class Quads:
    """N coloured quads.

    Attributes:
        corners: float32 (N, 4, 3), world frame (or a figure's own frame) [m]. Seen from its front side, the
            corners run counter-clockwise; solids are invisible from behind.
        colour: uint8 (N, 3), RGB.
        layer: uint8 (N,), Layer.
        tag: uint8 (N,), Tag.
    """

    corners: F32
    colour: U8
    layer: U8
    tag: U8

    def __post_init__(self) -> None:
        n = len(self.corners)
        expect("corners", self.corners, (n, 4, 3), np.float32)
        expect("colour", self.colour, (n, 3), np.uint8)
        expect("layer", self.layer, (n,), np.uint8)
        expect("tag", self.tag, (n,), np.uint8)

    def take(self, rows: I64) -> "Quads":
        """The quads of these rows, in their order."""
        return Quads(self.corners[rows], self.colour[rows], self.layer[rows], self.tag[rows])


def concatenate(parts: Sequence[Quads]) -> Quads:
    """All quads of all parts, in order."""
    if not parts:
        none = np.empty(0, np.uint8)
        return Quads(np.empty((0, 4, 3), np.float32), np.empty((0, 3), np.uint8), none, none)
    return Quads(
        np.concatenate([p.corners for p in parts]),
        np.concatenate([p.colour for p in parts]),
        np.concatenate([p.layer for p in parts]),
        np.concatenate([p.tag for p in parts]),
    )


@dataclass(frozen=True)
class Surroundings:
    """Quads with their bounding spheres: centre float32 (N, 3) and radius float32 (N,)."""

    quads: Quads
    centre: F32
    radius: F32

    @staticmethod
    def of(quads: Quads) -> "Surroundings":
        """Add the spheres."""
        centre = quads.corners.mean(1)
        offset = quads.corners - centre[:, None]
        return Surroundings(quads, centre, np.sqrt((offset * offset).sum(-1).max(-1, initial=0.0)))

    @staticmethod
    def join(parts: Sequence["Surroundings"]) -> "Surroundings":
        """All quads of all parts, in order."""
        centres, radii = [p.centre for p in parts], [p.radius for p in parts]
        return Surroundings(
            concatenate([p.quads for p in parts]),
            np.concatenate([np.empty((0, 3), np.float32), *centres]),
            np.concatenate([np.empty(0, np.float32), *radii]),
        )

    def within(self, centre_xy: F64, range_m: float) -> "Surroundings":
        """Those that reach into a circle on the ground."""
        distance = np.hypot(self.centre[:, 0] - centre_xy[0], self.centre[:, 1] - centre_xy[1])
        return self.take(np.flatnonzero(distance - self.radius < range_m))

    def take(self, rows: I64) -> "Surroundings":
        """The quads of these rows, in their order."""
        return Surroundings(self.quads.take(rows), self.centre[rows], self.radius[rows])


class Landscape(ABC):
    """Static quads, of which the surroundings of a camera are looked at."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int, float], Surroundings] = {}

    @abstractmethod
    def around(self, centre: F64, reach_m: float) -> Surroundings:
        """Quads that reach into a circle on the ground, always in the same order."""

    def near(self, x_m: float, y_m: float, range_m: float) -> Surroundings:
        """Quads within range of a point; one answer for a whole 8 m cell, kept for the latest cells."""
        cell = (int(x_m // _CELL_M), int(y_m // _CELL_M))
        key = (*cell, range_m)
        found = self._kept.pop(key, None)
        if found is None:
            found = self.around((np.array(cell) + 0.5) * _CELL_M, range_m + _CELL_M)
        self._kept[key] = found
        while len(self._kept) > _CELLS_KEPT:
            del self._kept[next(iter(self._kept))]
        return found


class TiledQuads(Landscape):
    """Quads sorted into square tiles."""

    def __init__(self, quads: Quads, tile_m: float = 32.0) -> None:
        super().__init__()
        self._tile_m = tile_m
        whole = Surroundings.of(quads)
        self._largest_m = float(whole.radius.max(initial=0.0))
        key = np.floor(whole.centre[:, :2] / tile_m).astype(np.int64)
        order = np.lexsort((key[:, 1], key[:, 0]))
        cuts = np.flatnonzero(np.any(np.diff(key[order], axis=0), axis=1)) + 1
        rows = [part for part in np.split(order, cuts) if len(part)]
        self._tiles = [whole.take(part) for part in rows]
        self._corner_m = np.array([key[part[0]] for part in rows]).reshape(-1, 2) * tile_m

    def around(self, centre: F64, reach_m: float) -> Surroundings:
        """Quads that reach into a circle on the ground, tile after tile."""
        offset = self._corner_m + self._tile_m / 2 - centre
        close = np.abs(offset).max(1, initial=0.0) < reach_m + self._largest_m + self._tile_m
        return Surroundings.join([self._tiles[i] for i in np.flatnonzero(close)]).within(centre, reach_m)
