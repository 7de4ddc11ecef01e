"""The fleet's workers on the machines of a Ray cluster: same tasks, same answers, same results files.

Each worker is an actor that keeps one ordinary worker process below it. The machine that runs the command
hands out the routes and writes every file; nothing is shared between machines but what goes through Ray.
"""

import platform
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, is_dataclass, replace
from importlib.metadata import version
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from drive.contracts import Policy, UserError
from sim.file_suites import prepare_pictures
from sim.suites import Suite
from sim.worker import Answer, LocalWorkers, PolicyFactory, Process, Task

PLACES_WAIT_S = 60.0
CONNECT_WAIT_S = 5.0
SAME_EVERYWHERE = ("nightdrive", "carla", "numpy")
Driver = PolicyFactory | Literal["expert"]


@dataclass(frozen=True)
class Carried:
    """A policy factory that reads a folder, with that folder's files: other machines do not have it."""

    factory: Any
    files: dict[str, bytes] = field(repr=False)

    @property
    def needs_images(self) -> bool:
        """As the factory says."""
        return bool(getattr(self.factory, "needs_images", True))

    def __call__(self) -> Policy:
        """Build the policy from a copy of the folder."""
        with tempfile.TemporaryDirectory(prefix="nightdrive-model-") as folder:
            for name, data in self.files.items():
                (Path(folder) / name).write_bytes(data)
            policy: Policy = replace(self.factory, folder=folder)()
            return policy


def carried(factory: PolicyFactory) -> PolicyFactory:
    """The factory as it can be built on another machine; as it is if it reads no `folder`."""
    recipe: Any = factory
    if not is_dataclass(recipe) or not hasattr(recipe, "folder"):
        return factory
    files = sorted(path for path in Path(recipe.folder).iterdir() if path.is_file())
    return Carried(recipe, {path.name: path.read_bytes() for path in files})


