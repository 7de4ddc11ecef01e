"""Files that are never half-written: temp + fsync + rename, JSON, hashes."""

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from drive.contracts import UserError


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `data` so that a reader sees either the old file or the whole new one, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode() if isinstance(data, str) else data
    handle, temp = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temp, 0o644)
        os.replace(temp, path)
    except BaseException:
        Path(temp).unlink(missing_ok=True)
        raise


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def json_safe(value: Any) -> Any:
    """Copy of `value` that strict JSON readers accept: NaN and infinities as None, arrays as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return json_safe(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): json_safe(v) for k, v in value.items()}
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return json_safe(value.tolist())
    if isinstance(value, list | tuple):
        return [json_safe(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; dataclasses, numpy values and paths are converted."""
    write_atomic(path, json.dumps(value, indent=2, default=_plain) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; a missing or damaged file is a UserError naming it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # ValueError: syntax, encoding, endless digits
        raise UserError(f"{path}: not valid JSON ({error}); delete or restore it") from None


def read_object(path: Path, *keys: str) -> dict[str, Any]:
    """Read a JSON object that has at least `keys`; anything else in the file is a UserError naming it."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: should hold a JSON object; delete or restore it")
    for key in keys:
        if key not in value:
            raise UserError(f"{path}: lacks {key!r}; delete or restore it")
    return value


def sha256_file(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Hex digest of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=_plain).encode()).hexdigest()


@contextmanager
def alone_in(folder: Path, lock: str, refusal: str) -> Iterator[None]:
    """Let no second run write into a folder, which is made; the kernel lets go of it when this process ends.

    Raises:
        UserError: `refusal`, if another process holds the file `lock` in it.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    held = FileLock(folder / lock, timeout=0)
    try:
        held.acquire()
    except Timeout:
        raise UserError(refusal) from None
    try:
        yield
    finally:
        held.release()


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `path` if the block succeeds and vanishes if not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temp
        os.chmod(temp, 0o755)
        if path.exists():
            shutil.rmtree(path)
        os.replace(temp, path)
    except BaseException:
        shutil.rmtree(temp, ignore_errors=True)
        raise
