"""Samples of many drives, decoded once into a memory-mapped folder keyed by the logs' content."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from drive.contracts import I64, LogMeta, UserError
from drive.data.camera import CameraSpec
from drive.data.frames import CHANNELS
from drive.data.samples import COLUMNS, Samples, samples_of
from drive.files import new_folder, read_json, sha256_file, sha256_json, write_json
from drive.progress import track

VERSION = 3
Column = NDArray[Any]


@dataclass(frozen=True)
class DriveSource:
    """One drive in a bundle; drives of the same group (town and route) never lie on both sides of a split."""

    log_id: str
    group: str
    folder: Path


@dataclass(frozen=True)
class Bundle:
    """Samples ready for training.

    Attributes:
        samples: Images are memory-mapped.
        drives: Row `samples.drive[i]` is the drive of sample i.
        key: Hash of everything the samples depend on.
    """

    samples: Samples
    drives: tuple[DriveSource, ...]
    key: str


def find_drives(roots: Sequence[Path], exclude_towns: Sequence[str] = ()) -> list[DriveSource]:
    """Drives with images below `roots`, without the excluded (held-out) towns, in log_id order.

    Raises:
        UserError: no usable drive (says what was skipped and why), or a log_id in two roots.
    """
    from drive.logs.layout import log_folders
    from drive.logs.reader import read_meta

    found: dict[str, DriveSource] = {}
    skipped = {"held-out town": 0, "no images": 0}
    for folder in (folder for root in roots for folder in log_folders(Path(root))):
        meta = read_meta(folder)
        if meta.town in exclude_towns:
            skipped["held-out town"] += 1
        elif meta.image_kind == "none":
            skipped["no images"] += 1
        elif meta.log_id in found and found[meta.log_id].folder.resolve() == folder.resolve():
            continue  # links to one drive
        elif meta.log_id in found:
            raise UserError(
                f"{folder}: log {meta.log_id!r} is also in {found[meta.log_id].folder}; give one root only"
            )
        else:
            found[meta.log_id] = DriveSource(meta.log_id, group_of(meta), folder)
    if not found:
        where = ", ".join(str(root) for root in roots)
        why = (
            ", ".join(f"{count} with {reason}" for reason, count in skipped.items() if count)
            or "no logs there"
        )
        raise UserError(
            f"{where}: no drive to train on ({why}); record drives with `drive sim --suite collect`"
        )
    return [found[log_id] for log_id in sorted(found)]


def group_of(meta: LogMeta) -> str:
    """Unit of the train/validation split."""
    return f"{meta.town}/{meta.route}"


def load_bundle(
    drives: Sequence[DriveSource],
    camera: CameraSpec,
    cache: Path,
    select: Mapping[str, Sequence[int]] | None = None,
) -> Bundle:
    """Open the bundle of these drives, building it first if it is not in the cache.

    Args:
        drives: From `find_drives`.
        camera: View to produce.
        cache: Folder of bundles.
        select: log_id -> planning steps to take; all drives and steps by default.

    Raises:
        UserError: no usable sample, or a damaged log.
    """
    wanted, steps = _wanted(drives, select)
    key = bundle_key(drives, camera, select)
    folder = cache / key
    if not (folder / "bundle.json").exists():
        with new_folder(folder) as temp:
            _build(temp, wanted, camera, steps, key)
    return _open(folder, wanted, camera, key)


def bundle_key(
    drives: Sequence[DriveSource], camera: CameraSpec, select: Mapping[str, Sequence[int]] | None = None
) -> str:
    """Hash of everything a bundle's samples depend on: content of the logs, view, and chosen steps."""
    wanted, steps = _wanted(drives, select)
    contents = {d.log_id: content_sha(d.folder) for d in track(wanted, "hash logs", len(wanted))}
    return sha256_json([VERSION, asdict(camera), contents, steps])[:16]


def _wanted(
    drives: Sequence[DriveSource], select: Mapping[str, Sequence[int]] | None
) -> tuple[list[DriveSource], dict[str, list[int] | None]]:
    wanted = [d for d in drives if select is None or d.log_id in select]
    return wanted, {d.log_id: None if select is None else sorted(set(select[d.log_id])) for d in wanted}


def content_sha(folder: Path) -> str:
    """Hash of a log's files, names included."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(folder)} {sha256_file(path)}\n".encode())
    return digest.hexdigest()


def _build(
    temp: Path,
    drives: Sequence[DriveSource],
    camera: CameraSpec,
    steps: Mapping[str, list[int] | None],
    key: str,
) -> None:
    columns: dict[str, list[Column]] = {name: [] for name in COLUMNS}
    with (temp / "images.u8").open("wb") as file:
        for row, drive in enumerate(track(drives, "decode logs", len(drives))):
            _append(file, columns, _read(drive, row, camera, steps[drive.log_id]))
    count = sum(len(part) for part in columns["speed_mps"])
    if count == 0:
        raise UserError(
            f"{len(drives)} drives hold no sample with an image and a label; record them with an expert label"
        )
    np.savez(temp / "columns.npz", **{name: np.concatenate(parts) for name, parts in columns.items()})
    write_json(temp / "bundle.json", {"version": VERSION, "key": key, "samples": count})


def _read(drive: DriveSource, row: int, camera: CameraSpec, steps: list[int] | None) -> Samples:
    from drive.logs import read_drive

    log = read_drive(drive.folder.parents[1], drive.log_id)
    if steps and steps[-1] >= len(log.plans.step):
        raise UserError(
            f"{drive.log_id}: planning step {steps[-1]} asked for, the drive has {len(log.plans.step)}"
        )
    try:
        return samples_of(log, row, camera, steps)
    except ValueError as error:
        raise UserError(f"{error}; record drives with this camera or leave them out") from None


def _append(file: BinaryIO, columns: dict[str, list[Column]], part: Samples) -> None:
    file.write(np.ascontiguousarray(part.image).data)
    for name, parts in columns.items():
        parts.append(getattr(part, name))


def _open(folder: Path, drives: Sequence[DriveSource], camera: CameraSpec, key: str) -> Bundle:
    count = read_json(folder / "bundle.json")["samples"]
    shape = (count, camera.height_px, camera.width_px, CHANNELS)
    images = np.memmap(folder / "images.u8", np.uint8, "r", shape=shape)
    with np.load(folder / "columns.npz", allow_pickle=False) as stored:
        return Bundle(Samples(image=images, **{name: stored[name] for name in COLUMNS}), tuple(drives), key)


def held_groups(groups: Collection[str], validation_share: float, seed: int) -> set[str]:
    """The groups (town and route) that training keeps for validation; none if there is only one."""
    ranked = sorted(groups, key=lambda group: hashlib.sha256(f"{seed}/{group}".encode()).digest())
    held = set(ranked[: min(len(ranked) - 1, round(validation_share * len(ranked)))])
    return held or set(ranked[:1] if len(ranked) > 1 and validation_share > 0 else [])


def split_rows(bundle: Bundle, validation_share: float, seed: int) -> tuple[I64, I64]:
    """Rows for training and validation, split by group (town and route), never by frame.

    With a single group everything is used for training and validation is empty.
    """
    held = held_groups({drive.group for drive in bundle.drives}, validation_share, seed)
    is_held = np.array([drive.group in held for drive in bundle.drives])[bundle.samples.drive]
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)
