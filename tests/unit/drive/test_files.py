"""Files appear whole or not at all."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from drive.contracts import UserError
from drive.files import (
    alone_in,
    json_safe,
    new_folder,
    read_json,
    read_object,
    sha256_file,
    sha256_json,
    write_atomic,
    write_json,
)


class Crash(BaseException):
    """Stands for a kill in the middle of a write."""


def test_write_atomic_makes_parents_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.txt"
    write_atomic(path, "old")

    def crash(_handle: int) -> None:
        raise Crash

    monkeypatch.setattr("drive.files.os.fsync", crash)
    with pytest.raises(Crash):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["b.txt"]


def test_json_takes_arrays_paths_and_dataclasses(tmp_path: Path) -> None:
    @dataclass
    class Row:
        path: Path
        values: np.ndarray

    path = tmp_path / "x.json"
    write_json(path, {"row": Row(Path("a/b"), np.arange(3)), "n": np.int64(4)})
    assert read_json(path) == {"row": {"path": "a/b", "values": [0, 1, 2]}, "n": 4}
    with pytest.raises(TypeError, match="cannot write object as JSON"):
        write_json(path, {"bad": object()})
    assert json.loads(path.read_text())["n"] == 4


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({1: (True, None, "x", -1.5)}, {"1": [True, None, "x", -1.5]}),
        ({"a": [float("nan"), {"b": float("-inf")}]}, {"a": [None, {"b": None}]}),
        (np.array([[1.0, np.inf], [np.nan, 2.0]]), [[1.0, None], [None, 2.0]]),
        ([np.float32("nan"), np.int64(3), Path("a/b")], [None, 3, "a/b"]),
    ],
)
def test_json_safe_leaves_only_what_strict_readers_accept(value: object, plain: object) -> None:
    assert json_safe(value) == plain
    assert json.loads(json.dumps(json_safe(value), allow_nan=False)) == plain


@pytest.mark.parametrize("damage", ["", "{", "\x00"])
def test_damaged_json_is_a_user_error_that_names_the_file(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(damage)
    with pytest.raises(UserError, match=r"x\.json: not valid JSON"):
        read_json(path)
    with pytest.raises(UserError, match="no such file"):
        read_json(tmp_path / "y.json")


def test_hashes_depend_on_content_only(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert sha256_file(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (
        sha256_json({"a": 1, "b": [2]}) == sha256_json({"b": [2], "a": 1}) != sha256_json({"a": 1, "b": [3]})
    )


def test_new_folder_replaces_the_old_one_only_on_success(tmp_path: Path) -> None:
    target = tmp_path / "result"
    with new_folder(target) as folder:
        (folder / "a").write_text("1")
    with pytest.raises(Crash):
        _fill_then_crash(target)
    assert [p.name for p in target.iterdir()] == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["result"]


def _fill_then_crash(target: Path) -> None:
    with new_folder(target) as folder:
        (folder / "b").write_text("2")
        raise Crash


@pytest.mark.parametrize("text", ["[]", "5", "null", '"key"', "{}", "{", "1" * 5000, "[" * 100_000, "\xff"])
def test_a_file_without_the_object_asked_for_is_one_clear_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "night.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"night\.json: .*; delete or restore it"):
        read_object(path, "key")


def test_an_object_is_read_with_all_its_keys(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"key": 1, "more": 2})
    assert read_object(tmp_path / "a.json", "key") == {"key": 1, "more": 2}


def test_one_run_at_a_time_writes_into_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    with alone_in(folder, ".lock", "busy; wait for it"):
        code = "import sys; from pathlib import Path; from drive.files import alone_in\n"
        code += "with alone_in(Path(sys.argv[1]), '.lock', 'busy; wait for it'): print('in')"
        second = subprocess.run(
            [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
        )
        assert second.stdout == ""
        assert "busy; wait for it" in second.stderr
    with alone_in(folder, ".lock", "busy"):  # let go of at the end
        assert folder.is_dir()
