"""Run a suite: workers with their own servers, bounded retries, resume, one results file."""

import hashlib
import json
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Literal

from drive.contracts import EvalResult, Policy, UserError
from drive.progress import Progress
from sim.episode import DriveOptions
from sim.file_suites import prepare_pictures
from sim.results import SIMULATION_CRASHED, ResultsFile, failure_record
from sim.suites import Suite
from sim.worker import Task, work

PolicyFactory = Callable[[], Policy]
ATTEMPTS = 3
IDENTICAL_CRASHES = 3
GRACE_S = 90.0
SLOWEST_MPS = 1.0  # of wall time; only routes of more than 900 m get more than the usual limit by it


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    task: Task | None = None
    deadline: float = 0.0


def run_suite(
    suite: Suite,
    policy: PolicyFactory | Literal["expert"],
    out_dir: Path,
    *,
    carla: str | None = None,
    workers: int = 1,
    record: bool = True,
    perturb: float = 0.0,
    dagger: bool = False,
    policy_name: str | None = None,
) -> EvalResult:
    """Drive every route of a suite that out_dir/results.json does not hold yet.

    Args:
        suite: Routes.
        policy: Picklable factory of the driver, built once per worker, or "expert".
        out_dir: Gets results.json, workers.log and, if `record`, logs/ (a log store).
        carla: host:port of a running CARLA server; None starts an own light server per route.
        workers: Parallel drives; 1 with `carla`.
        record: Keep drive logs with camera images.
        perturb: Share of planning steps after which the ego is displaced (training data only).
        dagger: Let the expert take over when the policy is far off or stuck (training data only).
        policy_name: Name in the results; the driver of a resumed run has to have the same one.

    Returns:
        Scores over all planned routes; routes on which the simulator failed three times are "infrastructure".

    Raises:
        UserError: Missing town, other version, foreign results in out_dir, a policy that cannot be built, or
            three identical crashes.
    """
    preflight(suite, carla)
    name = policy_name or ("expert" if policy == "expert" else _factory_name(policy))
    simulator = "light simulator" if carla is None else "CARLA"
    options = DriveOptions(record=record, perturb=perturb, dagger=dagger, wall_limit_s=_wall_limit_s(suite))
    run = {
        "policy": name,
        "simulator": simulator,
        "suite": suite.name,
        "routes": _routes_sha(suite),
        "record": record,
        "perturb": perturb,
        "dagger": dagger,
    }
    results = ResultsFile(out_dir / "results.json", suite, run)
    todo = [(n, r) for n, r in enumerate(suite.routes) if r.route_id not in results.finished]
    tasks = deque(Task(n, route, options, str(out_dir / "logs"), simulator, carla, name) for n, route in todo)
    count = 1 if carla else max(1, min(workers, len(tasks)))
    pictures = record or (policy != "expert" and getattr(policy, "needs_images", True))
    if tasks and pictures and carla is None and suite.note:
        prepare_pictures(suite)
    if tasks:
        with Progress(f"{name[:24]} on {suite.name}", len(suite.routes), "routes") as bar:
            bar.advance(len(suite.routes) - len(tasks), "already driven" if results.finished else "")
            driver = policy if policy == "expert" else _Built(policy)
            _Pool(driver, count, tasks, results, bar, out_dir / "workers.log").run()
    results.write()
    return results.result(versions())


def _wall_limit_s(suite: Suite) -> float:
    """Wall time that a drive may take [s]; long routes get more."""
    longest_m = max((route.length_m for route in suite.routes), default=0.0)
    return max(DriveOptions.wall_limit_s, longest_m / SLOWEST_MPS)


def preflight(suite: Suite, carla: str | None) -> None:
    """Check towns (and the server's version) before anything starts; UserError lists what is missing."""
    if carla is None:
        from sim.server.opendrive import available_towns

        towns, where = available_towns(), "the light simulator"
    else:
        from sim.session import connect, towns_on
        from sim.worker import parse_address

        try:
            towns, where = towns_on(connect(*parse_address(carla))), f"the CARLA server at {carla}"
        except RuntimeError as error:
            raise UserError(
                f"--carla {carla}: no answer ({error}); start CARLA 0.9.16 or leave --carla out"
            ) from None
    missing = [town for town in suite.towns if town not in towns]
    if missing:
        lost = sum(route.town in missing for route in suite.routes)
        raise UserError(
            f"suite {suite.name}: {where} lacks {', '.join(missing)} ({lost} of {len(suite.routes)} routes); "
            f"it has: {', '.join(towns)}"
        )


