"""Where a log lies on disk: `root/<split>/<log_id>/<modality>.arrow`, as py123d lays logs out."""

from collections.abc import Sequence
from pathlib import Path

from drive.contracts import UserError

SYNC, EGO, BOXES = "sync", "ego_state_se3", "box_detections_se3"
SCENE, PLAN, SOURCE = "custom.nightdrive", "custom.nightdrive_plan", "custom.nightdrive_source"
FORMAT = 1
CAMERA_KEYS = {
    "front": "camera.pcam_f0",
    "front_left": "camera.pcam_l0",
    "front_right": "camera.pcam_r0",
    "back": "camera.pcam_b0",
    "back_left": "camera.pcam_l1",
    "back_right": "camera.pcam_r1",
}


def split_name(dataset: str) -> str:
    """Folder of recorded drives; py123d finds a split by "<dataset>_<train|val|test>"."""
    return f"{dataset}_train"


def log_folders(root: Path) -> list[Path]:
    """Folders of all logs below `root` in name order; `root` may also be a py123d data root.

    Raises:
        UserError: `root` is not a folder.
    """
    if not root.is_dir():
        raise UserError(f"{root}: no such log folder; write or ingest logs there first")
    found = [path.parent for path in root.glob(f"*/*/{SYNC}.arrow")]
    found += [path.parent for path in root.glob(f"logs/*/*/{SYNC}.arrow")]
    return sorted(
        (path for path in found if not path.name.startswith(".")), key=lambda path: (path.name, str(path))
    )


def find_log(root: Path, log_id: str) -> Path:
    """Folder of one log.

    Raises:
        UserError: no such log, or one in each of several splits.
    """
    splits = [path for base in (root, root / "logs") if base.is_dir() for path in base.iterdir()]
    found = sorted(path / log_id for path in splits if log_id and (path / log_id / f"{SYNC}.arrow").is_file())
    if not found:
        raise UserError(f"{root}: no log named {log_id!r}; `drive check {root}` lists what is there")
    if len(found) > 1:
        raise ambiguous(root, log_id, found)
    return found[0]


def ambiguous(root: Path, log_id: str, found: Sequence[Path]) -> UserError:
    """The error of several logs of one name below one root."""
    where = " and ".join(str(path.relative_to(root)) for path in found)
    return UserError(f"{root}: {log_id!r} is ambiguous ({where}); keep each dataset version in its own root")
