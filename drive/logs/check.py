"""Checks a folder of logs, or raw nuScenes tables, before any work starts on them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from drive.contracts import I64, U8, UserError
from drive.logs import columns, nuscenes_tables
from drive.logs.faults import Fault, find_faults
from drive.logs.ingest import count_boxes
from drive.logs.layout import BOXES, CAMERA_KEYS, EGO, PLAN, SCENE, SOURCE, SYNC, log_folders
from drive.logs.reader import read_drive
from drive.progress import Progress

CHANNEL_OF_KEY = {
    EGO: "ego",
    BOXES: "agents",
    PLAN: "plans",
    **{key: name for name, key in CAMERA_KEYS.items()},
}
KEY_OF_CHANNEL = {channel: key for key, channel in CHANNEL_OF_KEY.items()}


@dataclass(frozen=True)
class LogCheck:
    """One log: channel -> (stored, declared) rows; for sensors of a raw dataset, files."""

    log_id: str
    channels: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class CheckReport:
    """What a check found.

    Attributes:
        root: What was checked.
        kind: "logs" or "nuscenes <version>".
        logs: One entry a log or scene.
        faults: What must be mended or left out, missing files first.
        notes: What is tolerated (no CAN bus, no map expansion, first frames without history).
    """

    root: str
    kind: str
    logs: tuple[LogCheck, ...]
    faults: tuple[Fault, ...]
    notes: tuple[Fault, ...]

    @property
    def clean(self) -> bool:
        """No faults."""
        return not self.faults


def check_logs(root: Path) -> CheckReport:
    """Check every log below `root`, or every scene if `root` is a raw nuScenes folder.

    Looks for: missing and damaged files, rows stored against rows declared, clocks that run backwards, repeat
    or pause, non-finite values, jumps, speeds that contradict poses, CAN-bus gaps, and images that are
    truncated, black or frozen. A fault names the file and the row.

    Raises:
        UserError: `root` is not a folder or holds no logs.
    """
    root = Path(root)
    versions = nuscenes_tables.versions(root) if root.is_dir() else []
    if versions:
        from drive.logs.check_tables import check_tables

        logs, faults = check_tables(root, versions)
        kind = f"nuscenes {', '.join(versions)}"
    else:
        logs, faults = _check_folders(root)
        kind = "logs"
    missing = [fault for fault in faults if fault.kind == "missing_files"]
    others = [fault for fault in faults if fault.kind != "missing_files" and fault.level == "fault"]
    notes = [fault for fault in faults if fault.level == "note"]
    return CheckReport(str(root), kind, tuple(logs), tuple(missing + others), tuple(notes))


def _check_folders(root: Path) -> tuple[list[LogCheck], list[Fault]]:
    folders = log_folders(root)
    halves = {p.parent for p in root.glob("*/*/*.arrow") if not p.parent.name.startswith(".")} - set(folders)
    if not folders and not halves:
        raise UserError(f"{root}: holds no logs (<split>/<log>/*.arrow) and no nuScenes tables (v1.0-*)")
    logs, faults = (
        [],
        [_whole(f, SYNC, "missing_channel", "no frame table: half a log") for f in sorted(halves)],
    )
    with Progress("check", len(folders), "logs") as bar:
        for folder in folders:
            log, found = check_log(folder)
            logs.append(log)
            faults += found
            bar.advance(note=folder.name)
    return logs, faults


def check_log(folder: Path) -> tuple[LogCheck, list[Fault]]:
    """Check one log's files; faults carry file and row."""
    try:
        with columns.damage_named(folder):
            return _check_log(folder)
    except UserError as error:
        return LogCheck(folder.name, {}), [_whole(folder, SYNC, "unreadable", str(error))]


def _check_log(folder: Path) -> tuple[LogCheck, list[Fault]]:
    tables, faults = {}, []
    images: dict[str, U8 | None] = {}
    for path in sorted(folder.glob("*.arrow")):
        try:
            tables[path.stem] = columns.open_table(path)
        except UserError as error:
            faults.append(_whole(folder, path.stem, "damaged_file", str(error)))
    damaged = {KEY_OF_CHANNEL.get(fault.channel, fault.channel) for fault in faults}
    for key, table in tables.items():
        if key not in (EGO, SYNC) and "timestamp_us" in table.column_names:
            faults += clock_faults(folder, key, columns.times_us(table))
        if key.startswith("camera."):
            images[CHANNEL_OF_KEY.get(key, key)], found = _decode_all(folder, key, table)
            faults += found
    stored = {key: int(table.num_rows) for key, table in tables.items()}
    declared = _declared(folder, stored)
    for key, count in declared.items():
        if key not in damaged and stored.get(key, 0) != count:
            kind = "row_count" if key in stored else "missing_channel"
            faults.append(_whole(folder, key, kind, f"{stored.get(key, 0)} of {count} declared rows"))
    faults += _source_faults(folder, tables)
    if not any(fault.kind in ("damaged_file", "missing_channel") for fault in faults):
        faults += _drive_faults(folder, images)
    counts = {
        CHANNEL_OF_KEY.get(key, key): (stored.get(key, 0), declared.get(key, stored.get(key, 0)))
        for key in sorted(stored.keys() | declared.keys())
    }
    return LogCheck(folder.name, counts), faults


def _whole(folder: Path, key: str, kind: str, detail: str) -> Fault:
    return _at_row(folder, key, kind, -1, (-1, -1), detail)


def _at_row(folder: Path, key: str, kind: str, row: int, span: tuple[int, int], detail: str) -> Fault:
    channel, file = CHANNEL_OF_KEY.get(key, key), str(folder / f"{key}.arrow")
    return Fault(kind, channel, row, *span, detail, folder.name, file)


