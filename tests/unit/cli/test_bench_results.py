"""`drive bench results`: coverage first, exit codes, and one line for bad input."""

import json
from pathlib import Path

import pytest

from drive.cli.main import main
from tests.unit.score.test_merge import record, written


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    return [
        str(written(tmp_path, "a.json", record(1), record(2, 60, "Failed", red_light=1))),
        str(written(tmp_path, "b.json", record(3), record(1))),
    ]


def test_a_complete_run(parts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["bench", "results", *parts, "--planned", "3", "--json", str(out)]) == 0
    numbers, printed = json.loads(out.read_text()), capsys.readouterr().out
    assert printed.startswith("3 of 3 planned routes have a record: 1 failed, 0 missing")
    assert numbers["means"]["driving_score"]["mean"] == pytest.approx(242 / 3)
    assert numbers["means"]["success_rate"]["mean"] == pytest.approx(2 / 3)
    assert (numbers["copies"], numbers["failed"], numbers["missing"]) == (1, 1, 0)
    assert len(numbers["routes"]) == 3


def test_missing_routes_are_printed_first_and_exit_code_3(
    parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "results", *parts, "--planned", "5"]) == 3
    assert capsys.readouterr().out.startswith("PARTIAL: 3 of 5 planned")
    assert main(["bench", "results", *parts, "--planned", "5", "--allow-partial"]) == 0


def test_a_cut_file(parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cut = Path(parts[0])
    cut.write_text(cut.read_text()[:-200])
    assert main(["bench", "results", *parts, "--planned", "3"]) == 2
    assert "a.json: cut or damaged after 1 whole records" in capsys.readouterr().err
    assert main(["bench", "results", *parts, "--planned", "3", "--allow-partial"]) == 0
    assert "CUT: the records before the cut count" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "names no number of planned routes"),
        (["--planned", "2"], "3 routes but 2 were planned"),
        (["--planned", "3", "--policy", "base"], "--policy is an option of `drive bench nuscenes`"),
        (["absent.json"], "absent.json: no such file"),
    ],
)
def test_bad_input_is_one_line(
    parts: list[str], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "results", *parts, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["results"], "no results file given"),
        (["nuscenes", "extra"], "unexpected extra"),
        (["nuscenes"], "give --dataroot"),
        (["nuscenes", "--dataroot", "x", "--routes", "y"], "--routes is an option of `drive bench results`"),
    ],
)
def test_wrong_requests(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err
