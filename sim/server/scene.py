"""What cameras, lidar and radar see: the town's mesh, vehicles, walkers, props and traffic lights."""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import carla
import cv2
import numpy as np

from drive.contracts import F64, I64
from drive.viz.air import Look
from drive.viz.plates import STOP_LETTER_M
from drive.viz.quads import Landscape, Layer, Quads, TiledQuads
from drive.viz.survey import Survey, survey
from drive.viz.view import DAYLIGHT, Style, View
from sim.frames import pose_from_carla
from sim.server import weather
from sim.server.actors import Sensor, SignActor, TrafficLight, Vehicle, Walker
from sim.server.bodies import FAR_HEAD_AHEAD_M, Figures
from sim.server.local_mesh import LocalMesh, is_large
from sim.server.mesh_cache import town_mesh
from sim.server.render_pool import Order, RenderPool
from sim.server.sensors import rotation_axes
from sim.server.sign_posts import SpeedSigns, speed_signs
from sim.server.town import Town
from sim.server.wire import IMAGE
from sim.server.world import World

_SIGN_REACH_M = 4.0
_LEGIBLE_PX = 7.0  # smaller letters would be painted as a white patch
_LAMPS_FURTHER_M = 40.0  # lamps of traffic lights are seen from further away than anything else
_GROUND_BELOW_ROAD_M = 0.5  # the outer edge of the verges


@dataclass(frozen=True)
class Seen:
    """What a sensor sees.

    Attributes:
        survey: The quad at each pixel.
        actor_id: int64 (N + 1,), actor of each body; the last one, 0, is nobody.
        ground_m: Height of the bare ground, where no quad covers it [m].
    """

    survey: Survey
    actor_id: I64
    ground_m: float

    @property
    def actors(self) -> I64:
        """Actor id at each pixel, int64 (H, W); 0 where there is none."""
        return self.actor_id[self.survey.bodies]


class Scene:
    """Draws one town; its mesh is loaded, or begun where it is large, with the first picture.

    What is asked for twice within a tick (by another camera at the same place) is looked at once.
    """

    def __init__(self, town: Town) -> None:
        self.town = town
        self._tiles: Landscape | None = None
        self._pool: RenderPool | None = None
        self._painted: dict[int, bytes] = {}
        self._figures = Figures()
        self._speed_signs: SpeedSigns | None = None
        self._seen: dict[Hashable, Seen] = {}
        self._world: World | None = None
        self._frame = 0
        cv2.setNumThreads(1)

    def image(self, world: World, camera: Sensor) -> bytes:
        """Payload of one image (width, height, fov, BGRA rows); the camera's own vehicle is left out."""
        self._keep_up(world)
        bgra = self._painted.pop(camera.id, None)
        if bgra is None:
            bgra = self._order(world, camera).paint(self._mesh())
        return IMAGE.pack(camera.width, camera.height, camera.fov_deg) + bgra

    def paint_ahead(self, world: World, cameras: list[Sensor]) -> None:
        """Paint the pictures that will be asked for in this tick, several at a time."""
        self._keep_up(world)
        if len(cameras) < 2:
            return
        tiles = self._mesh()
        if self._pool is None:
            self._pool = RenderPool(
                self.town.xodr if is_large(self.town.xodr) else town_mesh(self.town), tiles
            )
        pictures = self._pool.paint([self._order(world, camera) for camera in cameras])
        self._painted = {camera.id: picture for camera, picture in zip(cameras, pictures, strict=True)}

    def close(self) -> None:
        """End the processes that help to paint."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _order(self, world: World, camera: Sensor) -> Order:
        """What it takes to paint a camera's picture."""
        bodies = [quads for _, quads in self._bodies(world, camera, DAYLIGHT.range_m)]
        return Order(view_of(camera), bodies, self._look(world, camera))

    def _look(self, world: World, camera: Sensor) -> Look | None:
        """None for the weather that an episode starts with."""
        air = weather.air_of(tuple(world.weather), world.street_lamps)
        if air is None:
            return None
        own, parent = None, world.actors.get(camera.parent)
        if isinstance(parent, Vehicle) and air.dark > 0:
            body = self._figures.body(parent)
            own = body.take(np.flatnonzero(body.layer == Layer.LAMP))
        return weather.look(air, camera, world.elapsed_s, own)

    def seen(self, world: World, sensor: Sensor, view: View, range_m: float = DAYLIGHT.range_m) -> Seen:
        """What a view from a sensor's place shows, its own vehicle left out."""
        self._keep_up(world)
        matrices = view.intrinsics.tobytes() + view.camera_from_world.tobytes()
        key = (sensor.parent, view.size_px, range_m, matrices)
        if key not in self._seen:
            bodies = list(self._bodies(world, sensor, range_m))
            ids = np.array([*(actor_id for actor_id, _ in bodies), 0], np.int64)
            shown = survey(view, self._mesh(), [quads for _, quads in bodies], Style(range_m=range_m))
            self._seen[key] = Seen(shown, ids, self._ground_m(world, sensor))
        return self._seen[key]

    def _keep_up(self, world: World) -> None:
        """Forget what belongs to an earlier tick or episode."""
        if self._world is not world:
            self._figures = Figures()
        if self._world is not world or self._frame != world.frame:
            self._seen.clear()
            self._painted.clear()
        self._world, self._frame = world, world.frame

    def _mesh(self) -> Landscape:
        if self._tiles is None:
            large = is_large(self.town.xodr)
            self._tiles = LocalMesh(self.town.xodr) if large else TiledQuads(town_mesh(self.town))
        return self._tiles

    def _ground_m(self, world: World, sensor: Sensor) -> float:
        parent = world.actors.get(sensor.parent)
        if parent is not None:
            foot = parent.half_size[2] if isinstance(parent, Walker) and parent.half_size else 0.0
            return parent.z - foot - _GROUND_BELOW_ROAD_M
        road = self.town.map.get_waypoint(carla.Location(sensor.x, sensor.y, sensor.z))
        return float(road.transform.location.z if road is not None else 0.0) - _GROUND_BELOW_ROAD_M

    def _bodies(self, world: World, sensor: Sensor, range_m: float) -> Iterator[tuple[int, Quads]]:
        """(actor id, quads in the world) of everything that may be in view."""
        self._keep_up(world)
        sector, far = Sector(sensor, range_m), Sector(sensor, range_m + _LAMPS_FURTHER_M)
        focal_px = sensor.width / (2 * math.tan(math.radians(sensor.fov_deg) / 2))
        if self._speed_signs is None:
            self._speed_signs = speed_signs(self.town.map)
        for index in np.flatnonzero(np.abs(self._speed_signs.xy - (sensor.x, sensor.y)).max(1) < range_m):
            x, y = self._speed_signs.xy[index].tolist()
            if sector.contains(x, y, _SIGN_REACH_M):
                yield 0, self._speed_signs.quads[index]
        for actor in world.actors.values():
            if isinstance(actor, TrafficLight):
                for index, stop in enumerate(actor.stops):
                    if far.contains(stop.x, stop.y, FAR_HEAD_AHEAD_M + 2.0):
                        yield from ((actor.id, head) for head in self._figures.heads(actor, index))
            elif isinstance(actor, SignActor):
                if sector.contains(actor.x, actor.y, _SIGN_REACH_M):
                    legible = focal_px * STOP_LETTER_M > _LEGIBLE_PX * math.hypot(
                        actor.x - sensor.x, actor.y - sensor.y
                    )
                    yield actor.id, self._figures.sign(self.town.map, actor, legible)
            elif (
                actor.half_size is not None
                and actor.id != sensor.parent
                and sector.contains(actor.x, actor.y, actor.radius + 1.0)
            ):
                yield actor.id, self._figures.body(actor)


