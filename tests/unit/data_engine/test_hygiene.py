"""Screening: faults of files and rows keep moments and whole recordings out of mining and training."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_engine.hygiene import Screened, record, screen, spoilt_steps
from data_engine.store import collect
from drive.contracts import AgentKind, DriveLog
from drive.logs import find_faults, write_drive
from tests import builders


def picture_drive() -> DriveLog:
    log = builders.cruise(image_size=16)
    images = np.random.default_rng(0).integers(90, 130, log.plans.images["front"].shape, dtype=np.uint8)
    return replace(log, plans=replace(log.plans, images={"front": images}))


def screened(
    tmp_path: Path, log: DriveLog, spoil: Callable[[Path], object] = lambda folder: None
) -> Screened:
    folder = write_drive(tmp_path, log)
    spoil(folder)
    return screen([tmp_path, tmp_path / "absent"])


def test_a_clean_recording_passes(tmp_path: Path) -> None:
    assert screened(tmp_path, picture_drive()) == Screened((), {})


SPOILS: dict[str, Callable[[Path], object]] = {
    "damaged_file": lambda folder: (folder / "ego_state_se3.arrow").write_bytes(b"\xff" * 400),
    "missing_channel": lambda folder: (folder / "box_detections_se3.arrow").unlink(),
}


@pytest.mark.parametrize("kind", SPOILS)
def test_a_damaged_recording_is_left_out_whole_with_its_file(tmp_path: Path, kind: str) -> None:
    found = screened(tmp_path, picture_drive(), SPOILS[kind])
    assert found.left_out.keys() == {"cruise"}
    assert kind in found.left_out["cruise"]
    assert [f["file"].endswith(".arrow") for f in found.faults if f["kind"] == kind] == [True]


def test_a_log_that_cannot_be_identified_does_not_stop_the_others(tmp_path: Path) -> None:
    write_drive(tmp_path, replace(picture_drive(), meta=replace(picture_drive().meta, log_id="other")))
    lost = write_drive(tmp_path, picture_drive())
    (lost / "custom.nightdrive.arrow").write_bytes(b"nothing")
    assert [ref.meta.log_id for ref in collect([tmp_path])] == ["other"]
    assert screen([tmp_path]).left_out.keys() == {"cruise"}


def test_a_frame_of_another_place_is_foreign() -> None:
    log = picture_drive()
    log.plans.images["front"][9] = 250
    assert [(f.kind, f.row) for f in find_faults(log)] == [("foreign_image", 9)]
    log.plans.images["front"][9:] = 250  # everything brighter from here on: a change of light
    assert find_faults(replace(log, plans=replace(log.plans, images={}))) == []
    assert "foreign_image" not in {f.kind for f in find_faults(log)}


def test_road_users_that_leap_or_freeze_are_faults() -> None:
    x = 8.0 * np.arange(80) * 0.1
    log = builders.drive_log(builders.along_x(x), [(AgentKind.CAR, (4.5, 1.8), builders.along_x(x + 30))])
    assert find_faults(log) == []
    leap, frozen = log.agents.pose_world.copy(), log.agents.pose_world.copy()
    leap[0, 40:, 0] += 20.0
    frozen[0, 41:49] = frozen[0, 40]
    for pose, kind, row in ((leap, "agent_jump", 40), (frozen, "frozen_agents", 41)):
        found = find_faults(replace(log, agents=replace(log.agents, pose_world=pose)))
        assert (kind, "agents", row) in [(f.kind, f.channel, f.row) for f in found]


def test_no_training_window_spans_a_fault() -> None:
    log = builders.cruise()
    speed = log.ego.speed_mps.copy()
    speed[40] = np.nan
    broken = replace(log, ego=replace(log.ego, speed_mps=speed))
    faults = [record(fault, "cruise") for fault in find_faults(broken)]
    t_s = log.ego.t_us[log.plans.step] * 1e-6
    bad = spoilt_steps(broken, faults)
    assert bad[(t_s >= 0.0) & (t_s <= 6.0)].all()  # the label 4 s ahead, the history 2 s back
    assert not bad[t_s > 7.1].any()
    assert not spoilt_steps(broken, [{**fault, "level": "note"} for fault in faults]).any()
    assert spoilt_steps(log, [{**faults[0], "start_us": -1, "end_us": -1}]).all()
