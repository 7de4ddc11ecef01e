"""Mining: cases carry what is needed to find them again; faulty spans and held-out towns are never mined."""

from dataclasses import replace

import numpy as np
import pytest

from data_engine.config import MineConfig
from data_engine.mine import Mined, clock, kinds_by_source, mine
from data_engine.rules import RULES
from drive.contracts import DriveLog, EgoTrack, Event
from tests import builders

ALL_RULES = MineConfig(rules={name: {} for name in RULES})


def mined(*logs: DriveLog, config: MineConfig = ALL_RULES) -> Mined:
    return mine([(log, "") for log in logs], config, ["Town02", "Town10HD"])


def as_real(log: DriveLog, scene: str = "scene-0061") -> DriveLog:
    meta = replace(
        log.meta, log_id=scene, route=scene, dataset="nuscenes", simulator="real world", driver="human"
    )
    return replace(log, meta=meta, events=())


def test_a_real_hard_brake_is_mined_with_scene_name_and_time() -> None:
    start = 1_532_402_927_612_460
    log = as_real(builders.hard_brake())
    ego = replace(log.ego, t_us=log.ego.t_us + start)
    found = mined(replace(log, ego=ego))
    assert [(c.kind, c.route, c.source) for c in found.cases] == [("hard_brake", "scene-0061", "log")]
    assert clock(found.cases[0].start_us).startswith("2018-07-24 03:28:5")
    assert found.starts_us == {"scene-0061": start}


def test_case_ids_are_stable_and_unique() -> None:
    log = replace(builders.lead_braking(), events=(Event("collisions_vehicle", 5_700_000),))
    first, second = mined(log).cases, mined(log).cases
    assert [c.case_id for c in first] == [c.case_id for c in second]
    assert [c.kind for c in first] == ["low_reward", "collision"]  # the approach is no near miss as well
    assert first[0].case_id != mined(replace(log, meta=replace(log.meta, log_id="other"))).cases[0].case_id


def test_criteria_rules_apply_to_simulated_drives_only() -> None:
    log = replace(builders.cruise(), events=(Event("red_light", 2_000_000),))
    assert [c.kind for c in mined(log).cases] == ["red_light"]
    assert mined(replace(as_real(log), events=log.events)).cases == ()


def test_held_out_towns_are_never_mined() -> None:
    log = builders.hard_brake()
    found = mined(replace(log, meta=replace(log.meta, town="Town02")))
    assert found.cases == ()
    assert found.skipped == {"drive in a held-out town": 1}


def faulty(kind: str) -> DriveLog:
    """A quiet drive whose recording looks violent."""
    log = as_real(builders.cruise())
    ego = {name: getattr(log.ego, name).copy() for name in EgoTrack.__dataclass_fields__}
    if kind == "time_backwards":
        ego["t_us"][40:43] = ego["t_us"][40:43][::-1]
    elif kind == "time_repeated":
        ego["t_us"][41] = ego["t_us"][40]
    elif kind == "pose_jump":
        ego["pose_world"][40:, 0] += 25.0
        ego["speed_mps"][40] = 260.0
    else:
        ego["speed_mps"][40:44] = np.nan
        ego["pose_world"][41] = np.nan
    return replace(log, ego=EgoTrack(**ego))


@pytest.mark.parametrize("kind", ["time_backwards", "time_repeated", "pose_jump", "non_finite"])
def test_faults_are_reported_and_add_no_case(kind: str) -> None:
    found = mined(faulty(kind))
    assert found.cases == ()
    assert found.faults
    assert all(fault["route"] == "scene-0061" for fault in found.faults)


def test_counts_by_source_and_kind() -> None:
    log = replace(builders.hard_brake(), events=(Event("red_light", 2_000_000),))
    assert kinds_by_source(mined(log).cases) == {"closed_loop": {"hard_brake": 1, "red_light": 1}}


def test_a_rule_that_is_not_listed_is_off() -> None:
    assert mined(builders.hard_brake(), config=MineConfig(rules={"stuck": {}})).cases == ()