def view_of(camera: Sensor) -> View:
    """Pinhole view of a CARLA camera in our right-handed world."""
    focal = camera.width / (2 * math.tan(math.radians(camera.fov_deg) / 2))
    intrinsics = np.array([[focal, 0, camera.width / 2], [0, focal, camera.height / 2], [0, 0, 1.0]])
    return View(intrinsics, place_view(camera), (camera.width, camera.height))


def place_view(sensor: Sensor, azimuth_rad: float = 0.0) -> F64:
    """camera_from_world, float64 (4, 4), of a view from a sensor's place, turned to its right."""
    forward, right, up = (
        np.array([x, -y, z]) for x, y, z in rotation_axes(sensor.pitch, sensor.yaw, sensor.roll)
    )
    if azimuth_rad:
        c, s = math.cos(azimuth_rad), math.sin(azimuth_rad)
        forward, right = c * forward + s * right, c * right - s * forward
    camera_from_world = np.eye(4)
    camera_from_world[:3, :3] = np.stack([right, -up, forward])
    x, y, _ = pose_from_carla(sensor.x, sensor.y, 0.0)
    camera_from_world[:3, 3] = -camera_from_world[:3, :3] @ np.array([x, y, sensor.z])
    return camera_from_world


class Sector:
    """Ground area that a sensor may see; a full circle unless it is a camera that looks about level."""

    def __init__(self, camera: Sensor, range_m: float = DAYLIGHT.range_m) -> None:
        self._range_m = range_m
        yaw = math.radians(camera.yaw)
        self._x, self._y, self._cos, self._sin = camera.x, camera.y, math.cos(yaw), math.sin(yaw)
        # Pitch and roll widen the sector on the ground.
        half = math.radians(camera.fov_deg / 2 + abs(camera.pitch) + abs(camera.roll))
        self._half_rad = half if camera.width and half < math.radians(80) else None
        self._edge_cos, self._edge_sin = math.cos(half), math.sin(half)

    def contains(self, x: float, y: float, margin_m: float) -> bool:
        """May something at x, y (CARLA frame) that reaches margin_m around it be in the picture?"""
        dx, dy = x - self._x, y - self._y
        if abs(dx) > self._range_m or abs(dy) > self._range_m:
            return False
        if self._half_rad is None:
            return True
        ahead, aside = self._cos * dx + self._sin * dy, abs(self._cos * dy - self._sin * dx)
        return self._edge_cos * aside - self._edge_sin * ahead < margin_m and ahead > -margin_m
