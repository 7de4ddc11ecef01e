"""Tables for people, strict JSON for machines."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from drive.cli.output import check_json_path, finish, json_safe, print_table
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


def test_unwritable_json_paths_are_refused_early(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "x.json"):
        with pytest.raises(UserError, match="--json"):
            check_json_path(argparse.Namespace(json=str(path)))
    check_json_path(argparse.Namespace(json=None))
    check_json_path(argparse.Namespace(json=str(tmp_path / "new" / "x.json")))


def test_json_safe_copies_plain_values() -> None:
    assert json_safe({1: (True, None, "x", -1.5)}) == {"1": [True, None, "x", -1.5]}
