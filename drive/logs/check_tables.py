"""Checks raw nuScenes tables and the files they name."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from drive.contracts import EGO_NUSCENES, F64, I64, DriveLog, EgoTrack, LogMeta, UserError
from drive.logs.check import LogCheck, clock_faults, no_can_bus
from drive.logs.faults import Fault, find_faults
from drive.logs.nuscenes_rows import CAN_POSE, lost_boxes, read_rows, read_tables
from drive.logs.nuscenes_tables import SceneSurvey, key_frame_poses, survey, version_folder
from drive.logs.recorded import causal_motion, no_agents, no_plans, yaw_of

CAN_GAP_S = 0.2
JPEG_END = b"\xff\xd9"


def check_tables(dataroot: Path, versions: list[str]) -> tuple[list[LogCheck], list[Fault]]:
    """Check every scene of the given versions; errors as in `nuscenes_tables.survey`."""
    logs, faults = [], []
    for version in versions:
        tables = read_tables(version_folder(dataroot, version))
        found, poses, boxes = survey(dataroot, version, tables), key_frame_poses(tables), lost_boxes(tables)
        for scene in found.scenes:
            files = {name: (channel.present, channel.declared) for name, channel in scene.channels.items()}
            samples = len(scene.sample_t_us)
            logs.append(LogCheck(scene.name, {"samples": (samples, samples), **files}))
            table = dataroot / version / "ego_pose.json"
            faults += [
                *_file_faults(dataroot, scene),
                *_clock_faults(dataroot / version, scene),
                *(replace(fault, file=str(table)) for fault in _pose_faults(scene, *poses[scene.name])),
                *_box_faults(dataroot / version, scene, boxes.get(scene.token, [])),
                *_can_faults(dataroot, scene),
            ]
        for name in found.absent:
            where, detail = str(dataroot / version / f"{name}.json"), "optional table is absent"
            faults.append(Fault("absent_table", name, -1, -1, -1, detail, file=where, level="note"))
        if not found.map_expansion:
            where, detail = str(dataroot / "maps" / "expansion"), "no vector maps: no lanes in the logs"
            faults.append(Fault("no_map_expansion", "map", -1, -1, -1, detail, file=where, level="note"))
    return logs, faults


def _file_faults(dataroot: Path, scene: SceneSurvey) -> list[Fault]:
    out = []
    for name, channel in scene.channels.items():
        if channel.gap:
            out.append(Fault("missing_files", name, -1, -1, -1, channel.gap, scene.name, str(dataroot)))
        absent = set(channel.missing)
        for row, file in enumerate(channel.files):
            if file not in absent and (problem := _cut_short(dataroot / file)):
                out.append(
                    Fault("truncated_image", name, row, -1, -1, problem, scene.name, str(dataroot / file))
                )
    return out


def _cut_short(file: Path) -> str:
    """Why a sensor file is not whole; "" if it is. Reads only its end, so a whole dataset takes minutes."""
    size = file.stat().st_size
    if not size:
        return "file is empty"
    if file.suffix.lower() not in (".jpg", ".jpeg"):
        return ""
    with file.open("rb") as stream:
        stream.seek(max(0, size - 16))
        return "" if JPEG_END in stream.read() else "JPEG is cut short"


def _clock_faults(folder: Path, scene: SceneSurvey) -> list[Fault]:
    faults = clock_faults(folder, "sample", np.array(scene.sample_t_us, np.int64))
    return [replace(fault, log_id=scene.name, file=str(folder / "sample.json")) for fault in faults]


def _pose_faults(scene: SceneSurvey, t_us: I64, pose: F64) -> list[Fault]:
    """Jumps and non-finite values of the key frames' ego poses."""
    if not len(t_us):
        return [Fault("missing_channel", "ego", -1, -1, -1, "no LIDAR_TOP key frames", scene.name)]
    planar = np.column_stack([pose[:, 0], pose[:, 1], yaw_of(pose[:, 3:])])
    speed, accel, rate = causal_motion(t_us, planar).astype(np.float32).T.copy()
    meta = LogMeta(
        scene.name, "nuscenes", scene.location, scene.name, -1, "human", "real world", "none", "recorded"
    )
    ego = EgoTrack(t_us, planar, speed, accel, rate)
    route = planar[:, :2].copy()
    log = DriveLog(meta, ego, no_agents(len(t_us)), EGO_NUSCENES, no_plans(), route, None)
    return [
        fault
        for fault in find_faults(log)
        if fault.kind not in ("no_history", "time_backwards", "time_repeated")
    ]


def _box_faults(folder: Path, scene: SceneSurvey, rows: list[int]) -> list[Fault]:
    """Boxes whose pose is not finite; `rows` of the annotation table."""
    if not rows:
        return []
    detail = "pose of an agent is not finite" + (f" ({len(rows)} rows)" if len(rows) > 1 else "")
    file = str(folder / "sample_annotation.json")
    return [Fault("non_finite", "agents", rows[0], -1, -1, detail, scene.name, file)]


def _can_faults(dataroot: Path, scene: SceneSurvey) -> list[Fault]:
    if not scene.can_bus:
        return [no_can_bus(scene.name)]
    path = dataroot / "can_bus" / f"{scene.name}_pose.json"
    try:
        times = np.array([row["utime"] for row in read_rows(path, CAN_POSE)], np.int64)
    except UserError as error:
        return [Fault("damaged_file", "can_bus", -1, -1, -1, str(error), scene.name, str(path))]
    out = []
    for row in np.flatnonzero(np.abs(np.diff(times)) > CAN_GAP_S * 1e6) + 1:
        span = int(times[row - 1]), int(times[row])
        detail = f"{(span[1] - span[0]) * 1e-6:.2f} s without messages"
        out.append(Fault("can_bus_gap", "can_bus", int(row), *span, detail, scene.name, str(path)))
    return out
