"""The last nights on one page: decisions, scores, fixes, forgetting, cases by status, links."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_engine.cases import STATUSES, CaseStore
from data_engine.night import REPORT, SUMMARY
from drive.files import read_object, write_atomic

TEMPLATE = "trend.html.j2"
FIXED, FORGOTTEN = "failed routes fixed", "forgetting over kinds"


def night_row(summary: Mapping[str, Any], href: str | None) -> dict[str, Any]:
    """One night of the table: what a person compares between nights; None = not measured."""
    gate = {row["metric"]: row for row in summary["gate"]}
    fixed = next((row for name, row in gate.items() if name.startswith(FIXED)), None)
    nbt = next((row for name, row in gate.items() if name.startswith(FORGOTTEN)), None)
    loop = summary["closed_loop"]
    return {
        "night": summary["night"],
        "decision": summary["decision"],
        "headline": summary["headline"],
        "href": href,
        "cases": summary["mined"]["cases"],
        "faults": summary["mined"]["faults"],
        "trained": summary["curated"]["trained_cases"],
        "score_before": loop["champion"]["driving_score"] if loop else None,
        "score_after": loop["candidate"]["driving_score"] if loop else None,
        "fix_rate": fixed["candidate"] if fixed and fixed["cases"] else None,
        "failed_routes": fixed["cases"] if fixed else 0,
        "nbt": nbt["candidate"] if nbt else None,
        "version": summary["champion_after"]["version"],
        "minutes": sum(summary["seconds"].values()) / 60,
    }


def render_trend(folders: Sequence[Path], store: CaseStore, out: Path) -> list[dict[str, Any]]:
    """Write the page about some finished nights, oldest first; returns its rows.

    Args:
        folders: Night folders.
        store: The workspace's case store.
        out: HTML file; links to the nights' own reports are relative to it.
    """
    import jinja2

    from data_engine.report import TEMPLATES, filters, png_uri
    from drive.viz import plots

    rows = []
    for folder in folders:
        page = folder / REPORT
        href = os.path.relpath(page, out.parent) if page.exists() else None
        rows.append(night_row(read_object(folder / SUMMARY, "decision", "gate"), href))
    known = [row for row in rows if row["score_before"] is not None]
    scored = [(row["night"], row["score_before"], row["score_after"]) for row in known]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= filters()
    open_cases = [s for s in store.cases.values() if s.case.status == "open"]
    html = environment.get_template(TEMPLATE).render(
        rows=rows,
        chart=png_uri(plots.nights(scored)) if scored else None,
        statuses=[(status, store.count()[status]) for status in STATUSES],
        worst=sorted(open_cases, key=lambda s: (-s.case.severity, s.case.case_id))[:12],
    )
    write_atomic(out, html)
    return rows
