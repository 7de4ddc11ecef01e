"""`drive ingest` and `drive check` on hand-made data: output, JSON keys, exit codes."""

import json
from pathlib import Path

import pytest

from drive.cli.main import main
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
        (["kitti"], "invalid choice"),
    ],
)
def test_bad_options_exit_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", *arguments]) == 2
    assert words in capsys.readouterr().err
