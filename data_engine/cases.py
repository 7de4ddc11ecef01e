"""The case store: every bad case ever mined in a workspace, with its life across nights.

open -> training (a candidate that saw it was promoted) -> fixed (the champion's plan there is right)
-> retired (right on several nights in a row); fixed -> open when it comes back; quarantined for ever:
poisoned (already in violation when it begins, or the label fails the gates) or from a faulty recording.
"""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from drive.contracts import BadCase, UserError
from drive.contracts.engine import Status
from drive.files import write_atomic

FILE = "cases.arrow"
RETIRE_AFTER = 3
STATUSES: tuple[Status, ...] = ("open", "training", "fixed", "retired", "quarantined")


@dataclass(frozen=True)
class Stored:
    """A case with its history.

    Attributes:
        case: As mined; `case.status` is where it stands now.
        first_night, last_night: When it was first mined, and last mined or tested again.
        plan_indices: Planning steps of its window; empty if it never became one.
        error_m: Mean error of the champion's plan there when last tested; -1 = never, or no number.
        good_nights: Tests in a row that the champion passed.
        note: Why it is quarantined, or came back.
    """

    case: BadCase
    first_night: str
    last_night: str
    plan_indices: tuple[int, ...] = ()
    error_m: float = -1.0
    good_nights: int = 0
    note: str = ""


@dataclass(frozen=True)
class CaseStore:
    """All cases of a workspace by id, and the nights that are in it."""

    cases: Mapping[str, Stored]
    nights: tuple[str, ...] = ()

    def count(self) -> dict[str, int]:
        """Number of cases per status."""
        found = [stored.case.status for stored in self.cases.values()]
        return {status: found.count(status) for status in STATUSES}

    def to_test(self, limit: int) -> list[Stored]:
        """Cases whose window should be tested with tonight's models: those tested longest ago first."""
        wanted = [s for s in self.cases.values() if s.case.status in ("training", "fixed") and s.plan_indices]
        return sorted(wanted, key=lambda s: (s.last_night, -s.case.severity, s.case.case_id))[:limit]


@dataclass(frozen=True)
class NightOutcome:
    """What a night says about cases.

    Attributes:
        night: Name of the night.
        mined: Tonight's cases.
        windows: case_id -> planning steps that belong to it.
        trained: Ids that the candidate was trained on.
        quarantined: case_id -> why.
        promoted: The candidate became champion.
        error_m: case_id -> error on its window of the model that is champion after tonight.
    """

    night: str
    mined: Sequence[BadCase]
    windows: Mapping[str, Sequence[int]] = field(default_factory=dict)
    trained: Collection[str] = ()
    quarantined: Mapping[str, str] = field(default_factory=dict)
    promoted: bool = False
    error_m: Mapping[str, float] = field(default_factory=dict)


def apply_night(store: CaseStore, night: NightOutcome, fixed_m: float) -> CaseStore:
    """The store after a night; a night that is in it already changes nothing.

    Args:
        store: Before.
        night: What happened.
        fixed_m: A window on which the champion's plan errs less is fixed.
    """
    if night.night in store.nights:
        return store
    cases = dict(store.cases)
    for case in night.mined:
        known = cases.get(case.case_id)
        first = known.first_night if known else night.night
        status = known.case.status if known else "open"
        base = known or Stored(case, first, night.night)
        cases[case.case_id] = replace(base, case=replace(case, status=status), last_night=night.night)
    for case_id, indices in night.windows.items():
        if case_id in cases:
            cases[case_id] = replace(cases[case_id], plan_indices=tuple(int(i) for i in indices))
    for case_id, why in night.quarantined.items():
        if case_id in cases:
            cases[case_id] = _at(cases[case_id], "quarantined", why)
    if night.promoted:
        for case_id in night.trained:
            if case_id in cases and cases[case_id].case.status == "open":
                cases[case_id] = _at(cases[case_id], "training")
    for case_id, error in night.error_m.items():
        if case_id in cases and cases[case_id].case.status != "quarantined":
            cases[case_id] = _tested(cases[case_id], error, fixed_m, night.night)
    return CaseStore(cases, (*store.nights, night.night))


