"""Identity of a night: its folder, its key, and whether it is already finished."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date as calendar_date
from pathlib import Path
from typing import Any

from data_engine.config import NightlyConfig
from data_engine.sources import LogSource, fingerprint
from drive.config import config_dict, dump_config, load_config
from drive.contracts import UserError
from drive.files import read_object, sha256_json, write_json

IDENTITY, SUMMARY, CONFIG, REPORT = "night.json", "summary.json", "config.yaml", "report.html"
NIGHTS = "nightly"


@dataclass(frozen=True)
class Night:
    """One night: what is run, where, and on which seed.

    Attributes:
        date: "YYYY-MM-DD".
        key: Hash of date, config and log sources; the same key means the same night.
        folder: `<workspace>/nightly/<date>`, with a suffix -2, -3, ... for other inputs on the same date.
        config: Settings.
        sources: Logs to ingest.
    """

    date: str
    key: str
    folder: Path
    config: NightlyConfig
    sources: tuple[LogSource, ...]

    @property
    def workspace(self) -> Path:
        """Folder of the registry and of all nights."""
        return Path(self.config.workspace)

    @property
    def seed(self) -> int:
        """Seed of everything random tonight: the date as a number."""
        return int(self.date.replace("-", ""))

    def start(self) -> None:
        """Make the folder and write down which night it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / IDENTITY).exists():
            write_json(self.folder / IDENTITY, {"date": self.date, "key": self.key})
            dump_config(self.config, self.folder / CONFIG)

    def summary(self) -> dict[str, Any] | None:
        """Summary of a finished night, None while it is not finished."""
        path = self.folder / SUMMARY
        return read_object(path, "decision") if path.exists() else None


def find_night(config: NightlyConfig, date: str, sources: Sequence[LogSource]) -> Night:
    """The night with these inputs: a folder that is there already, or the next free name. Makes nothing."""
    checked = _checked_date(date)
    prints = [fingerprint(source) for source in sources]
    settings = config_dict(replace(config, workspace="", logs=()))
    key = sha256_json({"date": checked, "config": settings, "logs": prints})[:16]
    root = Path(config.workspace) / NIGHTS
    folder, number = root / checked, 1
    while (folder / IDENTITY).exists() and read_object(folder / IDENTITY, "key")["key"] != key:
        number += 1
        folder = root / f"{checked}-{number}"
    return Night(checked, key, folder, config, tuple(sources))


def earlier_nights(night: Night, limit: int) -> list[Path]:
    """Folders of the latest `limit` finished nights before this one, oldest first."""
    root = night.workspace / NIGHTS
    if not root.is_dir():
        return []
    here = _order(night.folder.name)
    found = [p for p in root.iterdir() if (p / SUMMARY).exists() and _order(p.name) < here]
    return sorted(found, key=lambda p: _order(p.name))[-limit:] if limit else []


def in_order(folders: Sequence[Path]) -> list[Path]:
    """Night folders, oldest first; the second of one date after the first."""
    return sorted(folders, key=lambda p: _order(p.name))


def latest_night(workspace: Path) -> Path | None:
    """Folder of the newest finished night."""
    found = finished_nights(workspace)
    return found[-1] if found else None


def finished_nights(workspace: Path) -> list[Path]:
    """Folders of all finished nights, oldest first."""
    root = workspace / NIGHTS
    return in_order([p for p in root.iterdir() if (p / SUMMARY).exists()] if root.is_dir() else [])


def _order(name: str) -> tuple[str, int]:
    suffix = name[11:]
    return name[:10], int(suffix) if suffix.isdigit() else 1


def _checked_date(date: str) -> str:
    try:
        return calendar_date.fromisoformat(date).isoformat()
    except ValueError:
        raise UserError(f"--date {date!r}: not a date; write YYYY-MM-DD") from None


def open_night(folder: Path) -> Night:
    """A night from its own folder: settings as they were resolved then."""
    identity = read_object(folder / IDENTITY, "date", "key")
    config = load_config(NightlyConfig, folder / CONFIG)
    config = replace(config, workspace=str(folder.parent.parent))
    return Night(identity["date"], identity["key"], folder, config, ())
