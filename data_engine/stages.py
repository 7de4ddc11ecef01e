"""Stages of a night: a finished one is never run again, an interrupted one continues in its folder."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drive.files import read_object, sha256_json, write_json

MARKER = "stage.json"
MARKED = ("stage", "key", "seconds", "report")


@dataclass(frozen=True)
class Done:
    """A finished stage: its folder, the key of its inputs, and what it reported."""

    name: str
    folder: Path
    key: str
    seconds: float
    report: Mapping[str, Any]


def run_stage(
    night: Path,
    name: str,
    inputs: Mapping[str, Any],
    work: Callable[[Path], Mapping[str, Any]],
    *,
    resumes: bool,
) -> Done:
    """Run one stage unless its folder already holds the result for the same inputs.

    `work` fills a folder and returns a small JSON-able report. The folder has a stable name while the stage
    runs, so
    that work which resumes by itself finds its own files after kill -9, and gets its final name at the end.

    Args:
        night: Folder of the night.
        name: Stage and folder name.
        inputs: Everything the result depends on; its hash is the key.
        work: The stage.
        resumes: Keep what an interrupted run left (True) or start from an empty folder (False).
    """
    key = sha256_json({"stage": name, "version": version("nightdrive"), "inputs": dict(inputs)})
    folder = night / name
    done = finished(folder, key)
    if done is not None:
        print(f"[{name}] already done")
        return done
    partial = night / f".{name}.{key[:12]}"
    _clear_other_keys(night, name, keep=partial)
    if finished(partial, key) is None:  # else it was killed between the last write and the rename
        if partial.exists() and not resumes:
            shutil.rmtree(partial)
        print(f"[{name}] {'resuming' if partial.exists() else 'running'}", flush=True)
        partial.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        report = dict(work(partial))
        seconds = round(time.monotonic() - start, 2)
        write_json(partial / MARKER, {"stage": name, "key": key, "seconds": seconds, "report": report})
    if folder.exists():  # the result for other inputs
        shutil.rmtree(folder)
    os.replace(partial, folder)
    marker = read_object(folder / MARKER, *MARKED)
    return Done(name, folder, key, marker["seconds"], marker["report"])


def finished(folder: Path, key: str | None = None) -> Done | None:
    """The finished stage in `folder`, None if there is none or (with `key`) it is one for other inputs."""
    if not (folder / MARKER).exists():
        return None
    marker = read_object(folder / MARKER, *MARKED)
    if key is not None and marker["key"] != key:
        return None
    return Done(marker["stage"], folder, marker["key"], marker["seconds"], marker["report"])


def _clear_other_keys(night: Path, name: str, keep: Path) -> None:
    for old in sorted(night.glob(f".{name}.*")):
        if old != keep:
            shutil.rmtree(old)
