"""nuScenes tables as plain arrays: one SceneTrack per scene, read through nuscenes-devkit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drive.contracts import F64, AgentKind, AgentTracks, UserError

if TYPE_CHECKING:
    from nuscenes import NuScenes

POSE_CHANNEL = "LIDAR_TOP"
CAMERA_CHANNEL = "CAM_FRONT"
SPLITS: Mapping[str, Mapping[str, str]] = {
    "v1.0-mini": {"mini_val": "mini_train", "mini_train": "mini_val", "all": "folds"},
    "v1.0-trainval": {"val": "train", "train": "val"},
}
DEFAULT_SPLIT = {"v1.0-mini": "mini_val", "v1.0-trainval": "val"}
_KINDS = (
    ("vehicle.bicycle", AgentKind.CYCLIST),
    ("vehicle.motorcycle", AgentKind.CYCLIST),
    ("vehicle.car", AgentKind.CAR),
    ("vehicle.emergency.police", AgentKind.CAR),
    ("vehicle.", AgentKind.TRUCK),
    ("human.", AgentKind.PEDESTRIAN),
    ("movable_object.", AgentKind.OBSTACLE),
    ("static_object.", AgentKind.OBSTACLE),
)


@dataclass(frozen=True)
class CameraFrame:
    """Front-camera key frame: file, intrinsics (3, 3), camera_from_ego (4, 4), size (width, height)."""

    file: str
    intrinsics: F64
    camera_from_ego: F64
    size_px: tuple[int, int]


@dataclass(frozen=True)
class SceneTrack:
    """One scene at its K key frames (nominally 2 Hz), world frame.

    Attributes:
        name: Scene name, e.g. "scene-0103".
        location: e.g. "boston-seaport".
        map_file: Drivable-area mask relative to the dataroot.
        tokens: K sample tokens.
        t_us: int64 (K,).
        pose_world: float64 (K, 3), ego_pose of LIDAR_TOP (rear axle).
        agents: Everything annotated over the K key frames.
        frames: K front-camera frames.
        files: Per key frame, channel -> file relative to the dataroot.
        lidar_ego: Pose [x_m, y_m, yaw_rad] of LIDAR_TOP on the car; its x axis points to the right.
    """

    name: str
    location: str
    map_file: str
    tokens: tuple[str, ...]
    t_us: Any
    pose_world: F64
    agents: AgentTracks
    frames: tuple[CameraFrame, ...]
    files: tuple[Mapping[str, str], ...]
    lidar_ego: tuple[float, float, float] = (0.943713, 0.0, -np.pi / 2)


def check_request(dataroot: str | Path, version: str, split: str | None) -> str:
    """Refuse a wrong dataroot, version or split before anything heavy is imported; returns the split to use.

    Raises:
        UserError: Names what is wrong and what is there.
    """
    root = Path(dataroot)
    if not root.is_dir():
        raise UserError(
            f"--dataroot {root}: no such folder; give the folder that holds v1.0-mini or v1.0-trainval"
        )
    if version not in SPLITS:
        near = get_close_matches(version, SPLITS, 1)
        raise UserError(f"--version {version}: must be one of {', '.join(SPLITS)}{_hint(near)}")
    if not (root / version).is_dir():
        there = [v for v in SPLITS if (root / v).is_dir()]
        found = f"it has {', '.join(there)}" if there else "no nuScenes tables there"
        raise UserError(f"--dataroot {root}: no folder {version} in it ({found})")
    chosen = split or DEFAULT_SPLIT[version]
    if chosen not in SPLITS[version]:
        near = get_close_matches(chosen, SPLITS[version], 1)
        raise UserError(f"--split {chosen}: {version} has {', '.join(SPLITS[version])}{_hint(near)}")
    return chosen


def split_scenes(nusc: "NuScenes", split: str) -> tuple[str, ...]:
    """Names of the scenes of an official split (or "all") that are in these tables, sorted."""
    from nuscenes.utils.splits import create_splits_scenes

    here = {s["name"] for s in nusc.scene}
    return tuple(sorted(here if split == "all" else here & set(create_splits_scenes()[split])))


def open_tables(dataroot: str | Path, version: str) -> "NuScenes":
    """Load and check the tables (seconds for mini, minutes for trainval).

    Raises:
        UserError: A table is missing, damaged, or refers to what is not there.
    """
    from drive.logs.nuscenes_rows import devkit, read_tables

    tables = read_tables(Path(dataroot) / version)
    opened: NuScenes = devkit(Path(dataroot), version, tables)
    opened.map_files = {log: row["filename"] for row in tables.get("map", ()) for log in row["log_tokens"]}
    return opened


def read_scenes(nusc: "NuScenes", names: Sequence[str]) -> tuple[SceneTrack, ...]:
    """Read scenes by name, in the order given.

    Raises:
        UserError: A scene lacks a key frame of the lidar or the front camera, its time does not increase, or
            a pose is not finite: numbers against such a scene would mean nothing.
    """
    by_name = {s["name"]: s for s in nusc.scene}
    return tuple(_read_scene(nusc, by_name[name]) for name in names)


def missing_files(scenes: Sequence[SceneTrack], dataroot: str | Path) -> dict[str, tuple[int, int]]:
    """Channel -> (missing, expected) sensor files of the scenes' key frames, sorted by channel."""
    root = Path(dataroot)
    counts: dict[str, tuple[int, int]] = {}
    for scene in scenes:
        for files in scene.files:
            for channel, file in files.items():
                absent, expected = counts.get(channel, (0, 0))
                counts[channel] = (absent + (not (root / file).is_file()), expected + 1)
    return dict(sorted(counts.items()))


