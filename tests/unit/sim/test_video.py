"""Videos of recorded drives: a frame per planning step, what is wrong in red, linked from the results."""

import json
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from drive.contracts import DriveLog, Event
from drive.logs import write_drive
from sim.results import ResultsFile, failure_record
from sim.routes import RouteSpec
from sim.suites import Suite
from sim.video import BAD, CAMERA_PX, GOOD, LEAST_BAR_PX, SIZE_PX, frame, write_videos
from tests.builders import cruise, lead_braking


def count_of(picture: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((picture == np.array(colour, np.uint8)).all(-1).sum())


@pytest.fixture(scope="module")
def log() -> DriveLog:
    return cruise(seconds=5.0, image_size=64)


def test_a_frame_shows_the_camera_and_full_bars(log: DriveLog) -> None:
    picture = frame(log, 1)
    assert picture.shape == (SIZE_PX[1], SIZE_PX[0], 3)
    assert picture.dtype == np.uint8
    assert (
        np.ptp(picture[20 : CAMERA_PX[1] - 20, 20 : CAMERA_PX[0] - 20], axis=(0, 1)).max() < 12
    )  # grey card
    assert count_of(picture, GOOD) > 8 * 150 * 8
    assert count_of(picture, BAD) == 0


def test_a_drive_into_another_car_has_a_red_bar_and_its_collision_in_words() -> None:
    crash = lead_braking()
    event = Event("collisions_vehicle", int(crash.ego.t_us[crash.plans.step[5]]), "hit a car")
    shown = frame(replace(crash, events=(event,)), 5)
    silent = frame(replace(crash, events=()), 5)
    words = slice(CAMERA_PX[1], None), slice(0, CAMERA_PX[0])
    assert count_of(shown[words], BAD) > count_of(silent[words], BAD) == 0
    bars = slice(None), slice(CAMERA_PX[0], None)
    late = frame(replace(crash, events=()), 15)  # less than 4 s before it
    assert count_of(late[bars], BAD) > count_of(silent[bars], BAD) + LEAST_BAR_PX * 8


def test_videos_are_written_once_and_linked(tmp_path: Path) -> None:
    log = cruise(seconds=1.4, image_size=64)
    spec = RouteSpec(log.meta.route, "Town01", 1, 60.0)
    results = ResultsFile(
        tmp_path / "results.json", Suite("s", "", (spec,)), {"policy": "p", "simulator": "light simulator"}
    )
    results.add(failure_record(spec, 0, "Completed", ""))
    write_drive(tmp_path / "logs", log)
    videos = write_videos(tmp_path / "results.json", tmp_path / "logs")
    path = Path(videos[spec.route_id])
    with av.open(str(path)) as file:
        frames = list(file.decode(video=0))
        assert float(file.streams.video[0].average_rate or 0) == 5.0
    assert len(frames) == len(log.plans.step)
    assert (frames[0].width, frames[0].height) == SIZE_PX
    first = frames[0].to_ndarray(format="rgb24").astype(int)
    assert np.abs(first - frame(log, 0)).mean() < 6.0
    (record,) = json.loads((tmp_path / "results.json").read_text())["_checkpoint"]["records"]
    assert tmp_path / record["meta"]["video"] == path
    before = path.stat().st_mtime_ns
    write_videos(tmp_path / "results.json", tmp_path / "logs")
    assert path.stat().st_mtime_ns == before
    assert not list(path.parent.glob("*.part*"))
