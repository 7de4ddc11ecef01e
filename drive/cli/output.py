"""What every command prints for people and writes for machines."""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drive.contracts import UserError
from drive.files import write_json


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
    if not getattr(args, "json", None):
        return
    head = {"command": getattr(args, "command", None), "version": version("nightdrive")}
    path = Path(args.json)
    write_json(path, {**head, **json_safe(payload)})
    print(f"wrote {path}")


def check_json_path(args: argparse.Namespace) -> None:
    """Raise UserError before any work if the --json file cannot be written."""
    if not args.json:
        return
    path = Path(args.json)
    if path.is_dir():
        raise UserError(f"--json {path}: is a folder; give a file name")
    if path.parent.exists() and not path.parent.is_dir():
        raise UserError(f"--json {path}: {path.parent} is not a folder")


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


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _pad(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)
