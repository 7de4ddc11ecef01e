"""Frees a tick on which CARLA's TrafficManager has gone to sleep.

carla 0.9.16 wakes the TrafficManager's thread by setting a flag and notifying without holding the mutex
(TrafficManagerLocal::SynchronousTick), so once in some ten thousand ticks the notification is lost and
`world.tick` never returns. The flag stays set: one more notification lets exactly the missing step happen.
Leaving and re-entering synchronous mode is the one call that notifies again. It has to go through the
TrafficManager's own RPC port, because the Python object waits for a mutex that the hanging tick holds.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import carla
import msgpack

POLL_S = 0.25
SILENT_POLLS = 8
HOPELESS_POLLS = 240
EXIT_CODE = 70
REENTER = b"".join(msgpack.packb([0, n, "set_synchronous_mode", [n > 0]]) for n in (0, 1))
T = TypeVar("T")


class Watchdog:
    """Watches the ticks of one drive from a thread of its own.

    Args:
        world: World whose `tick` is watched.
        traffic_port: RPC port of the drive's TrafficManager, which lives in this process.
    """

    def __init__(self, world: carla.World, traffic_port: int) -> None:
        self._world, self._port = world, traffic_port
        self._lock = threading.Lock()
        self._began: float | None = None
        self._frame = 0
        self._stop = threading.Event()
        self.rescues = 0
        self._thread = threading.Thread(target=self._watch, name="tick watchdog", daemon=True)
        self._thread.start()

    def guard(self, call: Callable[[], T]) -> T:
        """Run `world.tick`, or another call that may hang, under observation."""
        frame = self._world.get_snapshot().frame
        with self._lock:
            self._began, self._frame = time.monotonic(), frame
        try:
            return call()
        finally:
            with self._lock:
                self._began = None

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _watch(self) -> None:
        """Count polls, not seconds: a machine that was suspended must not look like a hanging client."""
        current: float | None = None
        polls = silent = 0
        while not self._stop.wait(POLL_S):
            with self._lock:
                began, before = self._began, self._frame
            if began is None or began != current:
                current, polls, silent = began, 0, 0
                continue
            polls += 1
            if polls > HOPELESS_POLLS:
                print("the CARLA client hangs in a tick; ending this worker", file=sys.stderr, flush=True)
                os._exit(EXIT_CODE)
            # without an answer from the server its own timeout applies
            answered = self._world.get_snapshot().frame != before
            silent = silent + 1 if answered and _all_asleep() else 0
            if silent > SILENT_POLLS:
                self._rescue(began)
                silent = 0

    def _rescue(self, began: float) -> None:
        with self._lock:
            if self._began != began:  # it returned meanwhile
                return
            self.rescues += 1
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as line:
                line.sendall(REENTER)
                line.settimeout(5)
                line.recv(64)


def _all_asleep() -> bool:
    """Is every other thread of this process and of its children (the server) waiting, none of them runnable?

    Tells a lost wake-up from a machine that is merely busy. Where there is no /proc the answer is yes.
    """
    own = Path("/proc/self/task")
    if not own.is_dir():
        return True
    me = threading.get_native_id()
    tasks = [task for task in own.iterdir() if task.name != str(me)]
    children = own / str(os.getpid()) / "children"
    for child in children.read_text().split() if children.is_file() else ():
        tasks += list(Path(f"/proc/{child}/task").glob("*"))
    for task in tasks:
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has just ended
            continue
        if state != "S":
            return False
    return True
