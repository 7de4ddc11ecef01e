"""Names with spaces, '#', '%' and non-ASCII letters work under LC_ALL=C; unwritable places are refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drive.cli.main import main
from tests.unit.logs.nuscenes_tiny import write_tiny

NAME = "a b # %20 \u00fc \u65e5"


def test_ingest_and_check_without_a_locale(tmp_path: Path) -> None:
    place = tmp_path / NAME
    write_tiny(place / "data", scenes=("scene-0103",))
    plain = {k: v for k, v in os.environ.items() if k not in ("LANG", "LC_CTYPE", "PYTHONUTF8")}
    data = ["--dataroot", str(place / "data"), "--version", "v1.0-mini"]
    for arguments, code in (
        (["ingest", "nuscenes", *data, "--out", str(place / "logs")], 0),
        (["check", str(place / "logs")], 1),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "drive.cli.main", *arguments, "--json", str(place / "out.json")],
            capture_output=True, check=False, env={**plain, "LC_ALL": "C"},
        )  # fmt: skip
        assert done.returncode == code, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        assert NAME in done.stdout.decode()
        assert NAME in json.dumps(json.loads((place / "out.json").read_text()), ensure_ascii=False)


@pytest.mark.parametrize("option", ["--out", "--json"])
@pytest.mark.parametrize("place", ["/proc/nightdrive/x", "file/below"])
@pytest.mark.parametrize("command", ["sim", "train", "ingest"])
def test_places_that_cannot_be_written_stop_a_command_before_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo_root: Path, command: str, place: str, option: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write_tiny(tmp_path / "data", scenes=("scene-0103",))
    (tmp_path / "file").write_text("kept")
    config = str(repo_root / "configs" / "train" / "debug.yaml")
    arguments = {
        "sim": ["sim", "--suite", "quickstart", "--policy", "constant_velocity"],
        "train": ["train", "--config", config, "--data", "data"],
        "ingest": ["ingest", "nuscenes", "--dataroot", "data", "--version", "v1.0-mini"],
    }[command]
    assert main([*arguments, option, place]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {option} {place}: cannot be written")
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "file"]
