"""Find bad cases in drive logs; faulty recordings are reported and never mined."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from data_engine.causes import root_cause
from data_engine.config import MineConfig
from data_engine.hygiene import Screened, record, sane, touches
from data_engine.rules import REAL, REAL_LOG_RULES, RULES, Finding
from data_engine.rules.sql import run_sql
from data_engine.tables import Tables, tables_of, write_tables
from drive.contracts import F32, BadCase, DriveLog, LogMeta
from drive.contracts.engine import Source
from drive.files import sha256_json
from drive.logs import find_faults

BATCH = 16  # drives whose columns are scanned together
SHADOW_RULES = ("disagreement", "intent", "low_confidence")


@dataclass(frozen=True)
class Mined:
    """What mining found.

    Attributes:
        cases: Bad cases, sorted by log, time and kind.
        faults: One record per faulty span {log_id, route, kind, file, row, start_us, end_us, detail,
            level}.
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
    faults: list[Mapping[str, Any]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    starts_us: dict[str, int] = field(default_factory=dict)


def mine(
    logs: Iterable[tuple[DriveLog, str]],
    config: MineConfig,
    held_out_towns: Sequence[str],
    screened: Screened | None = None,
    known: F32 | None = None,
    columns: Path | None = None,
) -> Mined:
    """Scan the columns of the drives with the configured rules.

    Args:
        logs: Pairs of a drive and why its planner-vs-human rules could not run ("" = they could); a few
            drives are in memory at a time, so that a night's logs never lie there together.
        config: Rules and their parameters.
        held_out_towns: Drives in these towns are evaluation data and are refused.
        screened: Faults of the recordings' files; None: each drive is checked here, as it is in memory.
        known: Descriptors of earlier nights, for novelty; None = there are none.
        columns: Folder that keeps the scanned columns as Arrow files; None = they are not kept.
    """
    tally = _Tally()
    batch: list[tuple[DriveLog, list[Mapping[str, Any]]]] = []
    count = 0
    for log, no_shadow in logs:
        tally.starts_us[log.meta.log_id] = int(log.ego.t_us[0]) if len(log.ego.t_us) else 0
        if log.meta.town in held_out_towns:
            tally.skipped["drive in a held-out town"] += 1
            continue
        if no_shadow:
            tally.skipped[f"shadow: {no_shadow}"] += 1
        faults = _faults_of(log, screened, tally)
        if any(fault["end_us"] < 0 for fault in faults):
            tally.skipped["drive with a fault of a whole channel"] += 1
            continue
        batch.append((_without_images(sane(log)), faults))
        if len(batch) == BATCH:
            _scan(batch, config, known, columns and columns / f"{count:04d}", tally)
            batch, count = [], count + 1
    if batch:
        _scan(batch, config, known, columns and columns / f"{count:04d}", tally)
    cases = sorted(tally.cases, key=lambda c: (c.log_id, c.start_us, c.kind))
    found = tuple(tally.faults) if screened is None else screened.faults
    return Mined(tuple(cases), found, dict(sorted(tally.skipped.items())), tally.starts_us)


def _without_images(log: DriveLog) -> DriveLog:
    return replace(log, plans=replace(log.plans, images={}, cameras={})) if log.plans.images else log


def _faults_of(log: DriveLog, screened: Screened | None, tally: _Tally) -> list[Mapping[str, Any]]:
    if screened is not None:
        return screened.of(log.meta.log_id)
    faults = [record(fault, log.meta.log_id, log.meta.route) for fault in find_faults(log)]
    tally.faults += faults
    return [fault for fault in faults if fault["level"] == "fault"]


def _scan(
    batch: Sequence[tuple[DriveLog, list[Mapping[str, Any]]]],
    config: MineConfig,
    known: F32 | None,
    columns: Path | None,
    tally: _Tally,
) -> None:
    """Apply the rules to a few drives at once."""
    tables = tables_of([log for log, _ in batch], known, rewards="low_reward" in config.rules)
    if columns is not None:
        write_tables(tables, columns)
    for kind, findings in apply_rules(tables, config):
        for finding in findings:
            log, faults = batch[finding.drive]
            if log.meta.simulator == REAL and kind not in (*REAL_LOG_RULES, *config.sql):
                continue
            if any(touches(fault, finding.start_us, finding.end_us) for fault in faults):
                tally.skipped["moment inside a faulty span"] += 1
                continue
            tally.cases.append(_case(log, kind, finding, tables.steps["descriptor"], tables))


def apply_rules(tables: Tables, config: MineConfig) -> Iterator[tuple[str, list[Finding]]]:
    """Findings of each configured rule, in the order of their names."""
    for kind in sorted(config.rules):
        yield kind, RULES[kind](tables, **config.rules[kind])
    for kind in sorted(config.sql):
        yield kind, run_sql(kind, config.sql[kind], tables)


def _case(log: DriveLog, kind: str, finding: Finding, descriptors: Any, tables: Tables) -> BadCase:
    meta = log.meta
    embedding: tuple[float, ...] = ()
    if len(log.plans.step):
        first = int(np.searchsorted(tables.steps["drive"], finding.drive))
        embedding = tuple(float(v) for v in descriptors[first + nearest_plan(log, finding.start_us)])
    return BadCase(
        case_id=sha256_json([meta.log_id, kind, finding.start_us])[:12],
        log_id=meta.log_id,
        route=meta.route,
        kind=kind,
        start_us=finding.start_us,
        end_us=finding.end_us,
        severity=finding.severity,
        source=_source(meta, kind),
        terms={name: value for name, value in finding.terms.items() if np.isfinite(value)},
        tags=(meta.town, meta.simulator, f"images: {meta.image_kind}", f"driver: {meta.driver}"),
        embedding=embedding,
        cause=root_cause(log, kind, finding),
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
    return "shadow" if kind in SHADOW_RULES else "log"


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
    lists = {key: tuple(value.get(key, ())) for key in ("tags", "embedding", "pictures")}
    return BadCase(**{**value, **lists})


def load_cases(path: Path) -> tuple[BadCase, ...]:
    """Bad cases of a mine stage's cases.json."""
    from drive.files import read_json

    return tuple(case_from_json(value) for value in read_json(path))
