"""Several result files of one run as one: in any order, copies once, what is whole of a cut file."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drive.contracts import UserError
from drive.files import read_json
from drive.score.closedloop import is_success, record_counts
from drive.score.leaderboard import Results, parse_results

Duplicates = Literal["refuse", "best", "worst"]
DECIDES = ("status", "infractions", "scores")
NAMED = 3


@dataclass(frozen=True)
class ResultFile:
    """One file as it was read.

    Attributes:
        name: Path.
        results: Its checked content.
        cut: Whether it ends in the middle, so that `results` holds the records before the cut only.
    """

    name: str
    results: Results
    cut: bool


@dataclass(frozen=True)
class Merged:
    """The records of one run, one per route, sorted by route id: the order of the files changes nothing.

    Attributes:
        results: Protocol and number of planned routes are what the files agree on; scores that a file states
            itself are kept only if there is one file.
        copies: Records left out because another of the same route says the same.
        conflicts: Routes with records that differ; which one counts was asked for.
        cut: Names of the files that end in the middle.
    """

    results: Results
    copies: int
    conflicts: tuple[str, ...]
    cut: tuple[str, ...]


def read_result_file(path: Path, salvage: bool = False) -> ResultFile:
    """Read and check one file.

    Args:
        path: JSON of the leaderboard, of Bench2Drive or of `drive sim`.
        salvage: Take the whole records before the cut of a file that ends in the middle.

    Raises:
        UserError: Missing, no results, a damaged record, or cut and not to be salvaged.
    """
    try:
        return ResultFile(str(path), parse_results(read_json(path), str(path)), False)
    except UserError as error:
        if not isinstance(error.__context__, ValueError):
            raise
        records = whole_records(path.read_text(encoding="utf-8", errors="replace"))
        if records is None:
            raise
        if not salvage:
            raise UserError(
                f"{path}: cut or damaged after {len(records)} whole records ({error.__context__}); restore "
                "it, or count these records with --allow-partial"
            ) from None
    return ResultFile(str(path), parse_results({"_checkpoint": {"records": records}}, str(path)), True)


def whole_records(text: str) -> list[Any] | None:
    """Records that are whole in a results file that ends in the middle; None if it is no such file."""
    start = re.search(r'"records"\s*:\s*\[', text)
    if not text.lstrip().startswith("{") or start is None:
        return None
    decoder, place = json.JSONDecoder(), start.end()
    found: list[Any] = []
    while True:
        gap = re.compile(r"[\s,]*").match(text, place)
        place = gap.end() if gap else place
        try:
            record, place = decoder.raw_decode(text, place)
        except ValueError:
            return found
        found.append(record)


def merge(files: Sequence[ResultFile], duplicates: Duplicates = "refuse") -> Merged:
    """One run from the files that hold its records.

    Records of one route that say the same (status, infractions, scores) count once. Records that differ are
    refused unless it is said which one counts: with "refuse" no choice of files can raise a score.

    Args:
        files: From `read_result_file`.
        duplicates: Of records that differ, "best" takes the one with success, then the higher score; "worst"
            the other way round.

    Raises:
        UserError: No file, files of different protocols or planned numbers, or records that differ.
    """
    if not files:
        raise UserError("no results file given; name one or more")
    whole = [file.results for file in files if not file.cut] or [files[0].results]
    protocols = sorted({results.protocol for results in whole})
    if len(protocols) > 1:
        raise UserError(f"files of different protocols: {'; '.join(protocols)}; score them one at a time")
    planned = sorted({results.planned for results in whole if results.planned is not None})
    routes: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for file in files:
        for record in file.results.records:
            routes.setdefault(str(record["route_id"]), []).append((file.name, record))
    different = {route: _different(found) for route, found in routes.items()}
    conflicts = sorted(route for route, records in different.items() if len(records) > 1)
    if conflicts and duplicates == "refuse":
        raise UserError(_conflict(conflicts, routes))
    pick = max if duplicates == "best" else min
    records = tuple(pick(different[route], key=_rank) for route in sorted(different))
    total = sum(len(found) for found in routes.values())
    return Merged(
        results=Results(
            records,
            planned[0] if len(planned) == 1 else None,
            protocols[0],
            files[0].results.stated if len(files) == 1 else {},
        ),
        copies=total - sum(len(found) for found in different.values()),
        conflicts=tuple(conflicts),
        cut=tuple(sorted(file.name for file in files if file.cut)),
    )


def _different(found: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    unique = {json.dumps([r[key] for key in DECIDES], sort_keys=True): r for _, r in found}
    return [unique[key] for key in sorted(unique)]


def _rank(record: Mapping[str, Any]) -> tuple[bool, float, str]:
    score = float(record["scores"]["score_composed"])
    success = is_success(str(record["status"]), record_counts(record))
    text = json.dumps([record[key] for key in DECIDES], sort_keys=True)
    return success, score if score == score else -1.0, text


def _conflict(conflicts: Sequence[str], routes: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]) -> str:
    names = sorted({name for route in conflicts for name, _ in routes[route]})
    more = f" and {len(conflicts) - NAMED} more" if len(conflicts) > NAMED else ""
    return (
        f"{', '.join(names)}: different records of {', '.join(conflicts[:NAMED])}{more}; say which one "
        "counts with --duplicates best or worst, or compare two runs with `drive compare`"
    )
