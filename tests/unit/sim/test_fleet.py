"""The fleet's book-keeping, with real worker processes that play a script instead of driving."""

import os
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import sim.fleet
from drive.contracts import UserError
from drive.progress import Progress
from sim.episode import DriveOptions
from sim.fleet import ATTEMPTS, LONGEST_BACK_OFF_S, SLOT_FAILURES, Fleet, back_off_s
from sim.results import AGENT_CRASHED, SIMULATION_CRASHED, ResultsFile, failure_record
from sim.routes import RouteSpec
from sim.suites import Suite
from sim.worker import Answer, LocalWorkers, Task

GOOD, BAD = "good:2000", "bad:2000"


def scripted(pipe: Connection, script: Any, log_file: Path) -> None:
    """A worker that does what the script says for a route, or for a server, and else finishes the route."""
    while (task := pipe.recv()) is not None:
        with log_file.open("a") as log:
            log.write(f"{task.spec.route_id} {task.carla} {os.getpid()}\n")
        act = script.get(task.spec.route_id, script.get(task.carla))
        if act == "die":
            os._exit(9)
        elif act == "worn":
            pipe.send(Answer("record", failure_record(task.spec, task.index, "Completed", ""), worn=True))
            assert pipe.recv() is None
            return
        elif act is not None:
            pipe.send(Answer(*act))
        else:
            pipe.send(Answer("record", failure_record(task.spec, task.index, "Completed", "")))


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    routes: int,
    servers: tuple[str | None, ...],
    script: dict[str, Any],
) -> tuple[dict[str, tuple[str, str]], list[list[str]]]:
    """Status and reason per route, and (route, server) of every try."""
    monkeypatch.setattr(sim.fleet, "BACK_OFF_S", 0.0)
    specs = tuple(RouteSpec(f"r{n}", "Town01", n, 60.0) for n in range(routes))
    results = ResultsFile(
        tmp_path / "results.json", Suite("s", "", specs), {"policy": "p", "simulator": "CARLA"}
    )
    tasks = deque(Task(n, s, DriveOptions(), "", "CARLA", None, "p") for n, s in enumerate(specs))
    log = tmp_path / "log"
    with Progress("test", routes) as bar:
        Fleet(LocalWorkers(script, log, scripted), servers, tasks, results, bar, log).run()  # type: ignore[arg-type]
    tries = [line.split()[:2] for line in log.read_text().splitlines()]
    return {r["route_id"]: (r["status"], r["meta"]["reason"]) for r in results.records}, tries


def test_a_dead_server_is_left_out_and_the_others_drive_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crash = ("crash", "ConnectionError: no answer")
    found, tries = run(tmp_path, monkeypatch, 8, (GOOD, BAD), {BAD: crash})
    assert {status for status, _ in found.values()} == {"Completed"}
    assert len(found) == 8
    assert sum(server == BAD for _, server in tries) <= SLOT_FAILURES
    if sum(server == BAD for _, server in tries) == SLOT_FAILURES:
        assert f"warning: {BAD} failed 3 times in a row, left out: ConnectionError" in capsys.readouterr().err


def test_what_failed_on_one_server_is_driven_on_another_even_when_that_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, tries = run(tmp_path, monkeypatch, 2, (GOOD, BAD), {BAD: ("crash", "ConnectionError: no answer")})
    assert {status for status, _ in found.values()} == {"Completed"}
    assert sum(server == BAD for _, server in tries) <= 1


def test_without_any_server_left_the_rest_is_infrastructure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = {"r0": None} | {f"r{n}": ("crash", f"ConnectionError: {n}") for n in range(1, 5)}
    found, tries = run(tmp_path, monkeypatch, 5, (BAD,), script)
    assert found["r0"][0] == "Completed"
    assert {found[f"r{n}"][0] for n in range(1, 5)} == {SIMULATION_CRASHED}
    assert all("no server is left: ConnectionError" in found[f"r{n}"][1] for n in range(1, 5))
    assert len(tries) == 1 + SLOT_FAILURES


def test_a_route_that_kills_its_worker_is_given_up_and_the_rest_is_driven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, tries = run(tmp_path, monkeypatch, 3, (None, None), {"r1": "die"})
    assert (found["r0"][0], found["r2"][0]) == ("Completed", "Completed")
    assert found["r1"][0] == SIMULATION_CRASHED
    assert "exit code 9" in found["r1"][1]
    assert sum(route == "r1" for route, _ in tries) == ATTEMPTS


def test_a_failing_agent_is_no_fault_of_the_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = failure_record(RouteSpec("r0", "Town01", 0, 60.0), 0, AGENT_CRASHED, "boom")
    found, tries = run(tmp_path, monkeypatch, 2, (None,), {"r0": ("record", record)})
    assert found["r0"] == (AGENT_CRASHED, "boom")
    assert len(tries) == 2


def test_a_simulator_that_never_works_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = {f"r{n}": ("crash", "RuntimeError: no town") for n in range(4)}
    with pytest.raises(UserError, match=r"failed 3 times in the same way: RuntimeError: no town"):
        run(tmp_path, monkeypatch, 4, (None,), script)


def test_a_worn_worker_is_replaced_between_routes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, tries = run(tmp_path, monkeypatch, 4, (None,), {"r1": "worn", "r3": "worn"})
    assert {status for status, _ in found.values()} == {"Completed"}
    assert len(tries) == 4  # nothing was driven twice
    pids = [line.split()[2] for line in (tmp_path / "log").read_text().splitlines()]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_a_place_that_goes_on_failing_is_given_more_and_more_time_but_not_for_ever() -> None:
    pauses = [back_off_s(n) for n in (0, 1, 2, 3, 4, 10, 10_000)]
    assert pauses[:4] == [0.0, 1.0, 2.0, 4.0]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_BACK_OFF_S
