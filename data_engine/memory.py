"""Peak memory of this process and everything it starts."""

import threading
from types import TracebackType
from typing import Self

import psutil

EVERY_S = 1.0


class PeakMemory:
    """Samples the resident memory of the process tree; `peak_gb` is the largest sum seen."""

    def __init__(self) -> None:
        self.peak_gb = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=2 * EVERY_S)

    def _watch(self) -> None:
        me = psutil.Process()
        while True:
            total = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            self.peak_gb = max(self.peak_gb, total / 1e9)
            if self._stop.wait(EVERY_S):
                return
