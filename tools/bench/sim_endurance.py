"""Big towns and long runs of the light server: load times, a long route in traffic, memory.

`python tools/bench/sim_endurance.py [--port 20100] [--load] [--route] [--memory]` (all three unless named).
Load: seconds from the start of the process until clients can connect, and its peak memory, without pictures.
Route: the ego and 50 vehicles under the client's TrafficManager in Town12 until the ego has driven 10 km, or
for --seconds of wall-clock time. Memory: resident set of the server over 10,000 ticks with 20 vehicles and a
camera.
"""

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import carla
import psutil
from sim_speed import FRONT, Case, Drive, cpu_s

from sim.server.opendrive import available_towns, road_speeds_kmh

TICK_S = 0.05
ROUTE_M = 10_000.0
FAST_KMH, FASTEST_MPS = 85.0, 60.0
MEMORY_TICKS = 10_000
BLOCK = 100  # ticks per measurement


@contextmanager
def running(town: str, port: int) -> Iterator[psutil.Process]:
    """A server that clients can connect to."""
    command = [sys.executable, "-m", "sim.server", "--town", town, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith("serving"):
                raise SystemExit(f"server did not start on port {port}")
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def peak_bytes(process: psutil.Process) -> int:
    """Largest resident set so far, as Linux counts it."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) << 10


def loads(port: int, repeats: int, towns: list[str]) -> None:
    """Print seconds and peak memory of every town."""
    for town in towns:
        seconds, cpu, peak = [], [], 0
        for _ in range(repeats):
            start = time.perf_counter()
            with running(town, port) as server:
                seconds.append(time.perf_counter() - start)
                cpu.append(cpu_s(server))
                peak = max(peak, peak_bytes(server))
        print(
            f"  {town:9s} {statistics.median(seconds):6.1f} s ({statistics.median(cpu):.1f} s of CPU), "
            f"{peak >> 20:5d} MB",
            flush=True,
        )


def route(port: int, vehicles: int, limit_s: float) -> None:
    """Print how fast a long drive in traffic goes in Town12."""
    with running("Town12", port) as server:
        client = carla.Client("127.0.0.1", port, worker_threads=8)
        client.set_timeout(120)
        world = client.get_world()
        settings = world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, TICK_S
        world.apply_settings(settings)
        manager = client.get_trafficmanager(port + 100)
        manager.set_synchronous_mode(True)
        manager.set_random_device_seed(1)
        cars = _traffic(world, vehicles + 1, port + 100)
        for car in cars:
            manager.ignore_lights_percentage(car, 100.0)
        rates, driven, ticks = [], 0.0, 0
        world.tick()  # until then the client takes every actor to be at the origin
        start = time.perf_counter()
        places = [cars[0].get_location()]
        while driven < ROUTE_M and time.perf_counter() - start < limit_s:
            before, used, own = time.perf_counter(), cpu_s(server), time.process_time()
            for _ in range(BLOCK):
                world.tick()
            spent = (cpu_s(server) - used, time.process_time() - own)
            rates.append((BLOCK / (time.perf_counter() - before), *(1e3 * s / BLOCK for s in spent)))
            ticks += BLOCK
            places.append(cars[0].get_location())
            if places[-2].distance(places[-1]) > FASTEST_MPS * BLOCK * TICK_S:
                raise SystemExit(f"the ego jumped from {places[-2]} to {places[-1]}")
            driven = sum(a.distance(b) for a, b in pairwise(places))
        rate, server_ms, client_ms = (statistics.median(column) for column in zip(*rates, strict=True))
        print(
            f"  Town12, 1 + {len(cars) - 1} vehicles: {driven / 1000:.1f} km in {ticks * TICK_S:.0f} s of "
            f"simulation, {rate:.0f} ticks/s = {rate * TICK_S:.1f} x real time, "
            f"CPU per tick: server {server_ms:.1f} ms, client {client_ms:.1f} ms; "
            f"{server.memory_info().rss >> 20} MB",
            flush=True,
        )
        manager.set_synchronous_mode(False)


def _traffic(world: carla.World, count: int, manager_port: int) -> list[carla.Vehicle]:
    """Cars near each other on one of the town's fastest roads, the first one is the ego."""
    town = world.get_map()
    points = town.get_spawn_points()
    speeds = road_speeds_kmh(town.to_opendrive())
    fast = [p for p in points if speeds.get(town.get_waypoint(p.location).road_id, 0.0) >= FAST_KMH]
    first = random.Random(1).choice(fast).location
    points.sort(key=lambda point: point.location.distance(first))
    model = world.get_blueprint_library().find("vehicle.lincoln.mkz_2020")
    cars: list[carla.Vehicle] = []
    for point in points:
        car = world.try_spawn_actor(model, point)
        if car is not None:
            car.set_autopilot(True, manager_port)
            cars.append(car)
        if len(cars) == count:
            break
    return cars


def memory(port: int) -> None:
    """Print the resident set after every thousand ticks."""
    with running("Town01", port) as server:
        drive = Drive(port, 20, Case(FRONT, period_s=0.2, wait=False))
        resident = []
        for number in range(MEMORY_TICKS):
            drive.tick()
            if number % 1000 == 999:
                resident.append(server.memory_info().rss >> 20)
        drive.close()
        print(f"  {MEMORY_TICKS} ticks, 20 vehicles, a camera at 5 Hz: {resident} MB", flush=True)


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=20100)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--route", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--towns", nargs="*", default=available_towns(), help="to load, all unless given")
    parser.add_argument("--repeats", type=int, default=3, help="of loads")
    parser.add_argument("--vehicles", type=int, default=50, help="beside the ego of the route")
    parser.add_argument("--seconds", type=float, default=600.0, help="longest time for the route")
    args = parser.parse_args()
    everything = not (args.load or args.route or args.memory)
    print(f"light simulator, load average {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores")
    if args.load or everything:
        loads(args.port, args.repeats, args.towns)
    if args.route or everything:
        route(args.port, args.vehicles, args.seconds)
    if args.memory or everything:
        memory(args.port)


if __name__ == "__main__":
    main()
