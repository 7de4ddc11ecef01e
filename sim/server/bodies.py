"""Figures of vehicles, walkers, props and traffic lights at their places in the right-handed world."""

import math
import zlib
from collections.abc import Hashable

import carla

from drive.viz import figures
from drive.viz.figures import Colour
from drive.viz.quads import Quads, Tag, concatenate
from sim.frames import pose_from_carla
from sim.server.actors import Actor, SignActor, TrafficLight, Vehicle, Walker
from sim.server.sign_posts import sign_figure
from sim.server.town import LaneStop

FAR_HEAD_AHEAD_M = 15.0
_STATES = ("red", "yellow", "green")
_FAR_HEAD_Z_M = 4.8
_NEAR_HEAD_AHEAD_M, _NEAR_HEAD_Z_M, _NEAR_HEAD_BESIDE_M = 2.0, 2.9, 1.0
_PAINTS: tuple[Colour, ...] = (
    (170, 170, 176),
    (40, 60, 130),
    (150, 30, 30),
    (44, 44, 48),
    (235, 235, 235),
    (40, 110, 60),
    (200, 160, 40),
)
_SHIRTS: tuple[Colour, ...] = ((150, 70, 50), (70, 60, 140), (60, 120, 70), (190, 170, 60), (200, 200, 200))
_CONE: Colour = (226, 110, 40)
_STEP_M = 0.7
_TAGS = {"truck": Tag.TRUCK, "bus": Tag.BUS, "motorcycle": Tag.MOTORCYCLE, "bicycle": Tag.BICYCLE}


class Figures:
    """Figures of one episode's actors; each is kept until its actor moves or changes its look."""

    def __init__(self) -> None:
        self._bodies: dict[int, tuple[Hashable, Quads]] = {}
        self._signs: dict[tuple[int, bool], Quads] = {}
        self._heads: dict[tuple[int, int], tuple[Hashable, list[Quads]]] = {}

    def body(self, actor: Actor) -> Quads:
        """A vehicle, walker or prop."""
        look = (actor.x, actor.y, actor.z, actor.yaw, actor.pitch, _braking(actor), _doors(actor))
        kept = self._bodies.get(actor.id)
        if kept is None or kept[0] != look:
            kept = self._bodies[actor.id] = (look, _body(actor))
        return kept[1]

    def sign(self, world_map: carla.Map, sign: SignActor, legible: bool) -> Quads:
        """A stop or yield sign, with its letters where the picture can show them."""
        kept = self._signs.get((sign.id, legible))
        if kept is None:
            kept = self._signs[sign.id, legible] = sign_figure(world_map, sign, legible)
        return kept

    def heads(self, light: TrafficLight, index: int) -> list[Quads]:
        """The heads of one of a light's stop lines."""
        kept = self._heads.get((light.id, index))
        if kept is None or kept[0] != light.state:
            quads = _light_heads(light, light.stops[index])
            kept = self._heads[light.id, index] = (light.state, quads)
        return kept[1]


def _braking(actor: Actor) -> bool:
    return isinstance(actor, Vehicle) and bool(actor.control[2] > 0.05 or actor.control[3])


def _body(actor: Actor) -> Quads:
    x, y, yaw = pose_from_carla(actor.x, actor.y, actor.yaw)
    half = actor.half_size or (0.3, 0.3, 0.3)
    if isinstance(actor, Vehicle):
        tag = _TAGS.get(actor.spec.base_type, Tag.CAR)
        figure = figures.vehicle(half, _paint(actor), _braking(actor), tag)
        whole = figures.place(figure, x, y, actor.z, yaw, math.radians(actor.pitch))
        return concatenate([whole, *(_door(door, _paint(actor), tag) for door in actor.doors.values())])
    if isinstance(actor, Walker):
        stride = 1 + int((actor.x + actor.y) / _STEP_M) % 2 if actor.speed else 0
        shirt = _SHIRTS[_stable(actor.type_id) % len(_SHIRTS)]
        return figures.place(figures.pedestrian(2 * half[2], shirt, stride), x, y, actor.z - half[2], yaw)
    if actor.type_id == "static.prop.mesh":
        return figures.place(figures.vehicle(half, _paint(actor)), x, y, actor.z, yaw)
    colour = _CONE if "cone" in actor.type_id or "warning" in actor.type_id else (150, 146, 138)
    return figures.place(figures.box((0, 0, 0), half[:2], 2 * half[2], colour), x, y, actor.z, yaw)


def _doors(actor: Actor) -> tuple[int, ...]:
    return tuple(actor.doors) if isinstance(actor, Vehicle) else ()


def _door(door: Actor, colour: Colour, tag: Tag) -> Quads:
    x, y, yaw = pose_from_carla(door.x, door.y, door.yaw)
    half = door.half_size or (0.0, 0.0, 0.0)
    return figures.place(figures.box((0, 0, 0), half[:2], 2 * half[2], colour, tag), x, y, door.z, yaw)


def _light_heads(light: TrafficLight, stop: LaneStop) -> list[Quads]:
    """One head above every lane beyond the stop line, and one on a pole at the kerb."""
    state = _STATES[light.state] if light.state < len(_STATES) else "off"
    x, y, yaw = pose_from_carla(stop.x, stop.y, stop.yaw_deg)
    c, s = math.cos(yaw), math.sin(yaw)
    far = figures.traffic_light(state, _FAR_HEAD_Z_M, False)
    heads = [figures.place(far, x + FAR_HEAD_AHEAD_M * c, y + FAR_HEAD_AHEAD_M * s, stop.z, yaw)]
    if not stop.at_kerb:
        return heads
    near = figures.traffic_light(state, _NEAR_HEAD_Z_M, True)
    right = stop.width_m / 2 + _NEAR_HEAD_BESIDE_M
    pole_x, pole_y = x + _NEAR_HEAD_AHEAD_M * c + right * s, y + _NEAR_HEAD_AHEAD_M * s - right * c
    return [*heads, figures.place(near, pole_x, pole_y, stop.z, yaw)]


def _paint(actor: Actor) -> Colour:
    """The blueprint's colour if a client chose one, else one that belongs to the type (never to the id)."""
    chosen = actor.attributes.get("color", "")
    parts = chosen.split(",")
    if len(parts) == 3 and all(part.strip().isdigit() for part in parts):
        r, g, b = (min(255, int(part)) for part in parts)
        return max(r, 30), max(g, 30), max(b, 30)
    return _PAINTS[_stable(actor.type_id) % len(_PAINTS)]


def _stable(text: str) -> int:
    return zlib.crc32(text.encode())
