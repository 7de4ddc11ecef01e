"""What RGB cameras see: the town's mesh, vehicles, walkers, props and traffic lights."""

import math
import zlib
from collections.abc import Iterator

import cv2
import numpy as np

from drive.viz import figures
from drive.viz.figures import Colour
from drive.viz.painter import DAYLIGHT, Quads, TiledQuads, View, paint
from sim.frames import pose_from_carla
from sim.server.actors import Actor, Sensor, TrafficLight, Vehicle, Walker
from sim.server.mesh_cache import town_mesh
from sim.server.sensors import rotation_axes
from sim.server.town import LaneStop, Town
from sim.server.wire import IMAGE
from sim.server.world import World

_STATES = ("red", "yellow", "green")
_FAR_HEAD_AHEAD_M, _FAR_HEAD_Z_M = 15.0, 4.8
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


class Scene:
    """Draws one town; the mesh is loaded with the first picture."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self._tiles: TiledQuads | None = None
        cv2.setNumThreads(1)

    def image(self, world: World, camera: Sensor) -> bytes:
        """Payload of one image (width, height, fov, BGRA rows); the camera's own vehicle is left out."""
        if self._tiles is None:
            self._tiles = TiledQuads(town_mesh(self.town))
        rgb = paint(view_of(camera), self._tiles, list(_bodies(world, camera)))
        bgra = np.full((*rgb.shape[:2], 4), 255, np.uint8)
        bgra[..., :3] = rgb[..., ::-1]
        return IMAGE.pack(camera.width, camera.height, camera.fov_deg) + bgra.tobytes()


def view_of(camera: Sensor) -> View:
    """Pinhole view of a CARLA camera in our right-handed world."""
    forward, right, up = (
        np.array([x, -y, z]) for x, y, z in rotation_axes(camera.pitch, camera.yaw, camera.roll)
    )
    camera_from_world = np.eye(4)
    camera_from_world[:3, :3] = np.stack([right, -up, forward])
    x, y, _ = pose_from_carla(camera.x, camera.y, 0.0)
    camera_from_world[:3, 3] = -camera_from_world[:3, :3] @ np.array([x, y, camera.z])
    focal = camera.width / (2 * math.tan(math.radians(camera.fov_deg) / 2))
    intrinsics = np.array([[focal, 0, camera.width / 2], [0, focal, camera.height / 2], [0, 0, 1.0]])
    return View(intrinsics, camera_from_world, (camera.width, camera.height))


def _bodies(world: World, camera: Sensor) -> Iterator[Quads]:
    seen = Sector(camera)
    for actor in world.actors.values():
        if isinstance(actor, TrafficLight):
            for stop in actor.stops:
                if seen.contains(stop.x, stop.y, _FAR_HEAD_AHEAD_M + 2.0):
                    yield from _light_heads(actor, stop)
        elif (
            actor.half_size is not None
            and actor.id != camera.parent
            and seen.contains(actor.x, actor.y, actor.radius + 1.0)
        ):
            yield _body(actor)


class Sector:
    """Ground area that a camera may see; a full circle for cameras that look steeply up or down."""

    def __init__(self, camera: Sensor) -> None:
        yaw = math.radians(camera.yaw)
        self._x, self._y, self._cos, self._sin = camera.x, camera.y, math.cos(yaw), math.sin(yaw)
        # Pitch and roll widen the sector on the ground.
        half = math.radians(camera.fov_deg / 2 + abs(camera.pitch) + abs(camera.roll))
        self._half_rad = half if half < math.radians(80) else None
        self._edge_cos, self._edge_sin = math.cos(half), math.sin(half)

    def contains(self, x: float, y: float, margin_m: float) -> bool:
        """May something at x, y (CARLA frame) that reaches margin_m around it be in the picture?"""
        dx, dy = x - self._x, y - self._y
        if abs(dx) > DAYLIGHT.range_m or abs(dy) > DAYLIGHT.range_m:
            return False
        if self._half_rad is None:
            return True
        ahead, aside = self._cos * dx + self._sin * dy, abs(self._cos * dy - self._sin * dx)
        return self._edge_cos * aside - self._edge_sin * ahead < margin_m and ahead > -margin_m


def _body(actor: Actor) -> Quads:
    x, y, yaw = pose_from_carla(actor.x, actor.y, actor.yaw)
    half = actor.half_size or (0.3, 0.3, 0.3)
    if isinstance(actor, Vehicle):
        braking = actor.control[2] > 0.05 or actor.control[3]
        figure = figures.vehicle(half, _paint(actor), bool(braking))
        return figures.place(figure, x, y, actor.z, yaw, math.radians(actor.pitch))
    if isinstance(actor, Walker):
        stride = 1 + int((actor.x + actor.y) / _STEP_M) % 2 if actor.speed else 0
        shirt = _SHIRTS[_stable(actor.type_id) % len(_SHIRTS)]
        return figures.place(figures.pedestrian(2 * half[2], shirt, stride), x, y, actor.z - half[2], yaw)
    if actor.type_id == "static.prop.mesh":
        return figures.place(figures.vehicle(half, _paint(actor)), x, y, actor.z, yaw)
    colour = _CONE if "cone" in actor.type_id or "warning" in actor.type_id else (150, 146, 138)
    return figures.place(figures.box((0, 0, 0), half[:2], 2 * half[2], colour), x, y, actor.z, yaw)


def _light_heads(light: TrafficLight, stop: LaneStop) -> Iterator[Quads]:
    """One head above every lane beyond the stop line, and one on a pole at the kerb."""
    state = _STATES[light.state] if light.state < len(_STATES) else "off"
    x, y, yaw = pose_from_carla(stop.x, stop.y, stop.yaw_deg)
    c, s = math.cos(yaw), math.sin(yaw)
    far = figures.traffic_light(state, _FAR_HEAD_Z_M, False)
    yield figures.place(far, x + _FAR_HEAD_AHEAD_M * c, y + _FAR_HEAD_AHEAD_M * s, stop.z, yaw)
    if not stop.at_kerb:
        return
    near = figures.traffic_light(state, _NEAR_HEAD_Z_M, True)
    right = stop.width_m / 2 + _NEAR_HEAD_BESIDE_M
    pole_x, pole_y = x + _NEAR_HEAD_AHEAD_M * c + right * s, y + _NEAR_HEAD_AHEAD_M * s - right * c
    yield figures.place(near, pole_x, pole_y, stop.z, yaw)


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
