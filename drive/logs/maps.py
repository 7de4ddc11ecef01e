"""Lanes around a drive from the vector map that py123d keeps for a log or a place."""

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drive.contracts import F64, RoadPatch, UserError

if TYPE_CHECKING:
    from py123d.datatypes.map_objects.map_objects import Lane

REACH_M = 90.0  # as far as drive/bench/pdm_scene.py looks
PIECE_M, PIECE_POINTS = 22.0, 12
OWN_MAP, MAPS = "map.arrow", "maps"
DATA_ROOT = "PY123D_DATA_ROOT"
NOT_FOR_CARS = ("BIKE_LANE",)
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AssertionError, AttributeError)


def map_file(log: Path, dataset: str, location: str) -> Path | None:
    """The map of a log as py123d lays them out: its own, else the place's below `maps`; None without one.

    `maps` is looked for beside the folders that hold the log, then in the data root that the environment
    variable PY123D_DATA_ROOT names.

    Args:
        log: Folder of the log.
        dataset: Name in py123d.
        location: Place, as the log's metadata has it.
    """
    name = Path(dataset) / f"{dataset}_{location}.arrow"
    roots = [
        *log.resolve().parents[:4],
        *([Path(os.environ[DATA_ROOT])] if os.environ.get(DATA_ROOT) else []),
    ]
    places = [log / OWN_MAP, *(root / MAPS / name for root in roots)]
    return next((place for place in places if place.is_file()), None)


def road_around(file: Path, path_world: F64) -> RoadPatch | None:
    """Lanes for cars within REACH_M of a path, cut into pieces of about PIECE_M; None if there are none.

    The width of a piece is that of the lane at its middle. A py123d map has no stop lines with a light's
    state, so there are none here; see drive/logs/lights.py.

    Args:
        file: Map of py123d.
        path_world: float64 (N, 2), in the map's frame.

    Raises:
        UserError: The file is no map of py123d, or of a version that this one does not read.
    """
    try:
        pieces = [piece for lane in lanes_around(file, path_world) for piece in _pieces(lane)]
    except UNREADABLE as error:
        raise UserError(f"{file}: not a map that py123d reads ({error}); convert the map again") from error
    if not pieces:
        return None
    centres, widths, inside = zip(*pieces, strict=True)
    return RoadPatch(
        np.array(centres, np.float64),
        np.array(widths, np.float32),
        np.array(inside, np.bool_),
        np.zeros((0, 2, 2)),
    )


def lanes_around(file: Path, path_world: F64) -> "list[Lane]":
    """Lanes for cars within REACH_M of a path (N, 2), in order of their names.

    Raises:
        UserError: As `road_around`.
    """
    from py123d.api.map.arrow.arrow_map_api import ArrowMapAPI
    from py123d.datatypes.map_objects.map_layer_types import MapLayer
    from shapely import LineString, Point

    at = path_world[np.isfinite(path_world).all(1)]
    if not len(at):
        return []
    region = LineString(at).buffer(REACH_M) if len(at) > 1 else Point(*at[0]).buffer(REACH_M)
    try:
        found = ArrowMapAPI(file).query(region, [MapLayer.LANE], "intersects")[MapLayer.LANE]
        lanes = [lane for lane in found if lane.lane_type.name not in NOT_FOR_CARS]
    except UNREADABLE as error:
        raise UserError(f"{file}: not a map that py123d reads ({error}); convert the map again") from error
    return sorted(lanes, key=lambda lane: str(lane.object_id))


def _pieces(lane: "Lane") -> list[tuple[F64, float, bool]]:
    """Centre line (PIECE_POINTS, 2), width and whether in a junction, piece by piece of a lane."""
    from shapely import Point, distance, line_interpolate_point

    line = lane.centerline_2d.linestring
    group = lane.lane_group
    inside = group is not None and group.intersection_id is not None
    count = max(1, round(line.length / PIECE_M))
    ends = np.linspace(0.0, line.length, count + 1)
    out = []
    for first, last in pairwise(ends):
        points = line_interpolate_point(line, np.linspace(first, last, PIECE_POINTS))
        middle = Point(line.interpolate((first + last) / 2))
        sides = (lane.left_boundary_2d.linestring, lane.right_boundary_2d.linestring)
        width = sum(float(distance(side, middle)) for side in sides)
        out.append((np.array([[p.x, p.y] for p in points], np.float64), width, inside))
    return out
