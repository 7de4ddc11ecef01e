"""Our own server process: a free block of ports, start, ready line, and a sure end."""

import ctypes
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from drive.contracts import UserError

BLOCK = 10
BLOCKS = range(21000, 22000, BLOCK)
TRAFFIC_OFFSET = 5
READY = "serving "
START_LIMIT_S = 180.0  # the largest towns take most of a minute on a busy machine
MEMORY_LIMIT_GB = 8.0  # the largest town needs less than 3
MEMORY_POLL_S = 2.0
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ServerDied(RuntimeError):
    """The simulator process could not be started or ended by itself; its last lines are in the message."""


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, so that nothing is left behind by kill -9."""
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def reserve_ports() -> Iterator[int]:
    """Reserve a block of ports on this machine and yield the first; released when the block ends or we die.

    Raises:
        UserError: No block is free.
    """
    folder = Path(tempfile.gettempdir()) / f"nightdrive-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    start = (os.getpid() * 7) % len(BLOCKS)
    for k in range(len(BLOCKS)):
        first = BLOCKS[(start + k) % len(BLOCKS)]
        lock = FileLock(folder / f"{first}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        try:
            if all(_is_free(first + offset) for offset in (0, 1, 2, TRAFFIC_OFFSET)):
                yield first
                return
        finally:
            lock.release()
    raise UserError(f"no free block of ports in {BLOCKS.start}-{BLOCKS.stop}; end other simulator runs")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def own_server(
    town: str, port: int, command: tuple[str, ...] = (), memory_gb: float = MEMORY_LIMIT_GB
) -> Iterator[int]:
    """Run the light server for one town in its own process group; always killed at the end.

    Args:
        town: Town to serve.
        port: First port of a reserved block.
        command: Program to run instead of `python -m sim.server` (tests of supervision).
        memory_gb: It is killed when it and its children hold more than this.

    Raises:
        ServerDied: It ended or said nothing within START_LIMIT_S, or it was killed for its memory.
    """
    program = command or (sys.executable, "-m", "sim.server")
    process = subprocess.Popen(
        [*program, "--town", town, "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    output = _Output(process)
    memory = _MemoryGuard(process.pid, memory_gb)
    try:
        output.wait_ready(time.monotonic() + START_LIMIT_S)
        yield port
    except RuntimeError as error:  # what the client says of a server that is gone, and ServerDied
        memory.close()
        if memory.killed:
            raise ServerDied(f"the simulator was ended: it held more than {memory_gb:g} GB") from error
        raise
    finally:
        memory.close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.close()


class _MemoryGuard:
    """Kills a server, with its process group, that outgrows its limit."""

    def __init__(self, pid: int, limit_gb: float) -> None:
        self.killed = False
        self._pid, self._limit = pid, limit_gb * 2**30
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="server memory", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            server = psutil.Process(self._pid)
            while not self._stop.wait(MEMORY_POLL_S):
                if _resident(server) > self._limit:
                    self.killed = True
                    os.killpg(self._pid, signal.SIGKILL)
                    return

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)


def _resident(process: psutil.Process) -> int:
    """Bytes that a process and its children hold; what they share counts for each."""
    total = int(process.memory_info().rss)
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += int(child.memory_info().rss)
    return total


class _Output:
    """Reads the server's output in the background and keeps the last lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tail: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._tail = [*self._tail[-9:], line.rstrip()]
            self._lines.put(line)
        self._lines.put(None)

    def wait_ready(self, until: float) -> None:
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                raise ServerDied(f"the simulator said nothing for {START_LIMIT_S:.0f} s") from None
            if line is None:
                raise ServerDied("the simulator ended at its start: " + " | ".join(self._tail[-3:]))
            if line.startswith(READY):
                return

    def close(self) -> None:
        self._thread.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()
