"""Scenes out of the nuScenes tables as arrays, the large tables streamed: trainval fits into 2 GB."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drive.bench.json_rows import stream_rows
from drive.bench.nuscenes_tables import (
    CAMERA_CHANNEL,
    POSE_CHANNEL,
    CameraFrame,
    SceneTrack,
    Tables,
    yaw_of,
)
from drive.contracts import AgentTracks, UserError
from drive.logs.nuscenes_rows import MEND, SCHEMA

Row = Mapping[str, Any]


@dataclass
class _Wanted:
    """What is kept of one scene while the tables pass by; K key frames.

    Attributes:
        scene: Its row.
        samples: Rows of its samples in order of time.
        files: Per key frame, channel -> file.
        pose_token: Per key frame, of LIDAR_TOP.
        lidar: Calibration of the first key frame's LIDAR_TOP.
        camera: Per key frame, calibration, width and height of the front camera.
        pose: Per key frame, x, y, yaw.
        boxes: Key frame, x, y, yaw, length, width of each box, one after another.
        instances: Instance of each box.
    """

    scene: Row
    samples: list[Row]
    files: list[dict[str, str]] = field(default_factory=list)
    pose_token: dict[int, str] = field(default_factory=dict)
    lidar: str = ""
    camera: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    pose: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    boxes: Any = field(default_factory=lambda: array("d"))
    instances: list[str] = field(default_factory=list)


def read_scenes(tables: Tables, names: Sequence[str]) -> tuple[SceneTrack, ...]:
    """Read scenes by name, in the order given, in one pass over each large table.

    Raises:
        UserError: A large table is damaged or refers to what is not there; a scene lacks a key frame of the
            lidar or the front camera, its time does not increase, or a pose is not finite: numbers against
            such a scene would mean nothing.
    """
    by_name = {s["name"]: s for s in tables.rows["scene"].values()}
    wanted = {name: _Wanted(by_name[name], list(_chain(tables, by_name[name]))) for name in names}
    where = {s["token"]: (one, k) for one in wanted.values() for k, s in enumerate(one.samples)}
    for one in wanted.values():
        one.files = [{} for _ in one.samples]
    _read_files(tables, where)
    _read_poses(tables, wanted)
    _read_boxes(tables, where)
    return tuple(_track(tables, wanted[name]) for name in names)


def _chain(tables: Tables, scene: Row) -> Iterator[Row]:
    token = scene["first_sample_token"]
    while token:
        sample = tables.rows["sample"][token]
        yield sample
        token = sample["next"]


def _read_files(tables: Tables, where: Mapping[str, tuple[_Wanted, int]]) -> None:
    path, seen = tables.folder / "sample_data.json", set()
    for number, row in stream_rows(path, SCHEMA["sample_data"]):
        if row["sample_token"] not in tables.rows["sample"]:
            raise _dangling(path, number, "sample_token", row, "sample")
        calibration = row["calibrated_sensor_token"]
        if calibration not in tables.channel:
            raise _dangling(path, number, "calibrated_sensor_token", row, "calibrated_sensor")
        if not row["is_key_frame"] or row["sample_token"] not in where:
            continue
        if row["token"] in seen:
            raise UserError(f"{path}: row {number}: token {row['token']!r} is there twice; {MEND}")
        seen.add(row["token"])
        one, k = where[row["sample_token"]]
        channel = tables.channel[calibration]
        one.files[k][channel] = row["filename"]
        if channel == POSE_CHANNEL:
            one.pose_token[k] = row["ego_pose_token"]
            one.lidar = calibration if k == 0 else one.lidar
        elif channel == CAMERA_CHANNEL:
            one.camera[k] = calibration, int(row["width"]), int(row["height"])


def _read_poses(tables: Tables, wanted: Mapping[str, _Wanted]) -> None:
    path = tables.folder / "ego_pose.json"
    where = {token: (one, k) for one in wanted.values() for k, token in one.pose_token.items()}
    for _, row in stream_rows(path, SCHEMA["ego_pose"]):
        found = where.pop(row["token"], None)
        if found:
            x, y = row["translation"][:2]
            found[0].pose[found[1]] = float(x), float(y), yaw_of(row["rotation"])
    for token in where:
        raise UserError(f"{path}: lacks token {token!r}, to which sample_data.json refers; {MEND}")


def _read_boxes(tables: Tables, where: Mapping[str, tuple[_Wanted, int]]) -> None:
    path = tables.folder / "sample_annotation.json"
    for number, row in stream_rows(path, SCHEMA["sample_annotation"]):
        if row["sample_token"] not in tables.rows["sample"]:
            raise _dangling(path, number, "sample_token", row, "sample")
        if row["instance_token"] not in tables.kind:
            raise _dangling(path, number, "instance_token", row, "instance")
        if row["sample_token"] not in where or tables.kind[row["instance_token"]] is None:
            continue
        one, k = where[row["sample_token"]]
        x, y = row["translation"][:2]
        width, length = row["size"][:2]
        one.boxes.extend((k, x, y, yaw_of(row["rotation"]), length, width))
        one.instances.append(row["instance_token"])


def _dangling(path: Any, number: int, name: str, row: Row, target: str) -> UserError:
    where = f"{path}: row {number}: {name}"
    return UserError(f"{where}: refers to token {row[name]!r}, which {target}.json lacks; {MEND}")


def _track(tables: Tables, one: _Wanted) -> SceneTrack:
    scene = one.scene
    for k, files in enumerate(one.files):
        absent = [c for c in (POSE_CHANNEL, CAMERA_CHANNEL) if c not in files]
        if absent:
            raise _unusable(tables, scene, k, f"has no {' and no '.join(absent)}")
    steps = range(len(one.samples))
    mount = tables.rows["calibrated_sensor"][one.lidar]
    track = SceneTrack(
        name=scene["name"],
        location=tables.rows["log"][scene["log_token"]]["location"],
        map_file=tables.map_files.get(scene["log_token"], ""),
        tokens=tuple(s["token"] for s in one.samples),
        t_us=np.array([s["timestamp"] for s in one.samples], np.int64),
        pose_world=np.array([one.pose[k] for k in steps], np.float64),
        agents=_agents(tables, one),
        frames=tuple(_camera_frame(tables, one, k) for k in steps),
        files=tuple(one.files),
        lidar_ego=(mount["translation"][0], mount["translation"][1], yaw_of(mount["rotation"])),
    )
    for bad, what in (
        (np.append(False, np.diff(track.t_us) <= 0), "is not later than the one before"),
        (~np.isfinite(track.pose_world).all(1), "has an ego pose that is not finite"),
        (~np.isfinite(track.agents.pose_world).all((0, 2)), "has a box that is not finite"),
    ):
        if bad.any():
            raise _unusable(tables, scene, int(bad.argmax()), what)
    return track


def _unusable(tables: Tables, scene: Row, k: int, what: str) -> UserError:
    where = f"{tables.folder}: {scene['name']}: key frame {k}"
    return UserError(f"{where} {what}; `drive check {tables.folder.parent}` lists all faults")


def _camera_frame(tables: Tables, one: _Wanted, k: int) -> CameraFrame:
    calibration, width, height = one.camera[k]
    mount = tables.rows["calibrated_sensor"][calibration]
    w, x, y, z = mount["rotation"]
    ego_from_camera = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    camera_from_ego = np.eye(4)
    camera_from_ego[:3, :3] = ego_from_camera.T
    camera_from_ego[:3, 3] = -ego_from_camera.T @ np.array(mount["translation"])
    intrinsics = np.array(mount["camera_intrinsic"], np.float64)
    return CameraFrame(one.files[k][CAMERA_CHANNEL], intrinsics, camera_from_ego, (width, height))


def _agents(tables: Tables, one: _Wanted) -> AgentTracks:
    """Boxes in order of time; a road user's size is that of its first box."""
    boxes = np.array(one.boxes, np.float64).reshape(-1, 6)
    order = np.argsort(boxes[:, 0], kind="stable")
    boxes, tokens = boxes[order], [one.instances[i] for i in order]
    rows = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    index = np.array([rows[token] for token in tokens], np.int64)
    k = boxes[:, 0].astype(np.int64)
    _, first = np.unique(index, return_index=True)
    pose, valid = np.zeros((len(rows), len(one.samples), 3)), np.zeros((len(rows), len(one.samples)), bool)
    pose[index, k], valid[index, k] = boxes[:, 1:4], True
    return AgentTracks(
        ids=np.arange(len(rows), dtype=np.int32),
        kind=np.array([int(tables.kind[token] or 0) for token in rows], np.int32),
        size_m=boxes[first, 4:6].astype(np.float32).reshape(-1, 2),
        pose_world=pose,
        speed_mps=np.zeros(valid.shape, np.float32),
        valid=valid,
    )
