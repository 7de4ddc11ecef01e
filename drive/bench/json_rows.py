"""Rows of a nuScenes table one by one: the large tables never lie in memory as a whole."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drive.contracts import UserError
from drive.logs.nuscenes_rows import MEND, Kind

Row = dict[str, Any]
CHUNK = 1 << 20
_GAP = re.compile(r"\s*")
_ABSENT = object()


def stream_rows(path: Path, fields: Mapping[str, Kind]) -> Iterator[tuple[int, Row]]:
    """Number and content of each record of a JSON list; reads about 1 MiB at a time.

    Args:
        path: The table.
        fields: Checked in every record.

    Raises:
        UserError: Names file, row, field, and what was expected.
    """
    for number, row in enumerate(_values(path)):
        if not isinstance(row, dict):
            raise UserError(f"{path}: row {number}: expected a record, got {_short(row)}; {MEND}")
        for field, (is_good, words) in fields.items():
            if not is_good(row.get(field, _ABSENT)):
                have = _short(row[field]) if field in row else "nothing"
                raise UserError(f"{path}: row {number}: {field}: expected {words}, got {have}; {MEND}")
        yield number, row


def _values(path: Path) -> Iterator[Any]:
    """Values of a JSON list."""
    decoder, text, place = json.JSONDecoder(), "", 0
    try:
        with path.open(encoding="utf-8") as file:

            def peek() -> str:
                """Next character that is no space; "" at the end of the file."""
                nonlocal text, place
                while True:
                    gap = _GAP.match(text, place)
                    place = gap.end() if gap else place
                    if place < len(text):
                        return text[place]
                    text, place = file.read(CHUNK), 0
                    if not text:
                        return ""

            if peek() != "[":
                raise UserError(f"{path}: expected a list of records; {MEND}")
            place += 1
            if peek() == "]":
                return
            while True:
                if not peek():
                    raise ValueError("it ends in the middle")
                while True:
                    try:
                        value, place = decoder.raw_decode(text, place)
                        break
                    except ValueError:
                        more = file.read(CHUNK)
                        if not more:
                            raise
                        text, place = text[place:] + more, 0
                yield value
                mark = peek()
                place += 1
                if mark == "]":
                    return
                if mark != ",":
                    raise ValueError("it ends in the middle" if not mark else f"unexpected {mark!r}")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({' '.join(str(error).split())}); {MEND}") from None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
