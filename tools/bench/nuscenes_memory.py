"""How much memory does `drive bench nuscenes --predictions` take on tables as large as trainval?

    python tools/bench/nuscenes_memory.py              # 850 scenes, about 1.2 million boxes
    python tools/bench/nuscenes_memory.py --sweeps 5   # and rows that are no key frames between them

The tables are made up: straight drives among standing cars, under the names of the official scenes. Exit code
1 if the peak of the process that scores is above --limit-gb.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

FRAMES, BOXES, SPEED_MPS = 40, 34, 6.0
CAMERAS = ("FRONT", "FRONT_LEFT", "FRONT_RIGHT", "BACK", "BACK_LEFT", "BACK_RIGHT")
RADARS = ("FRONT", "FRONT_LEFT", "FRONT_RIGHT", "BACK_LEFT", "BACK_RIGHT")
CHANNELS = ("LIDAR_TOP", *(f"CAM_{c}" for c in CAMERAS), *(f"RADAR_{r}" for r in RADARS))
START_US = 1_533_151_603_000_000
TURN = [1.0, 0.0, 0.0, 0.0]


def write_tables(root: Path, scenes: list[str], sweeps: int = 0) -> Path:
    """Write root/v1.0-trainval and predictions of every sample, straight on; returns their file."""
    folder = root / "v1.0-trainval"
    folder.mkdir(parents=True)
    small: dict[str, list[dict[str, Any]]] = {
        "category": [{"token": "car", "name": "vehicle.car"}],
        "sensor": [{"token": c, "channel": c, "modality": _modality(c)} for c in CHANNELS],
        "log": [{"token": "log", "location": "boston-seaport"}],
        "calibrated_sensor": [_calibration(c) for c in CHANNELS],
        "scene": [_scene(name) for name in scenes],
        "instance": [{"token": f"{s}/{i}", "category_token": "car"} for s in scenes for i in range(BOXES)],
    }
    for name, rows in small.items():
        _write(folder / f"{name}.json", rows)
    keys = [(s, k) for s in scenes for k in range(FRAMES)]
    _write(folder / "sample.json", (_sample(s, k) for s, k in keys))
    _write(folder / "ego_pose.json", (_pose(s, k, n) for s, k in keys for n in range(sweeps + 1)))
    _write(
        folder / "sample_data.json",
        (_data(s, k, c, n) for s, k in keys for c in CHANNELS for n in range(sweeps + 1)),
    )
    rng = np.random.default_rng(0)
    places = {s: rng.uniform(-50, 150, (BOXES, 2)).round(3).tolist() for s in scenes}
    _write(
        folder / "sample_annotation.json",
        (_box(s, k, i, places[s][i]) for s, k in keys for i in range(BOXES)),
    )
    steps = [[SPEED_MPS * 0.5 * (n + 1), 0.3] for n in range(6)]
    head = {"planner": "straight on", "frame": "ego", "dt_s": 0.5, "command": "none"}
    path = root / "predictions.json"
    path.write_text(json.dumps(head | {"predictions": {_token(s, k): steps for s, k in keys}}))
    return path


def measure(root: Path, predictions: Path) -> tuple[float, float]:
    """Peak resident memory [GiB] and seconds of a process that scores the predictions on the val split."""
    argv = ["bench", "nuscenes", "--dataroot", str(root), "--version", "v1.0-trainval"]
    code = (
        "import re, sys\nfrom drive.cli.main import main\n"
        f"code = main({[*argv, '--predictions', str(predictions)]!r})\n"
        # rusage would count what the parent held when it forked
        "peak = re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read()).group(1)\n"
        "print(code, peak, file=sys.stderr)"
    )
    start = time.perf_counter()
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code_text, peak_kb = got.stderr.split()[-2:]
    if code_text != "0":
        raise RuntimeError(got.stdout + got.stderr)
    return int(peak_kb) / 2**20, time.perf_counter() - start


def official_scenes(limit: int | None) -> list[str]:
    """Names of the scenes of trainval, validation first."""
    from nuscenes.utils.splits import create_splits_scenes

    splits = create_splits_scenes()
    if limit is None:
        return [*splits["val"], *splits["train"]]
    val = splits["val"][: limit - limit // 2]
    return [*val, *splits["train"][: limit - len(val)]]


def main() -> int:
    """Make tables, score, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, metavar="N", help="so many instead of 850")
    parser.add_argument("--sweeps", type=int, default=0, help="rows between key frames (default 0; real: 5)")
    parser.add_argument("--limit-gb", type=float, default=2.0, help="peak that fails [GiB] (default 2)")
    args = parser.parse_args()
    scenes = official_scenes(args.scenes)
    with tempfile.TemporaryDirectory() as temp:
        predictions = write_tables(Path(temp) / "data", scenes, args.sweeps)
        size = sum(f.stat().st_size for f in Path(temp).rglob("*.json")) / 2**30
        peak, seconds = measure(Path(temp) / "data", predictions)
    print(
        f"{len(scenes)} scenes, {len(scenes) * FRAMES * BOXES} boxes, {size:.2f} GiB of tables: peak "
        f"{peak:.2f} GiB, {seconds:.0f} s (this process: {_own_gb():.2f} GiB)"
    )
    return 1 if peak > args.limit_gb else 0


