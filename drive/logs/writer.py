"""Writes a recorded drive as a py123d Arrow log, through py123d's own log writer."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from drive.contracts import AgentKind, DriveLog, UserError
from drive.files import new_folder
from drive.logs.layout import CAMERA_KEYS, FORMAT, PLAN, SCENE, split_name

HEIGHT_M = {
    AgentKind.CAR: 1.6,
    AgentKind.TRUCK: 3.2,
    AgentKind.CYCLIST: 1.7,
    AgentKind.PEDESTRIAN: 1.75,
    AgentKind.OBSTACLE: 1.0,
}
EGO_HEIGHT_M = 1.49
WHEEL_BASE_M = 2.86


def write_drive(root: Path, log: DriveLog) -> Path:
    """Write one drive to `root/<dataset>_train/<log_id>/`, replacing an older one.

    Files of the log, all readable with py123d's SceneAPI:
      ego_state_se3, box_detections_se3   T rows; the boxes of a step are its valid agents
      camera.pcam_*                       D rows of PNG (lossless)
      custom.nightdrive                   1 row: route, road, events, cameras, and what SE(3) columns hold
                                          not to the last bit (yaw angles) or not at all (table of agents)
      custom.nightdrive_plan              D rows: hints, labels, plans, commands
      sync                                T rows that point into the others
    Equal drives give equal bytes.

    Args:
        root: Folder of logs; made if absent.
        log: Drive with at least one step and strictly increasing times and planning steps.

    Returns:
        The log's folder. It appears whole or not at all.

    Raises:
        UserError: the log id is not a file name, or the drive breaks a rule above.
    """
    _validate(log)
    folder = Path(root) / split_name(log.meta.dataset) / log.meta.log_id
    from py123d.datatypes import LogMetadata

    metadata = LogMetadata(log.meta.dataset, folder.parent.name, folder.name, log.meta.town)
    with new_folder(folder) as temp, open_writer(temp, metadata, "png_binary") as writer:
        modalities = _Modalities(log)
        for step in range(len(log.ego.t_us)):
            writer.write_sync(modalities.at(step))
    return folder


@contextmanager
def open_writer(folder: Path, metadata: Any, camera_store: str) -> Iterator[Any]:
    """Yield py123d's log writer; after the block the log's files lie directly in `folder`.

    Args:
        folder: Existing empty folder.
        metadata: py123d LogMetadata.
        camera_store: "png_binary" or "path", as in py123d's LogWriterConfig.
    """
    from py123d.api.scene.arrow.arrow_log_writer import ArrowLogWriter
    from py123d.api.scene.arrow.utils.log_writer_config import LogWriterConfig

    # No driven route: py123d stamps it with the wall clock, and equal drives shall give equal bytes.
    config = LogWriterConfig(camera_store_option=camera_store, write_route=False)
    writer = ArrowLogWriter(config, logs_root=folder, sensors_root=folder)
    writer.reset(metadata)
    yield writer
    writer.close()
    nested = folder / metadata.split
    for file in sorted((nested / metadata.log_name).iterdir()):
        file.rename(folder / file.name)
    shutil.rmtree(nested)


def _validate(log: DriveLog) -> None:
    name = log.meta.log_id
    if not re.fullmatch(r"[\w][\w.+=@-]*", name) or not re.fullmatch(r"[\w-]+", log.meta.dataset):
        raise UserError(
            f"log id {name!r}, dataset {log.meta.dataset!r}: use letters, digits and . + = @ _ - only"
        )
    if not len(log.ego.t_us):
        raise UserError(f"log {name}: has no steps; record at least one")
    if (np.diff(log.ego.t_us) <= 0).any():
        raise UserError(f"log {name}: ego times do not increase; sort the steps and drop repeated ones")
    steps = log.plans.step
    if len(steps) and ((np.diff(steps) <= 0).any() or steps[0] < 0 or steps[-1] >= len(log.ego.t_us)):
        raise UserError(f"log {name}: planning steps must increase and lie within the drive's steps")
    ids = log.agents.ids
    if log.agents.valid.shape[1] != len(log.ego.t_us) or len(np.unique(ids)) != len(ids):
        raise UserError(f"log {name}: agents need unique ids and one column per ego step")
    unknown = sorted((set(log.plans.images) | set(log.plans.cameras)) - CAMERA_KEYS.keys())
    if unknown or set(log.plans.images) - set(log.plans.cameras):
        who, names = unknown or sorted(log.plans.images), ", ".join(CAMERA_KEYS)
        raise UserError(f"log {name}: cameras {who} need a model and one of the names {names}")


class _Modalities:
    """Turns one drive into py123d's per-step modalities."""

    def __init__(self, log: DriveLog) -> None:
        from py123d.datatypes import BoxDetectionsSE3Metadata, EgoStateSE3Metadata
        from py123d.geometry import PoseSE3
        from py123d.parser.registry import NuScenesBoxDetectionLabel as Label

        self._log = log
        size = log.ego_size
        self._ego_metadata = EgoStateSE3Metadata(
            vehicle_name="ego",
            width=size.width_m,
            length=size.length_m,
            height=EGO_HEIGHT_M,
            wheel_base=WHEEL_BASE_M,
            center_to_imu_se3=PoseSE3(size.centre_from_axle_m, 0, EGO_HEIGHT_M / 2, 1, 0, 0, 0),
            rear_axle_to_imu_se3=PoseSE3.identity(),
        )
        self._box_metadata = BoxDetectionsSE3Metadata(Label)
        self._labels = {
            AgentKind.CAR: Label.VEHICLE_CAR,
            AgentKind.TRUCK: Label.VEHICLE_TRUCK,
            AgentKind.CYCLIST: Label.VEHICLE_BICYCLE,
            AgentKind.PEDESTRIAN: Label.HUMAN_PEDESTRIAN_ADULT,
            AgentKind.OBSTACLE: Label.MOVABLE_OBJECT_BARRIER,
        }
        self._camera_metadata = {name: _camera_metadata(name, log) for name in log.plans.images}
        self._plan_at = {int(step): index for index, step in enumerate(log.plans.step)}

    def at(self, step: int) -> Any:
        """Everything recorded at one step, as py123d's ModalitiesSync."""
        from py123d.datatypes import Timestamp
        from py123d.parser.base_dataset_parser import ModalitiesSync

        time = Timestamp.from_us(int(self._log.ego.t_us[step]))
        modalities = [self._ego(step, time), self._boxes(step, time)]
        if step == 0:
            modalities.append(_custom(SCENE, scene_row(self._log), time, scene_metadata(self._log)))
        if step in self._plan_at:
            index = self._plan_at[step]
            modalities.append(_custom(PLAN, plan_row(self._log, index), time, {"format": FORMAT}))
            modalities.extend(self._image(name, index, step, time) for name in self._log.plans.images)
        return ModalitiesSync(time, modalities)

    def _ego(self, step: int, time: Any) -> Any:
        from py123d.datatypes import DynamicStateSE3, EgoStateSE3

        ego = self._log.ego
        motion = np.zeros(9)
        motion[[0, 3, 8]] = ego.speed_mps[step], ego.accel_mps2[step], ego.yaw_rate_radps[step]
        return EgoStateSE3.from_imu(
            _pose(ego.pose_world[step], 0.0),
            self._ego_metadata,
            time,
            DynamicStateSE3.from_array(motion, copy=False),
        )

    def _boxes(self, step: int, time: Any) -> Any:
        from py123d.datatypes import BoxDetectionAttributes, BoxDetectionSE3, BoxDetectionsSE3
        from py123d.geometry import BoundingBoxSE3, Vector3D

        agents, boxes = self._log.agents, []
        for n in np.flatnonzero(agents.valid[:, step]):
            kind, pose = AgentKind(int(agents.kind[n])), agents.pose_world[n, step]
            length, width = (float(v) for v in agents.size_m[n])
            speed = float(agents.speed_mps[n, step])
            boxes.append(
                BoxDetectionSE3(
                    BoxDetectionAttributes(self._labels[kind], str(agents.ids[n])),
                    BoundingBoxSE3(_pose(pose, HEIGHT_M[kind] / 2), length, width, HEIGHT_M[kind]),
                    Vector3D(speed * float(np.cos(pose[2])), speed * float(np.sin(pose[2])), 0.0),
                )
            )
        return BoxDetectionsSE3(boxes, time, self._box_metadata)

    def _image(self, name: str, index: int, step: int, time: Any) -> Any:
        from py123d.datatypes.sensors.base_camera import Camera
        from py123d.geometry.transform.transform_se3 import rel_to_abs_se3

        metadata = self._camera_metadata[name]
        ego = _pose(self._log.ego.pose_world[step], 0.0)
        pose = rel_to_abs_se3(origin=ego, pose_se3=metadata.camera_to_imu_se3)
        return Camera(metadata, np.ascontiguousarray(self._log.plans.images[name][index]), pose, time)


