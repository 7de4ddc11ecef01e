"""Every sensor that the server measures tick by tick: type id -> stream kind and payload."""

from collections.abc import Callable
from random import Random

from sim.server import cameras, lidar, radar, sensors
from sim.server.actors import Sensor
from sim.server.scene import Scene
from sim.server.wire import (
    DEPTH,
    GNSS,
    IMU,
    INSTANCE,
    LIDAR,
    OBSTACLE,
    RADAR,
    RGB,
    SEMANTIC,
    SEMANTIC_LIDAR,
    RpcError,
)
from sim.server.world import World

_MAX_PIXELS, _MAX_FOV_DEG = 8192, 170
COLOUR_CAMERA = "sensor.camera.rgb"
Measurement = tuple[int, bytes]
_CAMERAS: dict[str, tuple[int, Callable[[Scene, World, Sensor], bytes]]] = {
    COLOUR_CAMERA: (RGB, lambda scene, world, camera: scene.image(world, camera)),
    "sensor.camera.semantic_segmentation": (SEMANTIC, cameras.semantic),
    "sensor.camera.instance_segmentation": (INSTANCE, cameras.instance),
    "sensor.camera.depth": (DEPTH, cameras.depth),
}
_RANGING: dict[str, tuple[int, Callable[[Scene, World, Sensor, float, Random], bytes]]] = {
    "sensor.lidar.ray_cast": (LIDAR, lidar.points),
    "sensor.lidar.ray_cast_semantic": (SEMANTIC_LIDAR, lidar.labelled_points),
    "sensor.other.radar": (RADAR, radar.detections),
}
_CHECKS: dict[str, Callable[[Sensor], None]] = {
    "sensor.lidar.ray_cast": lidar.check,
    "sensor.lidar.ray_cast_semantic": lidar.check,
    "sensor.other.radar": radar.check,
}


def check(sensor: Sensor) -> None:
    """RpcError when a sensor's attributes ask for something impossible."""
    if sensor.type_id in _CAMERAS:
        width, height, fov = sensor.width, sensor.height, sensor.fov_deg
        if not (1 <= width <= _MAX_PIXELS and 1 <= height <= _MAX_PIXELS and 1 <= fov <= _MAX_FOV_DEG):
            raise RpcError(f"camera of {width}x{height} pixels and {fov} degrees is not possible")
    if sensor.type_id in _CHECKS:
        _CHECKS[sensor.type_id](sensor)


def measure(scene: Scene, world: World, sensor: Sensor, noise: Random) -> Measurement | None:
    """Stream kind and payload of a sensor whose turn it is; None for one that has nothing to tell."""
    if sensor.type_id in _CAMERAS:
        kind, picture = _CAMERAS[sensor.type_id]
        return kind, picture(scene, world, sensor)
    if sensor.type_id in _RANGING:
        kind, ranging = _RANGING[sensor.type_id]
        return kind, ranging(scene, world, sensor, _since_last(world, sensor), noise)
    parent = world.actors.get(sensor.parent)
    if sensor.type_id == "sensor.other.imu" and parent is not None:
        return IMU, sensors.imu(sensor, parent, noise)
    if sensor.type_id == "sensor.other.gnss":
        return GNSS, sensors.gnss(sensor, world.town.map, noise)
    if sensor.type_id == "sensor.other.obstacle":
        found = radar.obstacle(world, sensor)
        return None if found is None else (OBSTACLE, found)
    return None


def _since_last(world: World, sensor: Sensor) -> float:
    """Time that a measurement covers [s]; one period for the first, and for one after a pause."""
    usual = max(sensor.period_s, world.delta_s)
    gap = world.elapsed_s - sensor.last_s
    return gap if gap < usual + world.delta_s else usual
