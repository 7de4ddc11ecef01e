"""Ingest: nuScenes tables, or logs that py123d has already converted, into the log store."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drive.contracts import LogMeta, UserError
from drive.files import new_folder, read_json, write_json
from drive.logs import columns
from drive.logs.layout import BOXES, CAMERA_KEYS, EGO, FORMAT, SYNC, log_folders
from drive.logs.nuscenes_tables import SceneSurvey, Survey, survey
from drive.logs.reader import list_drives
from drive.logs.recorded import source_metadata
from drive.progress import Progress

SPLITS = {"v1.0-mini": "nuscenes-mini", "v1.0-trainval": "nuscenes", "v1.0-test": "nuscenes"}


@dataclass(frozen=True)
class SceneReport:
    """One ingested log.

    Attributes:
        log_id: Name of the log, for nuScenes the scene's name.
        split: Folder below the root.
        samples, boxes: What the log now holds, counted in its files.
        declared_samples, declared_boxes: What the source's tables say.
        sensor_files: Channel -> (present, declared).
        can_bus: Measured ego motion was there.
        non_finite: Ego poses and boxes that are NaN or infinite; they stay in the log, where `find_faults`
            names them and mining leaves them out.
    """

    log_id: str
    split: str
    samples: int
    boxes: int
    declared_samples: int
    declared_boxes: int
    sensor_files: Mapping[str, tuple[int, int]]
    can_bus: bool
    non_finite: int = 0

    @property
    def complete(self) -> bool:
        """Everything declared arrived, as finite numbers."""
        arrived = (self.samples, self.boxes) == (self.declared_samples, self.declared_boxes)
        return arrived and not self.non_finite


@dataclass(frozen=True)
class IngestReport:
    """What one ingest brought.

    Attributes:
        dataset, version, dataroot: The source.
        out_root: Root of logs, for `read_drive`.
        scenes: One entry a log.
        map_expansion: Vector maps were there.
        absent_tables: Optional tables that were not there.
        converted: Logs written by this call; the others were there already.
        key: Hash of the source.
    """

    dataset: str
    version: str
    dataroot: str
    out_root: str
    scenes: tuple[SceneReport, ...]
    map_expansion: bool
    absent_tables: tuple[str, ...]
    converted: int
    key: str

    @property
    def samples(self) -> int:
        """Key frames over all logs."""
        return sum(scene.samples for scene in self.scenes)

    @property
    def boxes(self) -> int:
        """Boxes over all logs."""
        return sum(scene.boxes for scene in self.scenes)

    @property
    def sensor_files(self) -> tuple[int, int]:
        """(present, declared) sensor files over all logs."""
        pairs = [pair for scene in self.scenes for pair in scene.sensor_files.values()]
        return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)

    @property
    def without_can_bus(self) -> tuple[str, ...]:
        """Logs whose ego motion comes from pose differences."""
        return tuple(scene.log_id for scene in self.scenes if not scene.can_bus)


def ingest_nuscenes(dataroot: Path, version: str, out_root: Path) -> IngestReport:
    """Convert nuScenes key frames to py123d logs `out_root/<split>/<scene name>/`.

    Missing sensor files, CAN-bus messages and map expansion are tolerated and reported; images and point
    clouds stay where they are and the logs refer to them. A scene appears whole or not at all; scenes that
    are there already from the same tables and files are kept, so an interrupted ingest resumes and a repeated
    one is quick.

    Args:
        dataroot: Folder with the version's table folder, samples/, can_bus/, maps/.
        version: Table folder, e.g. "v1.0-mini".
        out_root: Root of logs; made if absent.

    Raises:
        UserError: wrong folder, unknown version, missing, damaged or inconsistent tables, or the root holds
            scenes of these names from another version.
    """
    dataroot, out_root = Path(dataroot).resolve(), Path(out_root).resolve()
    found = survey(dataroot, version)
    folders = _current_folders(found, out_root)
    todo = [scene for scene in found.scenes if scene.name not in folders]
    if todo:
        splits = _split_of_scene(found)
        folders |= {scene.name: out_root / splits[scene.name] / scene.name for scene in todo}
        _check_foreign(out_root, {scene.name: folders[scene.name] for scene in todo})
        _convert(found, todo, folders)
    report = IngestReport(
        dataset="nuscenes",
        version=version,
        dataroot=str(dataroot),
        out_root=str(out_root),
        scenes=tuple(_scene_report(scene, folders[scene.name]) for scene in found.scenes),
        map_expansion=found.map_expansion,
        absent_tables=found.absent,
        converted=len(todo),
        key=found.key,
    )
    write_json(out_root / f"nuscenes_{version}.ingest.json", report)
    return report


def ingest_py123d(root: Path) -> IngestReport:
    """Take stock of logs that py123d has converted below `root`; they are used where they are.

    Raises:
        UserError: no logs below `root`, one is damaged or has no frames, or two have one name.
    """
    root = Path(root).resolve()
    folders = log_folders(root)
    if not folders:
        raise UserError(
            f"{root}: no py123d logs (<split>/<log>/sync.arrow); convert a dataset with py123d first"
        )
    metas = list_drives(root)
    scenes = []
    for meta, folder in zip(metas, folders, strict=True):
        with columns.damage_named(folder):
            scenes.append(_taken(meta, folder))
    datasets = sorted({meta.dataset for meta in metas})
    return IngestReport("+".join(datasets), "py123d", str(root), str(root), tuple(scenes), False, (), 0, "")


def _taken(meta: LogMeta, folder: Path) -> SceneReport:
    frames, boxes, non_finite = _counts(folder)
    if not frames:
        raise UserError(f"{folder}: has no frames; convert this log again")
    cameras = {}
    for name, key in CAMERA_KEYS.items():
        if (folder / f"{key}.arrow").exists():
            cameras[name] = (min(frames, columns.row_count(folder / f"{key}.arrow")), frames)
    measured = meta.simulator != "real world" or bool(source_metadata(folder).get("can_bus"))
    split = folder.parent.name
    return SceneReport(meta.log_id, split, frames, boxes, frames, boxes, cameras, measured, non_finite)


def read_report(path: Path) -> IngestReport:
    """Read back the report that an ingest left as `<out_root>/nuscenes_<version>.ingest.json`."""
    raw = read_json(path)
    scenes = tuple(
        SceneReport(**{**scene, "sensor_files": {k: tuple(v) for k, v in scene["sensor_files"].items()}})
        for scene in raw.pop("scenes")
    )
    return IngestReport(**{**raw, "absent_tables": tuple(raw["absent_tables"])}, scenes=scenes)


def count_boxes(folder: Path) -> int:
    """Boxes over all frames of a log."""
    path = folder / f"{BOXES}.arrow"
    if not path.exists():
        return 0
    tokens = columns.open_table(path)["track_token"]
    return sum(len(chunk.flatten()) for chunk in tokens.chunks)


def _counts(folder: Path) -> tuple[int, int, int]:
    """Frames and boxes of a log, and how many ego poses and boxes are NaN or infinite."""
    lost = 0
    for key, column, width in ((EGO, "imu_se3", 7), (BOXES, "bounding_box_se3", 10)):
        path = folder / f"{key}.arrow"
        for chunk in columns.open_table(path)[column].chunks if path.exists() else []:
            poses = columns.fixed_width(chunk if key == EGO else chunk.flatten(), width)
            lost += int((~np.isfinite(poses).all(1)).sum())
    return columns.row_count(folder / f"{SYNC}.arrow"), count_boxes(folder), lost


def _check_foreign(out_root: Path, folders: Mapping[str, Path]) -> None:
    """Logs are found by name, so a root with two logs of one name could not be read."""
    for folder in log_folders(out_root) if out_root.is_dir() else []:
        if folder.name in folders and folder != folders[folder.name]:
            raise UserError(
                f"{folder}: is from another version; keep each version in its own root (--out), or delete it"
            )


def _current_folders(found: Survey, out_root: Path) -> dict[str, Path]:
    """Scenes that are there already, from the same tables, files and format; without importing the devkit."""
    names, out = {scene.name for scene in found.scenes}, {}
    for folder in log_folders(out_root) if out_root.is_dir() else []:
        if folder.name in names and _is_current(folder, found.key):
            out[folder.name] = folder
    return out


def _is_current(folder: Path, key: str) -> bool:
    """Is this log from the source with this key?  A damaged one is not: it is converted again."""
    try:
        with columns.damage_named(folder):
            source = source_metadata(folder)
            return (source.get("key"), source.get("format")) == (key, FORMAT) and _counts(folder)[0] > 0
    except UserError:
        return False


def _scene_report(scene: SceneSurvey, folder: Path) -> SceneReport:
    samples, boxes, non_finite = _counts(folder)
    return SceneReport(
        log_id=scene.name,
        split=folder.parent.name,
        samples=samples,
        boxes=boxes,
        declared_samples=len(scene.sample_t_us),
        declared_boxes=scene.boxes,
        sensor_files={name: (c.present, c.declared) for name, c in scene.channels.items()},
        can_bus=scene.can_bus,
        non_finite=non_finite,
    )


def _split_of_scene(found: Survey) -> dict[str, str]:
    """Folder of each scene by nuScenes' official splits; scenes of other versions count as training."""
    name = SPLITS.get(found.version, f"nuscenes-{found.version.removeprefix('v1.0-')}")
    part = {"v1.0-mini": {"mini_val": "val"}, "v1.0-trainval": {"val": "val"}, "v1.0-test": {"test": "test"}}
    held = {
        scene: kind for split, kind in part.get(found.version, {}).items() for scene in official_split(split)
    }
    return {scene.name: f"{name}_{held.get(scene.name, 'train')}" for scene in found.scenes}


def official_split(name: str) -> list[str]:
    """Scene names of an official nuScenes split, e.g. "mini_val"."""
    from nuscenes.utils import splits

    return list(getattr(splits, name))


def _convert(found: Survey, todo: list[SceneSurvey], folders: Mapping[str, Path]) -> None:
    with Progress("ingest", len(todo), "scenes") as bar:
        from drive.logs.convert import open_tables, write_scene

        tables = open_tables(found)
        for scene in todo:
            folder = folders[scene.name]
            made = [path for path in (folder.parent, folder.parents[1]) if not path.exists()]
            try:
                with new_folder(folder) as temp:
                    write_scene(tables, found, scene, temp, folder.parent.name)
            except (LookupError, ValueError, UserError) as error:
                for path in made:
                    path.rmdir()
                if isinstance(error, UserError):
                    raise
                where = f"{found.dataroot / found.version}: {scene.name}"
                what = f"a key frame cannot be converted ({type(error).__name__}: {error})"
                raise UserError(f"{where}: {what}; check the tables' version") from error
            bar.advance(note=scene.name)