def _pose(pose_world: Any, z_m: float) -> Any:
    from py123d.geometry import PoseSE3

    x, y, yaw = (float(v) for v in pose_world)
    return PoseSE3(x, y, z_m, float(np.cos(yaw / 2)), 0.0, 0.0, float(np.sin(yaw / 2)))


def _camera_metadata(name: str, log: DriveLog) -> Any:
    from py123d.datatypes import CameraID, PinholeCameraMetadata, PinholeDistortion, PinholeIntrinsics
    from py123d.geometry import PoseSE3

    model = log.plans.cameras[name]
    return PinholeCameraMetadata(
        camera_name=name,
        camera_id=CameraID.deserialize(CAMERA_KEYS[name].rsplit(".", 1)[-1]),
        intrinsics=PinholeIntrinsics.from_camera_matrix(model.intrinsics),
        distortion=PinholeDistortion(0, 0, 0, 0, 0),
        width=model.size_px[0],
        height=model.size_px[1],
        camera_to_imu_se3=PoseSE3.from_transformation_matrix(np.linalg.inv(model.camera_from_ego)),
        is_undistorted=True,
    )


def _custom(key: str, data: dict[str, Any], time: Any, metadata: dict[str, Any]) -> Any:
    from py123d.datatypes.custom.custom_modality import CustomModality, CustomModalityMetadata

    return CustomModality(data, CustomModalityMetadata(key.split(".", 1)[1], metadata), time)


