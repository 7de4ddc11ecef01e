"""A run whose server is killed, hangs, or finds its port taken, and a run that is killed itself."""

import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

import sim.server_process
from drive.contracts import UserError
from sim.results import SIMULATION_CRASHED
from sim.routes import RouteSpec
from sim.runner import LOCK, run_suite
from sim.server_process import BLOCKS, ServerDied, own_server, reserve_ports
from sim.suites import Suite

FIRST = RouteSpec("first", "Town02", 110, 60.0, start_speed_mps=5.0)
OTHER = replace(FIRST, route_id="other", seed=111)
BOTH = Suite("test", "", (FIRST, OTHER))
MEASURED = ("duration_system", "plan_ms", "plan_ms_counts")

pytestmark = pytest.mark.timeout(170)


def servers() -> list[psutil.Process]:
    """Server processes below this one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "sim.server" in process.cmdline():
                found.append(process)
    return found


def driving(process: psutil.Process) -> bool:
    """Does a server have clients, and has it worked for a while?"""
    with suppress(psutil.Error):
        sockets = [c for c in process.net_connections() if c.status == psutil.CONN_ESTABLISHED]
        return len(sockets) > 2
    return False


@contextmanager
def meanwhile(disturb: Callable[[], None]) -> Iterator[None]:
    """Run something beside the block."""
    thread = threading.Thread(target=disturb, daemon=True)
    thread.start()
    yield
    thread.join(timeout=60)
    assert not thread.is_alive()


def once(
    act: Callable[[psutil.Process], None], wanted: Callable[[psutil.Process], bool]
) -> Callable[[], None]:
    """Do something to the first server of which `wanted` is true."""

    def disturb() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for process in servers():
                if wanted(process):
                    act(process)
                    return
            time.sleep(0.05)
        raise AssertionError("no server appeared")

    return disturb


def records(out: Path) -> dict[str, Any]:
    """Records by route id, without what depends on the machine's speed."""
    data = json.loads((out / "results.json").read_text())
    found = {r["route_id"]: r for r in data["_checkpoint"]["records"]}
    for record in found.values():
        for key in MEASURED:
            record["meta"].pop(key, None)
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    run_suite(BOTH, "expert", out, record=False)
    return out


def test_a_server_killed_in_the_middle_of_a_route_is_replaced(undisturbed: Path, tmp_path: Path) -> None:
    with meanwhile(once(psutil.Process.kill, driving)):
        result = run_suite(BOTH, "expert", tmp_path, record=False)
    assert [c.status for c in result.cases] == ["ok", "ok"]
    assert records(tmp_path) == records(undisturbed)
    assert not servers()


@pytest.mark.slow
def test_a_server_that_hangs_is_replaced(undisturbed: Path, tmp_path: Path) -> None:
    with meanwhile(once(psutil.Process.suspend, driving)):
        result = run_suite(BOTH, "expert", tmp_path, record=False)
    assert [c.status for c in result.cases] == ["ok", "ok"]
    assert records(tmp_path) == records(undisturbed)
    assert not servers()


@pytest.mark.slow
def test_a_server_that_always_dies_is_no_fault_of_the_agent(tmp_path: Path) -> None:
    run_suite(Suite("test", "", (FIRST,)), "expert", tmp_path / "one", record=False)
    stop = threading.Event()

    def kill_on() -> None:
        while not stop.wait(0.02):
            for process in servers():
                if (tmp_path / "two" / "results.json").exists():
                    with suppress(psutil.Error):
                        process.kill()

    thread = threading.Thread(target=kill_on, daemon=True)
    thread.start()
    try:
        result = run_suite(BOTH, "expert", tmp_path / "two", record=False)
    finally:
        stop.set()
        thread.join()
    assert [c.status for c in result.cases] == ["ok", "infrastructure"]
    assert records(tmp_path / "two")["other"]["status"] == SIMULATION_CRASHED
    assert result.planned == 2
    assert not servers()
    again = run_suite(BOTH, "expert", tmp_path / "two", record=False)  # the same command drives it again
    assert [c.status for c in again.cases] == ["ok", "ok"]


def test_a_taken_port_is_left_alone(tmp_path: Path) -> None:
    first = BLOCKS[(os.getpid() * 7) % len(BLOCKS)]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", first + 1))
        taken.listen()
        with reserve_ports() as port:
            assert port != first
        with pytest.raises(ServerDied, match="choose another port"), own_server("Town02", first):
            pass
    assert not servers()


def _run(out: Path) -> None:
    run_suite(BOTH, "expert", out, record=False)


