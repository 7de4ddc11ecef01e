"""losses.csv of a training run: one row per optimiser step, also across interruptions."""

import csv
from collections.abc import Mapping
from pathlib import Path

FILE = "losses.csv"


class LossLog:
    """Appends rows "step, term, ..."; rows beyond `first_step`, of a run that was cut off, are dropped."""

    def __init__(self, out_dir: Path, first_step: int) -> None:
        self._path = out_dir / FILE
        kept = self._rows_up_to(first_step) if self._path.exists() else []
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._header = bool(kept)
        with self._path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(kept)

    def add(self, step: int, terms: Mapping[str, float]) -> None:
        """Write one row; the terms have the same names in every step."""
        with self._path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            if not self._header:
                writer.writerow(["step", *terms])
                self._header = True
            writer.writerow([step, *(f"{value:.6g}" for value in terms.values())])

    def _rows_up_to(self, step: int) -> list[list[str]]:
        with self._path.open(encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        whole = [row for row in rows if len(row) == len(header) and row[0].isdigit() and int(row[0]) <= step]
        return [header, *whole] if whole else []
