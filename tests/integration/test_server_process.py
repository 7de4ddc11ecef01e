"""The light server as a process: garbage on its ports, bad arguments, its end."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import carla
import pytest

from tests.light_server import connect, free_port, running_server


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running_server("Town02") as (_, number, _):
        yield number


@pytest.fixture(scope="module")
def client(port: int) -> carla.Client:
    return connect(port)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 4,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xdd\xff\xff\xff\xff",  # msgpack array of four billion entries
        b"\x94\x00\x01\xa8tick_cue\x90",  # request without metadata
        b"\x94\x00\x01\xacspawn_actor\x93\x91\xc2\xa1x\xa1y",  # arguments of the wrong type
        b"\xc6\xff\xff\xff\xff" + b"x" * 1000,
    ],
)
def test_garbage_does_not_kill_the_server(client: carla.Client, port: int, data: bytes, offset: int) -> None:
    with socket.create_connection(("127.0.0.1", port + offset), timeout=5) as connection:
        connection.sendall(data)
        connection.settimeout(0.3)
        try:
            while connection.recv(4096):
                pass
        except (TimeoutError, ConnectionResetError):
            pass
    assert client.get_server_version() == client.get_client_version()


@pytest.mark.parametrize(
    ("town", "taken", "said"), [("Town01", True, "another port"), ("Town98", False, "Town98")]
)
def test_bad_options_are_one_line_and_exit_2(port: int, town: str, taken: bool, said: str) -> None:
    chosen = port if taken else free_port()
    command = [sys.executable, "-m", "sim.server", "--town", town, "--port", str(chosen)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_server_ends_with_sigterm_and_with_its_parent() -> None:
    with running_server("Town02") as (process, _, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    with (
        subprocess.Popen(["sleep", "60"]) as parent,
        running_server("Town02", "--parent-pid", str(parent.pid)) as (process, _, _),
    ):
        time.sleep(0.2)
        assert process.poll() is None
        parent.kill()
        parent.wait()
        assert process.wait(10) == 0
