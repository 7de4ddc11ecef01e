"""Each mining rule on a drive where the answer is known by hand."""

from dataclasses import replace

import numpy as np
import pytest

from data_engine.rules import REAL_LOG_RULES, RULES, time_to_collision
from drive.contracts import AgentKind, DriveLog, Event, Lateral, Longitudinal
from tests import builders


def with_events(*events: Event) -> DriveLog:
    return replace(builders.cruise(), events=events)


def with_plan_offset(offset_m: float) -> DriveLog:
    log = builders.cruise()
    plan = log.plans.label_ego.copy()
    plan[..., 1] += offset_m
    return replace(log, plans=replace(log.plans, plan_ego=plan))


def test_an_uneventful_drive_gives_no_case() -> None:
    for name, rule in RULES.items():
        assert rule(builders.cruise()) == [], name


def test_hard_brake_is_found_once_with_its_deceleration() -> None:
    found = RULES["hard_brake"](builders.hard_brake(decel_mps2=6.0, at_s=3.0))
    assert len(found) == 1
    assert found[0].terms["decel_mps2"] == pytest.approx(6.0, abs=0.05)
    assert 3.0e6 <= found[0].start_us <= 3.6e6


def test_soft_braking_is_not_hard_braking() -> None:
    assert RULES["hard_brake"](builders.hard_brake(decel_mps2=3.0)) == []


def test_the_stop_of_a_collision_is_not_braking() -> None:
    log = builders.hard_brake(decel_mps2=6.0, at_s=3.0)
    crashed = replace(log, events=(Event("collisions_vehicle", 2_900_000),))
    assert RULES["hard_brake"](crashed) == []


def test_time_to_collision_matches_the_gap_at_constant_speed() -> None:
    log = builders.lead_braking(gap_m=25.0, speed_mps=10.0)
    ttc = time_to_collision(log)
    standing = 50  # t = 5 s: the lead has stopped, 7.5 m ahead of a 10 m/s ego
    assert ttc[standing] == pytest.approx(0.8, abs=0.11)
    assert np.isinf(ttc[0])


def test_near_miss_needs_a_road_user_ahead() -> None:
    assert len(RULES["near_miss"](builders.lead_braking())) == 1
    behind = builders.drive_log(
        builders.along_x(10.0 * np.arange(60) * 0.1),
        [(AgentKind.CAR, (4.5, 1.8), builders.along_x(10.0 * np.arange(60) * 0.1 - 6.0))],
    )
    assert RULES["near_miss"](behind) == []


def test_infractions_become_cases_of_their_kind() -> None:
    log = with_events(
        Event("collisions_vehicle", 1_000_000, "hit a car"),
        Event("collisions_vehicle", 1_400_000, "hit a car"),
        Event("outside_route_lanes", 3_000_000, "off the road for 1.0 m"),
        Event("outside_route_lanes", 5_000_000, "in the oncoming lane for 3.0 m"),
        Event("red_light", 6_000_000),
        Event("perturbation", 6_500_000),
    )
    starts = {name: [f.start_us for f in RULES[name](log)] for name in RULES}
    assert starts["collision"] == [1_000_000]
    assert starts["off_road"] == [3_000_000]
    assert starts["wrong_lane"] == [5_000_000]
    assert starts["red_light"] == [6_000_000]


@pytest.mark.parametrize(("offset_m", "cases"), [(0.5, 0), (1.9, 0), (2.1, 1), (6.0, 1)])
def test_disagreement_starts_at_two_metres(offset_m: float, cases: int) -> None:
    found = RULES["disagreement"](with_plan_offset(offset_m))
    assert len(found) == cases
    if found:
        assert found[0].terms["ade_m"] == pytest.approx(offset_m, abs=1e-3)


def test_stuck_only_where_the_expert_would_drive_on() -> None:
    log = builders.drive_log(builders.along_x(np.zeros(100)))
    waiting = log.plans.label_ego.copy()
    leaving = np.zeros_like(waiting)
    leaving[..., 0] = np.linspace(0, 12, waiting.shape[1])
    assert RULES["stuck"](replace(log, plans=replace(log.plans, label_ego=np.zeros_like(waiting)))) == []
    assert len(RULES["stuck"](replace(log, plans=replace(log.plans, label_ego=leaving)))) == 1


def test_split_brain_when_the_command_says_stop_and_the_plan_goes_on() -> None:
    log = builders.cruise()
    command = log.plans.command.copy()
    command[5:8] = Lateral.KEEP, Longitudinal.STOP
    found = RULES["split_brain"](replace(log, plans=replace(log.plans, command=command)))
    assert len(found) == 1
    assert found[0].terms["steps"] == 3


def test_real_logs_use_known_rules() -> None:
    assert set(REAL_LOG_RULES) <= set(RULES)