class Place:
    """What runs on a machine of the cluster: one worker process, and word of what became of it."""

    def __init__(self, driver: Driver) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nightdrive-worker-"))
        self._log = self._folder / "workers.log"
        self._process, self._pipe = LocalWorkers(driver, self._log)()

    def about(self) -> dict[str, str]:
        """Name of the machine, and versions that scores depend on."""
        return {"host": socket.gethostname(), "python": platform.python_version(), **_versions()}

    def prepare(self, suite: Suite) -> None:
        """Draw the suite's towns on this machine, once for all its workers."""
        with FileLock(Path(tempfile.gettempdir()) / "nightdrive-drawing.lock"):
            prepare_pictures(suite)

    def drive(self, task: Task) -> Answer:
        """Drive a route; a worker process that dies is a crash of the simulator."""
        try:
            self._pipe.send(task)
            answer: Answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(timeout=5)
            said = " | ".join(self._log.read_text(errors="replace").splitlines()[-3:])
            code = self._process.exitcode
            return Answer(
                "crash", f"{socket.gethostname()}: worker ended with exit code {code}: {said}", worn=True
            )
        if answer.worn:
            self.close()
        return answer

    def close(self) -> None:
        """End the worker process."""
        with suppress(OSError):
            self._pipe.send(None)
        self._process.join(timeout=10)
        self._process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Actor:
    """An actor behind a pipe, as the fleet knows its workers."""

    exitcode: int | None = None

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self.ours, self._theirs = Pipe()
        self._thread = threading.Thread(target=self._serve, name="cluster worker", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        """Pass tasks on and answers back; the drive's log is written here, where the results are."""
        with self._theirs, suppress(EOFError, OSError):  # the fleet has let go of this worker
            while (task := self._theirs.recv()) is not None:
                self._theirs.send(self._ask(task))
            with suppress(self._ray.exceptions.RayError):
                self._ray.get(self._actor.close.remote())

    def _ask(self, task: Task) -> Answer:
        asked = replace(task, log_root=None) if task.options.record else task
        try:
            answer: Answer = self._ray.get(self._actor.drive.remote(asked))
            if answer.log is not None and task.log_root is not None:
                from drive.logs import write_drive

                write_drive(Path(task.log_root), answer.log)
        except (self._ray.exceptions.RayError, OSError) as error:
            words = str(error).splitlines() or [""]
            return Answer(
                "crash", f"worker of the cluster lost ({type(error).__name__}: {words[0]})", worn=True
            )
        return replace(answer, log=None)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    def kill(self) -> None:
        self._ray.kill(self._actor)


class ClusterWorkers:
    """Starts workers on a cluster that is connected.

    Attributes:
        places: How many found a machine; more are not to be asked for.
    """

    def __init__(self, ray: Any, driver: Driver) -> None:
        self._ray, self._driver = ray, ray.put(driver)
        self._make = ray.remote(num_cpus=1, scheduling_strategy="SPREAD", max_restarts=0)(Place)
        self._ready: list[Any] = []
        self.places = 0

    def reserve(self, wanted: int, suite: Suite, pictures: bool) -> None:
        """Find machines for `wanted` workers; fewer get a warning.

        Raises:
            UserError: There is no room at all, or a machine has other versions.
        """
        actors = [self._make.remote(self._driver) for _ in range(wanted)]
        asked = {actor.about.remote(): actor for actor in actors}
        found, waiting = self._ray.wait(list(asked), num_returns=wanted, timeout=PLACES_WAIT_S)
        for late in waiting:
            self._ray.kill(asked[late])
        for answer in found:
            try:
                _check(self._ray.get(answer))
            except self._ray.exceptions.RayError as error:
                raise UserError(f"--cluster: a worker cannot start ({_last_line(error)})") from None
            self._ready.append(asked[answer])
        if not found:
            raise UserError(f"--cluster: no free CPU within {PLACES_WAIT_S:.0f} s; wait, or add machines")
        if waiting:
            print(f"warning: the cluster has room for {len(found)} of {wanted} workers", file=sys.stderr)
        self.places = len(found)
        if pictures:
            self._ray.get([actor.prepare.remote(suite) for actor in self._ready])

    def __call__(self) -> tuple[Process, Connection]:
        """A worker that was reserved, or a new one in its stead."""
        actor = _Actor(self._ray, self._ready.pop() if self._ready else self._make.remote(self._driver))
        return actor, actor.ours


@contextmanager
def cluster(
    address: str, wanted: int, driver: Driver, suite: Suite, pictures: bool
) -> Iterator[ClusterWorkers]:
    """Connect to a cluster for the time of a run.

    Args:
        address: "auto", HOST:PORT or ray://HOST:PORT of a running cluster; "local" starts Ray here.
        wanted: Number of workers.
        driver: Picklable factory of the driver, or "expert".
        suite: What will be driven.
        pictures: Draw its towns on every machine first.

    Raises:
        UserError: Ray is not installed, nobody answers, no room, other versions.
    """
    ray = _connect(address, wanted)
    try:
        workers = ClusterWorkers(ray, driver)
        workers.reserve(wanted, suite, pictures)
        yield workers
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Refuse an address that cannot be one, or where nobody listens; Ray itself would try for minutes.

    Raises:
        UserError: One line that says so.
    """
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise UserError(f"--cluster {address}: expected auto, local, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_WAIT_S).close()
    except OSError as error:
        raise UserError(
            f"--cluster {address}: no answer ({error}); is `ray start --head` running there?"
        ) from None


def _connect(address: str, wanted: int) -> Any:
    check_address(address)
    try:
        import ray
    except ImportError:
        raise UserError("--cluster needs Ray; run: pip install 'nightdrive[cluster]'") from None
    more = {"num_cpus": wanted, "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False, **more)
    except Exception as error:  # whatever Ray raises: bare Exceptions among it
        ray.shutdown()
        raise UserError(f"--cluster {address}: Ray does not connect ({_last_line(error)})") from error
    return ray


def _check(about: dict[str, str]) -> None:
    ours = _versions()
    differs = [f"{name} {about[name]}, here {ours[name]}" for name in ours if about[name] != ours[name]]
    if differs:
        raise UserError(f"--cluster: {about['host']} has {'; '.join(differs)}; install the same there")


def _versions() -> dict[str, str]:
    return {name: version(name) for name in SAME_EVERYWHERE}


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
