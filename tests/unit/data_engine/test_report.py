"""The report is one file that opens offline, escapes what it shows, and has pictures of every kind."""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from data_engine.config import MineConfig, ReportConfig
from data_engine.mine import Mined, mine
from data_engine.report import loss_curve, pick_cases, render_report
from data_engine.rules import RULES
from drive.contracts import Event
from drive.files import write_json
from drive.logs import write_drive
from tests import builders

PROTOCOL = "light simulator, driving score 2.0"
INTERVAL = {"mean": -0.2, "low": -0.3, "high": -0.1}
ROW = {
    "metric": "error on mined cases", "unit": "m", "champion": 2.0, "candidate": 1.8, "change": INTERVAL,
    "detectable": 0.1, "cases": 8, "better": "lower", "verdict": "pass", "bound": "falls",
}  # fmt: skip
NUMBERS = {
    "model": "m", "planned": 2, "run": 2, "failed": 0, "driving_score": 90.0, "success_rate": 0.5,
    "safety_failures": 1,
}  # fmt: skip
ROUTE = {
    "route": "gate_000", "champion": 80.0, "candidate": 100.0, "champion_failures": ["red_light"],
    "candidate_failures": [],
}  # fmt: skip


def summary(found: Mined, **changes: Any) -> dict[str, Any]:
    source = {"source": "nuscenes v1.0-mini", "scenes": 10, "samples": 404, "boxes": 18532}
    made: dict[str, Any] = {
        "night": "2026-11-30",
        "date": "2026-11-30",
        "decision": "refused",
        "headline": "Refused: <script>.",
        "reasons": {"no_improvement": "+0.1 m"},
        "warnings": ["slow"],
        "champion_before": {"version": 1, "id": "aaa"},
        "champion_after": {"version": 1, "id": "aaa"},
        "candidate": {"version": 2, "id": "bbb"},
        "ingest": [{**source, "sensor_files_present": 6, "sensor_files_declared": 4848}],
        "drive": {"suite": "tonight", "protocol": PROTOCOL, "planned": 2, "run": 2, "mean_score": 70.0},
        "mined": {
            "cases": len(found.cases),
            "drives": 2,
            "kinds": {"closed_loop": {"collision": 1}},
            "faults": 0,
            "skipped": {"shadow: no images": 1},
            "starts_us": dict(found.starts_us),
        },
        "curated": {
            "nothing": "",
            "trained_cases": 1,
            "sibling_cases": 1,
            "dropped": {"near-duplicate": 2},
            "entries": {"bad_case": 5},
            "before": {"keep / cruise": 1.0},
            "after": {"keep / stop": 1.0},
        },
        "gate": [ROW],
        "real_logs": None,
        "closed_loop": {
            "suite": "gate",
            "protocol": PROTOCOL,
            "champion": NUMBERS,
            "candidate": NUMBERS,
            "routes": [ROUTE],
        },
        "lineage": {"parent_id": "aaa", "code": None},
        "seconds": {"drive": 60.0},
        "peak_memory_gb": 2.0,
    }
    return {**made, **changes}


@pytest.fixture
def night(tmp_path: Path) -> tuple[Path, Path, Mined]:
    """A night folder, its log folder and what was mined in it."""
    crash = replace(builders.lead_braking(), events=(Event("collisions_vehicle", 5_700_000, "hit <car>"),))
    brake = builders.hard_brake()
    logs = [
        replace(crash, meta=replace(crash.meta, log_id="crash", route="town & <country>")),
        replace(brake, meta=replace(brake.meta, log_id="brake")),
    ]
    for log in logs:
        write_drive(tmp_path / "logs", log)
    found = mine([(log, "") for log in logs], MineConfig(rules={name: {} for name in RULES}), ())
    folder = tmp_path / "night"
    write_json(folder / "mine" / "cases.json", [asdict(case) for case in found.cases])
    write_json(folder / "mine" / "faults.json", [])
    windows = {"trained": [{"case_id": found.cases[0].case_id}], "siblings": [], "held_out_routes": []}
    write_json(folder / "curate" / "windows.json", windows)
    (folder / "config.yaml").write_text("workspace: runs\n")
    return folder, tmp_path / "logs", found


def html_of(night: tuple[Path, Path, Mined], **changes: Any) -> str:
    folder, logs, found = night
    out = render_report(folder, summary(found, **changes), ReportConfig(), folder / "report.html", [logs])
    return out.read_text(encoding="utf-8")


def test_it_is_self_contained_and_escaped(night: tuple[Path, Path, Mined]) -> None:
    html = html_of(night)
    assert not re.search(r'(?:src|href)="(?!data:image/png;base64,)', html)
    assert "<script" not in html
    assert "town &amp; &lt;country&gt;" in html
    assert "hit &lt;car&gt;" in html


def test_it_says_what_happened(night: tuple[Path, Path, Mined]) -> None:
    html = html_of(night)
    for text in (
        "refused",
        "no_improvement",
        "light simulator",
        "collision",
        "hard brake",
        "18,532 boxes",
        "gate_000",
    ):
        assert text in html, text
    assert html.count("data:image/png;base64,") >= 2 + 3


def test_a_night_with_nothing_to_do_has_a_report_too(night: tuple[Path, Path, Mined]) -> None:
    changes = {
        "decision": "nothing to do",
        "gate": [],
        "closed_loop": None,
        "candidate": None,
        "real_logs": None,
    }
    assert "nothing to do" in html_of(night, **changes)


def test_the_pictures_cover_every_kind(night: tuple[Path, Path, Mined]) -> None:
    found = night[2]
    chosen = pick_cases(found.cases, ReportConfig(pictures_per_kind=1, pictures=10), {})
    assert sorted(c.kind for c in chosen) == sorted({c.kind for c in found.cases})
    assert len(pick_cases(found.cases, ReportConfig(pictures=1), {})) == 1


def test_the_training_curve_is_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").write_text("step,intent,distill\n1,0.5,0.1\n2,0.4,0.2\n")
    assert loss_curve(tmp_path / "losses.csv") == {
        "intent": [(1, 0.5), (2, 0.4)],
        "distill": [(1, 0.1), (2, 0.2)],
    }
    assert loss_curve(tmp_path / "absent.csv") == {}
