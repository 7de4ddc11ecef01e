"""One worker process: builds the policy once, then drives route after route, each on a fresh server.

A fresh server and TrafficManager per route make a drive independent of what was driven before.
"""

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from drive.contracts import Policy, UserError
from sim.episode import DriveOptions, DriveReport, drive_route
from sim.results import AGENT_CRASHED, failure_record, record_of
from sim.routes import RouteSpec
from sim.server_process import TRAFFIC_OFFSET, die_with_parent, own_server, reserve_ports
from sim.session import Address

RESTART_S = 30.0
POLL_S = 1.0


@dataclass(frozen=True)
class Task:
    """One route to drive."""

    index: int
    spec: RouteSpec
    options: DriveOptions
    log_root: str
    simulator: str
    carla: str | None
    driver: str


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


def work(pipe: Connection, factory: Callable[[], Policy] | Literal["expert"], log_file: Path) -> None:
    """Serve tasks from the pipe until None comes; answers ("record" | "crash" | "user_error", payload).

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
        pipe.send(("user_error", str(error)))
        return
    while (task := pipe.recv()) is not None:
        pipe.send(_answer(task, policy))


def _answer(task: Task, policy: Policy | None) -> tuple[str, Any]:
    print(f"--- {task.spec}", flush=True)
    try:
        return "record", record_of(_drive(task, policy), task.index)
    except PolicyFailed as error:
        return "record", failure_record(task.spec, task.index, AGENT_CRASHED, str(error))
    except UserError as error:
        return "user_error", str(error)
    except (RuntimeError, TimeoutError, OSError) as error:  # carla reports every failure as RuntimeError
        return "crash", f"{type(error).__name__}: {error}"


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
    if report.log is not None:
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
    if not host or not port.isdigit() or not 0 < int(port) < 65534:
        raise UserError(f"--carla {carla}: expected HOST:PORT, e.g. localhost:2000")
    return host, int(port)


def parse_addresses(carla: str) -> tuple[str, ...]:
    """Foreign servers of "HOST:PORT,HOST:PORT,..."; UserError if one is malformed or named twice."""
    found = tuple(part.strip() for part in carla.split(","))
    for address in found:
        parse_address(address)
        if found.count(address) > 1:
            raise UserError(f"--carla {carla}: {address} is named twice; a server takes one drive at a time")
    return found
