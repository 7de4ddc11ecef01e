"""What a night enters into the case store, from its folders as they lie on disk."""

from pathlib import Path

import pytest

from data_engine.cases import load_store
from data_engine.config import CurateConfig, NightlyConfig
from data_engine.evaluate import recorded
from data_engine.evidence import ModelEvidence
from data_engine.mine import load_cases
from data_engine.night import NIGHTS, SUMMARY, Night
from data_engine.outcome import record_cases, still_needed
from data_engine.stages import Done
from drive.contracts import EvalResult
from drive.files import write_json
from tests.night_builders import mined_night


def night_with(workspace: Path, decision: str, error_m: float) -> tuple[Night, dict[str, Done]]:
    """A night whose first case was trained on and tested."""
    folder = workspace / NIGHTS / "2026-11-30"
    found = mined_night(folder, folder / "drive" / "logs")
    ids = [case.case_id for case in found.cases]
    trained = {"case_id": ids[0], "plan_indices": [1, 2]}
    windows = {"trained": [trained], "siblings": [], "held_out_routes": []}
    write_json(folder / "curate" / "windows.json", windows)
    write_json(folder / "curate" / "poisoned.json", {ids[-1]: "already in violation at t = 0"})
    write_json(folder / "mine" / "left_out.json", {})
    result = EvalResult("gate", "p", "m", 0, (), {})
    for model in ("champion", "candidate"):
        evidence = ModelEvidence(model, result, (), (), retest={ids[0]: error_m})
        write_json(folder / "evaluate" / f"{model}.json", evidence)
    done = {
        name: Done(name, folder / name, "k", 1.0, {"decision": decision})
        for name in ("mine", "curate", "evaluate", "promote")
    }
    return Night("2026-11-30", "k", folder, NightlyConfig(workspace=str(workspace)), ()), done


def test_a_promoted_fix_is_fixed_and_a_poisoned_case_quarantined(tmp_path: Path) -> None:
    night, done = night_with(tmp_path, "promoted", 0.5)
    store = record_cases(night, done)
    ids = [case.case_id for case in load_cases(night.folder / "mine" / "cases.json")]
    assert store.cases[ids[0]].case.status == "fixed"
    assert store.cases[ids[-1]].case.status == "quarantined"
    assert load_store(tmp_path) == store
    assert record_cases(night, done) == store  # a resumed night enters nothing twice


def test_a_refused_candidate_fixes_nothing(tmp_path: Path) -> None:
    night, done = night_with(tmp_path, "refused", 0.5)
    first = load_cases(night.folder / "mine" / "cases.json")[0].case_id
    assert record_cases(night, done).cases[first].case.status == "open"


def test_a_promoted_model_that_still_errs_leaves_the_case_in_training(tmp_path: Path) -> None:
    night, done = night_with(tmp_path, "promoted", 4.0)
    first = load_cases(night.folder / "mine" / "cases.json")[0].case_id
    assert record_cases(night, done).cases[first].case.status == "training"


def promoted(workspace: Path, name: str, drives_of: str) -> None:
    """A promoted night whose training set shows a drive of another night."""
    drive = workspace / NIGHTS / drives_of / "drive" / "logs" / "split" / f"drive-{drives_of}"
    drive.mkdir(parents=True, exist_ok=True)
    logs = workspace / NIGHTS / name / "curate" / "logs" / "split"
    logs.mkdir(parents=True)
    (logs / drive.name).symlink_to(drive)
    about = {"decision": "promoted", "training": {"nights": [name]}}
    write_json(workspace / NIGHTS / name / SUMMARY, about)


@pytest.mark.parametrize("place", ["runs", "nightly/runs"])
def test_what_a_consolidation_trains_on_is_still_needed(tmp_path: Path, place: str) -> None:
    """Found by reading: a parent folder called "nightly" made the night's own folder unknown."""
    workspace = tmp_path / place
    promoted(workspace, "2026-01-02", drives_of="2026-01-01")
    for every, needed in ((7, {"2026-01-01", "2026-01-02"}), (0, set())):
        config = NightlyConfig(
            workspace=str(workspace), consolidate_every=every, curate=CurateConfig(replay_nights=0)
        )
        night = Night("2026-02-01", "k", workspace / NIGHTS / "2026-02-01", config, ())
        assert still_needed(night) == needed


def test_cases_of_ingested_logs_are_found_again(tmp_path: Path) -> None:
    """Found by reading: a kept-apart case of a real log ended the night."""
    night, _ = night_with(tmp_path, "promoted", 0.5)
    elsewhere = tmp_path / "theirs"
    write_json(night.folder / "ingest" / "roots.json", [{"number": 0, "root": str(elsewhere)}])
    assert recorded(night) == [night.folder / "drive" / "logs", elsewhere]