def test_a_killed_run_goes_on_and_its_report_equals_an_undisturbed_one(
    undisturbed: Path, tmp_path: Path
) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(tmp_path,))
    process.start()
    until = time.monotonic() + 100
    while time.monotonic() < until and not (tmp_path / "results.json").exists():
        time.sleep(0.02)
    below = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not [p for p in alive if "resource_tracker" not in " ".join(p.cmdline())]
    before = json.loads((tmp_path / "results.json").read_text())["_checkpoint"]["records"]
    run_suite(BOTH, "expert", tmp_path, record=False)
    after = json.loads((tmp_path / "results.json").read_text())["_checkpoint"]["records"]
    assert after[: len(before)] == before  # wall time and all: they did not run again
    assert records(tmp_path) == records(undisturbed)
    again = (tmp_path / "results.json").read_text()
    run_suite(BOTH, "expert", tmp_path, record=False)
    assert (tmp_path / "results.json").read_text() == again


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "nothing was started": lambda out: (out / ".lock").exists(),
    "the server starts": lambda out: bool(servers()),
    "the first route is driven": lambda out: any(driving(p) for p in servers()),
    "the first record is written": lambda out: (out / "results.json").exists(),
    "the second route is driven": lambda out: (
        (out / "results.json").exists() and any(driving(p) for p in servers())
    ),
}


@pytest.mark.slow
def test_a_run_killed_at_every_stage_in_turn_ends_with_an_undisturbed_report(
    undisturbed: Path, tmp_path: Path
) -> None:
    finished: list[dict[str, Any]] = []
    for name, reached in MOMENTS.items():
        process = multiprocessing.get_context("spawn").Process(target=_run, args=(tmp_path,))
        process.start()
        until = time.monotonic() + 100
        while time.monotonic() < until and process.is_alive() and not reached(tmp_path):
            time.sleep(0.02)
        below = psutil.Process(process.pid).children(recursive=True) if process.is_alive() else []
        process.kill()
        process.join()
        _, alive = psutil.wait_procs(below, timeout=10)
        assert not [p for p in alive if "resource_tracker" not in " ".join(p.cmdline())], name
        if (tmp_path / "results.json").exists():
            now = json.loads((tmp_path / "results.json").read_text())["_checkpoint"]["records"]
            assert now[: len(finished)] == finished, name  # wall times and all: nothing ran twice
            finished = now
    run_suite(BOTH, "expert", tmp_path, record=False)
    assert records(tmp_path) == records(undisturbed)


@pytest.mark.slow
def test_the_only_foreign_server_dies_and_the_rest_is_infrastructure(tmp_path: Path) -> None:
    with reserve_ports() as port, own_server("Town02", port):
        (doomed,) = servers()
        with meanwhile(once(psutil.Process.kill, lambda p: p.pid == doomed.pid and driving(p))):
            result = run_suite(BOTH, "expert", tmp_path, carla=f"127.0.0.1:{port}", record=False)
    assert [c.status for c in result.cases] == ["infrastructure", "infrastructure"]
    assert "light simulator" in result.protocol
    reasons = [r["meta"]["reason"] for r in records(tmp_path).values()]
    assert all("no server is left" in reason or "does not answer" in reason for reason in reasons)
    assert not servers()


def test_a_server_that_outgrows_its_limit_is_ended_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim.server_process, "MEMORY_POLL_S", 0.1)
    with reserve_ports() as port, pytest.raises(ServerDied, match=r"it held more than 0\.01 GB"):  # noqa: SIM117
        with own_server("Town02", port, memory_gb=0.01):
            pass
    assert not servers()


def _reserve(pipe: Connection) -> None:
    with reserve_ports() as port:
        pipe.send(port)
        pipe.recv()


def test_runs_that_start_at_the_same_time_get_ports_of_their_own() -> None:
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(4)]
    processes = [context.Process(target=_reserve, args=(theirs,)) for _, theirs in pipes]
    for process in processes:
        process.start()
    ports = [ours.recv() for ours, _ in pipes]
    assert len(set(ports)) == len(ports)
    os.kill(processes[0].pid or 0, signal.SIGKILL)  # a reservation ends with its process
    for ours, _ in pipes:
        ours.send(None)
    for process in processes:
        process.join(timeout=10)
    assert [process.exitcode for process in processes] == [-signal.SIGKILL] + [0] * 3
    with reserve_ports():
        pass


def test_a_second_run_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (
        FileLock(tmp_path / LOCK),
        pytest.raises(UserError, match="another run writes there; wait for it or choose another --out"),
    ):
        run_suite(BOTH, "expert", tmp_path, record=False)
    assert not servers()


@pytest.mark.slow
def test_foreign_servers_are_driven_on_in_parallel_and_one_may_die(tmp_path: Path) -> None:
    suite = Suite("test", "", tuple(replace(FIRST, route_id=f"r{n}", seed=110 + n) for n in range(4)))
    with reserve_ports() as one, own_server("Town02", one), reserve_ports() as two, own_server("Town02", two):
        address = f"127.0.0.1:{one},127.0.0.1:{two}"
        doomed = next(p for p in servers() if str(two) in p.cmdline())
        with meanwhile(once(psutil.Process.kill, lambda p: p.pid == doomed.pid and driving(p))):
            result = run_suite(suite, "expert", tmp_path, carla=address, record=False)
    assert [c.status for c in result.cases] == ["ok"] * 4
