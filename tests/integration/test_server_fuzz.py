"""Fuzzed and cut messages by the thousand neither kill nor grow the server."""

from collections.abc import Iterator

import psutil
import pytest

from tests.light_server import running_server
from tests.wire_fuzz import Fuzzer

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
