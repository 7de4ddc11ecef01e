"""Reads logs back as DriveLog: recorded drives exactly, other py123d logs through `recorded.py`."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from drive.contracts import (
    U8,
    AgentTracks,
    CameraModel,
    DriveLog,
    EgoSize,
    EgoTrack,
    Event,
    LogMeta,
    PlanSteps,
    RoadPatch,
    UserError,
)
from drive.logs import columns
from drive.logs.layout import (
    BOXES,
    CAMERA_KEYS,
    EGO,
    FORMAT,
    PLAN,
    SCENE,
    SYNC,
    ambiguous,
    find_log,
    log_folders,
)


def list_drives(root: Path) -> list[LogMeta]:
    """Identity of every log below `root` in log_id order; opens one file footer a log, no rows and no images.

    Raises:
        UserError: `root` is not a folder, a log's file is damaged, or two logs have one name.
    """
    folders = log_folders(Path(root))
    for one, other in pairwise(folders):
        if one.name == other.name:
            raise ambiguous(Path(root), one.name, [one, other])
    return [read_meta(folder) for folder in folders]


def read_meta(folder: Path) -> LogMeta:
    """Identity of the log in `folder`; a log not recorded by us was driven by a human.

    Raises:
        UserError: a missing or damaged file, or a format of another version.
    """
    with columns.damage_named(folder):
        return LogMeta(**_about(folder)["meta"]) if _is_ours(folder) else _meta_of_dataset(folder)


def _is_ours(folder: Path) -> bool:
    return (folder / f"{SCENE}.arrow").exists()


def _about(folder: Path) -> dict[str, Any]:
    """What the recorder noted about a log of ours; UserError if that was another version's recorder."""
    about: dict[str, Any] = columns.read_metadata(folder / f"{SCENE}.arrow")["metadata"]
    if about["format"] != FORMAT:
        raise UserError(
            f"{folder}: log format {about['format']}, this version reads {FORMAT}; record the log again"
        )
    return about


def _meta_of_dataset(folder: Path) -> LogMeta:
    about = columns.read_metadata(folder / f"{SYNC}.arrow")
    front = folder / f"{CAMERA_KEYS['front']}.arrow"
    sync = columns.open_table(folder / f"{SYNC}.arrow") if front.exists() else None
    images = sync is not None and (columns.row_index(sync, CAMERA_KEYS["front"]) >= 0).all()
    return LogMeta(
        log_id=folder.name,
        dataset=about["dataset"],
        town=about.get("location") or "unknown",
        route=about["log_name"],
        seed=-1,
        driver="human",
        simulator="real world",
        image_kind="camera" if images else "none",
        outcome="recorded",
    )


def read_drive(root: Path, log_id: str, images: bool = True) -> DriveLog:
    """Read one log.

    A recorded drive comes back exactly as it was given to `write_drive` (float64 bit for bit). A py123d log
    of a dataset comes back with one step a synchronised frame, as described in `recorded.read_recorded`.

    Args:
        root: Folder of logs.
        log_id: Name of the log.
        images: Also decode images; without, `plans.images` is empty and reading is fast.

    Raises:
        UserError: no such log, a missing or damaged file, or a format of another version.
    """
    folder = find_log(Path(root), log_id)
    with columns.damage_named(folder):
        if _is_ours(folder):
            return _read_ours(folder, images)
        from drive.logs.recorded import read_recorded

        return read_recorded(folder, read_meta(folder), images)


def _read_ours(folder: Path, images: bool) -> DriveLog:
    about = _about(folder)
    scene = columns.decode(columns.open_table(folder / f"{SCENE}.arrow")["data"][0].as_py())
    ego_metadata = columns.read_metadata(folder / f"{EGO}.arrow")
    return DriveLog(
        meta=LogMeta(**about["meta"]),
        ego=_read_ego(folder, scene),
        agents=_read_agents(folder, scene),
        ego_size=ego_size(ego_metadata),
        plans=_read_plans(folder, scene, about["images"] if images else {}),
        route_world=scene["route_world"],
        road=None if scene["road"] is None else RoadPatch(**scene["road"]),
        events=tuple(Event(*event) for event in scene["events"]),
    )


def ego_size(metadata: dict[str, Any]) -> EgoSize:
    """Ego box from py123d's metadata of the ego state."""
    centre = metadata["center_to_imu_se3"][0] - metadata["rear_axle_to_imu_se3"][0]
    return EgoSize(metadata["length"], metadata["width"], centre)


def _read_ego(folder: Path, scene: dict[str, Any]) -> EgoTrack:
    path = folder / f"{EGO}.arrow"
    table = columns.open_table(path)
    _expect_rows(path, table.num_rows, len(scene["ego_yaw_rad"]))
    pose = columns.fixed_width(table["imu_se3"], 7)
    motion = columns.fixed_width(table["dynamic_state_se3"], 9).astype(np.float32)
    return EgoTrack(
        t_us=columns.times_us(table),
        pose_world=np.column_stack([pose[:, 0], pose[:, 1], scene["ego_yaw_rad"]]),
        speed_mps=motion[:, 0].copy(),
        accel_mps2=motion[:, 3].copy(),
        yaw_rate_radps=motion[:, 8].copy(),
    )


