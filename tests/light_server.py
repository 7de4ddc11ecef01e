"""A light server in its own process, and a client of it, for tests; `serving` makes a module's fixtures."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import carla
import pytest

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


def serving(town: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Fixtures `port`, `client` (of one server per test module) and `world` (a fresh synchronous episode)."""

    @pytest.fixture(scope="module", name="port")
    def a_port() -> Iterator[int]:
        with running_server(town) as (_, number, line):
            assert line == f"serving 127.0.0.1:{number} {town}"
            yield number

    @pytest.fixture(scope="module", name="client")
    def a_client(port: int) -> carla.Client:
        return connect(port)

    @pytest.fixture(name="world")
    def a_world(client: carla.Client) -> carla.World:
        return synchronous(client.load_world(town))

    return a_port, a_client, a_world