def _tested(stored: Stored, error_m: float, fixed_m: float, night: str) -> Stored:
    """A case after a test: right often enough it is retired, wrong again it is open."""
    known = error_m if math.isfinite(error_m) else -1.0
    stored = replace(stored, error_m=known, last_night=night)
    if not error_m < fixed_m:  # NaN is not fixed
        back = stored.case.status in ("fixed", "retired")
        again = _at(stored, "open", f"came back with {error_m:.1f} m") if back else stored
        return replace(again, good_nights=0)
    good = stored.good_nights + 1
    return replace(_at(stored, "retired" if good >= RETIRE_AFTER else "fixed"), good_nights=good)


def _at(stored: Stored, status: Status, note: str = "") -> Stored:
    return replace(stored, case=replace(stored.case, status=status), note=note)


def load_store(workspace: Path) -> CaseStore:
    """The workspace's case store; an empty one if there is none yet.

    Raises:
        UserError: The file is damaged.
    """
    import pyarrow as pa

    path = workspace / FILE
    if not path.exists():
        return CaseStore({})
    try:
        table = pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()
        nights = json.loads((table.schema.metadata or {})[b"nights"])
        rows = table.to_pylist()
        return CaseStore({row["case_id"]: _stored(row) for row in rows}, tuple(nights))
    except (pa.ArrowInvalid, OSError, LookupError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: damaged case store ({error}); restore it, or move it away to start anew"
        ) from None


def save_store(workspace: Path, store: CaseStore) -> None:
    """Write the store whole, or not at all."""
    import pyarrow as pa

    rows = [_row(store.cases[key]) for key in sorted(store.cases)]
    table = pa.Table.from_pylist(rows, schema=pa.schema([(name, kind()) for name, kind in _SCHEMA.items()]))
    table = table.replace_schema_metadata({"nights": json.dumps(list(store.nights))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    write_atomic(workspace / FILE, sink.getvalue().to_pybytes())


def _kind(name: str) -> Any:
    def make() -> Any:
        import pyarrow as pa

        return {
            "text": pa.string(),
            "time": pa.int64(),
            "number": pa.float64(),
            "numbers": pa.list_(pa.float64()),
            "indices": pa.list_(pa.int32()),
            "texts": pa.list_(pa.string()),
        }[name]

    return make


_SCHEMA = {
    **dict.fromkeys(("case_id", "log_id", "route", "kind", "source", "status", "cause"), _kind("text")),
    **dict.fromkeys(("start_us", "end_us", "good_nights"), _kind("time")),
    **dict.fromkeys(("severity", "error_m"), _kind("number")),
    **dict.fromkeys(("tags", "pictures"), _kind("texts")),
    **dict.fromkeys(("terms", "first_night", "last_night", "note"), _kind("text")),
    "embedding": _kind("numbers"),
    "plan_indices": _kind("indices"),
}


def _row(stored: Stored) -> dict[str, Any]:
    about = {name: getattr(stored, name) for name in ("first_night", "last_night", "error_m", "good_nights")}
    row = {**asdict(stored.case), **about, "note": stored.note, "plan_indices": list(stored.plan_indices)}
    return {**row, "terms": json.dumps(dict(stored.case.terms))}


def _stored(row: Mapping[str, Any]) -> Stored:
    known = {name: row[name] for name in BadCase.__dataclass_fields__}
    lists = {name: tuple(row[name]) for name in ("tags", "embedding", "pictures")}
    case = BadCase(**{**known, **lists, "terms": json.loads(row["terms"])})
    about = {name: row[name] for name in ("first_night", "last_night", "error_m", "good_nights", "note")}
    return Stored(case, plan_indices=tuple(row["plan_indices"]), **about)


def from_results(results: Iterable[Mapping[str, Any]], benchmark: str) -> list[BadCase]:
    """Bad cases of a benchmark: one per route with an infraction, in the same schema as mined ones.

    Args:
        results: Records of a results file {route_id, infractions: kind -> list, score}; times are unknown.
        benchmark: Name of the benchmark, used as log_id.
    """
    from drive.files import sha256_json

    cases = []
    for record in results:
        for kind, seen in sorted(record["infractions"].items()):
            if not seen:
                continue
            route = str(record["route_id"])
            case_id = sha256_json([benchmark, route, kind])[:12]
            terms = {"times": float(len(seen)), "score": float(record.get("score", 0.0))}
            severity = 1.0 if kind.startswith("collisions") else 0.7
            cases.append(
                BadCase(case_id, benchmark, route, kind, -1, -1, severity, "benchmark", terms, (benchmark,))
            )
    return cases
