"""Speed of the light server: ticks per second with N vehicles, without and with cameras.

`python tools/bench/sim_speed.py [--town Town01] [--port 20100] [--vehicles 20] [--ticks 400] [--repeats 3]`
Every number is the median of the repeats; ratios are against the same run with a constant image instead of a
rendered one, so that they can be compared between machines. CPU times of the server and of the client depend
less than rates on what else the machine does; a tick cannot be faster than the larger of the two.
Load times, a long route in a big town and memory: `tools/bench/sim_endurance.py`.
"""

import argparse
import multiprocessing
import queue
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

import carla
import psutil

from sim.server import scene
from sim.server.actors import Sensor
from sim.server.main import serve
from sim.server.wire import IMAGE
from sim.server.world import World

FOV_DEG = 100
TRAFFIC_MPS = 5.0


@dataclass(frozen=True)
class Case:
    """What is measured: cameras with their size in pixels and period, and who paints the pictures."""

    cameras: int = 0
    size_px: tuple[int, int] = (256, 144)
    period_s: float = 0.0
    constant: bool = False

    @property
    def waits(self) -> bool:
        """Does every tick wait for its pictures?"""
        return self.cameras > 0 and self.period_s == 0.0


CASES = {
    "no camera": Case(),
    "constant image every tick": Case(1, constant=True),
    "rendered image every tick": Case(1),
    "rendered image every 4th tick": Case(1, period_s=0.2),
    "three 384x216 images every tick": Case(3, (384, 216)),
}


@dataclass(frozen=True)
class Rate:
    """Ticks per second, and CPU milliseconds per tick of server and client."""

    ticks_per_s: float
    server_ms: float
    client_ms: float


def _constant_image(self: scene.Scene, world: World, camera: Sensor) -> bytes:
    return IMAGE.pack(camera.width, camera.height, camera.fov_deg) + bytes(4 * camera.width * camera.height)


def _run_server(town: str, port: int, constant: bool) -> None:
    if constant:
        scene.Scene.image = _constant_image  # type: ignore[method-assign]
    serve(town, port)


def start_server(town: str, port: int, constant: bool) -> BaseProcess:
    """A server in a process of its own that accepts clients; with `constant` it renders nothing."""
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

    def __init__(self, port: int, vehicles: int, case: Case) -> None:
        self.client = carla.Client("127.0.0.1", port, worker_threads=8)
        self.client.set_timeout(30)
        self.world = self.client.get_world()
        settings = self.world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
        self.world.apply_settings(settings)
        self.case = case
        library, points = self.world.get_blueprint_library(), self.world.get_map().get_spawn_points()
        first = points[0].location
        points.sort(key=lambda point: point.location.distance(first))
        car = library.find("vehicle.lincoln.mkz_2020")
        self.cars = [
            c for c in (self.world.try_spawn_actor(car, p) for p in points[: vehicles + 1]) if c is not None
        ]
        self.ego = self.cars[0]
        self.images: queue.Queue[carla.Image] = queue.Queue()
        self.cameras = [self._camera(library.find("sensor.camera.rgb"), i) for i in range(case.cameras)]
        if self.cameras:
            self.world.tick()
            for _ in self.cameras:
                self.images.get(timeout=60)

    def _camera(self, blueprint: carla.ActorBlueprint, index: int) -> carla.Sensor:
        width, height = self.case.size_px
        for name, value in (("image_size_x", width), ("image_size_y", height), ("fov", FOV_DEG)):
            blueprint.set_attribute(name, str(value))
        blueprint.set_attribute("sensor_tick", str(self.case.period_s))
        mount = carla.Transform(carla.Location(x=0.5, z=1.7), carla.Rotation(pitch=-4, yaw=55.0 * index))
        camera = self.world.spawn_actor(blueprint, mount, attach_to=self.ego)
        camera.listen(self.images.put)
        return camera

    def tick(self) -> None:
        """One closed-loop step: control, tick, read the ego, take the images of this frame."""
        self.ego.apply_control(carla.VehicleControl(throttle=0.25, steer=0.01))
        frame = self.world.tick()
        self.ego.get_transform()
        missing = len(self.cameras) if self.case.waits else 0
        while missing:
            missing -= self.images.get(timeout=10).frame == frame

    def rate(self, ticks: int, server: psutil.Process) -> Rate:
        """Rate over `ticks` steps after a short warm-up."""
        for car in self.cars[1:]:
            car.enable_constant_velocity(carla.Vector3D(TRAFFIC_MPS, 0, 0))
        for _ in range(20):
            self.tick()
        start, server_s, client_s = time.perf_counter(), cpu_s(server), time.process_time()
        for _ in range(ticks):
            self.tick()
        wall_s = time.perf_counter() - start
        client_s = time.process_time() - client_s
        return Rate(ticks / wall_s, 1e3 * (cpu_s(server) - server_s) / ticks, 1e3 * client_s / ticks)

    def close(self) -> None:
        """Destroy everything; the next drive starts anew."""
        for camera in self.cameras:
            camera.stop()
            camera.destroy()
        for car in self.cars:
            car.destroy()


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _median(repeats: int, measure: Callable[[], Rate]) -> Rate:
    rates = [measure() for _ in range(repeats)]
    columns = zip(*((r.ticks_per_s, r.server_ms, r.client_ms) for r in rates), strict=True)
    return Rate(*(statistics.median(column) for column in columns))


def measure(town: str, port: int, vehicles: int, ticks: int, repeats: int) -> dict[str, Rate]:
    """Rates of every case, by name."""
    out = {}
    for offset, constant in enumerate((False, True)):
        at = port + 2 * offset
        server = start_server(town, at, constant)
        process = psutil.Process(server.pid)
        try:
            for name, case in CASES.items():
                if case.constant != constant:
                    continue

                def once(case: Case = case, at: int = at, process: psutil.Process = process) -> Rate:
                    drive = Drive(at, vehicles, case)
                    try:
                        return drive.rate(ticks // (2 if case.cameras else 1), process)
                    finally:
                        drive.close()

                out[name] = _median(repeats, once)
        finally:
            server.terminate()
            server.join()
    return {name: out[name] for name in CASES}


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
    base = rates["constant image every tick"].ticks_per_s
    load = psutil.getloadavg()[0]
    print(
        f"light simulator, {args.town}, 1 ego + {args.vehicles} vehicles, 256x144 unless said otherwise, "
        f"median of {args.repeats}, load average {load:.1f} on {psutil.cpu_count()} cores"
    )
    for name, rate in rates.items():
        print(
            f"  {name:32s} {rate.ticks_per_s:7.0f} ticks/s   x{rate.ticks_per_s / base:.2f} of constant image"
            f"   CPU per tick: server {rate.server_ms:.2f} ms, client {rate.client_ms:.2f} ms"
        )
    render_ms = 1e3 / rates["rendered image every tick"].ticks_per_s - 1e3 / base
    print(f"  render time {render_ms:.1f} ms per image")


if __name__ == "__main__":
    main()
