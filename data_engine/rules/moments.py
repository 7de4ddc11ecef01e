"""From rows where a rule holds to moments: runs of rows within one drive, joined over short gaps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from data_engine.tables import Tables
from drive.contracts import F64, Bool

JOIN_S = 1.0


@dataclass(frozen=True)
class Finding:
    """One moment a rule found: drive (index), span, severity in [0, 1] and the numbers behind it."""

    drive: int
    start_us: int
    end_us: int
    severity: float
    terms: Mapping[str, float] = field(default_factory=dict)


def moments(
    tables: Tables,
    clock_s: F64,
    mask: Any,
    severity: Any,
    rows: Any = None,
    least_s: float = 0.0,
    highest: Mapping[str, Any] | None = None,
    lowest: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """One finding per run of rows at which `mask` holds; gaps up to JOIN_S do not split one.

    Args:
        tables: Columns.
        clock_s: float64 (T,), `tables.clock_s()`.
        mask: bool (R,), where the rule holds.
        severity: float (R,) or a number; a finding gets its largest one, within [0, 1].
        rows: int (R,), ego rows that `mask` is about; None = all.
        least_s: Shorter runs are left out.
        highest: Term -> float (R,); a finding gets the largest one.
        lowest: The same with the smallest one.
    """
    hits = np.flatnonzero(mask)
    if not len(hits):
        return []
    at = hits if rows is None else np.asarray(rows)[hits]
    first = np.append(0, np.flatnonzero(np.diff(clock_s[at]) > JOIN_S) + 1)
    last = np.append(first[1:], len(hits)) - 1
    worst = np.maximum.reduceat(np.broadcast_to(severity, np.shape(mask))[hits].astype(np.float64), first)
    terms = {k: np.maximum.reduceat(np.asarray(v)[hits], first) for k, v in (highest or {}).items()}
    terms |= {k: np.minimum.reduceat(np.asarray(v)[hits], first) for k, v in (lowest or {}).items()}
    keep = np.flatnonzero(clock_s[at[last]] - clock_s[at[first]] >= least_s)
    drive, t_us = tables.ego["drive"], tables.ego["t_us"]
    return [
        Finding(
            int(drive[at[first[i]]]),
            int(t_us[at[first[i]]]),
            int(t_us[at[last[i]]]),
            float(np.clip(worst[i], 0.0, 1.0)),
            {name: float(values[i]) for name, values in terms.items()},
        )
        for i in keep
    ]


def from_events(
    tables: Tables, prefixes: tuple[str, ...], severity: float, word: str = "", without: str = ""
) -> list[Finding]:
    """One finding per event whose kind starts with one of `prefixes`; repeats within JOIN_S are joined.

    Args:
        tables: Columns.
        prefixes: Of event kinds.
        severity: Of every finding.
        word: Only events whose detail holds it.
        without: No event whose detail holds it.
    """
    events = tables.events
    chosen = sorted(
        (int(drive), int(t_us))
        for drive, t_us, kind, detail in zip(
            events["drive"], events["t_us"], events["kind"], events["detail"], strict=True
        )
        if kind.startswith(prefixes) and word in detail and not (without and without in detail)
    )
    found: list[Finding] = []
    for drive, t_us in chosen:
        if found and found[-1].drive == drive and t_us - found[-1].end_us <= JOIN_S * 1e6:
            found[-1] = Finding(drive, found[-1].start_us, t_us, severity)
        else:
            found.append(Finding(drive, t_us, t_us, severity))
    return found


def before_hit(tables: Tables, clock_s: F64, margin_s: float) -> Bool | bool:
    """Bool (T,), rows before the drive's first collision less a margin; True if nobody hit anything."""
    hit = tables.first_hit_s()
    if np.isinf(hit).all():
        return True
    return np.asarray(clock_s < hit[tables.ego["drive"]] - margin_s)
