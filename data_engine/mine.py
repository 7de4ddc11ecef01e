"""Find bad cases in drive logs; faulty recordings are reported and never mined."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from data_engine.config import MineConfig
from data_engine.descriptor import describe
from data_engine.rules import REAL, REAL_LOG_RULES, RULES, Finding
from drive.contracts import BadCase, DriveLog, LogMeta
from drive.contracts.engine import Source
from drive.files import sha256_json
from drive.logs import Fault, find_faults


@dataclass(frozen=True)
class Mined:
    """What mining found.

    Attributes:
        cases: Bad cases, sorted by log, time and kind.
        faults: One record per faulty span {log_id, route, kind, start_us, end_us, detail}.
        skipped: Reason -> how many drives or moments were left out for it.
        starts_us: log_id -> first time stamp, to say how far into a drive a case lies.
    """

    cases: tuple[BadCase, ...]
    faults: tuple[Mapping[str, Any], ...]
    skipped: Mapping[str, int]
    starts_us: Mapping[str, int]


@dataclass
class _Tally:
    cases: list[BadCase] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    starts_us: dict[str, int] = field(default_factory=dict)


def mine(logs: Iterable[tuple[DriveLog, str]], config: MineConfig, held_out_towns: Sequence[str]) -> Mined:
    """Apply the configured rules to each drive.

    Args:
        logs: Pairs of a drive (with images, which are only checked for faults) and why its planner-vs-human
            rules could not run ("" = they
            could), one drive at a time, so that a night's logs never lie in memory together.
        config: Rules and their parameters.
        held_out_towns: Drives in these towns are evaluation data and are refused.
    """
    tally = _Tally()
    for log, no_shadow in logs:
        tally.starts_us[log.meta.log_id] = int(log.ego.t_us[0]) if len(log.ego.t_us) else 0
        if log.meta.town in held_out_towns:
            tally.skipped["drive in a held-out town"] += 1
            continue
        if no_shadow:
            tally.skipped[f"shadow: {no_shadow}"] += 1
        _mine_one(log, config, tally)
    cases = sorted(tally.cases, key=lambda c: (c.log_id, c.start_us, c.kind))
    return Mined(tuple(cases), tuple(tally.faults), dict(sorted(tally.skipped.items())), tally.starts_us)


def _mine_one(log: DriveLog, config: MineConfig, tally: _Tally) -> None:
    found = find_faults(log)
    tally.faults += [_fault_record(log.meta, fault) for fault in found]
    faults = [fault for fault in found if fault.level == "fault"]
    if any(fault.end_us < 0 for fault in faults):
        tally.skipped["drive with a fault of a whole channel"] += 1
        return
    descriptors = describe(log)
    real = log.meta.simulator == REAL
    for kind in sorted(config.rules):
        if real and kind not in REAL_LOG_RULES:
            continue
        for finding in RULES[kind](log, **config.rules[kind]):
            if any(f.start_us <= finding.end_us and finding.start_us <= f.end_us for f in faults):
                tally.skipped["moment inside a faulty span"] += 1
                continue
            tally.cases.append(_case(log, kind, finding, descriptors))


def _case(log: DriveLog, kind: str, finding: Finding, descriptors: Any) -> BadCase:
    meta = log.meta
    embedding: tuple[float, ...] = ()
    if len(descriptors):
        at = nearest_plan(log, finding.start_us)
        embedding = tuple(float(v) for v in descriptors[at])
    return BadCase(
        case_id=sha256_json([meta.log_id, kind, finding.start_us])[:12],
        log_id=meta.log_id,
        route=meta.route,
        kind=kind,
        start_us=finding.start_us,
        end_us=finding.end_us,
        severity=finding.severity,
        source=_source(meta, kind),
        terms=dict(finding.terms),
        tags=(meta.town, meta.simulator, f"images: {meta.image_kind}", f"driver: {meta.driver}"),
        embedding=embedding,
    )


def nearest_plan(log: DriveLog, t_us: int) -> int:
    """Index of the last planning step at or before `t_us` (the first one if there is none)."""
    times = log.ego.t_us[log.plans.step]
    return max(0, int(np.searchsorted(times, t_us, side="right")) - 1)


def _source(meta: LogMeta, kind: str) -> Source:
    if kind == "split_brain":
        return "split_brain"
    if meta.simulator != REAL:
        return "closed_loop"
    return "shadow" if kind == "disagreement" else "log"


def _fault_record(meta: LogMeta, fault: Fault) -> dict[str, Any]:
    return {**asdict(fault), "log_id": meta.log_id, "route": meta.route}


def case_rows(cases: Iterable[BadCase], starts_us: Mapping[str, int]) -> list[tuple[Any, ...]]:
    """Rows for people: source, scene or route, kind, time, seconds into the drive, severity."""
    rows = []
    for case in cases:
        into_s = (case.start_us - starts_us.get(case.log_id, case.start_us)) / 1e6
        rows.append(
            (
                case.source,
                case.route,
                case.kind,
                clock(case.start_us),
                round(into_s, 1),
                round(case.severity, 2),
            )
        )
    return rows


def clock(t_us: int) -> str:
    """UTC time of a real log's microsecond stamp; simulated time as seconds."""
    from datetime import UTC, datetime

    if t_us < 10**15:  # simulated time starts near zero
        return f"{t_us / 1e6:.1f} s"
    return datetime.fromtimestamp(t_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-5]


def kinds_by_source(cases: Iterable[BadCase]) -> dict[str, dict[str, int]]:
    """Number of cases: source -> kind -> count."""
    out: dict[str, dict[str, int]] = {}
    for case in cases:
        kinds = out.setdefault(case.source, {})
        kinds[case.kind] = kinds.get(case.kind, 0) + 1
    return {source: dict(sorted(kinds.items())) for source, kinds in sorted(out.items())}


def case_from_json(value: Mapping[str, Any]) -> BadCase:
    """Read back what `drive.files.write_json` wrote."""
    return BadCase(**{**value, "tags": tuple(value["tags"]), "embedding": tuple(value["embedding"])})


def load_cases(path: Path) -> tuple[BadCase, ...]:
    """Bad cases of a mine stage's cases.json."""
    from drive.files import read_json

    return tuple(case_from_json(value) for value in read_json(path))
