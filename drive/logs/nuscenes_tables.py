"""Surveys nuScenes tables: what is declared, what is on disk, what is missing."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from drive.contracts import F64, I64, UserError
from drive.files import sha256_file, sha256_json
from drive.logs.nuscenes_rows import OPTIONAL, REQUIRED, Tables, read_tables

SURVEYED = ("scene", "log", "sample", "sample_data", "sample_annotation", "calibrated_sensor", "sensor")


@dataclass(frozen=True)
class Channel:
    """Sensor files of one scene and channel, relative to the data root: those declared, those not on disk."""

    files: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def declared(self) -> int:
        """Number of files the tables declare."""
        return len(self.files)

    @property
    def present(self) -> int:
        """Number of files on disk."""
        return len(self.files) - len(self.missing)

    @property
    def gap(self) -> str:
        """Readable, e.g. "38 of 39 files missing, first samples/CAM_BACK/..."; "" if none is missing."""
        first = self.missing[0] if self.missing else ""
        return f"{len(self.missing)} of {self.declared} files missing, first {first}" if first else ""


@dataclass(frozen=True)
class SceneSurvey:
    """One scene as the tables describe it."""

    name: str
    token: str
    location: str
    sample_t_us: tuple[int, ...]
    boxes: int
    channels: Mapping[str, Channel]
    can_bus: bool


@dataclass(frozen=True)
class Survey:
    """One version of a nuScenes folder.

    Attributes:
        scenes: In the order of the scene table.
        map_expansion: The vector maps are there.
        absent: Optional tables that are not there.
        key: Hash of the tables and of which sensor and CAN files exist; equal keys give equal logs.
    """

    dataroot: Path
    version: str
    scenes: tuple[SceneSurvey, ...]
    map_expansion: bool
    absent: tuple[str, ...]
    key: str

    @cached_property
    def sensor_files(self) -> tuple[int, int]:
        """(present, declared) sensor files."""
        channels = [channel for scene in self.scenes for channel in scene.channels.values()]
        return sum(channel.present for channel in channels), sum(channel.declared for channel in channels)


def versions(dataroot: Path) -> list[str]:
    """Names of the table folders below `dataroot`, e.g. ["v1.0-mini"]; empty if it is no nuScenes folder."""
    return sorted(path.parent.name for path in dataroot.glob("v*/sample.json"))


def survey(dataroot: Path, version: str, tables: Tables | None = None) -> Survey:
    """Look for every file that the tables name.

    Args:
        dataroot: Folder that holds the version's folder.
        version: E.g. "v1.0-mini".
        tables: The version's tables where they have been read; else those that are needed are read.

    Raises:
        UserError: wrong folder, unknown version, or tables that `read_tables` refuses.
    """
    folder = version_folder(dataroot, version)
    tables = tables or read_tables(folder, SURVEYED)
    on_disk = _files_below(dataroot, {os.path.dirname(row["filename"]) for row in tables["sample_data"]})
    scenes = _scenes(dataroot, tables, on_disk)
    declared = {row["filename"] for row in tables["sample_data"]}
    present = sorted(declared & on_disk) + [scene.name for scene in scenes if scene.can_bus]
    hashes = [sha256_file(folder / f"{name}.json") for name in REQUIRED]
    expansion = any((dataroot / "maps" / "expansion").glob("*.json"))
    absent = tuple(name for name in OPTIONAL if not (folder / f"{name}.json").is_file())
    return Survey(dataroot, version, scenes, expansion, absent, sha256_json([version, hashes, present]))


def version_folder(dataroot: Path, version: str) -> Path:
    """Folder of a version's tables.

    Raises:
        UserError: no such folder; says which versions are there.
    """
    if not dataroot.is_dir():
        raise UserError(
            f"{dataroot}: no such folder; give the folder that holds v1.0-mini/, samples/ and maps/"
        )
    known = versions(dataroot)
    if not (dataroot / version).is_dir():
        hint = (
            f"there is {', '.join(known)}"
            if known
            else "no nuScenes tables are here; is this the right folder?"
        )
        raise UserError(f"{dataroot}: no version {version!r}; {hint}")
    return dataroot / version


def key_frame_poses(tables: Tables) -> dict[str, tuple[I64, F64]]:
    """Scene name -> key-frame times int64 (T,) and LIDAR_TOP ego poses float64 (T, 7).

    A pose is [x y z qw qx qy qz], ego to world. Rows keep the order of the sample_data table.
    """
    poses = {row["token"]: row for row in tables["ego_pose"]}
    names = {row["token"]: row["name"] for row in tables["scene"]}
    samples = {row["token"]: row for row in tables["sample"]}
    channel_of = _channels(tables)
    out: dict[str, list[list[float]]] = {name: [] for name in names.values()}
    for row in tables["sample_data"]:
        if row["is_key_frame"] and channel_of[row["calibrated_sensor_token"]] == "LIDAR_TOP":
            sample, pose = samples[row["sample_token"]], poses[row["ego_pose_token"]]
            out[names[sample["scene_token"]]].append(
                [sample["timestamp"], *pose["translation"], *pose["rotation"]]
            )
    return {name: _times_and_poses(rows) for name, rows in out.items()}


def _times_and_poses(rows: list[list[float]]) -> tuple[I64, F64]:
    poses = np.array([row[1:] for row in rows], np.float64).reshape(-1, 7)
    return np.array([row[0] for row in rows], np.int64), poses


def _channels(tables: Tables) -> dict[str, str]:
    """Calibrated sensor's token -> channel."""
    sensors = {row["token"]: row["channel"] for row in tables["sensor"]}
    return {row["token"]: sensors[row["sensor_token"]] for row in tables["calibrated_sensor"]}


def _files_below(dataroot: Path, folders: set[str]) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        if (dataroot / folder).is_dir():
            with os.scandir(dataroot / folder) as entries:
                found.update(f"{folder}/{entry.name}" for entry in entries if entry.is_file())
    return found


def _scenes(dataroot: Path, tables: Tables, on_disk: set[str]) -> tuple[SceneSurvey, ...]:
    location = {row["token"]: row["location"] for row in tables["log"]}
    channel_of = _channels(tables)
    scene_of = {row["token"]: row["scene_token"] for row in tables["sample"]}
    boxes = Counter(scene_of[row["sample_token"]] for row in tables["sample_annotation"])
    times: dict[str, list[int]] = {row["token"]: [] for row in tables["scene"]}
    for row in tables["sample"]:
        times[row["scene_token"]].append(int(row["timestamp"]))
    declared: dict[str, dict[str, list[str]]] = {token: {} for token in times}
    for row in tables["sample_data"]:
        channels = declared[scene_of[row["sample_token"]]]
        channels.setdefault(channel_of[row["calibrated_sensor_token"]], []).append(row["filename"])
    return tuple(
        SceneSurvey(
            name=row["name"],
            token=row["token"],
            location=location[row["log_token"]],
            sample_t_us=tuple(times[row["token"]]),
            boxes=boxes[row["token"]],
            channels={
                name: Channel(tuple(files), tuple(sorted(set(files) - on_disk)))
                for name, files in sorted(declared[row["token"]].items())
            },
            can_bus=(dataroot / "can_bus" / f"{row['name']}_pose.json").is_file(),
        )
        for row in tables["scene"]
    )
