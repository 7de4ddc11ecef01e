"""One worker process: builds the policy once, then drives route after route, each on a fresh server.

A fresh server and TrafficManager per route make a drive independent of what was driven before. The worker
itself is replaced after many routes, or when it has grown.
"""

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol

import psutil

from drive.contracts import DriveLog, Policy, UserError
from sim.episode import DriveOptions, DriveReport, drive_route
from sim.results import AGENT_CRASHED, failure_record, record_of
from sim.routes import RouteSpec
from sim.server_process import TRAFFIC_OFFSET, die_with_parent, own_server, reserve_ports
from sim.session import Address

RESTART_S = 30.0
POLL_S = 1.0
ROUTES_PER_WORKER = 50
WORKER_GROWTH_BYTES = 3 * 2**30
PolicyFactory = Callable[[], Policy]


@dataclass(frozen=True)
class Task:
    """One route to drive.

    Attributes:
        index: Place in the suite.
        spec: The route.
        options: How it is driven.
        log_root: Log store that gets the drive; None hands the log back with the answer.
        simulator: "light simulator" or "CARLA".
        carla: Foreign server HOST:PORT; None drives on a fresh server of our own.
        driver: Name of the policy.
        pause_s: Wait so long first: what failed just now is given time.
    """

    index: int
    spec: RouteSpec
    options: DriveOptions
    log_root: str | None
    simulator: str
    carla: str | None
    driver: str
    pause_s: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What became of a task.

    Attributes:
        kind: "record"; "crash" of the simulator; or "user_error", which ends the run.
        payload: The record, or the reason.
        log: The drive, if the task asked for it.
        worn: The worker has to be replaced before the next task.
    """

    kind: Literal["record", "crash", "user_error"]
    payload: Any
    log: DriveLog | None = None
    worn: bool = False


class Process(Protocol):
    """What a fleet needs of the process behind a worker's pipe."""

    @property
    def exitcode(self) -> int | None:
        """Exit code; None while it runs or if nobody knows."""

    def is_alive(self) -> bool:
        """Does it run?"""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""

    def kill(self) -> None:
        """End it now."""


@dataclass(frozen=True)
class LocalWorkers:
    """Starts workers as processes on this machine.

    Attributes:
        policy: Picklable factory of the driver, built once per worker, or "expert".
        log_file: Where workers and the client library write.
        target: What the process runs; another one in tests of the fleet's book-keeping.
    """

    policy: PolicyFactory | Literal["expert"]
    log_file: Path
    target: "Callable[[Connection, Any, Path], None] | None" = None

    def __call__(self) -> tuple[Process, Connection]:
        """A new worker and our end of its pipe: takes Tasks, gives Answers, ends with None."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=self.target or work, args=(theirs, self.policy, self.log_file), daemon=True
        )
        process.start()
        theirs.close()
        return process, ours


class PolicyFailed(Exception):
    """The policy raised; the route scores 0 and the simulator is not to blame."""


class _Guarded:
    """Tells the policy's exceptions from the simulator's."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name, self.needs_images = policy.name, policy.needs_images

    def plan(self, observations: Any, seed: int) -> Any:
        try:
            plans = self._policy.plan(observations, seed)
            if len(plans) != len(observations):
                raise ValueError(f"{len(plans)} plans for {len(observations)} observations")
        except Exception as error:
            raise PolicyFailed(f"{type(error).__name__}: {error}") from error
        return plans


def work(pipe: Connection, factory: PolicyFactory | Literal["expert"], log_file: Path) -> None:
    """Serve Tasks from the pipe with Answers until None comes.

    The client library writes to stdout and stderr at will; that goes to `log_file`, as do crashes.
    """
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends us
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        policy: Policy | None = None if factory == "expert" else _Guarded(factory())
    except UserError as error:
        pipe.send(Answer("user_error", str(error)))
        return
    me, done = psutil.Process(), 0
    limit = me.memory_info().rss + WORKER_GROWTH_BYTES
    while (task := pipe.recv()) is not None:
        answer = _answer(task, policy)
        done += 1
        worn = done >= ROUTES_PER_WORKER or me.memory_info().rss > limit
        pipe.send(replace(answer, worn=worn))


def _answer(task: Task, policy: Policy | None) -> Answer:
    time.sleep(task.pause_s)
    print(f"--- {task.spec}", flush=True)
    try:
        report = _drive(task, policy)
    except PolicyFailed as error:
        return Answer("record", failure_record(task.spec, task.index, AGENT_CRASHED, str(error)))
    except UserError as error:
        return Answer("user_error", str(error))
    except (RuntimeError, TimeoutError, OSError) as error:  # carla reports every failure as RuntimeError
        return Answer("crash", f"{type(error).__name__}: {error}")
    return Answer("record", record_of(report, task.index), report.log if task.log_root is None else None)


def _drive(task: Task, policy: Policy | None) -> DriveReport:
    with ExitStack() as stack:
        port = stack.enter_context(reserve_ports())
        address = Address("127.0.0.1", port, port + TRAFFIC_OFFSET, own=True)
        if task.carla is None:
            stack.enter_context(own_server(task.spec.town, port))
        else:
            host, theirs = parse_address(task.carla)
            await_server(host, theirs)
            address = Address(host, theirs, port + TRAFFIC_OFFSET, own=False)
        report = drive_route(address, task.spec, policy, task.options, task.driver, task.simulator)
    if report.log is not None and task.log_root is not None:
        from drive.logs import write_drive

        write_drive(Path(task.log_root), report.log)
    return report


def await_server(host: str, port: int, limit_s: float = RESTART_S) -> None:
    """Wait until a foreign server listens: whoever looks after it may just be starting it again.

    Raises:
        ConnectionError: It does not within limit_s.
    """
    until = time.monotonic() + limit_s
    while True:
        try:
            with socket.create_connection((host, port), timeout=POLL_S * 5):
                return
        except OSError as error:
            if time.monotonic() > until:
                raise ConnectionError(f"{host}:{port} does not answer ({error})") from error
        time.sleep(POLL_S)


def parse_address(carla: str) -> tuple[str, int]:
    """Host and port of a foreign server; UserError if malformed."""
    host, _, port = carla.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65534:
        raise UserError(f"--carla {carla}: expected HOST:PORT, PORT from 1 to 65533, e.g. localhost:2000")
    return host, int(port)


def parse_addresses(carla: str) -> tuple[str, ...]:
    """Foreign servers of "HOST:PORT,HOST:PORT,..."; UserError if one is malformed or named twice."""
    found = tuple(part.strip() for part in carla.split(","))
    for address in found:
        parse_address(address)
        if found.count(address) > 1:
            raise UserError(f"--carla {carla}: {address} is named twice; a server takes one drive at a time")
    return found
