"""Logs whose files are damaged: `check` says so, and whatever reads them refuses in one line."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from drive.cli.main import main
from drive.contracts import UserError
from drive.logs import check_logs, ingest_nuscenes, list_drives, read_drive, write_drive
from tests import builders
from tests.unit.logs.nuscenes_tiny import write_tiny

Spoil = Callable[[Path], object]


def _rewritten(change: Callable[[pa.Table], pa.Table]) -> Spoil:
    """A sound Arrow file with other content."""

    def spoil(path: Path) -> None:
        table = change(pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all())
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    return spoil


def _nulls(table: pa.Table) -> pa.Table:
    return pa.Table.from_arrays([pa.nulls(len(table), f.type) for f in table.schema], schema=table.schema)


def _overwritten(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3 : len(raw) // 3 + 200] = b"\xff" * 200
    path.write_bytes(raw)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


UNREADABLE: dict[str, Spoil] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "garbage": lambda path: path.write_bytes(b"\xff" * 500),
    "a folder": _folder,
    "of something else": _rewritten(lambda table: pa.table({"x": [1, 2, 3]})),
}
LOST: dict[str, Spoil] = {  # read as a drive in which less happened, but not without a fault
    "without rows": _rewritten(lambda table: table.schema.empty_table()),
    "nulls": _rewritten(_nulls),
}
STRANGE: dict[str, Spoil] = {  # not every file of a log is the worse for these
    "gone": lambda path: path.unlink(),
    "overwritten": _overwritten,
    "half of the rows": _rewritten(lambda table: table.slice(0, max(1, len(table) // 2))),
    "without metadata": _rewritten(lambda table: table.replace_schema_metadata(None)),
    "metadata of garbage": _rewritten(
        lambda table: table.replace_schema_metadata({b"metadata": b"\xc1\xff"})
    ),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded drive in `recorded`, an ingested scene in `ingested`."""
    base = tmp_path_factory.mktemp("sound")
    write_drive(base / "recorded", builders.cruise())
    ingest_nuscenes(write_tiny(base / "data", scenes=("scene-0103",)), "v1.0-mini", base / "ingested")
    return base


@pytest.mark.parametrize("name", [*UNREADABLE, *LOST, *STRANGE])
@pytest.mark.parametrize("kind", ["recorded", "ingested"])
def test_damage_to_any_file_is_a_fault_for_check_and_one_line_for_readers(
    sound: Path, tmp_path: Path, kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(path.relative_to(sound / kind) for path in (sound / kind).rglob("*.arrow"))
    assert len(files) >= 4
    for file in files:
        root = tmp_path / file.stem
        shutil.copytree(sound / kind, root)
        {**UNREADABLE, **LOST, **STRANGE}[name](root / file)
        capsys.readouterr()
        assert main(["check", str(root)]) in ((0, 1, 2) if name in STRANGE else (1,))
        assert main(["ingest", "py123d", "--root", str(root)]) in (0, 1, 2)
        errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert all(str(root) in line for line in errors)
        if name in UNREADABLE:
            with pytest.raises(UserError) as caught:
                read_drive(root, file.parent.name)
            assert str(root) in str(caught.value)
            assert "\n" not in str(caught.value)


def test_a_damaged_scene_is_converted_again(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound / "ingested", tmp_path / "logs")
    for path in sorted((tmp_path / "logs").rglob("*.arrow")):
        path.write_bytes(b"\xff" * 500)
        assert ingest_nuscenes(sound / "data", "v1.0-mini", tmp_path / "logs").converted == 1
    assert not [f for f in check_logs(tmp_path / "logs").faults if f.kind != "missing_files"]


def test_logs_of_another_version_in_the_folder_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_drive(tmp_path, builders.cruise())
    monkeypatch.setattr("drive.logs.writer.FORMAT", 2)
    new = write_drive(tmp_path, builders.lead_braking())
    monkeypatch.undo()
    words = f"{new}: log format 2, this version reads 1; record the log again"
    with pytest.raises(UserError, match="log format 2") as caught:
        list_drives(tmp_path)
    assert str(caught.value) == words
    assert main(["ingest", "py123d", "--root", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
    assert main(["check", str(tmp_path)]) == 1
    assert "log format 2" in capsys.readouterr().out