@dataclass(frozen=True)
class _Built:
    """A policy factory whose failure ends the run with its reason: another try would fail as well."""

    factory: PolicyFactory

    def __call__(self) -> Policy:
        try:
            policy = self.factory()
        except UserError:
            raise
        except Exception as error:
            traceback.print_exc()  # goes to workers.log
            raise UserError(f"the policy cannot be built ({type(error).__name__}: {error})") from error
        absent = [name for name in ("name", "needs_images", "plan") if not hasattr(policy, name)]
        if absent:
            raise UserError(f"{type(policy).__name__} is no policy: it has no {', '.join(absent)}")
        return policy


def versions() -> dict[str, Any]:
    """Versions that scores depend on."""
    return {name: version(name) for name in ("nightdrive", "carla", "numpy")}


def _factory_name(factory: PolicyFactory) -> str:
    return str(getattr(factory, "name", None) or getattr(factory, "__name__", type(factory).__name__))


def _routes_sha(suite: Suite) -> str:
    return hashlib.sha256(json.dumps([asdict(r) for r in suite.routes]).encode()).hexdigest()[:16]


class _Pool:
    """Hands tasks to worker processes, and replaces the ones that die."""

    def __init__(
        self,
        policy: PolicyFactory | Literal["expert"],
        count: int,
        tasks: deque[Task],
        results: ResultsFile,
        bar: Progress,
        log_file: Path,
    ) -> None:
        self._policy, self._tasks, self._results, self._bar = policy, tasks, results, bar
        self._log_file = log_file
        self._context = get_context("spawn")
        self._count = count
        self._attempts: Counter[int] = Counter()
        self._crashes: list[str] = []

    def run(self) -> None:
        workers = [self._start() for _ in range(self._count)]
        try:
            while workers:
                workers = self._step(workers)
        finally:
            for worker in workers:
                self._stop(worker)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(theirs, self._policy, self._log_file), daemon=True)
        process.start()
        theirs.close()
        return self._assign(_Worker(process, ours))

    def _assign(self, worker: _Worker) -> _Worker:
        worker.task = self._tasks.popleft()
        self._attempts[worker.task.index] += 1
        worker.deadline = time.monotonic() + worker.task.options.wall_limit_s + GRACE_S
        with suppress(BrokenPipeError):  # it has died: the next wait sees the end of its pipe
            worker.pipe.send(worker.task)
        return worker

    def _step(self, workers: list[_Worker]) -> list[_Worker]:
        """Wait for the next message or death, handle it, and return the workers that go on."""
        ready = connection.wait([w.pipe for w in workers], timeout=1.0)
        after: list[_Worker] = []
        for worker in workers:
            if worker.pipe in ready:
                kept = self._receive(worker)
            elif time.monotonic() > worker.deadline:
                worker.process.kill()
                worker.process.join(timeout=10)
                kept = self._replace(worker, "no sign of life within the wall limit")
            else:
                kept = worker
            if kept is not None:
                after.append(kept)
        return after

    def _receive(self, worker: _Worker) -> _Worker | None:
        try:
            kind, payload = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join(timeout=5)
            code = worker.process.exitcode
            return self._replace(worker, f"worker ended with exit code {code}, see {self._log_file}")
        if kind == "user_error":
            raise UserError(payload)
        assert worker.task is not None
        if kind == "record":
            self._crashes.clear()
            self._results.add(payload)
            self._bar.advance(note=f"{payload['route_id']}: {payload['status']}")
        else:
            self._failed(worker.task, payload)
        if self._tasks:
            return self._assign(worker)
        with suppress(BrokenPipeError):
            worker.pipe.send(None)
        self._stop(worker, wait=True)
        return None

    def _replace(self, worker: _Worker, reason: str) -> _Worker | None:
        worker.pipe.close()
        if worker.task is not None:
            self._failed(worker.task, reason)
        return self._start() if self._tasks else None

    def _failed(self, task: Task, reason: str) -> None:
        """The simulator failed on a task: again, or give up on this route, or on the whole run."""
        self._crashes.append(reason)
        last = self._crashes[-IDENTICAL_CRASHES:]
        if len(last) == IDENTICAL_CRASHES and len(set(last)) == 1 and not self._results.finished:
            raise UserError(f"the simulator failed {IDENTICAL_CRASHES} times in the same way: {reason}")
        if self._attempts[task.index] < ATTEMPTS:
            self._tasks.append(task)
            return
        self._results.add(failure_record(task.spec, task.index, SIMULATION_CRASHED, reason))
        self._bar.advance(note=f"{task.spec.route_id}: {SIMULATION_CRASHED}")

    @staticmethod
    def _stop(worker: _Worker, wait: bool = False) -> None:
        if wait:
            worker.process.join(timeout=10)
        if worker.process.is_alive():
            worker.process.kill()
        worker.process.join(timeout=10)
        worker.pipe.close()
