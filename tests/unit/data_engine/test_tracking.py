"""Tracking URIs and sqlite stores that cannot work are one line, before MLflow is imported."""

import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from data_engine.tracking import ExplainedClient, StoreError, check_sqlite, check_uri, explained
from drive.contracts import UserError


def store(path: Path, rows: int = 2000) -> Path:
    """An sqlite file with a table of MLflow's, several pages long."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE experiments (name TEXT)")
        database.executemany(
            "INSERT INTO experiments VALUES (?)", [(f"experiment {n}",) for n in range(rows)]
        )
        database.commit()
    return path


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("nonsense", "no such folder"),
        ("nonsense://host/x", "not an MLflow store"),
        ("file:///no/such/folder", "no such folder"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:mlflow.db", "names no file"),
        ("sqlite:////no/such/folder/x.db", "there is no folder"),
        ("http://127.0.0.1:1", "no answer from 127.0.0.1:1"),
        ("postgresql://me:secret@127.0.0.1:1/x", "no answer from 127.0.0.1:1"),
        ("mysql+pymysql://127.0.0.1:1/x", "no answer from 127.0.0.1:1"),
        ("http://[::1", "tracking URI"),
        ("http://host:port", "tracking URI"),
    ],
)
def test_uris_that_cannot_work(uri: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        check_uri(uri)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_uris_that_may_work(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as answering:
        for uri in (
            f"http://127.0.0.1:{answering.getsockname()[1]}",
            f"sqlite:///{tmp_path}/new.db",
            f"sqlite:///{store(tmp_path / 'old # %20.db')}",
            tmp_path.as_uri(),
            str(tmp_path),
            "databricks",
            "databricks://profile",
        ):
            check_uri(uri)
    assert not (tmp_path / "new.db").exists()


def _in_the_middle(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[8192 : len(raw) - 4096] = b"\xff" * (len(raw) - 4096 - 8192)
    path.write_bytes(raw)


def _foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE recipes (name TEXT)")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda p: p.write_bytes(b"garbage" * 1000), "not a usable registry"),
        (lambda p: p.write_bytes(p.read_bytes()[:100]), "not a usable registry|damaged"),
        (lambda p: p.write_bytes(p.read_bytes()[:-4096]), "not a usable registry|damaged"),
        (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), "not a usable registry|damaged"),
        (lambda p: p.write_bytes(b""), "is empty, but .*mlartifacts holds registered models"),
        (_in_the_middle, "damaged"),
        (_foreign, "not of MLflow"),
        (_folder, "is not a file"),
    ],
)
def test_damaged_stores_are_refused_and_left_as_they_are(
    tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    path = store(tmp_path / "mlflow.db")
    (tmp_path / "mlartifacts" / "1").mkdir(parents=True)
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(UserError, match=words) as caught:
        check_sqlite(path, tmp_path / "mlartifacts")
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_no_store_yet_an_empty_one_and_a_half_made_one_are_fine(tmp_path: Path) -> None:
    check_sqlite(tmp_path / "mlflow.db", tmp_path / "mlartifacts")
    (tmp_path / "mlflow.db").touch()
    check_sqlite(tmp_path / "mlflow.db", tmp_path / "mlartifacts")
    check_sqlite(store(tmp_path / "half.db", rows=1), tmp_path)


def test_what_a_killed_writer_left_is_mended_not_refused(tmp_path: Path) -> None:
    path = store(tmp_path / "mlflow.db")
    code = (
        "import os, sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('PRAGMA cache_size = 1')\n"
        "database.execute('BEGIN')\n"
        "database.execute(\"UPDATE experiments SET name = name || 'x'\")\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert os.path.exists(f"{path}-journal")
    check_sqlite(path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM experiments WHERE name LIKE '%x'").fetchone() == (0,)


def test_whatever_a_client_raises_is_one_line_with_the_store_and_the_code() -> None:
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import OperationalError

    class Client:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def get(self) -> None:
            raise self.error

    for error, words, code in (
        (MlflowException("gone\nSQL: ...", error_code=1001), "http://host: gone", "BAD_REQUEST"),
        (OperationalError("SELECT 1", {}, Exception("locked")), "locked", ""),
        (ModuleNotFoundError("No module named 'psycopg'"), "needs another Python package", ""),
        (PermissionError(13, "Permission denied"), "Permission denied", ""),
    ):
        with pytest.raises(StoreError, match=words) as caught:
            ExplainedClient(Client(error), "http://me:secret@host").get()
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
        assert caught.value.code == code or code == "BAD_REQUEST"
    with pytest.raises(ZeroDivisionError), explained("x"):  # a mistake of ours stays a traceback
        raise ZeroDivisionError
