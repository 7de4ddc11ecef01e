"""A light server in its own process, and a client of it, for tests."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import carla

FIRST_PORT = 20400
TICK_S = 0.05


def free_port() -> int:
    """First of two neighbouring free ports."""
    for port in range(FIRST_PORT + os.getpid() % 100 * 2, FIRST_PORT + 500, 2):
        with closing(socket.socket()) as a, closing(socket.socket()) as b:
            try:
                a.bind(("127.0.0.1", port))
                b.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise RuntimeError("no free ports")


@contextmanager
def running_server(town: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    port = free_port()
    command = [sys.executable, "-m", "sim.server", "--town", town, "--port", str(port), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, port, process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(10)


def connect(port: int) -> carla.Client:
    client = carla.Client("localhost", port, worker_threads=4)
    client.set_timeout(20.0)
    return client


def synchronous(world: carla.World) -> carla.World:
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, TICK_S
    world.apply_settings(settings)
    return world
