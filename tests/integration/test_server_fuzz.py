"""Fuzzed and cut messages by the thousand neither kill nor grow the server."""

import socket
from collections.abc import Iterator

import msgpack
import psutil
import pytest

from tests.light_server import running_server
from tests.wire_fuzz import Fuzzer, answered

GROWTH_MB = 60  # 5000 remembered boxes and what a few thousand legally spawned actors take


@pytest.fixture
def server() -> Iterator[tuple[int, psutil.Process]]:
    with running_server("Town02") as (process, port, line):
        assert line.startswith("serving ")
        yield port, psutil.Process(process.pid)


def fuzz(server: tuple[int, psutil.Process], count: int, seed: int) -> list[int]:
    """Resident memory [bytes] after every tenth of the messages."""
    port, process = server
    resident = []
    for sent in Fuzzer(port, seed).run(count):
        if sent >= count * (len(resident) + 1) // 10:
            resident.append(process.memory_info().rss)
    assert process.is_running()
    return resident


def test_three_thousand_fuzzed_messages(server: tuple[int, psutil.Process]) -> None:
    resident = fuzz(server, 3000, seed=1)
    assert len(resident) == 10
    assert max(resident) - resident[0] < GROWTH_MB << 20


@pytest.mark.slow
def test_a_hundred_thousand_fuzzed_messages(server: tuple[int, psutil.Process]) -> None:
    resident = fuzz(server, 100_000, seed=2)
    assert max(resident) - resident[0] < GROWTH_MB << 20
    assert resident[-1] - resident[4] < (GROWTH_MB << 20) // 4  # the second half adds nothing


def test_ticks_of_clients_that_have_left_do_not_pile_up(server: tuple[int, psutil.Process]) -> None:
    """A tick waits for streams that are announced and not yet open; others may go on announcing."""
    port, process = server
    requests = [
        ("get_sensor_token", 1),
        ("tick_cue",),
        ("tick_cue",),
        ("get_actors_by_id", [1 << 30] * 20_000),
    ]
    burst = b"".join(msgpack.packb([0, 1, name, [[False], *more]]) for name, *more in requests)
    before = process.memory_info().rss
    with socket.create_connection(("127.0.0.1", port)) as other:
        other.settimeout(20)
        for _ in range(400):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(burst)
            answered(other)
    assert process.memory_info().rss - before < 40 << 20
