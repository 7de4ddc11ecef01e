"""Paints several pictures of one tick at the same time, in processes that end with the server."""

import contextlib
import logging
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection

from drive.viz.air import Look
from drive.viz.quads import Landscape, Quads
from drive.viz.view import View
from drive.viz.weather_painter import paint_look

MAX_WORKERS = 5
_LONGEST_S = 20.0  # start-up with the largest town included
_END_S = 5.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Order:
    """What it takes to paint one picture; without a look in the weather that an episode starts with."""

    view: View
    bodies: list[Quads]
    look: Look | None = None

    def paint(self, tiles: Landscape) -> bytes:
        """The BGRA bytes."""
        return paint_look(self.view, tiles, self.bodies, self.look).tobytes()


class RenderPool:
    """Helpers are started when there is work for them; whatever they cannot do is painted here.

    Args:
        town: Static quads, or the OpenDRIVE text of a town that is drawn bit by bit.
        tiles: The same town, for the pictures painted in this process.
        workers: Most helper processes; as many as there are further cores, up to 5, if not given.
    """

    def __init__(self, town: Quads | str, tiles: Landscape, workers: int | None = None) -> None:
        self._town, self._tiles = town, tiles
        cores = len(os.sched_getaffinity(0))
        self._spare = min(cores - 1, MAX_WORKERS) if workers is None else workers
        self._helpers: list[tuple[Connection, subprocess.Popen[bytes]]] = []

    def paint(self, orders: list[Order]) -> list[bytes]:
        """BGRA bytes of every picture; the same ones whoever paints them."""
        while self._spare and len(self._helpers) < len(orders) - 1:
            self._start()
        painters = len(self._helpers) + 1
        pictures: list[bytes | None] = [None] * len(orders)
        # The first of every round is painted here, while the helpers paint the others.
        for first in range(0, len(orders), painters):
            for (pipe, _), order in zip(self._helpers, orders[first + 1 : first + painters], strict=False):
                _send(pipe, order)
            pictures[first] = self._own(orders[first])
            lost = []
            for at, helper in enumerate(self._helpers[: len(orders) - first - 1], first + 1):
                pictures[at] = _receive(helper[0])
                lost += [helper] if pictures[at] is None else []
            for helper in lost:
                self._drop(helper)
            if lost:
                break
        return [
            self._own(order) if done is None else done for done, order in zip(pictures, orders, strict=True)
        ]

    def _own(self, order: Order) -> bytes:
        return order.paint(self._tiles)

    def _start(self) -> None:
        """One more helper; none ever again if that fails."""
        self._spare -= 1
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command = [sys.executable, "-m", "sim.server.render_worker", str(theirs.fileno())]
            try:
                process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            except OSError as problem:
                log.warning("no render helper: %s", problem)
                self._spare = 0
                return
            pipe = Connection(ours.detach())
        self._helpers.append((pipe, process))
        _send(pipe, self._town)

    def _drop(self, helper: tuple[Connection, subprocess.Popen[bytes]]) -> None:
        log.warning("render helper %s is gone; its pictures are painted here", helper[1].pid)
        self._helpers.remove(helper)
        _end(helper)

    def close(self) -> None:
        """End the helpers."""
        for helper in self._helpers:
            _end(helper)
        self._helpers.clear()
        self._spare = 0


def _send(pipe: Connection, message: object) -> None:
    """A helper that has died is noticed when its answer is missing."""
    with contextlib.suppress(OSError):
        pipe.send(message)


def _receive(pipe: Connection) -> bytes | None:
    try:
        return pipe.recv_bytes() if pipe.poll(_LONGEST_S) else None
    except (EOFError, OSError):
        return None


def _end(helper: tuple[Connection, subprocess.Popen[bytes]]) -> None:
    pipe, process = helper
    pipe.close()  # which ends it
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
