"""Log sources of a night: "nuscenes:FOLDER" (to convert) and "py123d:FOLDER" (converted already)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drive.contracts import UserError
from drive.files import sha256_json

KINDS = ("nuscenes", "py123d")


@dataclass(frozen=True)
class LogSource:
    """One --logs argument: kind, folder and, for nuScenes, the table version."""

    kind: str
    folder: Path
    version: str = ""

    @property
    def name(self) -> str:
        """Readable name without the path."""
        return f"{self.kind} {self.version}".strip()


def parse_source(text: str) -> LogSource:
    """Read "nuscenes:FOLDER", "nuscenes:FOLDER@v1.0-mini" or "py123d:FOLDER".

    Raises:
        UserError: Unknown kind, no such folder, or a nuScenes version that is absent or ambiguous.
    """
    kind, _, rest = text.partition(":")
    if not rest or kind not in KINDS:
        raise UserError(f"--logs {text!r}: write {' or '.join(f'{k}:FOLDER' for k in KINDS)}")
    place, _, version = rest.partition("@") if kind == "nuscenes" else (rest, "", "")
    folder = Path(place)
    if not place or not folder.is_dir():
        raise UserError(f"--logs {text!r}: {place!r} is not a folder; give the data set's root")
    if kind == "py123d":
        return LogSource(kind, folder)
    versions = sorted(p.parent.name for p in folder.glob("v1.0-*/scene.json"))
    if not versions:
        raise UserError(
            f"--logs {text!r}: no nuScenes tables (v1.0-*/scene.json) in {folder}; give the data set's root"
        )
    if version and version not in versions:
        raise UserError(
            f"--logs {text!r}: no tables of {version} in {folder}; there is: {', '.join(versions) or 'none'}"
        )
    if not version and len(versions) != 1:
        raise UserError(f"--logs {text!r}: has {', '.join(versions)}; name one as nuscenes:{folder}@VERSION")
    return LogSource(kind, folder, version or versions[0])


def fingerprint(source: LogSource) -> str:
    """Hash of what a source holds (names and sizes, not the path): a moved folder is the same source."""
    pattern = f"{source.version}/*.json" if source.kind == "nuscenes" else "**/sync.arrow"
    files = sorted(
        (p.relative_to(source.folder).as_posix(), p.stat().st_size) for p in source.folder.glob(pattern)
    )
    return sha256_json([source.kind, source.version, files])[:12]


def ingest(source: LogSource, out: Path) -> tuple[Path, Mapping[str, Any]]:
    """Make a source readable; returns its log folder and counts for the report.

    nuScenes is converted into `out`, an interrupted conversion continues; py123d logs are used where they
    lie.
    """
    if source.kind == "py123d":
        from drive.logs import list_drives

        drives = list_drives(source.folder)
        return source.folder.resolve(), {"source": source.name, "scenes": len(drives)}
    from drive.logs import ingest_nuscenes

    report = ingest_nuscenes(source.folder, source.version, out)
    present, declared = report.sensor_files
    return out, {
        "source": source.name,
        "scenes": len(report.scenes),
        "samples": report.samples,
        "boxes": report.boxes,
        "sensor_files_present": present,
        "sensor_files_declared": declared,
        "without_can_bus": list(report.without_can_bus),
        "map_expansion": report.map_expansion,
    }
