"""nuScenes tables, read and checked: rows have the fields we use, and every token leads somewhere."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drive.contracts import UserError

Row = dict[str, Any]
Tables = Mapping[str, list[Row]]
Kind = tuple[Callable[[Any], bool], str]  # is a value of this kind, and the kind in words
MEND = "extract the metadata archive again"
LATEST_US = 2**62
UNIT_SLACK = 0.01
LARGEST = 10**300
ABSENT = object()


def _numbers(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(_number, value))


def _number(value: Any) -> bool:
    """Also NaN, but no whole number that no float holds."""
    return type(value) is float or (type(value) is int and abs(value) < LARGEST)


def _finite(value: Any, count: int) -> bool:
    return _numbers(value, count) and all(map(math.isfinite, value))


def _rotation(value: Any) -> bool:
    """A unit quaternion; one that is not finite is a fault of the recording, not of the table."""
    return _numbers(value, 4) and not abs(math.hypot(*value) - 1) > UNIT_SLACK


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _inside(value: Any) -> bool:
    return _text(value) and not value.startswith("/") and ".." not in value.split("/")


TEXT: Kind = _text, "text"
NAME: Kind = lambda v: isinstance(v, str) and bool(re.fullmatch(r"\w[\w.-]*", v)), "a name"
LINK: Kind = lambda v: isinstance(v, str), "a token or empty text"
TOKENS: Kind = lambda v: isinstance(v, list) and all(map(_text, v)), "a list of tokens"
FILE: Kind = _inside, "a file below the data root"
TIME: Kind = lambda v: type(v) is int and 0 <= v < LATEST_US, "microseconds"
FLAG: Kind = lambda v: type(v) is bool, "true or false"
PIXELS: Kind = lambda v: type(v) is int and 0 <= v < 2**20, "a number of pixels"
VECTOR: Kind = lambda v: _numbers(v, 3), "3 numbers"
FINITE_VECTOR: Kind = lambda v: _finite(v, 3), "3 finite numbers"
EXTENT: Kind = lambda v: _finite(v, 3) and min(v) >= 0, "3 numbers from 0 up"
ROTATION: Kind = _rotation, "a quaternion of length 1"
FINITE_ROTATION: Kind = lambda v: _finite(v, 4) and _rotation(v), "a finite quaternion of length 1"
INTRINSIC: Kind = lambda v: v == [] or _camera(v), "a 3 x 3 matrix or []"

CAN_POSE = {"utime": TIME, "vel": VECTOR, "accel": VECTOR, "rotation_rate": VECTOR}
SCHEMA: Mapping[str, Mapping[str, Kind]] = {
    "calibrated_sensor": {
        "token": TEXT, "sensor_token": TEXT, "translation": FINITE_VECTOR, "rotation": FINITE_ROTATION,
        "camera_intrinsic": INTRINSIC,
    },
    "category": {"token": TEXT, "name": TEXT},
    "ego_pose": {"token": TEXT, "translation": VECTOR, "rotation": ROTATION},
    "instance": {"token": TEXT, "category_token": TEXT},
    "log": {"token": TEXT, "location": TEXT},
    "sample": {"token": TEXT, "timestamp": TIME, "scene_token": TEXT, "next": LINK},
    "sample_annotation": {
        "token": TEXT, "sample_token": TEXT, "instance_token": TEXT, "translation": VECTOR, "size": EXTENT,
        "rotation": ROTATION, "prev": LINK, "next": LINK,
    },
    "sample_data": {
        "token": TEXT, "sample_token": TEXT, "ego_pose_token": TEXT, "calibrated_sensor_token": TEXT,
        "timestamp": TIME, "is_key_frame": FLAG, "filename": FILE, "width": PIXELS, "height": PIXELS,
    },
    "scene": {"token": TEXT, "name": NAME, "log_token": TEXT, "first_sample_token": TEXT},
    "sensor": {"token": TEXT, "channel": NAME, "modality": TEXT},
    "map": {"token": TEXT, "log_tokens": TOKENS, "filename": FILE},
    "attribute": {"token": TEXT},
    "visibility": {"token": TEXT},
}  # fmt: skip
OPTIONAL = ("attribute", "map", "visibility")
REQUIRED = tuple(name for name in SCHEMA if name not in OPTIONAL)
REFERENCES = (
    ("sample", "scene_token", "scene"), ("sample", "next", "sample"), ("scene", "log_token", "log"),
    ("scene", "first_sample_token", "sample"), ("sample_data", "sample_token", "sample"),
    ("sample_data", "ego_pose_token", "ego_pose"),
    ("sample_data", "calibrated_sensor_token", "calibrated_sensor"),
    ("calibrated_sensor", "sensor_token", "sensor"), ("sample_annotation", "sample_token", "sample"),
    ("sample_annotation", "instance_token", "instance"), ("sample_annotation", "prev", "sample_annotation"),
    ("sample_annotation", "next", "sample_annotation"), ("instance", "category_token", "category"),
)  # fmt: skip


def _camera(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(_finite(row, 3) for row in value)


def read_tables(folder: Path, names: Sequence[str] = tuple(SCHEMA)) -> dict[str, list[Row]]:
    """Read tables of one version.

    Args:
        folder: Of the version, e.g. DATAROOT/v1.0-mini.
        names: Tables to read; those of OPTIONAL that are not there are left out.

    Raises:
        UserError: A table is missing or is no list of records, a record lacks a field that we use or has
            something else in it, two records share a token, or a token leads nowhere. Poses that are not
            finite pass: they are faults of the recording.
    """
    absent = [f"{name}.json" for name in REQUIRED if not (folder / f"{name}.json").is_file()]
    if absent:
        raise UserError(f"{folder}: missing {', '.join(absent)}; {MEND}")
    tables = {
        name: read_rows(folder / f"{name}.json", SCHEMA[name])
        for name in names
        if (folder / f"{name}.json").is_file()
    }
    for name, rows in tables.items():
        _check_unique(folder / f"{name}.json", rows, "token")
    for name, field, target in REFERENCES:
        if name in tables and target in tables:
            _check_reference(folder / f"{name}.json", tables[name], field, tables[target], target)
    _check_unique(folder / "scene.json", tables.get("scene", []), "name")
    _check_cameras(folder, tables)
    _check_chains(folder, tables)
    return tables


def read_rows(path: Path, fields: Mapping[str, Kind]) -> list[Row]:
    """Read one table: a JSON list of records that have these fields.

    Raises:
        UserError: Names file, row, field, and what was expected.
    """
    try:
        rows = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({' '.join(str(error).split())}); {MEND}") from None
    if not isinstance(rows, list):
        raise UserError(f"{path}: expected a list of records, got {type(rows).__name__}; {MEND}")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise UserError(f"{path}: row {number}: expected a record, got {_short(row)}; {MEND}")
    for field, (is_good, words) in fields.items():
        for number, row in enumerate(rows):
            if not is_good(row.get(field, ABSENT)):
                have = _short(row[field]) if field in row else "nothing"
                raise UserError(f"{path}: row {number}: {field}: expected {words}, got {have}; {MEND}")
    return rows


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _check_unique(path: Path, rows: Sequence[Row], field: str) -> None:
    seen: set[str] = set()
    for number, row in enumerate(rows):
        if row[field] in seen:
            raise UserError(f"{path}: row {number}: {field} {row[field]!r} is there twice; {MEND}")
        seen.add(row[field])


def _check_reference(
    path: Path, rows: Sequence[Row], field: str, targets: Sequence[Row], target: str
) -> None:
    known = {row["token"] for row in targets}
    may_be_empty = SCHEMA[path.stem][field] is LINK
    for number, row in enumerate(rows):
        if row[field] not in known and not (may_be_empty and row[field] == ""):
            where = f"{path}: row {number}: {field}"
            raise UserError(f"{where}: refers to token {row[field]!r}, which {target}.json lacks; {MEND}")


def _check_cameras(folder: Path, tables: Tables) -> None:
    """A camera's calibration has intrinsics; other sensors have none."""
    modality = {row["token"]: row["modality"] for row in tables.get("sensor", [])}
    for number, row in enumerate(tables.get("calibrated_sensor", [])):
        if modality.get(row["sensor_token"]) == "camera" and not row["camera_intrinsic"]:
            where = f"{folder / 'calibrated_sensor.json'}: row {number}: camera_intrinsic"
            raise UserError(f"{where}: expected a 3 x 3 matrix for a camera, got []; {MEND}")


