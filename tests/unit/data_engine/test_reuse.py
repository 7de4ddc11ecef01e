"""Drives of an earlier night are offered only for the same model, suite and clean code."""

from pathlib import Path

import pytest

from data_engine import reuse
from data_engine.config import DriveConfig, NightlyConfig
from data_engine.night import NIGHTS, SUMMARY, Night
from data_engine.reuse import offer_drives, withdraw
from drive.files import read_json, write_json

CODE = "abc123"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished night in which planner-x drove the gate suite."""
    monkeypatch.setattr(reuse, "code_version", lambda: CODE)
    folder = tmp_path / NIGHTS / "2026-01-01"
    place = folder / "evaluate" / "candidate"
    (place / "logs" / "split" / "drive").mkdir(parents=True)
    run = {"policy": "planner-x", "suite": "gate"}
    write_json(place / "results.json", {"nightdrive": {"run": run}})
    write_json(folder / SUMMARY, {"decision": "promoted", "lineage": {"code": CODE}})
    return tmp_path


def tonight(workspace: Path, carla: str | None = None) -> Night:
    config = NightlyConfig(workspace=str(workspace), drive=DriveConfig(carla=carla))
    return Night("2026-01-02", "k", workspace / NIGHTS / "2026-01-02", config, ())


def test_the_same_model_on_the_same_suite_need_not_drive_again(workspace: Path) -> None:
    out = tonight(workspace).folder / "evaluate" / "champion"
    assert offer_drives(tonight(workspace), "planner-x", "gate", out)
    assert (out / "logs" / "split" / "drive").is_dir()
    assert read_json(out / "results.json")["nightdrive"]["run"]["policy"] == "planner-x"
    withdraw(out)
    assert not out.exists()
    assert (workspace / NIGHTS / "2026-01-01" / "evaluate" / "candidate" / "logs" / "split").is_dir()


@pytest.mark.parametrize(
    ("policy", "suite", "carla", "code"),
    [
        ("planner-y", "gate", None, CODE),
        ("planner-x", "other", None, CODE),
        ("planner-x", "gate", "localhost:2000", CODE),
        ("planner-x", "gate", None, "def456"),
        ("planner-x", "gate", None, f"{CODE}+"),
        ("planner-x", "gate", None, None),
    ],
)
def test_nothing_else_is_offered(
    workspace: Path, monkeypatch: pytest.MonkeyPatch,
    policy: str, suite: str, carla: str | None, code: str | None,
) -> None:  # fmt: skip
    monkeypatch.setattr(reuse, "code_version", lambda: code)
    out = workspace / "out"
    assert not offer_drives(tonight(workspace, carla), policy, suite, out)
    assert not out.exists()


def test_what_an_interrupted_run_left_is_kept(workspace: Path) -> None:
    (workspace / "out").mkdir()
    assert not offer_drives(tonight(workspace), "planner-x", "gate", workspace / "out")
