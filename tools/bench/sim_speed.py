"""Speed of the light server: ticks per second with N vehicles, without and with cameras and lidar.

`python tools/bench/sim_speed.py [--town Town01] [--port 20100] [--vehicles 20] [--ticks 400] [--repeats 3]`
Every number is the median of the repeats. Ratios are against the same run with constant images instead of
rendered ones, so that they can be compared between machines.
Load times, a long route in a big town and memory: `tools/bench/sim_endurance.py`.
"""

import argparse
import multiprocessing
import os
import queue
import socket
import statistics
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

import carla
import psutil

from sim.server import scene
from sim.server.actors import Sensor
from sim.server.main import serve
from sim.server.wire import IMAGE
from sim.server.world import World

TRAFFIC_MPS = 5.0


@dataclass(frozen=True)
class Eye:
    """One camera of a rig."""

    width: int
    height: int
    fov_deg: float
    yaw_deg: float = 0.0


@dataclass(frozen=True)
class Case:
    """What is measured: sensors, how often they deliver, whether every tick waits for its data.

    Attributes:
        eyes: Cameras.
        period_s: Their sensor_tick.
        constant: Are the pictures constant instead of rendered?
        wait: Does each tick wait for its pictures?
        lidar: Is there a lidar of 64 channels and 600,000 points per second as well?
    """

    eyes: tuple[Eye, ...] = ()
    period_s: float = 0.0
    constant: bool = False
    wait: bool = True
    lidar: bool = False


FRONT = (Eye(256, 144, 100),)
THREE = tuple(Eye(384, 216, 70, yaw) for yaw in (-55.0, 0.0, 55.0))
CASES = {
    "no camera": Case(wait=False),
    "front: constant picture": Case(FRONT, constant=True),
    "front: rendered": Case(FRONT),
    "front: rendered every 4th tick": Case(FRONT, period_s=0.2, wait=False),
    "three 384x216: constant picture": Case(THREE, constant=True),
    "three 384x216: rendered": Case(THREE),
    "lidar, 600,000 points/s": Case(lidar=True),
}
BASES = {"front": "front: constant picture", "three": "three 384x216: constant picture"}


def _constant_image(self: scene.Scene, world: World, camera: Sensor) -> bytes:
    return IMAGE.pack(camera.width, camera.height, camera.fov_deg) + bytes(4 * camera.width * camera.height)


def _run_server(town: str, port: int, constant: bool) -> None:
    if constant:
        scene.Scene.image = _constant_image  # type: ignore[method-assign]
        scene.Scene.paint_ahead = lambda *_: None  # type: ignore[method-assign]
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


@dataclass(frozen=True)
class Speed:
    """Ticks per second, and CPU time of the server with its renderers per tick."""

    ticks_per_s: float
    server_ms: float


def cpu_s(server: psutil.Process) -> float:
    """CPU seconds that a process and those it started have used."""
    family = [server, *server.children(recursive=True)]
    return float(sum(times.user + times.system for times in (process.cpu_times() for process in family)))


class Drive:
    """Ego and traffic under constant controls in a fresh episode."""

    def __init__(self, port: int, vehicles: int, case: Case) -> None:
        self.client = carla.Client("127.0.0.1", port, worker_threads=16)
        self.client.set_timeout(60)
        self.world = self.client.get_world()
        self.case = case
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
        self.sensors: list[tuple[carla.Sensor, queue.Queue[carla.SensorData]]] = []
        for eye in case.eyes:
            values = {"image_size_x": eye.width, "image_size_y": eye.height, "fov": eye.fov_deg}
            mount = carla.Transform(carla.Location(x=0.5, z=1.7), carla.Rotation(pitch=-4, yaw=eye.yaw_deg))
            self._add("sensor.camera.rgb", mount, values | {"sensor_tick": case.period_s})
        if case.lidar:
            values = {"channels": 64, "points_per_second": 600000, "rotation_frequency": 20, "range": 85}
            self._add("sensor.lidar.ray_cast", carla.Transform(carla.Location(z=2.5)), values)
        self.world.tick()
        for _, data in self.sensors:
            data.get(timeout=60)

    def _add(self, kind: str, mount: carla.Transform, values: dict[str, float]) -> None:
        blueprint = self.world.get_blueprint_library().find(kind)
        for name, value in values.items():
            blueprint.set_attribute(name, str(value))
        sensor = self.world.spawn_actor(blueprint, mount, attach_to=self.ego)
        data: queue.Queue[carla.SensorData] = queue.Queue()
        sensor.listen(data.put)
        self.sensors.append((sensor, data))

    def tick(self) -> None:
        """One closed-loop step: control, tick, read the ego, take the data of this frame."""
        self.ego.apply_control(carla.VehicleControl(throttle=0.25, steer=0.01))
        frame = self.world.tick()
        self.ego.get_transform()
        for _, data in self.sensors if self.case.wait else ():
            while data.get(timeout=10).frame != frame:
                pass

    def speed(self, ticks: int, server: psutil.Process) -> Speed:
        """Rate and the server's CPU time over `ticks` steps after a short warm-up."""
        for car in self.cars[1:]:
            car.enable_constant_velocity(carla.Vector3D(TRAFFIC_MPS, 0, 0))
        for _ in range(20):
            self.tick()
        start, cpu_start = time.perf_counter(), cpu_s(server)
        for _ in range(ticks):
            self.tick()
        return Speed(ticks / (time.perf_counter() - start), 1e3 * (cpu_s(server) - cpu_start) / ticks)

    def close(self) -> None:
        """Destroy everything; the next drive starts anew."""
        for sensor, _ in self.sensors:
            sensor.stop()
            sensor.destroy()
        for car in self.cars:
            car.destroy()


def measure(town: str, port: int, vehicles: int, ticks: int, repeats: int) -> dict[str, list[Speed]]:
    """Speed of every repeat of every case, by name."""
    out: dict[str, list[Speed]] = {}
    for constant in (False, True):
        server = _start_server(town, port + 2 * constant, constant)
        try:
            for name, case in CASES.items():
                if case.constant == constant:
                    steps = ticks // 2 if case.eyes or case.lidar else ticks
                    out[name] = [
                        _speed(server, port + 2 * constant, vehicles, case, steps) for _ in range(repeats)
                    ]
        finally:
            server.terminate()
            server.join()
    return {name: out[name] for name in CASES}


def _speed(server: BaseProcess, port: int, vehicles: int, case: Case, ticks: int) -> Speed:
    drive = Drive(port, vehicles, case)
    try:
        return drive.speed(ticks, psutil.Process(server.pid))
    finally:
        drive.close()


def _median(runs: list[Speed]) -> float:
    return statistics.median(run.ticks_per_s for run in runs)


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
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"light simulator, {args.town}, 1 ego + {args.vehicles} vehicles, median of {args.repeats}; "
        f"{os.cpu_count()} cores, load at the end {load}"
    )
    for name, runs in rates.items():
        rate, base = _median(runs), BASES.get(name.split()[0].rstrip(":"))
        ratio = f"   x{rate / _median(rates[base]):.2f} of constant" if base else ""
        cpu = statistics.median(run.server_ms for run in runs)
        print(f"  {name:34s} {rate:7.0f} ticks/s {cpu:7.2f} ms of server CPU per tick{ratio}")


if __name__ == "__main__":
    main()
