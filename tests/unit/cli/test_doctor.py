"""`drive doctor` looks at the real machine; damage is made by hand."""

import json
import sqlite3
import time
from pathlib import Path

import pytest

from data_engine.registry import DATABASE
from drive.cli import doctor
from drive.cli.main import main


def checks(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, dict[str, object]]]:
    out = tmp_path / "doctor.json"
    code = main(["doctor", "--workspace", str(tmp_path / "runs"), "--json", str(out), *arguments])
    return code, {c["name"]: c for c in json.loads(out.read_text())["checks"]}


def test_prints_one_line_per_check_quickly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    code, found = checks(tmp_path)
    assert time.monotonic() - start < 10  # 0.4 s on an idle machine
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(doctor.CHECKS) + 1
    assert found.keys() >= {
        "python",
        "packages",
        "disk",
        "shm",
        "cores",
        "memory",
        "gpu",
        "carla",
        "towns",
        "registry",
    }
    assert found["python"]["level"] == found["packages"]["level"] == found["towns"]["level"] == "ok"
    assert code == int(any(c["level"] == "fail" for c in found.values()))


def test_a_silent_carla_server_fails(tmp_path: Path) -> None:
    code, found = checks(tmp_path, "--carla", "127.0.0.1:1")
    assert code == 1
    assert found["carla"]["level"] == "fail"
    assert "no answer from 127.0.0.1:1" in str(found["carla"]["detail"])


def test_a_malformed_address_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--carla", "somewhere"]) == 2
    assert "host:port" in capsys.readouterr().err


def test_the_registry_is_read_without_mlflow(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    path = runs / DATABASE
    assert "none yet" in str(checks(tmp_path)[1]["registry"]["detail"])
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE experiments (name TEXT)")
        database.execute("CREATE TABLE registered_model_aliases (alias TEXT, version INTEGER, name TEXT)")
    database.close()
    assert "no champion" in str(checks(tmp_path)[1]["registry"]["detail"])
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO registered_model_aliases VALUES ('champion', 3, 'nightdrive')")
    database.close()
    assert checks(tmp_path)[1]["registry"]["values"] == {"champion": "3"}
    path.write_bytes(b"not a database, but long enough to look at")
    code, found = checks(tmp_path)
    assert (code, found["registry"]["level"]) == (1, "fail")
    assert "restore it from a backup" in str(found["registry"]["detail"])
