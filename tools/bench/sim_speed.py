"""Speed of the light server: ticks per second with N vehicles, milliseconds per rendered image.

`python tools/bench/sim_speed.py [--town Town01] [--port 20100] [--vehicles 20] [--ticks 400] [--repeats 3]`
Every number is the median of the repeats; ratios are against the same run with a constant image instead of a
rendered one, so that they can be compared between machines.
"""

import argparse
import multiprocessing
import queue
import socket
import statistics
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess

import carla

from sim.server import scene
from sim.server.actors import Sensor
from sim.server.main import serve
from sim.server.wire import IMAGE
from sim.server.world import World

_TIMINGS: list[float] = []
WIDTH, HEIGHT, FOV_DEG = 256, 144, 100
TRAFFIC_MPS = 5.0


def _constant_image(self: scene.Scene, world: World, camera: Sensor) -> bytes:
    return IMAGE.pack(camera.width, camera.height, camera.fov_deg) + bytes(4 * camera.width * camera.height)


def _run_server(town: str, port: int, constant: bool) -> None:
    if constant:
        scene.Scene.image = _constant_image  # type: ignore[method-assign]
    serve(town, port)


def _start_server(town: str, port: int, constant: bool) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=_run_server, args=(town, port, constant), daemon=True
    )
    process.start()
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.1)
    raise SystemExit(f"server did not start on port {port}")


class Drive:
    """Ego and traffic under constant controls in a fresh episode."""

    def __init__(self, port: int, vehicles: int, camera_every_s: float | None) -> None:
        self.client = carla.Client("127.0.0.1", port, worker_threads=4)
        self.client.set_timeout(30)
        self.world = self.client.get_world()
        settings = self.world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
        self.world.apply_settings(settings)
        library, points = self.world.get_blueprint_library(), self.world.get_map().get_spawn_points()
        first = points[0].location
        points.sort(key=lambda point: point.location.distance(first))
        car = library.find("vehicle.lincoln.mkz_2020")
        self.cars = [
            c for c in (self.world.try_spawn_actor(car, p) for p in points[: vehicles + 1]) if c is not None
        ]
        self.ego = self.cars[0]
        self.images: queue.Queue[carla.Image] = queue.Queue()
        self.camera = None
        if camera_every_s is not None:
            blueprint = library.find("sensor.camera.rgb")
            for name, value in (("image_size_x", WIDTH), ("image_size_y", HEIGHT), ("fov", FOV_DEG)):
                blueprint.set_attribute(name, str(value))
            blueprint.set_attribute("sensor_tick", str(camera_every_s))
            mount = carla.Transform(carla.Location(x=0.5, z=1.7), carla.Rotation(pitch=-4))
            self.camera = self.world.spawn_actor(blueprint, mount, attach_to=self.ego)
            self.camera.listen(self.images.put)
            self.world.tick()
            self.images.get(timeout=30)

    def tick(self, wait_for_image: bool) -> None:
        """One closed-loop step: control, tick, read the ego, take the image of this frame."""
        self.ego.apply_control(carla.VehicleControl(throttle=0.25, steer=0.01))
        frame = self.world.tick()
        self.ego.get_transform()
        while wait_for_image and self.images.get(timeout=10).frame != frame:
            pass

    def ticks_per_s(self, ticks: int, wait_for_image: bool) -> float:
        """Rate over `ticks` steps after a short warm-up."""
        for car in self.cars[1:]:
            car.enable_constant_velocity(carla.Vector3D(TRAFFIC_MPS, 0, 0))
        for _ in range(20):
            self.tick(wait_for_image)
        start = time.perf_counter()
        for _ in range(ticks):
            self.tick(wait_for_image)
        return ticks / (time.perf_counter() - start)

    def close(self) -> None:
        """Destroy everything; the next drive starts anew."""
        if self.camera is not None:
            self.camera.stop()
            self.camera.destroy()
        for car in self.cars:
            car.destroy()


def _median(repeats: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(repeats))


def measure(town: str, port: int, vehicles: int, ticks: int, repeats: int) -> dict[str, float]:
    """Ticks per second of every case, by name."""
    cases = {
        "no camera": (False, None, False),
        "constant image every tick": (True, 0.0, True),
        "rendered image every tick": (False, 0.0, True),
        "rendered image every 4th tick": (False, 0.2, False),
    }
    out = {}
    for offset, constant in enumerate((False, True)):
        server = _start_server(town, port + 2 * offset, constant)
        try:
            for name, (wants_constant, period, wait) in cases.items():
                if wants_constant != constant:
                    continue

                def once(
                    period: float | None = period, wait: bool = wait, at: int = port + 2 * offset
                ) -> float:
                    drive = Drive(at, vehicles, period)
                    try:
                        return drive.ticks_per_s(ticks if period is None else ticks // 2, wait)
                    finally:
                        drive.close()

                out[name] = _median(repeats, once)
        finally:
            server.terminate()
            server.join()
    return {name: out[name] for name in cases}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--town", default="Town01")
    parser.add_argument("--port", type=int, default=20100)
    parser.add_argument("--vehicles", type=int, default=20)
    parser.add_argument("--ticks", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rates = measure(args.town, args.port, args.vehicles, args.ticks, args.repeats)
    base = rates["constant image every tick"]
    print(
        f"light simulator, {args.town}, 1 ego + {args.vehicles} vehicles, {WIDTH}x{HEIGHT}, "
        f"median of {args.repeats}"
    )
    for name, rate in rates.items():
        print(f"  {name:32s} {rate:8.0f} ticks/s   x{rate / base:.2f} of constant image")
    print(f"  render time {1e3 / rates['rendered image every tick'] - 1e3 / base:.1f} ms per image")


if __name__ == "__main__":
    main()
