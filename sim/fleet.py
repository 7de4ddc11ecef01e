"""A fleet of worker processes: hands out routes, replaces what dies, gives up on what stays broken."""

import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path

from drive.contracts import UserError
from drive.progress import Progress
from sim.results import SIMULATION_CRASHED, ResultsFile, failure_record
from sim.worker import Process, Task

Launch = Callable[[], tuple[Process, Connection]]
ATTEMPTS = 3
IDENTICAL_CRASHES = 3
SLOT_FAILURES = 3
GRACE_S = 90.0
BACK_OFF_S, LONGEST_BACK_OFF_S = 1.0, 30.0


@dataclass
class _Slot:
    """A place for one drive at a time: a foreign server, or (None) a fresh server of our own per route."""

    server: str | None
    failures: int = 0  # in a row


@dataclass
class _Worker:
    process: Process
    pipe: Connection
    slot: _Slot
    task: Task | None = None
    deadline: float = 0.0


class Fleet:
    """Drives tasks in worker processes, one per slot.

    A task is tried ATTEMPTS times, with a pause before each further try that doubles while its place goes on
    failing; a foreign server that fails SLOT_FAILURES times in a row is left out.

    Args:
        launch: Starts a worker.
        servers: Per worker the foreign server it drives on, or None for servers of its own.
        tasks: What to drive; taken from the left.
        results: Gets a record per task.
        bar: Advances by one per record.
        log_file: Where workers and the client library write.
    """

    def __init__(
        self,
        launch: Launch,
        servers: Sequence[str | None],
        tasks: deque[Task],
        results: ResultsFile,
        bar: Progress,
        log_file: Path,
    ) -> None:
        self._launch, self._tasks, self._results, self._bar = launch, tasks, results, bar
        self._log_file = log_file
        self._slots = [_Slot(server) for server in servers]
        self._attempts: Counter[int] = Counter()
        self._tried: defaultdict[int, set[str | None]] = defaultdict(set)
        self._crashes: list[str] = []

    def run(self) -> None:
        """Drive everything.

        Raises:
            UserError: The policy cannot be built, or nothing was driven and the simulator fails in one way.
        """
        while self._tasks and (usable := [slot for slot in self._slots if self._usable(slot)]):
            self._drive_on(usable)
        while self._tasks:
            self._give_up(self._tasks.popleft(), f"no server is left: {self._crashes[-1]}")

    def _drive_on(self, slots: Sequence[_Slot]) -> None:
        workers: list[_Worker] = []
        try:
            for slot in slots:
                if (task := self._next(slot)) is not None:
                    workers.append(self._start(slot, task))
            while workers:
                workers = self._step(workers)
        finally:
            for worker in workers:
                self._stop(worker)

    def _next(self, slot: _Slot) -> Task | None:
        """Take a task from the queue; one that failed on this foreign server is left to the others."""
        for task in self._tasks:
            tried = self._tried[task.index]
            others = any(s.server not in tried for s in self._slots if s is not slot and self._usable(s))
            if slot.server is None or slot.server not in tried or not others:
                self._tasks.remove(task)
                return task
        return None

    def _start(self, slot: _Slot, task: Task) -> _Worker:
        return self._assign(_Worker(*self._launch(), slot), task)

    def _assign(self, worker: _Worker, task: Task) -> _Worker:
        pause_s = back_off_s(worker.slot.failures)
        worker.task = replace(task, carla=worker.slot.server, pause_s=pause_s)
        self._attempts[worker.task.index] += 1
        worker.deadline = time.monotonic() + pause_s + worker.task.options.wall_limit_s + GRACE_S
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
            answer = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join(timeout=5)
            code = worker.process.exitcode
            return self._replace(worker, f"worker ended with exit code {code}, see {self._log_file}")
        if answer.kind == "user_error":
            raise UserError(answer.payload)
        assert worker.task is not None
        if answer.kind == "record":
            self._crashes.clear()
            worker.slot.failures = 0
            self._results.add(answer.payload)
            self._bar.advance(note=f"{answer.payload['route_id']}: {answer.payload['status']}")
        else:
            self._failed(worker.slot, worker.task, answer.payload)
        task = self._next(worker.slot) if self._usable(worker.slot) else None
        if task is not None and not answer.worn:
            return self._assign(worker, task)
        with suppress(BrokenPipeError):
            worker.pipe.send(None)
        self._stop(worker, wait=True)
        return None if task is None else self._start(worker.slot, task)

    def _replace(self, worker: _Worker, reason: str) -> _Worker | None:
        worker.pipe.close()
        if worker.task is not None:
            self._failed(worker.slot, worker.task, reason)
        if self._usable(worker.slot) and (task := self._next(worker.slot)) is not None:
            return self._start(worker.slot, task)
        return None

    @staticmethod
    def _usable(slot: _Slot) -> bool:
        return slot.server is None or slot.failures < SLOT_FAILURES

    def _failed(self, slot: _Slot, task: Task, reason: str) -> None:
        """The simulator failed on a task: again, or give up on this route, this server, or the whole run."""
        self._crashes.append(reason)
        self._tried[task.index].add(slot.server)
        slot.failures += 1
        others = any(self._usable(other) for other in self._slots if other is not slot)
        last = self._crashes[-IDENTICAL_CRASHES:]
        hopeless = len(last) == IDENTICAL_CRASHES and len(set(last)) == 1 and not self._results.finished
        if hopeless and (slot.server is None or not others):
            raise UserError(f"the simulator failed {IDENTICAL_CRASHES} times in the same way: {reason}")
        if not self._usable(slot):
            failed = f"{slot.server} failed {slot.failures} times in a row"
            print(f"warning: {failed}, left out: {reason}", file=sys.stderr)
        if self._attempts[task.index] < ATTEMPTS:
            self._tasks.append(task)
        else:
            self._give_up(task, reason)

    def _give_up(self, task: Task, reason: str) -> None:
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


def back_off_s(failures: int) -> float:
    """Pause [s] before the next try at a place that has failed so often in a row."""
    return min(LONGEST_BACK_OFF_S, BACK_OFF_S * 2 ** min(failures - 1, 30)) if failures > 0 else 0.0
