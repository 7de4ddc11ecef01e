"""One nightly at a time per workspace: a kernel file lock plus a note that names the holder."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from drive.contracts import UserError
from drive.files import write_json

LOCK_FILE = "nightly.lock"
HOLDER_FILE = "nightly.holder.json"
DOOR, DOOR_S = "nightly.door.lock", 10.0
RETRIES = 5


@contextmanager
def nightly_lock(workspace: Path) -> Iterator[None]:
    """Hold the workspace, or fail at once naming who holds it.

    The kernel drops the lock when its holder dies. A lock that outlives its holder (a worker process that
    inherited
    it was orphaned) is reclaimed: the lock file is replaced, so that the orphan keeps a lock on a file
    nobody uses.

    Raises:
        UserError: Another nightly runs in this workspace.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(workspace / DOOR, timeout=DOOR_S):  # one at a time looks, replaces and writes the note
            lock = _acquire(workspace)
            write_json(workspace / HOLDER_FILE, _me())
    except Timeout:
        raise UserError(_busy(workspace, None)) from None
    try:
        yield
    finally:
        (workspace / HOLDER_FILE).unlink(missing_ok=True)
        lock.release()


def _acquire(workspace: Path) -> FileLock:
    path = workspace / LOCK_FILE
    for _ in range(RETRIES):
        lock = FileLock(path, timeout=0)
        try:
            lock.acquire()
            return lock
        except Timeout:
            holder = read_holder(workspace)
            if holder is not None and _is_dead(holder):
                path.unlink(missing_ok=True)
                continue
            if holder is None:  # the holder is between removing its note and letting go
                time.sleep(0.2)
                continue
            raise UserError(_busy(workspace, holder)) from None
    raise UserError(_busy(workspace, read_holder(workspace)))


def read_holder(workspace: Path) -> dict[str, Any] | None:
    """Who holds the workspace {pid, pid_started, host, started}, or None if no readable note is there."""
    try:
        holder = json.loads((workspace / HOLDER_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return holder if isinstance(holder, dict) and "pid" in holder else None


def _me() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "pid_started": _process_start(os.getpid()),
        "host": socket.gethostname(),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _is_dead(holder: dict[str, Any]) -> bool:
    """True only if the holder ran on this host and its process is gone or its pid belongs to another one."""
    if holder.get("host") != socket.gethostname():
        return False
    started = _process_start(int(holder["pid"]))
    return started is None or started != holder.get("pid_started")


def _process_start(pid: int) -> float | None:
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def _busy(workspace: Path, holder: dict[str, Any] | None) -> str:
    if holder is None:
        return f"{workspace}: another nightly is starting; wait for it or give another --workspace"
    who = f"pid {holder['pid']} on {holder['host']} since {holder['started']}"
    return f"{workspace}: a nightly is running ({who}); wait for it or give another --workspace"
