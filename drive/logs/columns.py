"""Reads py123d's Arrow files as numpy columns, without importing py123d."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from drive.contracts import F64, I64, UserError

_DAMAGE = (pa.ArrowException, msgpack.UnpackException)


@contextmanager
def damage_named(folder: Path) -> Iterator[None]:
    """Say that the log in `folder` is damaged where its content is not what we would have written.

    Raises:
        UserError: In place of whatever reading such content raised.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, *_DAMAGE) as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UserError(f"{folder}: damaged log ({what}); ingest or record it again") from error


def open_table(path: Path) -> pa.Table:
    """Read one modality; column names lose the modality's prefix.

    Raises:
        UserError: missing or damaged file.
    """
    try:
        with pa.memory_map(str(path), "r") as source:
            table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)  # wrong offsets would end the process later
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; the log is incomplete, ingest or record it again") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: damaged Arrow file ({error}); ingest or record the log again") from None
    return table.rename_columns([name.rsplit(".", 1)[-1] if name.startswith(f"{path.stem}.") else name
                                 for name in table.column_names])  # fmt: skip


def read_metadata(path: Path) -> dict[str, Any]:
    """The modality's static metadata, from the file's schema only (cheap); errors as in `open_table`."""
    try:
        with pa.memory_map(str(path), "r") as source:
            raw = pa.ipc.open_file(source).schema.metadata or {}
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; the log is incomplete, ingest or record it again") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: damaged Arrow file ({error}); ingest or record the log again") from None
    return dict(msgpack.unpackb(raw.get(b"metadata", b"\x80"), raw=False, strict_map_key=False))


def row_count(path: Path) -> int:
    """Number of rows, from the file's footer; errors as in `open_table`."""
    return int(open_table(path).num_rows)


def times_us(table: pa.Table) -> I64:
    """int64 (R,), the rows' time stamps; ValueError if a row has none."""
    if table["timestamp_us"].null_count:
        raise ValueError("a row has no time stamp")
    return np.asarray(table["timestamp_us"].to_numpy(), np.int64).copy()


def row_index(sync: pa.Table, key: str) -> I64:
    """int64 (T,), for each synchronised frame the row in modality `key`; -1 where it has none."""
    if key not in sync.column_names:
        return np.full(sync.num_rows, -1)
    return np.asarray(sync[key].fill_null(-1).to_numpy(), np.int64)


def fixed_width(column: Any, width: int) -> F64:
    """A fixed-size-list column as float64 (R, width); null rows become NaN."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    out = np.full((len(array), width), np.nan)
    if len(array):
        valid = np.asarray(array.is_valid())
        out[valid] = array.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return out


def decode(raw: bytes) -> Any:
    """Decode a custom modality's msgpack row; arrays are copied, so they are writable."""
    return msgpack.unpackb(raw, object_hook=_array, raw=False)


def _array(value: dict[Any, Any]) -> Any:
    if b"__ndarray__" in value:
        return np.frombuffer(value[b"data"], value[b"dtype"]).reshape(value[b"shape"]).copy()
    return value