def _declared(folder: Path, stored: Mapping[str, int]) -> dict[str, int]:
    """Rows each modality should have: as the recorder noted them, else as the frame table implies."""
    if SCENE in stored:
        about = columns.read_metadata(folder / f"{SCENE}.arrow")["metadata"]
        images = {CAMERA_KEYS[name]: count for name, count in about["images"].items()}
        plans = {PLAN: about["plans"]} if about["plans"] else {}
        return {SYNC: about["steps"], EGO: about["steps"], BOXES: about["steps"], **plans, **images}
    if SOURCE in stored:
        samples = columns.read_metadata(folder / f"{SOURCE}.arrow")["metadata"]["samples"]
        return {SYNC: samples, EGO: samples, BOXES: samples}
    if SYNC not in stored:
        return {}
    sensors = [key for key in stored if key.startswith(("camera.", "lidar."))]  # may run faster than frames
    return {EGO: stored.get(EGO, stored[SYNC]), **{key: max(stored[key], stored[SYNC]) for key in sensors}}


def clock_faults(folder: Path, key: str, t_us: I64) -> list[Fault]:
    """Rows whose time stamp runs backwards or repeats."""
    step, out = np.diff(t_us), []
    for kind, bad in (("time_backwards", step < 0), ("time_repeated", step == 0)):
        for row in np.flatnonzero(bad) + 1:
            span = int(min(t_us[row - 1], t_us[row])), int(max(t_us[row - 1], t_us[row]))
            out.append(_at_row(folder, key, kind, int(row), span, f"{step[row - 1]} us after the row before"))
    return out


def _decode_all(folder: Path, key: str, table: Any) -> tuple[U8 | None, list[Fault]]:
    """Images stored in a log, None unless all are whole, and faults of those that are not.

    Images that the log only refers to are the dataset's business.
    """
    times, out = columns.times_us(table), []
    raws = [value.as_py() for value in table["data"]]
    images = [None if isinstance(raw, str) else decode_strictly(raw or b"") for raw in raws]
    shapes = Counter(image.shape for image in images if image is not None)
    usual = shapes.most_common(1)[0][0] if shapes else None
    for row, (raw, image) in enumerate(zip(raws, images, strict=True)):
        if isinstance(raw, str) or (image is not None and image.shape == usual):
            continue
        kind, what = "truncated_image", "cannot be decoded"
        if image is not None:
            kind, what = "foreign_size", f"is {image.shape}, not {usual}"
        span = int(times[row]), int(times[row])
        out.append(_at_row(folder, key, kind, row, span, f"image {what}"))
    whole = [image for image in images if image is not None]
    return (np.stack(whole) if whole and len(whole) == len(times) and not out else None), out


def decode_strictly(raw: bytes) -> U8 | None:
    """Decode a PNG or JPEG; None if it is damaged or cut short (OpenCV would fill the rest)."""
    if raw.startswith(b"\x89PNG") and not raw.endswith(b"IEND\xaeB`\x82"):
        return None
    if raw.startswith(b"\xff\xd8") and not raw.rstrip(b"\x00").endswith(b"\xff\xd9"):
        return None
    image = cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_COLOR) if raw else None
    return None if image is None else np.asarray(image, np.uint8)


def _source_faults(folder: Path, tables: Mapping[str, Any]) -> list[Fault]:
    """What our ingest noted of a dataset's log, against what the log holds now."""
    if SOURCE not in tables:
        return []
    source = columns.read_metadata(folder / f"{SOURCE}.arrow")["metadata"]
    out = [
        Fault("missing_files", channel, -1, -1, -1, files["gap"], folder.name, source["dataroot"])
        for channel, files in source["sensor_files"].items()
        if files["gap"]
    ]
    if BOXES in tables and (boxes := count_boxes(folder)) != source["boxes"]:
        out.append(_whole(folder, BOXES, "row_count", f"{boxes} of {source['boxes']} declared boxes"))
    if not source["can_bus"]:
        out.append(no_can_bus(folder.name))
    elif EGO in tables:
        motion, times = (
            columns.fixed_width(tables[EGO]["dynamic_state_se3"], 9),
            columns.times_us(tables[EGO]),
        )
        for row in np.flatnonzero(~(np.isfinite(motion).all(1) & (motion != 0).any(1))):
            span = int(times[row]), int(times[row])
            out.append(_at_row(folder, EGO, "can_bus_gap", int(row), span, "no CAN message near this frame"))
    return out


def no_can_bus(log_id: str) -> Fault:
    """Note that a log carries no measured ego motion."""
    detail = "no CAN bus: ego speed comes from earlier poses"
    return Fault("no_can_bus", "ego", -1, -1, -1, detail, log_id, level="note")


def _drive_faults(folder: Path, images: Mapping[str, U8 | None]) -> list[Fault]:
    """Faults of the drive as a whole, with those images that match its planning steps."""
    try:
        log = read_drive(folder.parent.parent, folder.name, images=False)
    except UserError as error:
        return [_whole(folder, SYNC, "unreadable", str(error))]
    whole = {
        name: stack
        for name, stack in images.items()
        if stack is not None and len(stack) == len(log.plans.step)
    }
    log = replace(log, plans=replace(log.plans, images=whole))
    where = {channel: str(folder / f"{key}.arrow") for channel, key in KEY_OF_CHANNEL.items()}
    return [replace(fault, log_id=folder.name, file=where[fault.channel]) for fault in find_faults(log)]
