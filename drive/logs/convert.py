"""Converts nuScenes scenes to py123d logs with py123d's extraction and log writer."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drive.logs.layout import FORMAT, SOURCE
from drive.logs.nuscenes_rows import CAN_POSE, devkit, read_rows, read_tables
from drive.logs.nuscenes_tables import SceneSurvey, Survey
from drive.logs.writer import open_writer


def open_tables(found: Survey) -> Any:
    """The devkit's tables; errors as in `read_tables` and `devkit`."""
    return devkit(found.dataroot, found.version, read_tables(found.dataroot / found.version))


def write_scene(tables: Any, found: Survey, scene: SceneSurvey, folder: Path, split: str) -> None:
    """Write one scene's log into the empty `folder`; images and point clouds are referred to, not copied.

    Ego motion is kept as the CAN bus measured it (zeros where there is no message), not inferred from later
    poses.

    Raises:
        UserError: the scene's CAN messages are damaged.
        LookupError, ValueError: a key frame lacks a sensor channel, or has a category foreign to py123d.
    """
    from py123d.datatypes import LogMetadata
    from py123d.datatypes.custom.custom_modality import CustomModality, CustomModalityMetadata

    logging.getLogger("py123d").setLevel(logging.ERROR)
    with open_writer(folder, LogMetadata("nuscenes", split, scene.name, scene.location), "path") as writer:
        for index, frame in enumerate(_frames(tables, found, scene)):
            if index == 0:
                metadata = CustomModalityMetadata(SOURCE.split(".", 1)[1], _marker(found, scene))
                frame.modalities.append(CustomModality({}, metadata, frame.timestamp))
            writer.write_sync(frame)


def _frames(tables: Any, found: Survey, scene: SceneSurvey) -> Iterator[Any]:
    """Key frames as py123d's NuScenesLogParser gives them, also without a can_bus folder."""
    from py123d.datatypes import Timestamp
    from py123d.parser.base_dataset_parser import ModalitiesSync
    from py123d.parser.nuscenes.utils import nuscenes_constants as constants
    from py123d.parser.nuscenes.utils import nuscenes_extraction as extraction

    record = tables.get("scene", scene.token)
    cameras = extraction.get_nuscenes_pinhole_camera_metadata(tables, record)
    lidar = extraction.get_nuscenes_lidar_merged_metadata(tables, record)
    radar = extraction.get_nuscenes_radar_merged_metadata(tables, record)
    vehicle, labels = (
        constants.NUSCENES_EGO_STATE_SE3_METADATA,
        constants.NUSCENES_BOX_DETECTIONS_SE3_METADATA,
    )
    can_bus, root = _CanBus(found.dataroot, scene), found.dataroot
    for sample in extraction.collect_keyframe_samples(tables, record):
        sensors = [
            *extraction.extract_nuscenes_cameras(tables, sample, root, cameras),
            extraction.extract_nuscenes_lidar(tables, sample, root, lidar),
            extraction.extract_nuscenes_radar(tables, sample, root, radar),
        ]
        ego = extraction.extract_ego_state_from_sample(tables, sample, can_bus, vehicle)
        boxes = extraction.extract_nuscenes_box_detections(tables, sample, labels)
        present = [sensor for sensor in sensors if sensor is not None]
        yield ModalitiesSync(Timestamp.from_us(sample["timestamp"]), [ego, boxes, *present])


class _CanBus:
    """One scene's CAN messages, empty where there are none; the devkit's class raises without the folder.

    Raises:
        UserError: The file of messages is damaged.
    """

    def __init__(self, dataroot: Path, scene: SceneSurvey) -> None:
        path = dataroot / "can_bus" / f"{scene.name}_pose.json"
        self._messages = read_rows(path, CAN_POSE) if scene.can_bus else []

    def get_messages(self, _scene_name: str, _kind: str) -> list[dict[str, Any]]:
        """Pose messages in time order; the only kind that the extraction asks for."""
        return self._messages


def _marker(found: Survey, scene: SceneSurvey) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "key": found.key,
        "version": found.version,
        "dataroot": str(found.dataroot),
        "scene_token": scene.token,
        "can_bus": scene.can_bus,
        "samples": len(scene.sample_t_us),
        "boxes": scene.boxes,
        "sensor_files": {
            name: {"declared": channel.declared, "present": channel.present, "gap": channel.gap}
            for name, channel in scene.channels.items()
        },
    }
