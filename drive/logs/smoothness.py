"""Smoothness of recorded drives: our own logs, or Bench2Drive's metric_info.json per route."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drive.contracts import F64, UserError
from drive.files import read_json
from drive.logs.reader import list_drives, read_drive
from drive.score.motion import smoothness

METRIC_INFO = "metric_info.json"


@dataclass(frozen=True)
class Smoothness:
    """Mean share of smooth windows [0, 1] over drives.

    Attributes:
        bench2drive: Comparable with its published numbers, which bound a yaw rate in degrees by radians.
        radians: The same with the yaw rate in radians per second.
        corrected: As `radians`, and the bound on the yaw acceleration applied to the yaw acceleration.
        drives: How many drives it is the mean of.
    """

    bench2drive: float
    radians: float
    corrected: float
    drives: int


def run_smoothness(folder: Path, records: Sequence[Mapping[str, Any]]) -> Smoothness | None:
    """Smoothness of the drives of some records.

    Args:
        folder: A log store of `drive sim`, or a folder with save_name/metric_info.json as Bench2Drive's.
        records: Leaderboard records.

    Returns:
        None if the folder has no drive of these records.

    Raises:
        UserError: The folder is missing, or a file in it is damaged.
    """
    if not folder.is_dir():
        raise UserError(f"--drives {folder}: no such folder")
    names = [str(record.get("save_name", record["route_id"])) for record in records]
    motions = [
        _metric_info(folder / name / METRIC_INFO) for name in names if (folder / name / METRIC_INFO).is_file()
    ]
    if not motions:
        routes = {str(record["route_id"]) for record in records}
        motions = [_log(folder, meta.log_id) for meta in list_drives(folder) if meta.route in routes]
    degrees = [smoothness(lon, lat, np.degrees(rate)) for lon, lat, rate in motions]
    known = [share for share in degrees if share is not None]
    radians = [share for motion in motions if (share := smoothness(*motion)) is not None]
    if not known:
        return None
    corrected = [share for m in motions if (share := smoothness(*m, yaw_accel=True)) is not None]
    means = [sum(shares) / len(shares) for shares in (known, radians, corrected)]
    return Smoothness(means[0], means[1], means[2], len(known))


def _log(root: Path, log_id: str) -> tuple[F64, F64, F64]:
    ego = read_drive(root, log_id, images=False).ego
    rate = ego.yaw_rate_radps.astype(np.float64)
    return ego.accel_mps2.astype(np.float64), ego.speed_mps * rate, rate


def _metric_info(path: Path) -> tuple[F64, F64, F64]:
    """Acceleration along and across [m/s^2] and yaw rate [rad/s] per frame."""
    try:
        rows = list(read_json(path).values())
        table = {
            name: np.array([row[name][:3] for row in rows], np.float64).reshape(-1, 3)
            for name in ("acceleration", "forward_vector", "right_vector", "angular_velocity")
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not as Bench2Drive writes it ({error!r}); restore it") from None
    accel = table["acceleration"][:, :2]
    lon, lat = ((accel * table[name][:, :2]).sum(-1) for name in ("forward_vector", "right_vector"))
    return lon, lat, np.radians(table["angular_velocity"][:, 2])
