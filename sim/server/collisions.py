"""Contacts between bodies as oriented boxes: detection, push-out, sliding and impulses; CARLA frame."""

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from sim.server.actors import Actor, Mover, Vehicle, Walker
from sim.server.doors import Door

_CELL_M = 12.0
_COLUMN = 1 << 20  # cells of a column, more than any map has
_AROUND = tuple(i * _COLUMN + j for i in (-1, 0, 1) for j in (-1, 0, 1))
_LEVEL_M = 2.5  # bodies further apart in height do not touch (bridges)
_FLAT_M = 0.1  # bodies of less than this half height are debris that one drives over
_DEEPEST_PUSH_M = 0.6
_MOMENTUM_SHARE = 0.4
_DENSITY_KGPM3 = 120.0
_STATIC_KG = 1e5


class Pose(NamedTuple):
    """Horizontal pose (x, y [m], yaw [deg])."""

    x: float
    y: float
    yaw: float


class Contact(NamedTuple):
    """Two touching actors and the impulse on the first one [N s], horizontal."""

    first: Actor
    second: Actor
    impulse: tuple[float, float]


def pose_of(actor: Actor) -> Pose:
    """Present pose."""
    return Pose(actor.x, actor.y, actor.yaw)


def _project(actor: Actor, pose: Pose) -> tuple[float, float, list[tuple[float, float]]]:
    yaw = math.radians(pose.yaw)
    c, s = math.cos(yaw), math.sin(yaw)
    ex, ey = actor.half_size[:2] if actor.half_size else (0.0, 0.0)
    ax, ay, bx, by = c * ex, s * ex, -s * ey, c * ey
    x, y = pose.x, pose.y
    return (
        c,
        s,
        [
            (x + ax + bx, y + ay + by),
            (x + ax - bx, y + ay - by),
            (x - ax - bx, y - ay - by),
            (x - ax + bx, y - ay + by),
        ],
    )


def separation(a: Actor, pose_a: Pose, b: Actor, pose_b: Pose) -> tuple[float, float, float] | None:
    """Smallest push (depth [m], unit x, unit y) that moves box a out of box b; None when they are apart."""
    c1, s1, p1 = _project(a, pose_a)
    c2, s2, p2 = _project(b, pose_b)
    best: tuple[float, float, float] | None = None
    for ux, uy in ((c1, s1), (-s1, c1), (c2, s2), (-s2, c2)):
        d1 = [px * ux + py * uy for px, py in p1]
        d2 = [px * ux + py * uy for px, py in p2]
        depth = min(max(d1), max(d2)) - max(min(d1), min(d2))
        if depth <= 0:
            return None
        if best is None or depth < best[0]:
            sign = 1.0 if (pose_a.x - pose_b.x) * ux + (pose_a.y - pose_b.y) * uy > 0 else -1.0
            best = (depth, ux * sign, uy * sign)
    return best


def _close(a: Actor, b: Actor) -> bool:
    dx, dy, reach = b.x - a.x, b.y - a.y, a.radius + b.radius
    return dx * dx + dy * dy < reach * reach and abs(b.z - a.z) < _LEVEL_M


def blocked_at_spawn(actor: Actor, others: Iterable[Actor]) -> bool:
    """Would this new body overlap an existing one?"""
    return any(
        other.half_size is not None
        and other.half_size[2] > _FLAT_M
        and other.collides
        and _close(actor, other)
        and separation(actor, pose_of(actor), other, pose_of(other)) is not None
        for other in others
    )


def resolve(moved: list[tuple[Mover, Pose]], actors: Iterable[Actor]) -> list[Contact]:
    """Find contacts of the actors that moved (each with its pose before the tick), and push them apart.

    A vehicle that runs into a solid body is moved out of it and keeps the tangential part of its speed, so it
    can slide along; a vehicle in front takes over a part of the momentum; a walker is pushed aside; an open
    door stops nobody.

    Returns:
        Every touching pair once, in the order in which it was found.
    """
    if not moved:
        return []
    grid: dict[int, list[Actor]] = defaultdict(list)
    for actor in actors:
        if actor.half_size is not None and actor.half_size[2] > _FLAT_M and actor.collides:
            grid[_cell(actor)].append(actor)
    contacts: dict[tuple[int, int], Contact] = {}
    for mover, before in moved:
        if not mover.collides:
            continue
        middle = _cell(mover)
        near = [cell for step in _AROUND if (cell := grid.get(middle + step)) is not None]
        for other in chain.from_iterable(near):
            if other.id in (mover.id, mover.parent) or not _close(mover, other):
                continue
            push = separation(mover, pose_of(mover), other, pose_of(other))
            if push is None:
                continue
            key = (min(mover.id, other.id), max(mover.id, other.id))
            if key not in contacts:
                contacts[key] = Contact(mover, other, _impulse(mover, other, push))
            if not isinstance(other, Door):  # gives way
                _separate(mover, before, other, push)
    return list(contacts.values())


def _cell(actor: Actor) -> int:
    """Number of the grid cell that an actor's middle is in."""
    return int(actor.x // _CELL_M) * _COLUMN + int(actor.y // _CELL_M)


def _separate(mover: Mover, before: Pose, other: Actor, push: tuple[float, float, float]) -> None:
    depth, nx, ny = push
    if isinstance(mover, Walker):
        mover.x, mover.y = mover.x + nx * depth, mover.y + ny * depth
        return
    if isinstance(other, Walker):
        other.x, other.y = other.x - nx * depth, other.y - ny * depth
        return
    approaching = (other.x - mover.x) ** 2 + (other.y - mover.y) ** 2 < (other.x - before.x) ** 2 + (
        other.y - before.y
    ) ** 2
    yaw = math.radians(mover.yaw)
    head_on = -(math.cos(yaw) * nx + math.sin(yaw) * ny) * math.copysign(1.0, mover.speed)
    if isinstance(other, Vehicle) and other.physics:
        other_yaw = math.radians(other.yaw)
        closing = -(mover.vx * nx + mover.vy * ny)
        other.speed -= (
            _MOMENTUM_SHARE * max(0.0, closing) * (math.cos(other_yaw) * nx + math.sin(other_yaw) * ny)
        )
        other.ground_at = None
    if not approaching:
        return
    if depth < _DEEPEST_PUSH_M:
        mover.x, mover.y = mover.x + nx * depth, mover.y + ny * depth
    else:
        mover.x, mover.y, mover.yaw = before
        head_on = 1.0
    if isinstance(mover, Vehicle) and mover.constant_velocity is None:
        mover.speed *= max(0.1, 1.0 - max(0.0, head_on))
        mover.accel = min(mover.accel, 0.0) if mover.speed > 0 else max(mover.accel, 0.0)


def _mass_kg(actor: Actor) -> float:
    if actor.half_size is None or not isinstance(actor, Mover) or not actor.physics:
        return _STATIC_KG
    if isinstance(actor, Walker):
        return 75.0
    ex, ey, ez = actor.half_size
    return 8.0 * ex * ey * ez * _DENSITY_KGPM3


def _impulse(a: Mover, b: Actor, push: tuple[float, float, float]) -> tuple[float, float]:
    """Impulse on a: effective mass times closing speed, along the contact normal."""
    _, nx, ny = push
    closing = max(0.0, (b.vx - a.vx) * nx + (b.vy - a.vy) * ny)
    mass_a, mass_b = _mass_kg(a), _mass_kg(b)
    size = closing * mass_a * mass_b / (mass_a + mass_b)
    return size * nx, size * ny
