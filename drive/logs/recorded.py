"""Turns a py123d log of a real dataset into a DriveLog whose labels are what the human then did."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from drive.contracts import (
    DT_S,
    EGO_NUSCENES,
    F32,
    F64,
    I32,
    I64,
    STEPS,
    U8,
    AgentKind,
    AgentTracks,
    CameraModel,
    DriveLog,
    EgoTrack,
    Lateral,
    LogMeta,
    PlanSteps,
    Turn,
    UserError,
)
from drive.geometry.commands import classify
from drive.geometry.se2 import resample_poses, to_local, wrap
from drive.logs import columns
from drive.logs.kinds import agent_kinds
from drive.logs.layout import BOXES, CAMERA_KEYS, EGO, SOURCE, SYNC
from drive.logs.lights import lights_ahead
from drive.logs.maps import map_file, road_around
from drive.logs.reader import ego_size, read_boxes

PLAN_S = 0.5
END_SLACK_S = 0.05
TARGETS_M = (10.0, 25.0)
FAR_M = 60.0
SPEED_LIMIT_MPS = {"boston": 25 * 0.44704, "singapore": 50 / 3.6}
OTHER_SPEED_LIMIT_MPS = 50 / 3.6
TURNS = {
    Lateral.KEEP: Turn.FOLLOW,
    Lateral.LANE_LEFT: Turn.LANE_LEFT,
    Lateral.LANE_RIGHT: Turn.LANE_RIGHT,
    Lateral.TURN_LEFT: Turn.LEFT,
    Lateral.TURN_RIGHT: Turn.RIGHT,
    Lateral.U_TURN: Turn.LEFT,
}


def read_recorded(folder: Path, meta: LogMeta, images: bool) -> DriveLog:
    """Read a dataset's log.

    Steps are the synchronised frames (2 Hz key frames for nuScenes); planning steps are those at about 2 Hz.
    `label_ego` is the recorded ego motion, interpolated at 0.1 s; rows after the end of the log are NaN. Turn
    and target points come from the same recorded future, hence provenance "oracle". Ego speed, acceleration
    and yaw rate are the recorded ones where the log says they were measured (CAN bus), else differences of
    this and earlier poses, so nothing of the future leaks into them; the first step's are then 0. The speed
    limit is the legal default of the place. Lanes come from py123d's map where there is one
    (drive/logs/maps.py). Only the front camera is read, and only if no frame lacks it.

    Raises:
        UserError: a modality is missing or damaged, or an image file is not where the log says.
    """
    sync = columns.open_table(folder / f"{SYNC}.arrow")
    rows = columns.row_index(sync, EGO)
    frames = np.flatnonzero(rows >= 0)
    if not len(frames):
        raise UserError(f"{folder}: no frame has an ego state; convert the dataset again with ego states")
    about = source_metadata(folder)
    ego = _read_ego(folder, rows[frames], bool(about.get("can_bus")))
    agents = _read_agents(folder, columns.row_index(sync, BOXES)[frames])
    nuscenes = meta.dataset == "nuscenes"
    size = EGO_NUSCENES if nuscenes else ego_size(columns.read_metadata(folder / f"{EGO}.arrow"))
    gap = np.array([lead_gap_m(ego, agents, k, size.centre_from_axle_m + size.length_m / 2, size.width_m)
                    for k in range(len(frames))])  # fmt: skip
    plans = _plans(ego, gap, _speed_limit(meta.town))
    if images and meta.image_kind == "camera":
        plans = _with_front_camera(
            folder, plans, columns.row_index(sync, CAMERA_KEYS["front"])[frames], about
        )
    route = ego.pose_world[:, :2].copy()
    place = map_file(folder, meta.dataset, meta.town)
    if place is None:
        return DriveLog(meta, ego, agents, size, plans, route, None)
    front_m = size.centre_from_axle_m + size.length_m / 2
    plans.aux[:, :2] = lights_ahead(folder, place, route, ego.t_us, plans.step, front_m)
    return DriveLog(meta, ego, agents, size, plans, route, road_around(place, route))


def source_metadata(folder: Path) -> dict[str, Any]:
    """What our ingest noted about where the log comes from; empty for logs converted elsewhere."""
    path = folder / f"{SOURCE}.arrow"
    return dict(columns.read_metadata(path)["metadata"]) if path.exists() else {}


def yaw_of(quaternion: Any) -> F64:
    """Yaw (...) of quaternions (..., 4) [w x y z]."""
    w, x, y, z = np.moveaxis(np.asarray(quaternion, np.float64), -1, 0)
    yaw: F64 = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return yaw


def _read_ego(folder: Path, rows: I64, measured: bool) -> EgoTrack:
    table = columns.open_table(folder / f"{EGO}.arrow")
    t_us = columns.times_us(table)[rows]
    raw = columns.fixed_width(table["imu_se3"], 7)[rows]
    pose = np.column_stack([raw[:, 0], raw[:, 1], yaw_of(raw[:, 3:])])
    motion = causal_motion(t_us, pose)
    if measured:
        state = columns.fixed_width(table["dynamic_state_se3"], 9)[rows]
        has = np.isfinite(state).all(1) & (state != 0).any(1)  # py123d writes zeros where no message was near
        motion[has] = np.column_stack([state[:, 0], state[:, 3], state[:, 8]])[has]
    speed, accel, rate = motion.astype(np.float32).T.copy()
    return EgoTrack(t_us, pose, speed, accel, rate)


def causal_motion(t_us: I64, pose_world: F64) -> F64:
    """Speed, acceleration and yaw rate from this and earlier poses only.

    Args:
        t_us: int64 (T,).
        pose_world: float64 (T, 3).

    Returns:
        float64 (T, 3): [m/s, m/s^2, rad/s]; 0 where there is no earlier pose (acceleration needs two).
    """
    out = np.zeros((len(t_us), 3))
    dt = np.diff(t_us) * 1e-6
    dt = np.where(dt > 0, dt, np.inf)
    step = np.diff(pose_world, axis=0)
    forward = step[:, 0] * np.cos(pose_world[:-1, 2]) + step[:, 1] * np.sin(pose_world[:-1, 2])
    out[1:, 0] = np.copysign(np.hypot(step[:, 0], step[:, 1]), forward) / dt
    out[1:, 2] = wrap(step[:, 2]) / dt
    out[2:, 1] = np.diff(out[1:, 0]) / dt[1:]
    return out


def _read_agents(folder: Path, rows: I64) -> AgentTracks:
    steps = len(rows)
    if not (folder / f"{BOXES}.arrow").exists():
        return no_agents(steps)
    row, box, token, label, velocity, times = read_boxes(folder)
    step_of_row = np.full(len(times), -1)
    step_of_row[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    step = step_of_row[row]
    keep = step >= 0
    step, box, token, label, velocity = step[keep], box[keep], token[keep], label[keep], velocity[keep]
    _, first, n = np.unique(token, return_index=True, return_inverse=True)
    shape = (len(first), steps)
    pose, speed, valid = np.zeros((*shape, 3)), np.zeros(shape, np.float32), np.zeros(shape, bool)
    pose[n, step] = np.column_stack([box[:, 0], box[:, 1], yaw_of(box[:, 3:7])])
    speed[n, step] = np.nan_to_num(np.hypot(velocity[:, 0], velocity[:, 1]))
    valid[n, step] = True
    kinds = agent_kinds(
        columns.read_metadata(folder / f"{BOXES}.arrow")["box_detection_label_class"], label[first]
    )
    ids = np.arange(1, len(first) + 1, dtype=np.int32)
    return AgentTracks(ids, kinds, box[first, 7:9].astype(np.float32), pose, speed, valid)


def no_agents(steps: int) -> AgentTracks:
    """Tracks of nobody over `steps` steps."""
    none, shape = np.zeros(0, np.int32), (0, steps)
    return AgentTracks(none, none, np.zeros((0, 2), np.float32), np.zeros((*shape, 3)),
                       np.zeros(shape, np.float32), np.zeros(shape, bool))  # fmt: skip


def no_plans() -> PlanSteps:
    """No planning steps, as of a human driver."""
    none, poses = np.zeros(0, np.int32), np.zeros((0, STEPS, 3), np.float32)
    pairs, reals = np.zeros((0, 2), np.int32), np.zeros(0, np.float32)
    targets, aux = np.zeros((0, 2, 2), np.float32), np.zeros((0, 3), np.float32)
    flags = np.zeros(0, bool)
    return PlanSteps(none, {}, {}, none, targets, reals, "oracle", poses, poses, pairs, pairs, aux, flags)


def lead_gap_m(ego: EgoTrack, agents: AgentTracks, step: int, front_m: float, width_m: float) -> float:
    """Bumper-to-bumper distance to the nearest road user straight ahead, at most 60 m."""
    here = agents.valid[:, step] & (agents.kind != AgentKind.OBSTACLE)
    if not here.any():
        return FAR_M
    local = to_local(agents.pose_world[here, step], ego.pose_world[step])
    size = agents.size_m[here]
    c, s = np.abs(np.cos(local[:, 2])), np.abs(np.sin(local[:, 2]))
    half_x, half_y = (size[:, 0] * c + size[:, 1] * s) / 2, (size[:, 0] * s + size[:, 1] * c) / 2
    ahead = (local[:, 0] > front_m) & (np.abs(local[:, 1]) < half_y + width_m / 2)
    gaps = np.maximum(local[:, 0] - half_x - front_m, 0.0)[ahead]
    return float(min(FAR_M, gaps.min())) if len(gaps) else FAR_M


def _plans(ego: EgoTrack, gap_m: F64, speed_limit_mps: float) -> PlanSteps:
    t_s = (ego.t_us - ego.t_us[0]) * 1e-6
    spacing = float(np.median(np.diff(t_s))) if len(t_s) > 1 else PLAN_S
    step = np.arange(0, len(t_s), max(1, round(PLAN_S / max(spacing, 1e-3))), dtype=np.int32)
    d = len(step)
    label = future_poses(t_s, ego.pose_world, step)
    command = np.full((d, 2), -1, np.int32)
    full = np.isfinite(label).all((1, 2))
    if full.any():
        command[full] = classify(label[full], ego.speed_mps[step][full], gap_m[step][full])
    aux = np.full((d, 3), np.nan, np.float32)
    aux[:, 2] = gap_m[step]
    return PlanSteps(
        step=step,
        images={},
        cameras={},
        turn=_turns(label, ego.speed_mps[step]),
        target_points_ego=np.stack([target_points(ego.pose_world, int(k)) for k in step]),
        speed_limit_mps=np.full(d, speed_limit_mps, np.float32),
        provenance="oracle",
        label_ego=label,
        plan_ego=np.full((d, STEPS, 3), np.nan, np.float32),
        command=np.full((d, 2), -1, np.int32),
        label_command=command,
        aux=aux,
        split_brain=np.zeros(d, bool),
    )


def future_poses(t_s: F64, pose_world: F64, step: I32) -> F32:
    """Recorded ego motion after each of `step`, float32 (D, 40, 3) in the ego frame then; NaN after the end.

    Key frames are not exactly 0.5 s apart, so the last segment is carried on for up to 0.05 s.
    """
    out = np.full((len(step), STEPS, 3), np.nan, np.float32)
    if len(t_s) < 2 or (np.diff(t_s) <= 0).any():
        return out
    end = pose_world[-1] + np.append(pose_world[-1, :2] - pose_world[-2, :2],
                                     wrap(pose_world[-1, 2] - pose_world[-2, 2])) * (
        END_SLACK_S / (t_s[-1] - t_s[-2]))  # fmt: skip
    times, poses = np.append(t_s, t_s[-1] + END_SLACK_S), np.vstack([pose_world, end])
    for i, k in enumerate(step):
        at_s = t_s[k] + DT_S * np.arange(1, STEPS + 1)
        known = at_s <= times[-1]
        if known.any():
            out[i, known] = to_local(resample_poses(poses, times, at_s[known]), pose_world[k])
    return out


def _turns(label: F32, speed_mps: F32) -> I32:
    turns = np.full(len(label), Turn.FOLLOW, np.int32)
    for i, poses in enumerate(label):
        known = poses[np.isfinite(poses).all(-1)]
        if len(known) > round(PLAN_S / DT_S):
            turns[i] = TURNS[Lateral(int(classify(known, speed_mps[i])[0]))]
    return turns


def target_points(pose_world: F64, step: int) -> F32:
    """Points 10 m and 25 m along the recorded path ahead, float32 (2, 2) in the ego frame.

    Where the recording ends earlier, the path goes straight on along its last heading.
    """
    path = to_local(pose_world[step:], pose_world[step])
    seen = np.append(0.0, np.cumsum(np.hypot(*np.diff(path[:, :2], axis=0).T)))
    heading = path[-1, 2]
    out = []
    for ahead in TARGETS_M:
        inside = min(ahead, seen[-1])
        point = np.array([np.interp(inside, seen, path[:, axis]) for axis in range(2)])
        out.append(point + (ahead - inside) * np.array([np.cos(heading), np.sin(heading)]))
    return np.array(out, np.float32)


def _speed_limit(town: str) -> float:
    return next((v for name, v in SPEED_LIMIT_MPS.items() if town.startswith(name)), OTHER_SPEED_LIMIT_MPS)


def _with_front_camera(folder: Path, plans: PlanSteps, rows: I64, about: dict[str, Any]) -> PlanSteps:
    path = folder / f"{CAMERA_KEYS['front']}.arrow"
    data = columns.open_table(path)["data"]
    sensor_root = Path(about["dataroot"]) if "dataroot" in about else _sensor_root(folder)
    images = np.stack([_load(data[int(rows[k])].as_py(), path, sensor_root) for k in plans.step])
    return PlanSteps(
        **{**plans.__dict__, "images": {"front": images}, "cameras": {"front": camera_model(path)}}
    )


def _sensor_root(folder: Path) -> Path:
    """Where py123d's settings say that the dataset's sensor files lie; for logs converted elsewhere."""
    from py123d.common.runtime import get_dataset_paths

    dataset = columns.read_metadata(folder / f"{SYNC}.arrow")["dataset"]
    root = get_dataset_paths().get_sensor_root(dataset)
    if root is None:
        raise UserError(
            f"{folder}: names image files of {dataset}; set {dataset.upper()}_DATA_ROOT to their folder"
        )
    return Path(root)


def camera_model(path: Path) -> CameraModel:
    """Camera model from a py123d pinhole camera's metadata."""
    about = columns.read_metadata(path)
    fx, fy, cx, cy, skew = about["intrinsics"]
    x, y, z, *quaternion = about["camera_to_imu_se3"]
    w, i, j, k = np.array(quaternion) / np.linalg.norm(quaternion)
    ego_from_camera = np.eye(4)
    ego_from_camera[:3, 3] = x, y, z
    ego_from_camera[:3, :3] = [
        [1 - 2 * (j * j + k * k), 2 * (i * j - k * w), 2 * (i * k + j * w)],
        [2 * (i * j + k * w), 1 - 2 * (i * i + k * k), 2 * (j * k - i * w)],
        [2 * (i * k - j * w), 2 * (j * k + i * w), 1 - 2 * (i * i + j * j)],
    ]
    intrinsics = np.array([[fx, skew, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    return CameraModel(intrinsics, np.linalg.inv(ego_from_camera), (about["width"], about["height"]))


def _load(data: Any, path: Path, sensor_root: Path) -> U8:
    if isinstance(data, str):
        file = sensor_root / data
        if not file.is_file():
            raise UserError(f"{file}: image named by {path} is missing; ingest the dataset again")
        data = file.read_bytes()
    if not isinstance(data, bytes):
        raise UserError(
            f"{path}: images are stored as video; convert the dataset with stored or named images"
        )
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise UserError(f"{path}: damaged image; check the dataset and ingest it again")
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)
