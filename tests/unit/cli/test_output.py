"""Tables for people, strict JSON for machines."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from drive.cli.output import check_folder, check_json_path, finish, print_table
from drive.contracts import UserError


def test_table_aligns_numbers_right_and_text_left(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(
        "results", ["policy", "n", "L2"], [["expert", 12, 0.5], ["cv", 7, float("nan")], ["x", None, 10.25]]
    )
    assert capsys.readouterr().out.splitlines() == [
        "",
        "results",
        "  policy   n      L2",
        "  ------  --  ------",
        "  expert  12   0.500",
        "  cv       7       -",
        "  x        -  10.250",
    ]


def test_table_without_rows_prints_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("none", ["a", "b"], [])
    assert "a  b" in capsys.readouterr().out


def test_json_is_strict_and_names_command_and_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @dataclass
    class Row:
        score: float

    path = tmp_path / "deep" / "out.json"
    args = argparse.Namespace(json=str(path), command="bench")
    finish(
        args, {"rows": [Row(float("inf"))], "mean": np.float32("nan"), "n": np.arange(2), "root": Path("a")}
    )

    def refuse(word: str) -> None:
        raise ValueError(word)

    written = json.loads(path.read_text(), parse_constant=refuse)
    assert written.pop("version")
    assert written == {"command": "bench", "rows": [{"score": None}], "mean": None, "n": [0, 1], "root": "a"}
    assert str(path) in capsys.readouterr().out


def test_without_the_option_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    finish(argparse.Namespace(json=None, command="bench"), {"a": 1})
    assert capsys.readouterr().out == ""


def test_places_that_cannot_be_written_are_refused_early(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for place in (
        tmp_path / "file",
        tmp_path / "file" / "below",
        tmp_path / "nowhere",
        tmp_path / ("x" * 300),
        Path("/proc/nightdrive"),  # nobody may make files there, not even root
        Path("/proc/nightdrive/below/it"),
    ):
        with pytest.raises(UserError, match=r"^--out ") as caught:
            check_folder("--out", place)
        assert "\n" not in str(caught.value)
        with pytest.raises(UserError, match=r"^--json "):
            check_json_path(argparse.Namespace(json=str(place / "x.json")))
    for name in (str(tmp_path), "", "x" * 250, "/proc/nightdrive.json"):
        with pytest.raises(UserError, match=r"^--json "):
            check_json_path(argparse.Namespace(json=name))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "nowhere"]
    assert (tmp_path / "file").read_text() == "kept"


def test_places_that_can_be_written_are_left_as_they_are(tmp_path: Path) -> None:
    check_json_path(argparse.Namespace(json=None))
    for name in ("new", "new/below # %20 \u00fc", "."):
        check_folder("--out", tmp_path / name)
        check_json_path(argparse.Namespace(json=str(tmp_path / name / "x.json")))
    (tmp_path / "old.json").write_text("1")
    check_json_path(argparse.Namespace(json=str(tmp_path / "old.json")))
    assert [p.name for p in tmp_path.iterdir()] == ["old.json"]
