"""Each mining rule on a drive where the answer is known by hand."""

from dataclasses import replace

import numpy as np
import pytest

from data_engine.rules import REAL_LOG_RULES, RULES, Finding
from data_engine.rules.agents import time_to_collision
from data_engine.tables import tables_of
from drive.contracts import AgentKind, DriveLog, Event, Lateral, Longitudinal
from tests import builders


def find(rule: str, *logs: DriveLog, **parameters: float) -> list[Finding]:
    return RULES[rule](tables_of(logs, rewards=rule == "low_reward"), **parameters)


def with_events(*events: Event) -> DriveLog:
    return replace(builders.cruise(), events=events)


def with_plan_offset(offset_m: float) -> DriveLog:
    log = builders.cruise()
    plan = log.plans.label_ego.copy()
    plan[..., 1] += offset_m
    return replace(log, plans=replace(log.plans, plan_ego=plan))


def test_an_uneventful_drive_gives_no_case() -> None:
    for name in RULES:
        assert find(name, builders.cruise()) == [], name


def test_hard_brake_is_found_once_with_its_deceleration() -> None:
    found = find("hard_brake", builders.hard_brake(decel_mps2=6.0, at_s=3.0))
    assert len(found) == 1
    assert found[0].terms["decel_mps2"] == pytest.approx(6.0, abs=0.05)
    assert 3.0e6 <= found[0].start_us <= 3.6e6


def test_soft_braking_is_not_hard_braking() -> None:
    assert find("hard_brake", builders.hard_brake(decel_mps2=3.0)) == []


def test_the_stop_of_a_collision_is_not_braking() -> None:
    log = builders.hard_brake(decel_mps2=6.0, at_s=3.0)
    crashed = replace(log, events=(Event("collisions_vehicle", 2_900_000),))
    assert find("hard_brake", crashed) == []


def test_time_to_collision_matches_the_gap_at_constant_speed() -> None:
    log = builders.lead_braking(gap_m=25.0, speed_mps=10.0)
    ttc = time_to_collision(tables_of([log]))
    standing = 50  # t = 5 s: the lead has stopped, 7.5 m ahead of a 10 m/s ego
    assert ttc[standing] == pytest.approx(0.8, abs=0.11)
    assert np.isinf(ttc[0])


def test_near_miss_needs_a_road_user_ahead() -> None:
    assert len(find("near_miss", builders.lead_braking())) == 1
    behind = builders.drive_log(
        builders.along_x(10.0 * np.arange(60) * 0.1),
        [(AgentKind.CAR, (4.5, 1.8), builders.along_x(10.0 * np.arange(60) * 0.1 - 6.0))],
    )
    assert find("near_miss", behind) == []


def test_infractions_become_cases_of_their_kind() -> None:
    log = with_events(
        Event("collisions_vehicle", 1_000_000, "hit a car"),
        Event("collisions_vehicle", 1_400_000, "hit a car"),
        Event("outside_route_lanes", 3_000_000, "off the road for 1.0 m"),
        Event("outside_route_lanes", 5_000_000, "in the oncoming lane for 3.0 m"),
        Event("red_light", 6_000_000),
        Event("perturbation", 6_500_000),
    )
    starts = {name: [f.start_us for f in find(name, log)] for name in RULES}
    assert starts["collision"] == [1_000_000]
    assert starts["off_road"] == [3_000_000]
    assert starts["wrong_lane"] == [5_000_000]
    assert starts["red_light"] == [6_000_000]


@pytest.mark.parametrize(("offset_m", "cases"), [(0.5, 0), (1.9, 0), (2.1, 1), (6.0, 1)])
def test_disagreement_starts_at_two_metres(offset_m: float, cases: int) -> None:
    found = find("disagreement", with_plan_offset(offset_m))
    assert len(found) == cases
    if found:
        assert found[0].terms["ade_m"] == pytest.approx(offset_m, abs=1e-3)


def test_stuck_only_where_the_expert_would_drive_on() -> None:
    log = builders.drive_log(builders.along_x(np.zeros(100)))
    waiting = log.plans.label_ego.copy()
    leaving = np.zeros_like(waiting)
    leaving[..., 0] = np.linspace(0, 12, waiting.shape[1])
    assert find("stuck", replace(log, plans=replace(log.plans, label_ego=np.zeros_like(waiting)))) == []
    assert len(find("stuck", replace(log, plans=replace(log.plans, label_ego=leaving)))) == 1


