"""Abilities: every Bench2Drive scenario type has one, and shares are over planned routes."""

import pytest

from drive.score.abilities import ABILITIES, SCENARIO_TYPES, SIGNS, ability_table, scenario_type
from drive.score.closedloop import INFRACTIONS


def record(route: str, kind: str, completion: float = 100, status: str = "Completed", **counts: int) -> dict:
    return {
        "route_id": route,
        "scenario_name": f"{kind}_1",
        "status": status,
        "infractions": {key: ["message"] * counts.get(key, 0) for key in INFRACTIONS},
        "scores": {"score_route": completion, "score_composed": completion},
    }


def row(name: str, *args: object, **kwargs: object) -> tuple:
    (found,) = [r for r in ability_table(*args, **kwargs) if r.ability == name]
    return found.planned, found.recorded, found.mastered, found.rate, found.rate_of_recorded


def test_there_are_44_types_and_five_abilities() -> None:
    assert len(SCENARIO_TYPES) == 44
    assert {name: len(types) for name, types in ABILITIES.items()} == {
        "Overtaking": 9,
        "Merging": 16,
        "Emergency brake": 12,
        "Give way": 2,
        "Traffic signs": 19,
    }
    assert all(len(set(types)) == len(types) for types in ABILITIES.values())


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ParkingCutIn_1", "ParkingCutIn"), ("T_Junction_12", "T_Junction"), ("traffic", "traffic"), ("", "")],
)
def test_the_type_is_the_scenario_name_without_its_number(name: str, kind: str) -> None:
    assert scenario_type({"scenario_name": name}) == kind


def test_missing_routes_count_for_ours_and_not_for_bench2drives_share() -> None:
    planned = {"a": "Accident", "b": "Accident", "c": "Accident", "d": "InvadingTurn"}
    records = [record("a", "Accident"), record("b", "Accident", collisions_vehicle=1)]
    assert row("Overtaking", records, planned) == (3, 2, 1, 1 / 3, 1 / 2)
    assert row("Give way", records, planned) == (1, 0, 0, 0.0, None)
    assert row("Overtaking", records) == (None, 2, 1, None, 1 / 2)


def test_the_planned_type_wins_over_the_records_name() -> None:
    assert row("Give way", [record("a", "Accident")], {"a": "InvadingTurn"})[:3] == (1, 1, 1)


@pytest.mark.parametrize(
    ("failed", "mastered"),
    [
        (record("a", "T_Junction", 60, "Failed - Agent got blocked"), True),
        (record("a", "T_Junction", 50, "Failed - Agent got blocked"), False),
        (record("a", "T_Junction", 100, collisions_vehicle=1), True),
        (record("a", "T_Junction", 100, red_light=1), False),
        (record("a", "T_Junction", 100, stop_infraction=1), False),
    ],
)
def test_signs_are_mastered_by_passing_the_first_junction(failed: dict, mastered: bool) -> None:
    assert row(SIGNS, [failed], junction_share={"a": 0.5})[2] == mastered


def test_without_the_junction_failed_signs_are_not_judged_but_others_are() -> None:
    failed = record("a", "SignalizedJunctionLeftTurn", 60, "Failed - Agent got blocked")
    assert row(SIGNS, [failed])[2:] == (None, None, None)
    assert row("Merging", [failed])[2:] == (0, None, 0.0)
    assert row(SIGNS, [record("a", "T_Junction"), record("b", "T_Junction", red_light=2)])[2] == 1
