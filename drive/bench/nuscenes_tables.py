"""nuScenes tables: what is asked for, which scenes are there, and one SceneTrack of arrays per scene."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from drive.contracts import F64, AgentKind, AgentTracks, UserError

POSE_CHANNEL = "LIDAR_TOP"
CAMERA_CHANNEL = "CAM_FRONT"
LARGE = ("ego_pose", "sample_annotation", "sample_data")
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
        measured: float64 (K, 3), speed [m/s], acceleration [m/s2] and yaw rate [rad/s] of the CAN bus; NaN
            where there was no message, None without one.
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
    measured: F64 | None = None


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


@dataclass(frozen=True)
class Tables:
    """The small tables of one version; the large ones are read row by row.

    Attributes:
        folder: Of the version.
        rows: Table -> token -> row.
        channel: Calibration token -> channel.
        kind: Instance token -> AgentKind, None for animals.
        map_files: Log token -> drivable-area mask.
    """

    folder: Path
    rows: Mapping[str, Mapping[str, Mapping[str, Any]]]
    channel: Mapping[str, str]
    kind: Mapping[str, AgentKind | None]
    map_files: Mapping[str, str]


def split_scenes(tables: Tables, split: str) -> tuple[str, ...]:
    """Names of the scenes of an official split (or "all") that are in these tables, sorted."""
    from nuscenes.utils.splits import create_splits_scenes

    here = {s["name"] for s in tables.rows["scene"].values()}
    return tuple(sorted(here if split == "all" else here & set(create_splits_scenes()[split])))


def open_tables(dataroot: str | Path, version: str) -> Tables:
    """Load and check the small tables.

    Raises:
        UserError: A table is missing, damaged, or refers to what is not there.
    """
    from drive.logs.nuscenes_rows import SCHEMA, read_tables

    folder = Path(dataroot) / version
    lists = read_tables(folder, [name for name in SCHEMA if name not in LARGE])
    rows = {name: {row["token"]: row for row in table} for name, table in lists.items()}
    kinds = {token: kind_of(row["name"]) for token, row in rows["category"].items()}
    return Tables(
        folder=folder,
        rows=rows,
        channel={
            token: rows["sensor"][row["sensor_token"]]["channel"]
            for token, row in rows["calibrated_sensor"].items()
        },
        kind={token: kinds[row["category_token"]] for token, row in rows["instance"].items()},
        map_files={log: row["filename"] for row in lists.get("map", ()) for log in row["log_tokens"]},
    )


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


def _hint(near: Sequence[str]) -> str:
    return f"; did you mean {near[0]}?" if near else ""
