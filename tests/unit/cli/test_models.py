"""A damaged model or registry stops every command that takes one: one line, exit code 2, nothing made."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from data_engine.registry import ARTIFACTS, DATABASE
from drive.cli.main import main
from drive.model.folder import save_model
from tests.unit.logs.nuscenes_tiny import write_tiny
from tests.unit.model.damage import DAMAGES
from tests.unit.model.networks import tiny_network

REPO = Path(__file__).resolve().parents[3]
NIGHT, TRAIN = (str(REPO / "configs" / kind / "quickstart.yaml") for kind in ("nightly", "train"))
CHOSEN = (  # all of them are in tests/unit/model/test_folder.py
    "width is text",
    "a key is missing",
    "another width",
    "config is cut",
    "weights are garbage and signed",
)
CHAMPION = "models:/nightdrive@champion"


def commands(tmp_path: Path, model: str) -> dict[str, list[str]]:
    """Every command that takes a model, with outputs in `made`."""
    made = str(tmp_path / "made")
    return {
        "sim": ["sim", "--suite", "quickstart", "--limit", "1", "--policy", model, "--out", made],
        "bench": ["bench", "nuscenes", "--dataroot", str(tmp_path / "data"), "--policy", model],
        "train": ["train", "--config", TRAIN, "--data", str(tmp_path), "--init-from", model, "--out", made],
        "train by key": ["train", "--config", TRAIN, "--data", ".", "--out", made, f"init_from={model}"],
        "nightly": ["nightly", "--config", NIGHT, "--workspace", made, f"base_model={model}"],
    }  # fmt: skip


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.parametrize("command", ["sim", "bench", "train", "train by key", "nightly"])
def test_a_damaged_model_folder(
    tmp_path: Path, name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tiny(tmp_path / "data", scenes=("scene-0103",))
    model = tmp_path / "model # %20 ü"
    save_model(model, tiny_network())
    DAMAGES[name][0](model)
    assert str(model) in refused(commands(tmp_path, str(model))[command], capsys)
    assert not (tmp_path / "made").exists()


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE recipes (name TEXT)")


@pytest.mark.parametrize("command", ["sim", "bench", "train", "nightly", "rollback"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"garbage" * 1000),
        lambda path: path.write_bytes(b"SQLite format 3\0" + b"\0" * 2000),
        lambda path: path.write_bytes(b""),
        lambda path: path.mkdir(),
        _foreign,
    ],
    ids=["garbage", "only a header", "empty", "a folder", "of something else"],
)
def test_a_damaged_registry(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path], object],
    command: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_tiny(tmp_path / "data", scenes=("scene-0103",))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / ARTIFACTS / "1").mkdir(parents=True)
    spoil(tmp_path / "runs" / DATABASE)
    arguments = {
        **commands(tmp_path, CHAMPION),
        "nightly": ["nightly", "--config", NIGHT],
        "rollback": ["rollback"],
    }[command]
    before = sorted(tmp_path.rglob("*"))
    assert f"{DATABASE}: " in refused(arguments, capsys)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rollback"], "no registry here yet"),
        (["rollback", "--model", "a/b"], "registered model 'a/b'"),
        (["rollback", "--tracking-uri", "nonsense"], "no such folder"),
        (["rollback", "--tracking-uri", "sqlite:///nowhere/x.db"], "no registry here yet"),
        (["sim", "--policy", CHAMPION], "no registry here yet"),
        (["sim", "--policy", "models:/nightdrive"], "write models:/NAME@ALIAS"),
        (["sim", "--policy", "models:/@champion"], "registered model ''"),
        (["sim", "--policy", "models:/a'b@champion"], "registered model"),
    ],
)
def test_names_that_lead_nowhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refused(arguments, capsys)
    assert not list(tmp_path.iterdir())
