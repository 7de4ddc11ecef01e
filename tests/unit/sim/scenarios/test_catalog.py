"""The list of scenario types is complete."""

from drive.score.abilities import SCENARIO_TYPES
from sim.scenario_types import KNOWN, STAGED
from sim.scenarios.catalog import SCENARIOS


def test_every_type_of_bench2drive_has_a_behaviour() -> None:
    assert len(SCENARIO_TYPES) == 44
    assert set(SCENARIO_TYPES) <= set(SCENARIOS)


def test_what_is_said_to_be_staged_is_staged() -> None:
    assert set(SCENARIOS) == STAGED == KNOWN
