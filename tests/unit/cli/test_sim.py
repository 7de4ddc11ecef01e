"""`drive sim` refuses bad input in one line before anything is started or made."""

import shutil
from pathlib import Path

import pytest

from drive.cli.main import main

QUICK = ["sim", "--suite", "quickstart", "--routes", "1"]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*QUICK, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_out_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    assert "is a file" in refused(["--policy", "constant_velocity", "--out", str(file)], capsys)
    assert file.read_text() == "kept"


def test_ego_mlp_has_no_closed_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "drive bench" in refused(["--policy", "ego_mlp", "--out", str(tmp_path / "out")], capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("meta", ["[1]", '{"format": 1, "sha256": "0"}'])
def test_a_model_without_identity(
    tmp_path: Path, repo_root: Path, capsys: pytest.CaptureFixture[str], meta: str
) -> None:
    model = tmp_path / "model"
    shutil.copytree(repo_root / "drive" / "model" / "base", model)
    (model / "meta.json").write_text(meta)
    assert "meta.json" in refused(["--policy", str(model), "--out", str(tmp_path / "out")], capsys)
    assert not (tmp_path / "out").exists()
