"""Ego speed, acceleration and yaw rate as the nuScenes CAN bus expansion measured them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from drive.bench.nuscenes_tables import SceneTrack
from drive.contracts import F64, I64, UserError
from drive.logs.nuscenes_rows import CAN_POSE, read_rows

EgoState = Literal["auto", "can", "poses"]
MAX_AGE_S = 0.1
ACCEL_WINDOW_S = 0.5


def with_can_bus(
    scenes: Sequence[SceneTrack], dataroot: str | Path, ego_state: EgoState
) -> tuple[SceneTrack, ...]:
    """Scenes with what their CAN bus measured, where there is one.

    Args:
        scenes: As read from the tables.
        dataroot: Folder that holds can_bus/SCENE_pose.json.
        ego_state: "auto": of the scenes that have it; "can": of all; "poses": of none.

    Raises:
        UserError: A file is damaged, or "can" and a scene has none.
    """
    if ego_state == "poses":
        return tuple(scenes)
    files = [Path(dataroot) / "can_bus" / f"{scene.name}_pose.json" for scene in scenes]
    absent = [scene.name for scene, file in zip(scenes, files, strict=True) if not file.is_file()]
    if absent and ego_state == "can":
        raise UserError(
            f"--ego-state can: {len(absent)} of {len(scenes)} scenes have no can_bus/SCENE_pose.json below "
            f"{dataroot} (first: {absent[0]}); download the CAN bus expansion, or use auto or poses"
        )
    return tuple(
        replace(scene, measured=read_motion(file, scene.t_us)) if file.is_file() else scene
        for scene, file in zip(scenes, files, strict=True)
    )


def read_motion(file: Path, t_us: I64) -> F64:
    """Speed [m/s], acceleration [m/s2] and yaw rate [rad/s] at times of a scene, float64 (K, 3).

    Speed and yaw rate are those of the last message up to now, the acceleration is the mean of the 0.5 s up
    to it (a single one is noisy). NaN where no message is at most 0.1 s old. Nothing later is looked at.

    Raises:
        UserError: The file is no list of pose messages.
    """
    messages = sorted(read_rows(file, CAN_POSE), key=lambda row: int(row["utime"]))
    sent = np.array([row["utime"] for row in messages], np.int64)
    value = np.array(
        [(row["vel"][0], row["accel"][0], row["rotation_rate"][2]) for row in messages], np.float64
    ).reshape(-1, 3)
    good = np.isfinite(value).all(1)
    sent, value = sent[good], value[good]
    out = np.full((len(t_us), 3), np.nan)
    last = np.searchsorted(sent, t_us, "right") - 1
    for k in np.flatnonzero(last >= 0):
        i = last[k]
        if t_us[k] - sent[i] <= MAX_AGE_S * 1e6:
            since = np.searchsorted(sent, sent[i] - ACCEL_WINDOW_S * 1e6)
            out[k] = value[i, 0], value[since : i + 1, 1].mean(), value[i, 2]
    return out


def motion_at(scene: SceneTrack, k: int) -> tuple[float, float, float] | None:
    """What was measured at key frame k; None where nothing was."""
    if scene.measured is None or not np.isfinite(scene.measured[k]).all():
        return None
    speed, accel, yaw_rate = scene.measured[k].tolist()
    return speed, accel, yaw_rate
