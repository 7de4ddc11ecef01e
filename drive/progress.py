"""Progress bars with an estimate of the time left; plain lines when the output is not a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, TypeVar

PLAIN_EVERY_S = 5.0
T = TypeVar("T")


class Progress:
    """One bar: `with Progress("driving", total=12) as bar: bar.advance(note="route 3")`.

    `already` of the total were done before; the estimate of the time left goes by the others.
    """

    def __init__(self, label: str, total: int, unit: str = "", already: int = 0) -> None:
        self._label, self._total, self._unit, self._already = label, total, unit, already
        self._done, self._start, self._shown = already, time.monotonic(), 0.0
        self._live = sys.stderr.isatty()

    def __enter__(self) -> Self:
        self._show("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._show("" if kind is None else "stopped", final=True)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Count `steps` more as done and show a short note."""
        self._done += steps
        now = time.monotonic()
        if now - self._shown >= (0.1 if self._live else PLAIN_EVERY_S):
            self._show(note)

    def _show(self, note: str, final: bool = False) -> None:
        self._shown = time.monotonic()
        spent = self._shown - self._start
        share = self._done / self._total if self._total else 1.0
        new = self._done - self._already
        left = spent / new * (self._total - self._done) if new > 0 else float("nan")
        eta = f"{spent:.0f} s" if final else "ETA --" if left != left else f"ETA {left:.0f} s"
        filled = round(24 * min(1.0, share))
        bar = "#" * filled + "." * (24 - filled)
        text = f"{self._label:<12} [{bar}] {self._done}/{self._total} {self._unit} {eta} {note}".rstrip()
        end = "\n" if final or not self._live else ""
        print(("\r\x1b[2K" if self._live else "") + text, end=end, file=sys.stderr, flush=True)


def track(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Yield items and show a bar."""
    with Progress(label, total) as bar:
        for item in items:
            yield item
            bar.advance()
