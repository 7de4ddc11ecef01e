"""Lamps that light a dark scene: which ones, and how much light they throw on a point."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive.contracts import F32, I64
from drive.viz.quads import Landscape, Layer, Quads, Tag, concatenate
from drive.viz.view import View

_MOST = 28
_STREET_RANGE_M, _CAR_RANGE_M, _BEHIND_M = 70.0, 70.0, 30.0
_STREET, _HEAD, _SMALL = 0, 1, 2
_POWER = np.array([1.3, 1.15, 0.5], np.float32)
_HALVES_M = np.array([7.5, 17.0, 1.6], np.float32)
_STREET_LIGHT = np.array([1.0, 0.86, 0.62], np.float32)
_WHITE_SUM = 550
_BEAM_EDGE, _BEAM_CORE = 0.86, 0.985  # cosines against a headlamp's axis


@dataclass(frozen=True)
class Lamps:
    """K lamps around a camera.

    Attributes:
        place: float32 (K, 3), relative to the camera, axes of the world [m].
        axis: float32 (K, 3), where they shine.
        colour: float32 (K, 3), red, green, blue; 1 = a full lamp of its kind.
        kind: int64 (K,).
    """

    place: F32
    axis: F32
    colour: F32
    kind: I64

    def light(self, points: F32) -> F32:
        """Light on points float32 (N, 3), relative to the camera in the world's axes: float32 (N, 3)."""
        out = np.zeros((len(points), 3), np.float32)
        x, y, z = np.ascontiguousarray(points.T)
        for kind in (_STREET, _HEAD, _SMALL):
            mine = np.flatnonzero(self.kind == kind)
            if not len(mine):
                continue
            place = self.place[mine]
            dx, dy, dz = (a - place[:, i, None] for i, a in enumerate((x, y, z)))
            # Of a street lamp one sees the pool below it: what counts is the distance on the ground.
            square = dx * dx + dy * dy
            if kind != _STREET:
                square += dz * dz
            share = _POWER[kind] / np.square(1 + square * np.float32(1 / _HALVES_M[kind] ** 2))
            if kind == _HEAD:
                axis = self.axis[mine][..., None]
                along = dx * axis[:, 0] + dy * axis[:, 1] + dz * axis[:, 2]
                beam = along / np.sqrt(square + np.float32(1e-6)) - np.float32(_BEAM_EDGE)
                beam = np.clip(beam * np.float32(1 / (_BEAM_CORE - _BEAM_EDGE)), 0, 1)
                share *= beam * beam * (3 - 2 * beam)
            out += share.T @ self.colour[mine]
        return out


def lamps_around(
    view: View, static: Landscape | None, groups: Sequence[Quads], own: Quads | None, street: float
) -> Lamps:
    """The lamps that matter for a picture: those nearest to the camera.

    Args:
        view: Camera.
        static: The immobile surroundings.
        groups: Bodies, as for `paint`.
        own: Lamps of the camera's own vehicle.
        street: How bright lamps of the surroundings are, 0..1.
    """
    centre = view.centre_world
    parts, owner = [], []
    if static is not None and street > 0:
        quads = static.near(float(centre[0]), float(centre[1]), _STREET_RANGE_M).quads
        parts.append(quads.take(np.flatnonzero(quads.layer == Layer.LAMP)))
        owner.append(np.arange(-1, -1 - len(parts[0].tag), -1))
    for index, group in enumerate([*groups, *([own] if own is not None else [])]):
        lit = np.flatnonzero(group.layer == Layer.LAMP)
        if len(lit):
            parts.append(group.take(lit))
            owner.append(np.full(len(lit), index))
    found = concatenate(parts)
    if not len(found.tag):
        none = np.empty((0, 3), np.float32)
        return Lamps(none, none, none, np.empty(0, np.int64))
    return _merged(view, found, np.concatenate(owner), street)


def _merged(view: View, found: Quads, owner: NDArray[Any], street: float) -> Lamps:
    """Both headlamps of a car count as one lamp between them."""
    corners = found.corners - view.centre_world.astype(np.float32)
    colour = found.colour.astype(np.int64)
    key = np.c_[owner, colour]
    _, first, which, count = np.unique(
        key, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    place = np.zeros((len(first), 3), np.float32)
    np.add.at(place, which.reshape(-1), corners.mean(1))
    place /= count[:, None].astype(np.float32)
    normal = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])[first]
    axis = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    pole = found.tag[first] == Tag.POLES
    white = (colour[first].sum(1) > _WHITE_SUM) & (found.tag[first] != Tag.TRAFFIC_LIGHT)
    kind = np.where(pole, _STREET, np.where(white, _HEAD, _SMALL))
    light = np.where(pole[:, None], _STREET_LIGHT * street, colour[first] / 255).astype(np.float32)
    ahead = place @ view.camera_from_world[2, :3].astype(np.float32)
    away = np.sqrt((place * place).sum(1))
    reach = np.where(pole, _STREET_RANGE_M, _CAR_RANGE_M)
    near = np.flatnonzero((away < reach) & (ahead > -_BEHIND_M))
    near = near[np.argsort(away[near], kind="stable")][:_MOST]
    return Lamps(place[near], axis[near].astype(np.float32), light[near], kind[near])
