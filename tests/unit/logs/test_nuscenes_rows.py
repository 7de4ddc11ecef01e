"""Damaged nuScenes tables: every reader refuses them in one line that names the file, and makes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.cli.main import main
from drive.contracts import UserError
from drive.logs.nuscenes_rows import OPTIONAL, REQUIRED, SCHEMA, read_rows, read_tables
from tests.unit.logs.nuscenes_tiny import write_tiny

COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "check": lambda data, out: ["check", str(data)],
    "ingest": lambda data, out: [
        "ingest", "nuscenes", "--dataroot", str(data), "--version", "v1.0-mini", "--out", str(out)
    ],
    "bench": lambda data, out: ["bench", "nuscenes", "--dataroot", str(data), "--policy", "go_straight"],
}  # fmt: skip
Change = Callable[[list[dict[str, Any]]], object]


def table(data: Path, name: str) -> Path:
    return data / "v1.0-mini" / f"{name}.json"


def change(data: Path, name: str, how: Change) -> None:
    rows = json.loads(table(data, name).read_text())
    how(rows)
    table(data, name).write_text(json.dumps(rows))


def put(row: int, field: str, value: Any) -> Change:
    return lambda rows: rows[row].__setitem__(field, value)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    error = capsys.readouterr().err
    last = error.splitlines()[-1]
    assert last.startswith("error: ")
    assert "Traceback" not in error
    return last


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", REQUIRED)
def test_whatever_a_table_is_instead_of_a_table(
    tmp_path: Path, command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_tiny(tmp_path / "data # %20 ü", scenes=("scene-0103",))
    whole = table(data, name).read_text()
    contents = {
        "empty": b"",
        "cut": whole.encode()[: len(whole) // 2],
        "a record": whole[1:-1].encode() if whole.count("{") == 1 else b'{"token": "x"}',
        "null": b"null",
        "a number": b"3",
        "text": b'"rows"',
        "a list of numbers": b"[1, 2]",
        "a list of null": b"[null]",
        "records without keys": b"[{}]",
        "no records": b"[]",
        "not text": b"\xff\xfe\x00\xd8",
        "deep": b"[" * 100_000,
    }
    if name == "sample_annotation" or (name, command) == ("sample_data", "check"):
        del contents["no records"]  # a scene without road users is one; one without sensor data has faults
    for content in contents.values():
        table(data, name).write_bytes(content)
        said = refused(COMMANDS[command](data, tmp_path / "out"), capsys)
        assert "v1.0-mini" in said
        assert not (tmp_path / "out").exists()
    table(data, name).unlink()
    if (command, name) != ("check", "sample"):  # by which a nuScenes folder is known
        assert f"missing {name}.json" in refused(COMMANDS[command](data, tmp_path / "out"), capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", REQUIRED)
def test_every_field_we_use_is_checked(
    tmp_path: Path, command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0103",))
    whole = table(data, name).read_text()
    number = len(json.loads(whole)) - 1
    for field in SCHEMA[name]:
        for how in (lambda rows: rows[-1].pop(field), put(-1, field, None), put(-1, field, {"a": 1})):  # noqa: B023
            change(data, name, how)
            said = refused(COMMANDS[command](data, tmp_path / "out"), capsys)
            assert f"{name}.json: row {number}: {field}: expected " in said
            table(data, name).write_text(whole)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        ("ego_pose", put(3, "translation", [1.0, None, 2.0]), "row 3: translation: expected 3 numbers, got"),
        ("ego_pose", put(3, "translation", [1.0, 2.0]), "translation: expected 3 numbers"),
        ("ego_pose", put(3, "translation", ["1", "2", "3"]), "translation: expected 3 numbers"),
        ("ego_pose", put(3, "translation", [1.0, 10**400, 2.0]), "translation: expected 3 numbers"),
        ("ego_pose", put(3, "rotation", [1, 10**400, 0, 0]), "rotation: expected a quaternion of length 1"),
        ("ego_pose", put(3, "rotation", [0.0, 0.0, 0.0, 0.0]), "rotation: expected a quaternion of length 1"),
        ("ego_pose", lambda rows: rows.append(rows[0]), "token 'scene-0103-0' is there twice"),
        ("ego_pose", lambda rows: rows.pop(4), "ego_pose_token: refers to token 'scene-0103-4'"),
        ("sample", put(2, "timestamp", 1.5), "timestamp: expected microseconds, got 1.5"),
        ("sample", put(2, "timestamp", -1), "timestamp: expected microseconds"),
        ("sample", put(2, "timestamp", 2**70), "timestamp: expected microseconds"),
        ("sample", put(2, "timestamp", True), "timestamp: expected microseconds"),
        ("sample", put(5, "next", "scene-0103-2"), "next does not lead once through"),
        ("sample", put(5, "next", "scene-0103-5"), "next does not lead once through"),
        ("sample", put(5, "next", ""), "next does not lead once through"),
        ("sample", put(5, "next", "elsewhere"), "next: refers to token 'elsewhere', which sample.json lacks"),
        ("sample", put(0, "scene_token", "x"), "scene_token: refers to token 'x'"),
        ("scene", put(0, "first_sample_token", "scene-0103-3"), "next does not lead once through"),
        ("scene", put(0, "name", "../../elsewhere"), "name: expected a name"),
        ("scene", put(0, "name", ""), "name: expected a name"),
        ("sample_annotation", put(1, "size", [0.0, -1.0, 1.0]), "size: expected 3 numbers from 0 up"),
        ("sample_annotation", put(1, "size", [float("nan")] * 3), "size: expected 3 numbers from 0 up"),
        ("sample_annotation", put(1, "next", "x"), "next: refers to token 'x'"),
        ("sample_data", put(0, "filename", "/etc/hosts"), "filename: expected a file below the data root"),
        ("sample_data", put(0, "filename", "a/../../b"), "filename: expected a file below the data root"),
        ("sample_data", put(0, "filename", "a\0b"), "filename: expected a file below the data root"),
        ("calibrated_sensor", put(0, "camera_intrinsic", []), "expected a 3 x 3 matrix for a camera"),
        ("calibrated_sensor", put(0, "camera_intrinsic", [[1.0]]), "expected a 3 x 3 matrix or"),
        ("calibrated_sensor", put(0, "translation", [float("nan")] * 3), "expected 3 finite numbers"),
    ],
)
def test_what_does_not_fit_together_is_named(tmp_path: Path, name: str, how: Change, words: str) -> None:
    data = write_tiny(tmp_path, scenes=("scene-0103",))
    change(data, name, how)
    with pytest.raises(UserError, match=words) as caught:
        read_tables(data / "v1.0-mini")
    assert "extract the metadata archive again" in str(caught.value)


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_tables_may_be_absent_or_empty_but_not_damaged(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0103", "scene-0061", "scene-0553"))
    for content in ("[]", None):
        table(data, name).write_text(content) if content else table(data, name).unlink()
        for command, code in (("check", 1), ("ingest", 0), ("bench", 0)):  # 1: no sensor files are there
            assert main(COMMANDS[command](data, tmp_path / "out")) == code
    table(data, name).write_text("{}")
    for command in COMMANDS:
        assert f"{name}.json: expected a list of records, got dict" in refused(
            COMMANDS[command](data, tmp_path / "new"), capsys
        )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("field", ["translation", "rotation"])
@pytest.mark.parametrize("name", ["ego_pose", "sample_annotation"])
def test_poses_that_are_not_finite_are_counted_and_named_and_no_benchmark_runs_on_them(
    tmp_path: Path, name: str, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_tiny(tmp_path / "data")
    change(data, name, lambda rows: rows[2][field].__setitem__(1, float("nan")))
    report = tmp_path / "report.json"
    assert main([*COMMANDS["ingest"](data, tmp_path / "out"), "--json", str(report)]) == 1
    assert "scene-0103: 12 of 12 samples, 24 of 24 boxes, 1 poses not finite" in capsys.readouterr().out
    assert json.loads(report.read_text())["totals"]["non_finite"] == 1
    for root in (data, tmp_path / "out"):
        assert main(["check", str(root), "--json", str(report)]) == 1
        found = [f for f in json.loads(report.read_text())["faults"] if f["kind"] == "non_finite"]
        assert [(f["log_id"], f["channel"]) for f in found] == [
            ("scene-0103", "ego" if name == "ego_pose" else "agents")
        ]
    said = refused(COMMANDS["bench"](data, tmp_path), capsys)
    assert f"scene-0103: key frame {2 if name == 'ego_pose' else 1}" in said
    assert "is not finite" in said


def test_a_benchmark_needs_time_that_goes_on_and_both_channels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_tiny(tmp_path / "time")
    change(data, "sample", lambda rows: rows[4].update(timestamp=rows[3]["timestamp"]))
    assert "key frame 4 is not later" in refused(COMMANDS["bench"](data, tmp_path), capsys)
    data = write_tiny(tmp_path / "channel")
    change(data, "sample_data", lambda rows: rows.pop(0))
    assert "key frame 0 has no CAM_FRONT" in refused(COMMANDS["bench"](data, tmp_path), capsys)
    assert "scene-0103: a key frame cannot be converted" in refused(
        COMMANDS["ingest"](data, tmp_path / "out"), capsys
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"utime": 1}]', '[{"utime": null}]'])
def test_damaged_can_messages_are_named(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0103",))
    (data / "can_bus").mkdir()
    (data / "can_bus" / "scene-0103_pose.json").write_text(content)
    assert "scene-0103_pose.json" in refused(COMMANDS["ingest"](data, tmp_path / "out"), capsys)
    assert not (tmp_path / "out").exists()
    assert main(["check", str(data)]) == 1
    assert "damaged_file" in capsys.readouterr().out


def test_two_versions_in_one_root_are_refused_before_anything_is_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_tiny(tmp_path / "data", scenes=("scene-0103",))
    assert main(COMMANDS["ingest"](data, tmp_path / "out")) == 0
    (data / "v1.0-mini").rename(data / "v1.0-trainval")
    arguments = [
        "v1.0-trainval" if a == "v1.0-mini" else a for a in COMMANDS["ingest"](data, tmp_path / "out")
    ]
    assert "is from another version" in refused(arguments, capsys)
    other = tmp_path / "other"
    assert main([*arguments[:-1], str(other)]) == 0
    (other / "nuscenes_val").rename(tmp_path / "out" / "nuscenes_val")
    assert "is ambiguous" in refused(["ingest", "py123d", "--root", str(tmp_path / "out")], capsys)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("sound"), scenes=("scene-0103",)) / "v1.0-mini"


@settings(max_examples=150)
@given(st.sampled_from(REQUIRED), st.data())
def test_arbitrary_values_are_read_or_refused(sound: Path, name: str, data: st.DataObject) -> None:
    path = sound / f"{name}.json"
    whole = path.read_text()
    rows = json.loads(whole)
    row = data.draw(st.integers(0, len(rows) - 1))
    rows[row][data.draw(st.sampled_from(sorted(SCHEMA[name])))] = data.draw(plain)
    path.write_text(json.dumps(rows))
    said = ""
    try:
        read_tables(sound)
    except UserError as error:
        said = str(error)
    path.write_text(whole)
    assert "\n" not in said


def test_a_sound_folder_is_read_as_it_is(sound: Path) -> None:
    tables = read_tables(sound)
    assert set(tables) == set(REQUIRED)
    assert tables["ego_pose"] == json.loads((sound / "ego_pose.json").read_text())
    assert np.shape([row["rotation"] for row in read_rows(sound / "ego_pose.json", SCHEMA["ego_pose"])]) == (
        12,
        4,
    )
