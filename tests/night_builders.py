"""Nights as they lie on disk, hand-made and small: two drives, their mined cases, and a summary."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from data_engine.config import MineConfig, NightlyConfig
from data_engine.mine import Mined, mine
from data_engine.night import CONFIG, NIGHTS, SUMMARY, Night
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
            "clusters": {"collision: keep / cruise": [3, 1]},
            "entries": {"bad_case": 5},
            "before": {"keep / cruise": 1.0},
            "after": {"keep / stop": 1.0},
        },
        "cases": {"open": 2, "training": 0, "fixed": 1, "retired": 0, "quarantined": 0},
        "gate": [ROW],
        "real_logs": None,
        "fixes": {"fixed": ["a & b"], "still_failing": [], "spoilt": ["c"], "still_fine": ["d", "e"]},
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


def mined_night(folder: Path, logs: Path) -> Mined:
    """Fill a night's mine and curate stages from two drives that are written to `logs`."""
    crash = replace(builders.lead_braking(), events=(Event("collisions_vehicle", 5_700_000, "hit <car>"),))
    brake = builders.hard_brake()
    drives = [
        replace(crash, meta=replace(crash.meta, log_id="crash", route="town & <country>")),
        replace(brake, meta=replace(brake.meta, log_id="brake")),
    ]
    for log in drives:
        write_drive(logs, log)
    found = mine([(log, "") for log in drives], MineConfig(rules={name: {} for name in RULES}), ())
    write_json(folder / "mine" / "cases.json", [asdict(case) for case in found.cases])
    write_json(folder / "mine" / "faults.json", [])
    windows = {"trained": [{"case_id": found.cases[0].case_id}], "siblings": [], "held_out_routes": []}
    write_json(folder / "curate" / "windows.json", windows)
    (folder / CONFIG).write_text("workspace: runs\n")
    return found


def finished_night(workspace: Path, name: str, **changes: Any) -> Path:
    """A finished night `name` of a workspace, without its report; returns its folder."""
    folder = workspace / NIGHTS / name
    found = mined_night(folder, folder / "drive" / "logs")
    Night(name[:10], "key", folder, NightlyConfig(workspace=str(workspace)), ()).start()
    write_json(folder / "ingest" / "roots.json", [])
    write_json(folder / SUMMARY, summary(found, night=name, date=name[:10], **changes))
    return folder
