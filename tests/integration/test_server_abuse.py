"""What strangers send to `python -m sim.server`: it lives on, does not grow, and answers everyone else."""

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import msgpack
import psutil
import pytest

from sim.server.connections import MAX_MESSAGE_BYTES, MAX_UNSENT_BYTES
from tests.light_server import free_port, running_server

GROWTH_MB = 40
Server = tuple[int, psutil.Process]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server("Town02") as (process, port, line):
        assert line.startswith("serving ")
        yield port, psutil.Process(process.pid)


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(10)
    return connection


def request(name: Any, *arguments: Any, number: int = 7) -> bytes:
    packed: bytes = msgpack.packb([0, number, name, [[False], *arguments]])
    return packed


def ask(connection: socket.socket, *message: Any) -> Any:
    connection.sendall(request(*message))
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=MAX_MESSAGE_BYTES)
    while True:
        for reply in unpacker:
            return reply[3]
        data = connection.recv(1 << 20)
        assert data, "the server has closed the connection"
        unpacker.feed(data)


def closes(connection: socket.socket) -> bool:
    """Does the server end this connection?"""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def send_what_goes(connection: socket.socket, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):  # it may have had enough
        connection.sendall(data)


LIST, TEXT = b"\xdd", b"\xdb"
MESSAGES: dict[str, bytes] = {
    "garbage": Random(1).randbytes(4096),
    "a number": msgpack.packb(3),
    "text": msgpack.packb("version"),
    "an empty list": msgpack.packb([]),
    "a request without arguments": msgpack.packb([0, 1, "version", []]),
    "a request without metadata": msgpack.packb([0, 1, "version", [3]]),
    "a request of another kind": msgpack.packb([9, 1, "version", [[False]]]),
    "a request with a name of bytes": msgpack.packb([0, 1, b"version", [[False]]]),
    "a request with a long name": request("v" * 1000),
    "text that is not UTF-8": b"\x94\x00\x01\xa2\xff\xfe\x91\x91\xc2",
    "a list of 60 million": LIST + struct.pack(">I", 60_000_000),
    "lists of 30 million in each other": (LIST + struct.pack(">I", 30_000_000)) * 400,
    "lists in each other without end": b"\x91" * 100_000,
    "an unknown extension": b"\xc7\x05\x50hello",
    "a reserved byte": b"\xc1",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_nonsense_ends_its_connection_and_no_other(server: Server, name: str) -> None:
    port, process = server
    with connect(port) as other, connect(port) as stranger:
        before = process.memory_info().rss
        send_what_goes(stranger, MESSAGES[name])
        assert closes(stranger)
        assert ask(other, "version") == [[1, "0.9.16"]]
        assert process.memory_info().rss - before < GROWTH_MB << 20


def test_a_message_that_never_ends_is_kept_up_to_the_limit(server: Server) -> None:
    port, process = server
    before = process.memory_info().rss
    with connect(port) as other, connect(port) as stranger:
        send_what_goes(stranger, TEXT + struct.pack(">I", 2**32 - 1))
        for _ in range(MAX_MESSAGE_BYTES // (1 << 20) + 2):
            send_what_goes(stranger, b"x" * (1 << 20))
        assert closes(stranger)
        assert ask(other, "version") == [[1, "0.9.16"]]
    assert process.memory_info().rss - before < 2 * MAX_MESSAGE_BYTES


@pytest.mark.parametrize("cut", [1, 5, 15])
def test_half_messages_wait_without_harm(server: Server, cut: int) -> None:
    port, process = server
    before = process.memory_info().rss
    strangers = [connect(port) for _ in range(50)]
    for stranger in strangers:
        stranger.sendall(request("get_map_data")[:cut])
    with connect(port) as other:
        assert ask(other, "version") == [[1, "0.9.16"]]
    strangers[0].sendall(request("get_map_data")[cut:])
    assert strangers[0].recv(100)  # a slow sender is a client like any other
    for stranger in strangers:
        stranger.close()
    assert process.memory_info().rss - before < GROWTH_MB << 20


def test_a_client_that_asks_and_never_reads_is_not_answered_further(server: Server) -> None:
    port, process = server
    with connect(port) as other, connect(port) as stranger:
        size = len(msgpack.packb(ask(other, "get_map_data")))
        before = process.memory_info().rss
        stranger.settimeout(1.0)
        sent = 0
        with suppress(TimeoutError):  # the server reads no more
            while sent < 20 * MAX_UNSENT_BYTES:  # each of these asks for a map
                sent += stranger.send(request("get_map_data") * 100)
        assert sent < 20 * MAX_UNSENT_BYTES
        start = time.monotonic()
        assert ask(other, "version") == [[1, "0.9.16"]]
        assert time.monotonic() - start < 2.0
        assert process.memory_info().rss - before < (MAX_UNSENT_BYTES + 2 * size) + (GROWTH_MB << 20)
        stranger.settimeout(10)  # once it reads, it gets every answer
        received = 0
        while received < 100 * size:
            received += len(stranger.recv(1 << 20))


@pytest.mark.parametrize("data", [b"\x01", b"\xff\xff\xff\xff", b"\x63\0\0\0", Random(2).randbytes(5000)])
def test_nonsense_on_the_port_of_streams(server: Server, data: bytes) -> None:
    port, process = server
    before = process.memory_info().rss
    with connect(port) as other, connect(port + 1) as stranger:
        send_what_goes(stranger, data)
        if len(data) >= 4:
            assert closes(stranger)
        assert ask(other, "version") == [[1, "0.9.16"]]
    assert process.memory_info().rss - before < GROWTH_MB << 20


def test_a_reader_of_an_earlier_servers_stream_cannot_knock_all_the_time(server: Server) -> None:
    """Clients that have outlived a server open their streams again as soon as they are refused."""
    port, _ = server
    knocks, end = 0, time.monotonic() + 2.5
    while time.monotonic() < end:
        with connect(port + 1) as stale:
            stale.sendall(struct.pack("<I", 123_456))
            assert closes(stale)
        knocks += 1
    assert 1 <= knocks <= 3


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("set_weather_parameters", [[1.0] * 3]),
        ("set_weather_parameters", [[float("nan")] * 14]),
        ("add_traffic_manager_running", [["host", 70000]]),
        ("add_traffic_manager_running", [["h" * 1000, 8000]]),
        ("load_new_episode", ["Town" * 10_000, False]),
        ("copy_opendrive_to_file", ["<" * 100_000, []]),
    ],
)
def test_oversized_arguments_are_refused_briefly(server: Server, name: str, arguments: list[Any]) -> None:
    with connect(server[0]) as client:
        reply = ask(client, name, *arguments)
        assert len(msgpack.packb(reply)) < 1000
        assert reply[0][0] in (0, True)
        assert ask(client, "version") == [[1, "0.9.16"]]


@pytest.mark.parametrize("port", ["-1", "0", "65535", "70000", "99999999999999999999", "x"])
def test_ports_that_are_none_are_refused(port: str) -> None:
    done = _server("--port", port)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_named_whichever_of_the_two_it_is() -> None:
    port = free_port()
    for taken in (port, port + 1):
        with socket.create_server(("127.0.0.1", taken)):
            done = _server("--port", str(port))
        assert done.returncode == 2
        assert f"cannot listen on 127.0.0.1:{port} and {port + 1}" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_host_that_is_none_is_named() -> None:
    done = _server("--port", str(free_port()), "--host", "no.such.host.invalid")
    assert done.returncode == 2
    assert done.stderr.startswith("cannot listen on no.such.host.invalid")


def _server(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command: list[str] = [sys.executable, "-m", "sim.server", "--town", "Town02", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