def _own_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for i, row in enumerate(rows):
            file.write(("[\n" if i == 0 else ",\n") + json.dumps(row))
        file.write("\n]")


def _token(scene: str, k: int) -> str:
    return f"{scene}-{k:02d}"


def _modality(channel: str) -> str:
    return {"L": "lidar", "C": "camera", "R": "radar"}[channel[0]]


def _calibration(channel: str) -> dict[str, Any]:
    matrix = [[1266.4, 0.0, 816.3], [0.0, 1266.4, 491.5], [0.0, 0.0, 1.0]]
    return {
        "token": f"cal-{channel}",
        "sensor_token": channel,
        "translation": [1.0, 0.0, 1.8],
        "rotation": TURN,
        "camera_intrinsic": matrix if channel.startswith("CAM") else [],
    }


def _scene(name: str) -> dict[str, Any]:
    return {"token": name, "name": name, "log_token": "log", "first_sample_token": _token(name, 0)}


def _sample(scene: str, k: int) -> dict[str, Any]:
    later = _token(scene, k + 1) if k + 1 < FRAMES else ""
    return {"token": _token(scene, k), "timestamp": _time(k), "scene_token": scene, "next": later}


def _time(k: int, n: int = 0) -> int:
    return START_US + 500_000 * k + 50_000 * n


def _pose(scene: str, k: int, n: int) -> dict[str, Any]:
    x = SPEED_MPS * 0.5 * k
    place = [x, 0.0, 0.0]
    return {
        "token": f"{_token(scene, k)}-{n}",
        "timestamp": _time(k, n),
        "translation": place,
        "rotation": TURN,
    }


def _data(scene: str, k: int, channel: str, n: int) -> dict[str, Any]:
    folder = "sweeps" if n else "samples"
    return {
        "token": f"{_token(scene, k)}-{channel}-{n}",
        "sample_token": _token(scene, k),
        "ego_pose_token": f"{_token(scene, k)}-{n}",
        "calibrated_sensor_token": f"cal-{channel}",
        "timestamp": _time(k, n),
        "fileformat": "jpg",
        "is_key_frame": n == 0,
        "height": 900,
        "width": 1600,
        "filename": f"{folder}/{channel}/n015-2018-07-24-11-22-45+0800__{channel}__{_time(k, n)}.jpg",
        "prev": "",
        "next": "",
    }


def _box(scene: str, k: int, i: int, place: list[float]) -> dict[str, Any]:
    name = f"{scene}/{i}"
    return {
        "token": f"{name}-{k}",
        "sample_token": _token(scene, k),
        "instance_token": name,
        "visibility_token": "4",
        "attribute_tokens": [],
        "translation": [*place, 0.9],
        "size": [1.9, 4.5, 1.6],
        "rotation": TURN,
        "prev": f"{name}-{k - 1}" if k else "",
        "next": f"{name}-{k + 1}" if k + 1 < FRAMES else "",
        "num_lidar_pts": 9,
        "num_radar_pts": 0,
    }


if __name__ == "__main__":
    sys.exit(main())