def scene_metadata(log: DriveLog) -> dict[str, Any]:
    """What `list_drives` and `check_logs` read without opening rows: identity and declared counts."""
    return {
        "format": FORMAT,
        "meta": asdict(log.meta),
        "steps": len(log.ego.t_us),
        "plans": len(log.plans.step),
        "images": {name: len(images) for name, images in log.plans.images.items()},
    }


def scene_row(log: DriveLog) -> dict[str, Any]:
    """The one row of custom.nightdrive; arrays keep their dtypes."""
    road, agents = log.road, log.agents
    return {
        "ego_yaw_rad": np.ascontiguousarray(log.ego.pose_world[:, 2]),
        "agent_ids": agents.ids,
        "agent_kind": agents.kind,
        "agent_size_m": agents.size_m,
        "agent_yaw_rad": np.ascontiguousarray(agents.pose_world[..., 2]),
        "route_world": log.route_world,
        "road": None if road is None else {name: getattr(road, name) for name in road.__dataclass_fields__},
        "events": [[event.kind, event.t_us, event.detail] for event in log.events],
        "provenance": log.plans.provenance,
        "cameras": {
            name: {
                "intrinsics": model.intrinsics,
                "camera_from_ego": model.camera_from_ego,
                "size_px": list(model.size_px),
            }
            for name, model in log.plans.cameras.items()
        },
    }


def plan_row(log: DriveLog, index: int) -> dict[str, Any]:
    """Row `index` of custom.nightdrive_plan; names as in PlanSteps."""
    plans = log.plans
    return {
        "turn": int(plans.turn[index]),
        "target_points_ego": plans.target_points_ego[index],
        "speed_limit_mps": float(plans.speed_limit_mps[index]),
        "label_ego": plans.label_ego[index],
        "plan_ego": plans.plan_ego[index],
        "command": plans.command[index].tolist(),
        "label_command": plans.label_command[index].tolist(),
        "aux": plans.aux[index],
        "split_brain": bool(plans.split_brain[index]),
        "confidence": float(plans.confidence[index]),
    }
