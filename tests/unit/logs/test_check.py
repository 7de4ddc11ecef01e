"""Faults injected into a log's files one by one are found with file and row."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from drive.contracts import UserError
from drive.logs import check_logs, write_drive
from tests import builders

ROW = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = builders.cruise(image_size=16)
    rng = np.random.default_rng(0)
    log.plans.images["front"][:] = rng.integers(0, 256, log.plans.images["front"].shape, dtype=np.uint8)
    return write_drive(tmp_path / "logs", log)


def edit(path: Path, column: str, change: Callable[[list[Any]], None]) -> None:
    """Rewrite one column of an Arrow file in place."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    name = f"{path.stem}.{column}"
    values = table[name].to_pylist()
    change(values)
    index, field = table.column_names.index(name), table.schema.field(name)
    table = table.set_column(index, field, pa.array(values, field.type))
    temp = path.with_suffix(".new")
    with pa.OSFile(str(temp), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    temp.replace(path)


def set_row(row: int, value: Any) -> Callable[[list[Any]], None]:
    def change(values: list[Any]) -> None:
        values[row] = value(values[row]) if callable(value) else value

    return change


def nudge(values: list[Any]) -> None:
    values[ROW][1] += 9.0


EDITS: dict[str, tuple[str, str, Callable[[list[Any]], None], str, int]] = {
    "ego time backwards": ("ego_state_se3", "timestamp_us", set_row(ROW, 2_400_000), "time_backwards", ROW),
    "ego time repeats": ("ego_state_se3", "timestamp_us", set_row(ROW, 2_900_000), "time_repeated", ROW),
    "box time backwards": ("box_detections_se3", "timestamp_us", set_row(ROW, 1), "time_backwards", ROW),
    "camera time repeats": ("camera.pcam_f0", "timestamp_us", set_row(5, 800_000), "time_repeated", 5),
    "pose jumps": ("ego_state_se3", "imu_se3", nudge, "pose_jump", ROW),
    "pose is NaN": ("ego_state_se3", "imu_se3", set_row(ROW, [float("nan")] * 7), "non_finite", ROW),
    "image is cut": (
        "camera.pcam_f0",
        "data",
        set_row(5, lambda raw: raw[: len(raw) // 2]),
        "truncated_image",
        5,
    ),
    "image is empty": ("camera.pcam_f0", "data", set_row(5, b""), "truncated_image", 5),
}


@pytest.mark.parametrize("name", EDITS)
def test_fault_in_a_file_is_found_with_file_and_row(folder: Path, name: str) -> None:
    stem, column, change, kind, row = EDITS[name]
    assert check_logs(folder.parent.parent).clean
    edit(folder / f"{stem}.arrow", column, change)
    report = check_logs(folder.parent.parent)
    assert not report.clean
    match = [f for f in report.faults if (f.kind, f.row) == (kind, row)]
    assert match, report.faults
    assert match[0].file == str(folder / f"{stem}.arrow")
    assert match[0].log_id == "cruise"


@pytest.mark.parametrize(
    "stem", ["ego_state_se3", "box_detections_se3", "camera.pcam_f0", "custom.nightdrive_plan"]
)
def test_missing_and_damaged_files_are_found(folder: Path, stem: str) -> None:
    path = folder / f"{stem}.arrow"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 40])
    assert ("damaged_file", str(path)) in [(f.kind, f.file) for f in check_logs(folder.parent.parent).faults]
    path.unlink()
    assert ("missing_channel", str(path)) in [
        (f.kind, f.file) for f in check_logs(folder.parent.parent).faults
    ]


def test_lost_rows_are_counted(folder: Path) -> None:
    path = folder / "camera.pcam_f0.arrow"
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    with pa.OSFile(str(path) + ".new", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.slice(0, 7))
    Path(str(path) + ".new").replace(path)
    report = check_logs(folder.parent.parent)
    assert next((f.kind, f.channel, f.detail) for f in report.faults) == (
        "row_count",
        "front",
        f"7 of {len(builders.cruise().plans.step)} declared rows",
    )
    assert report.logs[0].channels["front"] == (7, len(builders.cruise().plans.step))


def test_half_a_log_is_found(folder: Path) -> None:
    (folder / "sync.arrow").unlink()
    report = check_logs(folder.parent.parent)
    assert [(f.kind, f.log_id) for f in report.faults] == [("missing_channel", "cruise")]


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no logs"):
        check_logs(tmp_path)
    with pytest.raises(UserError, match="no such log folder"):
        check_logs(tmp_path / "nowhere")
