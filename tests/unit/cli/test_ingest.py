"""`drive ingest` and `drive check` on hand-made data: output, JSON keys, exit codes."""

import json
import re
from pathlib import Path

import pytest

from drive.cli.ingest import OPTIONS
from drive.cli.main import build_parser, main
from drive.logs import write_drive
from tests import builders


def test_check_exits_0_on_clean_logs_and_1_on_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_drive(tmp_path / "logs", builders.cruise())
    out = tmp_path / "check.json"
    assert main(["check", str(tmp_path / "logs"), "--json", str(out)]) == 0
    assert "1 logs; clean" in capsys.readouterr().out
    assert json.loads(out.read_text())["clean"] is True
    (folder / "ego_state_se3.arrow").unlink()
    assert main(["check", str(tmp_path / "logs"), "--json", str(out)]) == 1
    assert "missing_channel" in capsys.readouterr().out
    report = json.loads(out.read_text())
    assert report["totals"]["faults"] == 1
    assert report["faults"][0]["file"].endswith("ego_state_se3.arrow")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nuscenes"], "needs --dataroot and --version"),
        (["nuscenes", "--dataroot", "x"], "needs --version"),
        (["nuscenes", "--dataroot", "nowhere", "--version", "v1.0-mini"], "no such folder"),
        (["py123d"], "needs --root"),
        (["py123d", "--root", "x", "--version", "v"], "does not take --version"),
        (["py123d", "--root", "x", "--out", "y"], "does not take --out"),
        (["py123d", "--root", "x", "--out", "y", "--dataroot", "z"], "does not take --dataroot and --out"),
        (["nuscenes", "--dataroot", "x", "--version", "v", "--root", "y"], "does not take --root"),
        (["kitti"], "invalid choice"),
    ],
)
def test_bad_options_exit_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_help_shows_both_kinds_apart() -> None:
    page = build_parser("ingest").format_help()
    head, nuscenes, py123d = re.split(r"^drive ingest (?:nuscenes|py123d):$", page, flags=re.MULTILINE)
    assert "drive ingest nuscenes --dataroot DIR --version NAME" in head
    assert "drive ingest py123d --root DIR" in head
    for name in {name for names in OPTIONS.values() for name in names}:
        assert (f"--{name}" in nuscenes) == (name in OPTIONS["nuscenes"])
        assert (f"--{name}" in py123d) == (name in OPTIONS["py123d"])
