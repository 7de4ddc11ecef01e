"""Traffic-light cycles."""

import pytest

from sim.server import lights
from sim.server.actors import LightGroup, TrafficLight
from sim.server.wire import GREEN, RED, YELLOW

DT = 0.05


@pytest.fixture
def named() -> dict[str, TrafficLight]:
    place = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    return {name: TrafficLight(i, [0, "traffic.traffic_light", []], place) for i, name in enumerate("abc", 1)}


@pytest.fixture
def group(named: dict[str, TrafficLight]) -> LightGroup:
    return lights.build_groups([[["a", "b"], ["c"]]], named)[0]


def states(named: dict[str, TrafficLight]) -> list[int]:
    return [light.state for light in named.values()]


def advance(group: LightGroup, seconds: float) -> None:
    for _ in range(round(seconds / DT)):
        lights.step([group], DT)


def test_cycle_is_green_yellow_red_then_the_next(group: LightGroup, named: dict[str, TrafficLight]) -> None:
    assert states(named) == [GREEN, GREEN, RED]
    advance(group, 10.0)
    assert states(named) == [YELLOW, YELLOW, RED]
    advance(group, 3.0)
    assert states(named) == [RED, RED, RED]
    advance(group, 2.0)
    assert states(named) == [RED, RED, GREEN]
    advance(group, 15.0)
    assert states(named) == [GREEN, GREEN, RED]


def test_times_can_be_changed(group: LightGroup, named: dict[str, TrafficLight]) -> None:
    group.controllers[0].times_s[GREEN] = 1.0
    advance(group, 1.0)
    assert states(named)[0] == YELLOW


@pytest.mark.parametrize("frozen", ["a", "c"])
def test_frozen_light_holds_its_junction(
    group: LightGroup, named: dict[str, TrafficLight], frozen: str
) -> None:
    named[frozen].frozen = True
    advance(group, 30.0)
    assert states(named) == [GREEN, GREEN, RED]


def test_reset_starts_again(group: LightGroup, named: dict[str, TrafficLight]) -> None:
    advance(group, 17.0)
    lights.reset(group)
    assert states(named) == [GREEN, GREEN, RED]
    assert group.controllers[0].elapsed_s == 0.0


def test_poles_are_numbered_within_the_junction(group: LightGroup, named: dict[str, TrafficLight]) -> None:
    assert [light.pole for light in named.values()] == [0, 1, 2]