def yaw_of(rotation: Sequence[float]) -> float:
    """Heading of a quaternion (w, x, y, z): direction of the rotated x axis in the plane [rad]."""
    w, x, y, z = rotation
    return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))


def kind_of(category: str) -> AgentKind | None:
    """Class of a nuScenes category (barriers, cones and debris are OBSTACLE); None for animals."""
    return next((kind for prefix, kind in _KINDS if category.startswith(prefix)), None)


def _read_scene(nusc: "NuScenes", scene: Mapping[str, Any]) -> SceneTrack:
    samples = []
    token = scene["first_sample_token"]
    while token:
        samples.append(nusc.get("sample", token))
        token = samples[-1]["next"]
    for k, sample in enumerate(samples):
        absent = [c for c in (POSE_CHANNEL, CAMERA_CHANNEL) if c not in sample["data"]]
        if absent:
            raise _unusable(nusc, scene, k, f"has no {' and no '.join(absent)}")
    track = SceneTrack(
        name=scene["name"],
        location=nusc.get("log", scene["log_token"])["location"],
        map_file=nusc.map_files.get(scene["log_token"], ""),
        tokens=tuple(s["token"] for s in samples),
        t_us=np.array([s["timestamp"] for s in samples], np.int64),
        pose_world=np.array([_ego_pose(nusc, s) for s in samples], np.float64),
        agents=_read_agents(nusc, samples),
        frames=tuple(_camera_frame(nusc, s) for s in samples),
        files=tuple(
            {channel: nusc.get("sample_data", t)["filename"] for channel, t in s["data"].items()}
            for s in samples
        ),
        lidar_ego=_lidar_pose(nusc, samples[0]),
    )
    for bad, what in (
        (np.append(False, np.diff(track.t_us) <= 0), "is not later than the one before"),
        (~np.isfinite(track.pose_world).all(1), "has an ego pose that is not finite"),
        (~np.isfinite(track.agents.pose_world).all((0, 2)), "has a box that is not finite"),
    ):
        if bad.any():
            raise _unusable(nusc, scene, int(bad.argmax()), what)
    return track


def _unusable(nusc: "NuScenes", scene: Mapping[str, Any], k: int, what: str) -> UserError:
    where = f"{nusc.table_root}: {scene['name']}: key frame {k}"
    return UserError(f"{where} {what}; `drive check {nusc.dataroot}` lists all faults")


def _ego_pose(nusc: "NuScenes", sample: Mapping[str, Any]) -> tuple[float, float, float]:
    record = nusc.get("ego_pose", nusc.get("sample_data", sample["data"][POSE_CHANNEL])["ego_pose_token"])
    return record["translation"][0], record["translation"][1], yaw_of(record["rotation"])


def _lidar_pose(nusc: "NuScenes", sample: Mapping[str, Any]) -> tuple[float, float, float]:
    data = nusc.get("sample_data", sample["data"][POSE_CHANNEL])
    mount = nusc.get("calibrated_sensor", data["calibrated_sensor_token"])
    return mount["translation"][0], mount["translation"][1], yaw_of(mount["rotation"])


def _camera_frame(nusc: "NuScenes", sample: Mapping[str, Any]) -> CameraFrame:
    data = nusc.get("sample_data", sample["data"][CAMERA_CHANNEL])
    mount = nusc.get("calibrated_sensor", data["calibrated_sensor_token"])
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
    return CameraFrame(
        data["filename"], intrinsics, camera_from_ego, (int(data["width"]), int(data["height"]))
    )


def _read_agents(nusc: "NuScenes", samples: Sequence[Mapping[str, Any]]) -> AgentTracks:
    rows: dict[str, int] = {}
    kinds: list[int] = []
    sizes: list[tuple[float, float]] = []
    cells: list[tuple[int, int, tuple[float, float, float]]] = []
    for k, sample in enumerate(samples):
        for token in sample["anns"]:
            box = nusc.get("sample_annotation", token)
            kind = kind_of(box["category_name"])
            if kind is None:
                continue
            row = rows.setdefault(box["instance_token"], len(rows))
            if row == len(kinds):
                kinds.append(int(kind))
                sizes.append((box["size"][1], box["size"][0]))
            cells.append((row, k, (box["translation"][0], box["translation"][1], yaw_of(box["rotation"]))))
    pose, valid = np.zeros((len(rows), len(samples), 3)), np.zeros((len(rows), len(samples)), bool)
    for row, k, value in cells:
        pose[row, k], valid[row, k] = value, True
    return AgentTracks(
        ids=np.arange(len(rows), dtype=np.int32),
        kind=np.array(kinds, np.int32),
        size_m=np.array(sizes, np.float32).reshape(-1, 2),
        pose_world=pose,
        speed_mps=np.zeros(valid.shape, np.float32),
        valid=valid,
    )


def _hint(near: Sequence[str]) -> str:
    return f"; did you mean {near[0]}?" if near else ""