def test_split_brain_when_the_command_says_stop_and_the_plan_goes_on() -> None:
    log = builders.cruise()
    command = log.plans.command.copy()
    command[5:8] = Lateral.KEEP, Longitudinal.STOP
    found = find("split_brain", replace(log, plans=replace(log.plans, command=command)))
    assert len(found) == 1
    assert found[0].end_us - found[0].start_us == 400_000  # three steps


def test_real_logs_use_known_rules() -> None:
    assert set(REAL_LOG_RULES) <= set(RULES)


def test_one_scan_of_many_drives_finds_what_scans_of_each_find() -> None:
    logs = [
        builders.cruise(),
        builders.hard_brake(),
        builders.lead_braking(),
        builders.hard_brake(decel_mps2=5.0),
    ]
    for name in RULES:
        alone = [(n, f.start_us, f.severity) for n, log in enumerate(logs) for f in find(name, log)]
        together = [(f.drive, f.start_us, pytest.approx(f.severity, abs=1e-6)) for f in find(name, *logs)]
        assert together == alone, name


def test_jerk_is_the_change_of_acceleration_and_needs_more_than_two_hertz() -> None:
    log = builders.hard_brake(decel_mps2=9.0)
    found = find("jerk", log)
    assert found
    assert found[0].terms["jerk_mps3"] == pytest.approx(17.0, abs=1.0)  # to 9 m/s2 within half a second
    assert find("jerk", builders.hard_brake(decel_mps2=4.0)) == []
    slow = replace(log.ego, **{k: getattr(log.ego, k)[::5] for k in log.ego.__dataclass_fields__})
    agents = replace(log.agents, pose_world=log.agents.pose_world[:, ::5],
                     speed_mps=log.agents.speed_mps[:, ::5], valid=log.agents.valid[:, ::5])  # fmt: skip
    plans = replace(log.plans, step=(log.plans.step // 5).astype(np.int32))
    assert find("jerk", replace(log, ego=slow, agents=agents, plans=plans)) == []


def test_leaving_the_route() -> None:
    log = builders.cruise()
    pose = log.ego.pose_world.copy()
    pose[30:50, 1] += 8.0
    found = find("route_deviation", replace(log, ego=replace(log.ego, pose_world=pose)))
    assert [(f.start_us, f.end_us) for f in found] == [(3_000_000, 4_900_000)]
    assert found[0].terms["off_route_m"] == pytest.approx(8.0, abs=0.4)


def test_a_plan_off_the_road_earns_little() -> None:
    found = find("low_reward", with_plan_offset(9.0))
    assert found
    assert found[0].terms["reward"] == 0.0
    assert found[0].severity == 1.0


def test_low_confidence_and_another_intention_last_a_moment() -> None:
    log = builders.cruise()
    sure, said = np.full(len(log.plans.step), 0.9, np.float32), log.plans.command.copy()
    sure[4:9], said[10:14, 0] = 0.2, Lateral.TURN_LEFT
    unsure = replace(log, plans=replace(log.plans, confidence=sure, command=said))
    assert [(f.start_us, f.end_us) for f in find("low_confidence", unsure)] == [(800_000, 1_600_000)]
    assert [(f.start_us, f.end_us) for f in find("intent", unsure)] == [(2_000_000, 2_600_000)]


def test_takeovers_and_stop_signs() -> None:
    log = with_events(Event("expert_takes_over", 2_000_000), Event("stop_infraction", 4_000_000))
    assert [f.start_us for f in find("takeover", log)] == [2_000_000]
    assert [f.start_us for f in find("stop_sign", log)] == [4_000_000]


def test_novelty_is_distance_to_what_is_known() -> None:
    known = tables_of([builders.cruise()]).steps["descriptor"]
    assert RULES["novelty"](tables_of([builders.cruise()], known)) == []
    new = RULES["novelty"](tables_of([builders.left_turn(), builders.pedestrian_crossing()], known))
    assert new
    assert all(f.terms["distance"] > 1.5 for f in new)
