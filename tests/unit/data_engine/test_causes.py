"""Root causes on drives in which it is known what went wrong."""

from dataclasses import replace

import numpy as np

from data_engine.causes import by_cause, root_cause
from data_engine.config import MineConfig
from data_engine.mine import mine
from data_engine.rules import Finding
from drive.contracts import AgentKind, DriveLog, Event, Lateral, Longitudinal
from tests import builders

AT = Finding(0, 3_000_000, 3_000_000, 1.0)


def with_plans(log: DriveLog, **changes: np.ndarray) -> DriveLog:
    return replace(log, plans=replace(log.plans, **changes))


def test_the_kind_may_tell() -> None:
    log = builders.cruise()
    assert root_cause(log, "intent", AT) == "command"
    assert root_cause(log, "jerk", AT) == "control"
    assert root_cause(log, "split_brain", AT) == "trajectory"


def test_hit_while_standing_is_the_others_fault() -> None:
    assert root_cause(builders.drive_log(builders.along_x(np.zeros(60))), "collision", AT) == "simulator"


def test_a_wrong_command_comes_before_its_trajectory() -> None:
    log = builders.cruise()
    command = log.plans.command.copy()
    command[:] = Lateral.TURN_LEFT, Longitudinal.CRUISE
    plan = log.plans.plan_ego.copy()
    plan[..., 1] += 5.0
    assert root_cause(with_plans(log, command=command, plan_ego=plan), "off_road", AT) == "command"


def test_a_car_that_is_not_where_its_plan_said() -> None:
    log = builders.cruise()
    plan = log.plans.plan_ego.copy()
    plan[..., 1] += 3.0
    assert root_cause(with_plans(log, plan_ego=plan), "off_road", AT) == "control"


def test_a_plan_that_was_followed_and_is_off() -> None:
    log = builders.cruise()
    label = log.plans.label_ego.copy()
    label[..., 1] += 3.0
    none = np.full_like(log.plans.command, -1)
    assert root_cause(with_plans(log, label_ego=label, command=none), "off_road", AT) == "trajectory"


def test_a_red_light_was_there_to_be_seen() -> None:
    assert root_cause(builders.cruise(), "red_light", AT) == "perception"


def test_somebody_who_brakes_was_to_be_foreseen() -> None:
    log = builders.lead_braking(gap_m=6.0)
    late = Finding(0, 4_000_000, 4_000_000, 1.0)
    assert root_cause(log, "near_miss", late) == "prediction"
    calm = builders.drive_log(
        builders.along_x(np.arange(80.0)),
        [(AgentKind.CAR, (4.5, 1.8), builders.along_x(np.arange(80.0) + 12))],
    )
    assert root_cause(calm, "near_miss", late) == "unknown"


def test_mined_cases_carry_their_cause() -> None:
    log = replace(builders.cruise(), events=(Event("red_light", 2_000_000),))
    found = mine([(log, "")], MineConfig(rules={"red_light": {}}), ())
    assert by_cause(found.cases) == {"perception": 1}
