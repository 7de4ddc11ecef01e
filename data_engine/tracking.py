"""MLflow stores: what a tracking URI must be before MLflow sees it, and its failures in one line."""

import os
import re
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from drive.contracts import UserError

PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
ANSWER_S = 3.0
SQLITE = "sqlite:///"
FORMS = "sqlite:///FILE, http://HOST:PORT, or another MLflow store"


class StoreError(UserError):
    """The store refused or failed; `code` is MLflow's, "" if it gave none."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def check_uri(uri: str, artifacts: Path | None = None) -> None:
    """Refuse a tracking URI that cannot work: MLflow makes folders for it, or tries for minutes.

    Args:
        uri: Tracking URI.
        artifacts: Where the models of this store are kept, if that is known.

    Raises:
        UserError: Not a kind of URI that MLflow knows, nobody answers there, or a damaged sqlite file.
    """
    try:
        parts = urlsplit(uri)
        scheme, host, port = parts.scheme.split("+")[0], parts.hostname, parts.port
    except ValueError as error:
        raise UserError(f"tracking URI {uri!r}: {error}; use {FORMS}") from None
    if scheme == "sqlite":
        if not uri.startswith(SQLITE) or len(uri) == len(SQLITE):
            raise UserError(f"tracking URI {uri!r}: names no file; use {SQLITE}FILE")
        check_sqlite(sqlite_path(uri), artifacts)
    elif scheme in PORTS:
        _check_answer(host or "localhost", port or PORTS[scheme])
    elif scheme in ("", "file") and uri != "databricks":
        if not Path(unquote(parts.path)).is_dir():
            raise UserError(f"tracking URI {uri!r}: no such folder; use {FORMS}")
    elif uri.partition(":")[0] != "databricks":
        raise UserError(f"tracking URI {uri!r}: not an MLflow store; use {FORMS}")


def sqlite_path(uri: str) -> Path:
    """File of an sqlite tracking URI; MLflow takes it as it is written, without % escapes."""
    return Path(uri.removeprefix(SQLITE))


def check_sqlite(path: Path, artifacts: Path | None = None) -> None:
    """Refuse an sqlite store that is damaged, is something else, or lost its content; none yet is fine.

    A store left half-made by a kill is fine too: MLflow finishes it.

    Args:
        path: The file.
        artifacts: Where the models of this store are kept; an empty store beside models has lost its content.

    Raises:
        UserError: Says what is wrong and what to do.
    """
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}; make it, or name another store")
    if not path.exists():
        return
    if not path.is_file():
        raise UserError(f"{path}: is not a file; move it away")
    try:  # not read-only: sqlite itself mends what a killed writer left, and needs to write for it
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=5)) as database:
            found = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
            tables = {
                row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
    except sqlite3.Error as error:
        raise UserError(f"{path}: not a usable registry ({error}); {_mend(path)}") from None
    if found != "ok":
        raise UserError(f"{path}: damaged ({' '.join(found.split())}); {_mend(path)}")
    if tables and "experiments" not in tables:
        raise UserError(f"{path}: an sqlite file, but not of MLflow; name another store")
    if not tables and artifacts is not None and artifacts.is_dir() and any(artifacts.iterdir()):
        raise UserError(f"{path}: is empty, but {artifacts} holds registered models; {_mend(path)}")


def _mend(path: Path) -> str:
    return f"restore it from a backup, or move {path.name} away to start anew from the base model"


def _check_answer(host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), timeout=ANSWER_S).close()
    except OSError as error:
        raise UserError(f"tracking URI: no answer from {host}:{port} ({error}); start the store") from None


@contextmanager
def explained(uri: str) -> Iterator[None]:
    """Turn whatever MLflow and its stores raise into StoreError, one line that names the store."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    shown = re.sub(r"//[^/@]*@", "//", uri)  # without the password
    try:
        yield
    except ImportError as error:
        raise StoreError(f"{shown}: needs another Python package ({error})") from error
    except (MlflowException, SQLAlchemyError, OSError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StoreError(f"{shown}: {first}", str(getattr(error, "error_code", ""))) from error


class ExplainedClient:
    """MlflowClient whose failures are `explained`."""

    def __init__(self, client: Any, uri: str) -> None:
        self._client, self._uri = client, uri

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            with explained(self._uri):
                return method(*args, **options)

        return call


def quiet_mlflow() -> Any:
    """The mlflow package, without telemetry and without the chatter of a new store."""
    import logging

    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow

    for chatty in ("mlflow.store.db.utils", "alembic"):  # table creation of a new store
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return mlflow