def read_boxes(folder: Path) -> tuple[Any, ...]:
    """All boxes of a log as flat columns.

    Returns:
        row int (B,) into the file's rows, box float64 (B, 10) [x y z qw qx qy qz length width height],
        token (B,) strings, label int (B,), velocity_world float64 (B, 3), and the rows' times int64 (R,).
    """
    table = columns.open_table(folder / f"{BOXES}.arrow").combine_chunks()
    lists = {name: _flat(table[name]) for name in ("bounding_box_se3", "track_token", "label", "velocity_3d")}
    row = np.repeat(np.arange(table.num_rows), np.diff(_offsets(table["bounding_box_se3"])))
    token = np.array(lists["track_token"].to_pylist(), dtype=str)
    label = np.asarray(lists["label"].to_numpy(zero_copy_only=False), np.int64)
    box = columns.fixed_width(lists["bounding_box_se3"], 10)
    return row, box, token, label, columns.fixed_width(lists["velocity_3d"], 3), columns.times_us(table)


def _flat(column: Any) -> Any:
    return column.combine_chunks().flatten()


def _offsets(column: Any) -> Any:
    return column.combine_chunks().offsets.to_numpy()


def _read_agents(folder: Path, scene: dict[str, Any]) -> AgentTracks:
    row, box, token, _, velocity, times = read_boxes(folder)
    ids = scene["agent_ids"]
    _expect_rows(folder / f"{BOXES}.arrow", len(times), scene["agent_yaw_rad"].shape[1])
    shape = (len(ids), len(times))
    pose, speed, valid = np.zeros((*shape, 3)), np.zeros(shape, np.float32), np.zeros(shape, bool)
    order = np.argsort(ids, kind="stable")
    n = order[np.searchsorted(ids, token.astype(np.int64), sorter=order)] if len(ids) else np.zeros(0, int)
    yaw = scene["agent_yaw_rad"]
    pose[n, row, :2], valid[n, row] = box[:, :2], True
    pose[..., 2] = np.where(valid, yaw, 0.0)
    heading = yaw[n, row]
    speed[n, row] = velocity[:, 0] * np.cos(heading) + velocity[:, 1] * np.sin(heading)
    return AgentTracks(ids, scene["agent_kind"], scene["agent_size_m"], pose, speed, valid)


def _read_plans(folder: Path, scene: dict[str, Any], cameras: dict[str, int]) -> PlanSteps:
    path = folder / f"{PLAN}.arrow"
    rows = [columns.decode(raw.as_py()) for raw in columns.open_table(path)["data"]] if path.exists() else []
    sync = columns.open_table(folder / f"{SYNC}.arrow")
    step = np.flatnonzero(columns.row_index(sync, PLAN) >= 0)
    _expect_rows(path, len(rows), len(step))
    images = {name: read_images(folder / f"{CAMERA_KEYS[name]}.arrow") for name in cameras}
    for name, frames in images.items():
        _expect_rows(folder / f"{CAMERA_KEYS[name]}.arrow", len(frames), len(step))

    def stack(name: str, dtype: type, shape: tuple[int, ...] = ()) -> Any:
        return np.array([row[name] for row in rows], dtype).reshape(len(rows), *shape)

    return PlanSteps(
        step=step.astype(np.int32),
        images=images,
        cameras={
            name: CameraModel(
                model["intrinsics"], model["camera_from_ego"], (model["size_px"][0], model["size_px"][1])
            )
            for name, model in scene["cameras"].items()
        },
        turn=stack("turn", np.int32),
        target_points_ego=stack("target_points_ego", np.float32, (2, 2)),
        speed_limit_mps=stack("speed_limit_mps", np.float32),
        provenance=scene["provenance"],
        label_ego=stack("label_ego", np.float32, (40, 3)),
        plan_ego=stack("plan_ego", np.float32, (40, 3)),
        command=stack("command", np.int32, (2,)),
        label_command=stack("label_command", np.int32, (2,)),
        aux=stack("aux", np.float32, (3,)),
        split_brain=stack("split_brain", np.bool_),
        confidence=np.array([row.get("confidence", np.nan) for row in rows], np.float32),
    )


def _expect_rows(path: Path, have: int, want: int) -> None:
    if have != want:
        raise UserError(f"{path}: holds {have} of {want} rows; run `drive check` and record the log again")


def read_images(path: Path) -> U8:
    """Decode all images of a camera stored as PNG or JPEG bytes, uint8 (D, H, W, 3) RGB.

    Raises:
        UserError: a damaged image, named by its row.
    """
    data = columns.open_table(path)["data"]
    first = _decode(data[0].as_py(), path, 0)
    out = np.empty((len(data), *first.shape), np.uint8)
    for row in range(len(data)):
        image = _decode(data[row].as_py(), path, row)
        if image.shape != first.shape:
            raise UserError(
                f"{path} row {row}: image is {image.shape}, the first is {first.shape}; record again"
            )
        out[row] = image
    return out


def _decode(raw: bytes, path: Path, row: int) -> U8:
    image = cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_COLOR) if raw else None
    if image is None:
        raise UserError(f"{path} row {row}: damaged image; run `drive check` and record the log again")
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)
