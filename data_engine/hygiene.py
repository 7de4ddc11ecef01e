"""Which recordings can be trusted: file by file, before anything is mined or trained on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from drive.contracts import DT_S, F32, STEPS, Bool, DriveLog, EgoTrack
from drive.logs import Fault
from drive.logs.check import check_log
from drive.logs.faults import HISTORY_S
from drive.logs.layout import log_folders
from drive.progress import Progress

WHOLE = ("damaged_file", "missing_channel", "row_count", "unreadable", "truncated_image", "foreign_size")
TOLERATED = ("missing_files", "can_bus_gap")  # said, but neither touches what is mined: no image, or poses


@dataclass(frozen=True)
class Screened:
    """What screening the recordings came to.

    Attributes:
        faults: One record per fault: the fields of `drive.logs.Fault` and `route`; `level` "note" is
            tolerated.
        left_out: log_id -> why the whole recording is neither mined nor trained on.
    """

    faults: tuple[Mapping[str, Any], ...]
    left_out: Mapping[str, str]

    def of(self, log_id: str) -> list[Mapping[str, Any]]:
        """Faults of one log that count."""
        return [f for f in self.faults if f["log_id"] == log_id and f["level"] == "fault"]


def screen(roots: Iterable[Path]) -> Screened:
    """Check every log of some log folders: files, declared rows, clocks, poses, values and images.

    A recording whose files are damaged, cut short, or hold other rows than declared is left out whole; other
    faults have a span.
    """
    folders = [folder for root in roots if root.is_dir() for folder in log_folders(root)]
    faults: list[Mapping[str, Any]] = []
    left_out: dict[str, str] = {}
    with Progress("hygiene", len(folders), "logs") as bar:
        for folder in folders:
            for fault in check_log(folder)[1]:
                faults.append(record(fault, folder.name))
                if fault.level == "fault" and fault.kind not in TOLERATED and _is_whole(fault):
                    left_out.setdefault(folder.name, f"{fault.kind} in {Path(fault.file).name}")
            bar.advance(note=folder.name)
    return Screened(tuple(faults), left_out)


def _is_whole(fault: Fault) -> bool:
    return fault.kind in WHOLE or fault.end_us < 0


def record(fault: Fault, log_id: str, route: str = "") -> dict[str, Any]:
    """A fault as it is stored; tolerated kinds become notes, and files are named without their folder."""
    level = "note" if fault.kind in TOLERATED else fault.level
    file = Path(fault.file).name if fault.file else ""
    return {**asdict(fault), "log_id": log_id, "route": route or log_id, "level": level, "file": file}


def sane(log: DriveLog) -> DriveLog:
    """The drive with finite numbers only: what is not finite becomes 0, or leaves its road user unseen.

    Rows so changed lie inside a fault's span; this keeps them from spoiling what is computed of others.
    """
    ego, agents = log.ego, log.agents
    finite = np.isfinite(agents.pose_world).all(2) & np.isfinite(agents.speed_mps)
    if finite.all() and np.isfinite(ego.pose_world).all() and np.isfinite(_motion(ego)).all():
        return log
    pose = np.where(finite[..., None], agents.pose_world, 0.0)
    speed = np.where(finite, agents.speed_mps, np.float32(0))
    seen = replace(agents, pose_world=pose, speed_mps=speed, valid=agents.valid & finite)
    motion = np.nan_to_num(_motion(ego), posinf=0.0, neginf=0.0)
    place = np.nan_to_num(ego.pose_world, posinf=0.0, neginf=0.0)
    track = EgoTrack(ego.t_us, place, motion[0].copy(), motion[1].copy(), motion[2].copy())
    return replace(log, ego=track, agents=seen)


def _motion(ego: EgoTrack) -> F32:
    return np.stack([ego.speed_mps, ego.accel_mps2, ego.yaw_rate_radps])


def touches(fault: Mapping[str, Any], start_us: float, end_us: float) -> bool:
    """Does a fault lie in [start_us, end_us]?  One of a whole channel always does."""
    return bool(fault["end_us"] < 0 or (fault["start_us"] <= end_us and start_us <= fault["end_us"]))


def spoilt_steps(log: DriveLog, faults: Sequence[Mapping[str, Any]]) -> Bool:
    """Planning steps, bool (D,), whose training window spans a fault.

    The window is what a sample is made of: 2 s of history before the step and the 4 s of its label.
    """
    t_us = log.ego.t_us[log.plans.step]
    bad = np.zeros(len(t_us), bool)
    for fault in faults:
        if fault["level"] != "fault":
            continue
        if fault["end_us"] < 0:
            bad[:] = True
            continue
        reaches = t_us + STEPS * DT_S * 1e6 >= fault["start_us"]
        bad |= reaches & (t_us - HISTORY_S * 1e6 <= fault["end_us"])
    return bad
