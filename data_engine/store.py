"""Drives from several log folders as one collection."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from drive.contracts import DriveLog, LogMeta, UserError
from drive.logs import read_drive
from drive.logs.layout import ambiguous, find_log, log_folders
from drive.logs.reader import read_meta


@dataclass(frozen=True)
class DriveRef:
    """A drive and the log folder it lies in."""

    root: Path
    meta: LogMeta

    @property
    def route(self) -> str:
        """Town and route; drives of one route by different drivers share it."""
        return route_name(self.meta)

    def read(self, images: bool = False) -> DriveLog:
        """Load the drive; images only on request."""
        return read_drive(self.root, self.meta.log_id, images=images)


def route_name(meta: LogMeta) -> str:
    """Name of the place a drive belongs to, for splits: "town/route"."""
    return f"{meta.town}/{meta.route}"


def collect(roots: Iterable[Path]) -> list[DriveRef]:
    """Drives of all folders that exist, sorted by log_id; of equal log_ids the first folder wins.

    A log whose files cannot even be identified is left out: `hygiene.screen` reports it.
    """
    found: dict[str, DriveRef] = {}
    for root in roots:
        if not root.is_dir():
            continue
        folders = log_folders(root)
        for one, other in pairwise(folders):
            if one.name == other.name:
                raise ambiguous(root, one.name, [one, other])
        for folder in folders:
            try:
                meta = read_meta(folder)
            except UserError:
                continue
            found.setdefault(meta.log_id, DriveRef(root, meta))
    return [found[key] for key in sorted(found)]


def link(refs: Iterable[DriveRef], root: Path) -> None:
    """Make `root` a log folder that shows exactly these drives: relative links, no copies."""
    for ref in refs:
        source = find_log(ref.root, ref.meta.log_id).resolve()
        place = root / source.parent.name / source.name
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(os.path.relpath(source, place.parent.resolve()), place)
