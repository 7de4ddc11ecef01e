"""`drive view`: a picture of a real planner's plan, and one line for what it cannot draw."""

from pathlib import Path

import pytest

from drive.cli.main import main
from tests.unit.train.drives import write_drives


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drives(tmp_path_factory.mktemp("drives"), 2)


def test_a_plan_of_a_floor_is_drawn(drives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.png"
    assert main(["view", str(drives), "--policy", "constant_velocity", "--step", "3", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "drive-000, planning step 3" in printed
    assert "judged on the true scene" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--log", "nobody"], "nobody"),
        (["--step", "-1"], "planning steps 0 to"),
        (["--step", "100000"], "planning steps 0 to"),
        (["--out", "plan.jpg"], ".png"),
        (["--policy", "constant_velocty"], "constant_velocity"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], said: str, drives: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["view", str(drives), "--policy", "constant_velocity", *arguments]) == 2
    told = capsys.readouterr().err.strip()
    assert said in told
    assert len(told.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_without_drives_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path)]) == 2
    assert "drive sim" in capsys.readouterr().err
