"""A tiny nuScenes folder made by hand: scenes of 12 key frames with 2 cars; optional tables are absent."""

import json
from pathlib import Path
from typing import Any

CAMERAS = ("FRONT", "BACK", "FRONT_LEFT", "BACK_LEFT", "FRONT_RIGHT", "BACK_RIGHT")
CHANNELS = (*(f"CAM_{place}" for place in CAMERAS), "LIDAR_TOP")
MODALITY = {"CAM": "camera", "LID": "lidar"}
FRAMES = 12
START_US = 1_533_151_603_000_000


def write_tiny(
    root: Path, scenes: tuple[str, ...] = ("scene-0103", "scene-0061"), speed_mps: float = 8.0
) -> Path:
    """Write `root/v1.0-mini/*.json` with straight drives east at `speed_mps`; no sensor files."""
    tables: dict[str, list[dict[str, Any]]] = {
        "category": [{"token": "cat", "name": "vehicle.car", "description": ""}],
        "sensor": [{"token": c, "channel": c, "modality": MODALITY[c[:3]]} for c in CHANNELS],
        "log": [{"token": "log", "location": "boston-seaport"}],
        "calibrated_sensor": [_calibrated(channel) for channel in CHANNELS],
        "scene": [], "sample": [], "sample_data": [], "ego_pose": [], "sample_annotation": [], "instance": [],
    }  # fmt: skip
    for name in scenes:
        _add_scene(tables, name, speed_mps)
    folder = root / "v1.0-mini"
    folder.mkdir(parents=True)
    for table, rows in tables.items():
        (folder / f"{table}.json").write_text(json.dumps(rows), encoding="utf-8")
    return root


def _calibrated(channel: str) -> dict[str, Any]:
    intrinsic = (
        [[1266.4, 0.0, 816.3], [0.0, 1266.4, 491.5], [0.0, 0.0, 1.0]] if channel.startswith("CAM") else []
    )
    return {
        "token": f"cal-{channel}",
        "sensor_token": channel,
        "translation": [1.7, 0.0, 1.5],
        "rotation": [0.5, -0.5, 0.5, -0.5],
        "camera_intrinsic": intrinsic,
    }


def _add_scene(tables: dict[str, list[dict[str, Any]]], name: str, speed_mps: float) -> None:
    ids = [f"{name}-{i}" for i in range(FRAMES)]
    tables["scene"].append(
        {"token": name, "log_token": "log", "nbr_samples": FRAMES, "first_sample_token": ids[0],
         "last_sample_token": ids[-1], "name": name, "description": ""}
    )  # fmt: skip
    for i, token in enumerate(ids):
        t_us, x = START_US + 500_000 * i, speed_mps * 0.5 * i
        around = {"prev": ids[i - 1] if i else "", "next": ids[i + 1] if i + 1 < FRAMES else ""}
        tables["sample"].append({"token": token, "timestamp": t_us, "scene_token": name, **around})
        pose = {
            "token": token,
            "timestamp": t_us,
            "translation": [x, 5.0, 0.0],
            "rotation": [1.0, 0.0, 0.0, 0.0],
        }
        tables["ego_pose"].append(pose)
        for channel in CHANNELS:
            tables["sample_data"].append(_sample_data(channel, token, t_us, around))
        for car in range(2):
            tables["sample_annotation"].append(
                _box(f"{name}-car{car}", token, i, x + 20.0 + 15.0 * car, around)
            )
    for car in range(2):
        instance = f"{name}-car{car}"
        tables["instance"].append(
            {"token": instance, "category_token": "cat", "nbr_annotations": FRAMES,
             "first_annotation_token": f"{instance}@{ids[0]}",
             "last_annotation_token": f"{instance}@{ids[-1]}"}
        )  # fmt: skip


def _sample_data(channel: str, sample: str, t_us: int, around: dict[str, str]) -> dict[str, Any]:
    suffix = "jpg" if channel.startswith("CAM") else "pcd.bin"
    linked = {key: f"{channel}@{token}" if token else "" for key, token in around.items()}
    return {
        "token": f"{channel}@{sample}", "sample_token": sample, "ego_pose_token": sample,
        "calibrated_sensor_token": f"cal-{channel}", "timestamp": t_us, "is_key_frame": True,
        "height": 900, "width": 1600, "filename": f"samples/{channel}/{sample}.{suffix}", **linked,
    }  # fmt: skip


def _box(instance: str, sample: str, index: int, x_m: float, around: dict[str, str]) -> dict[str, Any]:
    linked = {key: f"{instance}@{token}" if token else "" for key, token in around.items()}
    return {
        "token": f"{instance}@{sample}", "sample_token": sample, "instance_token": instance,
        "visibility_token": "", "attribute_tokens": [], "translation": [x_m, 5.0, 0.8],
        "size": [1.9, 4.6, 1.6],
        "rotation": [1.0, 0.0, 0.0, 0.0], "num_lidar_pts": 5, "num_radar_pts": index, **linked,
    }  # fmt: skip
