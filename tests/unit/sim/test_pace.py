"""The minimum-speed criterion: speed against the traffic, stretch by stretch."""

import pytest

from drive.contracts import AgentKind
from drive.score.closedloop import efficiency
from sim.pace import Pace, pace_message
from tests.sim_builders import AgentRow, scene_of


def drive(pace: Pace, speed: float, rows: list[AgentRow]) -> list[float]:
    found = []
    for k in range(round(145 / speed / 0.05)):
        found += pace.tick(scene_of(speed, rows, at_m=5.0 + speed * 0.05 * (k + 1)), 0.05)
    return found


def car(speed: float) -> AgentRow:
    return (AgentKind.CAR, 80.0, 3.5, 0.0, speed, 4.5, 2.0)


def test_each_stretch_compares_the_egos_speed_with_the_traffics() -> None:
    found = drive(Pace(), 8.0, [car(10.0)])
    assert len(found) == 17
    assert found == pytest.approx([80.0] * 17)


def test_without_traffic_there_is_nothing_to_compare_with() -> None:
    parked, walker = car(0.0), (AgentKind.PEDESTRIAN, 60.0, 3.5, 0.0, 1.5, 0.5, 0.5)
    assert drive(Pace(), 8.0, [parked, walker]) == []


def test_the_score_reads_the_message() -> None:
    record = {"infractions": {"min_speed_infractions": [pace_message(80.0), pace_message(120.0)]}}
    assert efficiency([record]) == pytest.approx(100.0)