def _check_chains(folder: Path, tables: Tables) -> None:
    """From its first sample on, `next` leads through all samples of a scene, and ends."""
    if "sample" not in tables or "scene" not in tables:
        return
    samples = {row["token"]: row for row in tables["sample"]}
    count = dict.fromkeys((row["token"] for row in tables["scene"]), 0)
    for row in tables["sample"]:
        count[row["scene_token"]] += 1
    for scene in tables["scene"]:
        passed = list(_chain(samples, scene["first_sample_token"], count[scene["token"]]))
        strange = [row for row in passed if row["scene_token"] != scene["token"]]
        if not passed or strange or len(passed) != count[scene["token"]] or passed[-1]["next"]:
            what = f"next does not lead once through the {count[scene['token']]} samples of {scene['name']}"
            raise UserError(f"{folder / 'sample.json'}: {what}; {MEND}")


def _chain(samples: Mapping[str, Row], token: str, longest: int) -> Iterator[Row]:
    for _ in range(longest):
        if token:
            yield samples[token]
            token = samples[token]["next"]


def lost_boxes(tables: Tables) -> dict[str, list[int]]:
    """Scene token -> rows of the annotation table whose pose is not finite."""
    scene_of = {row["token"]: row["scene_token"] for row in tables["sample"]}
    out: dict[str, list[int]] = {}
    for number, row in enumerate(tables["sample_annotation"]):
        if not all(map(math.isfinite, [*row["translation"], *row["rotation"]])):
            out.setdefault(scene_of[row["sample_token"]], []).append(number)
    return out


def devkit(dataroot: Path, version: str, tables: Tables) -> Any:
    """The devkit's NuScenes on tables that were read already.

    The devkit insists on a map for each log and on its mask file; nothing here needs them, so it gets none.

    Raises:
        UserError: It refuses something else that it found in the folder, such as half a nuScenes-lidarseg.
    """
    from nuscenes import NuScenes

    logs = [row["token"] for row in tables["log"]]
    any_map = [{"token": "none", "log_tokens": logs, "filename": f"{version}/log.json"}]

    class Checked(NuScenes):  # type: ignore[misc, unused-ignore]
        def __load_table__(self, table_name: str) -> Any:
            if table_name not in SCHEMA:
                return super().__load_table__(table_name)
            return any_map if table_name == "map" else tables.get(table_name, [])

    try:
        return Checked(version=version, dataroot=str(dataroot), verbose=False)
    except (AssertionError, LookupError, OSError, ValueError) as error:
        raise UserError(f"{dataroot / version}: the devkit refuses it ({error}); {MEND}") from None
