"""What every command prints for people and writes for machines."""

import argparse
import errno
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drive.contracts import UserError
from drive.files import json_safe, write_json


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print an aligned plain-text table; numbers to the right, floats with three digits, None as "-"."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    right = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))]
    print(f"\n{title}")
    for line in [list(columns), ["-" * w for w in widths], *cells]:
        print("  " + "  ".join(_pad(t, w, r) for t, w, r in zip(line, widths, right, strict=True)).rstrip())


def finish(args: argparse.Namespace, payload: Mapping[str, Any]) -> None:
    """Write `payload` to the file given with --json, atomically; NaN and infinities become null.

    The keys "command" and "version" are added to every payload.
    """
    if getattr(args, "json", None) is None:
        return
    head = {"command": getattr(args, "command", None), "version": version("nightdrive")}
    path = Path(args.json)
    write_json(path, {**head, **json_safe(payload)})
    print(f"wrote {path}")


def check_json_path(args: argparse.Namespace) -> None:
    """Raise UserError before any work if the --json file cannot be written."""
    if args.json is not None:
        path = Path(args.json)
        with _refused("--json", path):
            if path.is_dir():
                raise UserError(f"--json {path}: is a folder; give a file name")
            _try(path)


def check_folder(option: str, folder: Path) -> None:
    """Raise UserError before any work if files cannot be made in `folder`, which need not be there yet."""
    with _refused(option, folder):
        if os.path.lexists(folder) and not folder.is_dir():
            raise UserError(f"{option} {folder}: is a file; give a folder")
        _try(folder / "file")


@contextmanager
def _refused(option: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{option} {path}: cannot be written ({error.strerror}); give another place"
        ) from None


def _try(path: Path) -> None:
    """Make and remove a file as `write_atomic` would, in the nearest folder of `path` that is there."""
    while not path.parent.exists():
        path = path.parent
        if path.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, f"{path} leads nowhere")
    tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent).close()


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _pad(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)
