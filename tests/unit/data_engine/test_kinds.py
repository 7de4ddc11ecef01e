"""Suites by kind: routes are found by seed, a scenario's trigger lies on them, towns are checked."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_engine.config import DriveConfig, EvaluateConfig, NightlyConfig
from data_engine.kinds import KindGroup, _has_room, _place, fits, kind_of, kind_route, load_kinds, variation
from data_engine.suites import gate_suite, load, tonight_suite
from drive.contracts import UserError
from sim.route_planner import FileRouteSpec
from sim.routes import RouteSpec


def written(tmp_path: Path, *groups: str) -> str:
    path = tmp_path / "few.yaml"
    path.write_text("groups:\n" + "".join(f"  - {{{group}}}\n" for group in groups), encoding="utf-8")
    return f"kinds:{path}"


def test_a_route_with_a_scenario_passes_its_trigger() -> None:
    group = KindGroup("StaticCutIn", "Town01", 1, 5, 120.0)
    route = kind_route(group, 5, "r")
    assert isinstance(route, FileRouteSpec)
    assert route == kind_route(group, 5, "r")
    assert route != kind_route(group, 6, "r")
    assert kind_of(route) == "StaticCutIn"
    place = np.array(route.scenarios[0].trigger_world[:2])
    points = np.array(route.points_world)[:, :2]
    assert np.hypot(*(points - place).T).min() < 12.0
    assert np.hypot(*np.diff(points, axis=0).T).max() <= 13.0
    assert route.left_out == ()
    assert route.note.endswith("left out; 60 s of standing end a drive")
    assert replace(route, blocked_s=180.0).note.endswith("left out")


@pytest.mark.parametrize(
    ("kind", "town", "elsewhere"), [("Accident", "Town03", "Town01"), ("AccidentTwoWays", "Town01", "Town06")]
)
def test_what_stands_in_the_way_can_be_passed(kind: str, town: str, elsewhere: str) -> None:
    """Found by the expert being blocked: obstacles in a junction, or where no other lane may be used."""
    plain = [_place("HardBreakRoute", town, seed, 130.0) for seed in range(40_000, 40_008)]
    staged = [_place(kind, town, seed, 130.0) for seed in range(40_000, 40_008)]
    assert not all(_has_room(kind, town, route) for route in plain)
    for route in staged:
        assert _has_room(kind, town, route)
        assert not route.junction[int(route.start_m) + 60 : int(route.start_m) + 96].any()
    assert fits(kind, town, 130.0)
    assert not fits(kind, elsewhere, 130.0)
    with pytest.raises(UserError, match=f"{kind} in {elsewhere}: found no stretch"):
        kind_route(KindGroup(kind, elsewhere), 5, "r")


def test_each_night_has_its_own_routes(tmp_path: Path) -> None:
    name = written(tmp_path, "kind: HardBreakRoute, town: Town01, count: 2", "kind: empty, town: Town01")
    first, second = load(f"{name}@2026-01-01"), load(f"{name}@2026-01-02")
    assert [kind_of(route) for route in first.routes] == ["HardBreakRoute"] * 2 + ["no traffic"] * 2
    assert first.name == "few-2026-01-01"
    assert {r.seed for r in first.routes}.isdisjoint({r.seed for r in second.routes})
    assert load(f"{name}@2026-01-01") == first


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("kind: Nothing, town: Town01", "unknown kind 'Nothing'"),
        ("kind: StaticCutIn, town: Townx", "unknown town 'Townx'"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, group: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_kinds(written(tmp_path, group))


def test_one_group_per_kind_and_town_and_a_file_that_exists(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two groups of one kind"):
        load_kinds(written(tmp_path, "kind: empty, town: Town01", "kind: empty, town: Town01"))
    with pytest.raises(UserError, match="no file"):
        load_kinds("kinds:nowhere.yaml")


def test_towns_of_a_night_and_of_its_gate_are_kept_apart(tmp_path: Path) -> None:
    name = written(tmp_path, "kind: empty, town: Town02, count: 1")
    config = NightlyConfig(
        drive=DriveConfig(suite=name, routes=0), evaluate=EvaluateConfig(suite=name, routes=0)
    )
    with pytest.raises(UserError, match="held-out towns"):
        tonight_suite(config, "2026-01-01")
    assert len(gate_suite(config).routes) == 1


def test_a_variation_is_the_same_kind_of_route_at_another_place() -> None:
    staged = kind_route(KindGroup("Accident", "Town03", 1, 5, 120.0), 5, "r")
    plain = RouteSpec("p", "Town03", 5, 150.0, vehicles=4, walkers=2, start_speed_mps=3.0)
    for route in (staged, plain):
        first, second = variation(route, 1), variation(route, 2)
        assert first is not None
        assert second is not None
        assert first == variation(route, 1)
        assert len({route.seed, first.seed, second.seed}) == 3
        assert len({route.route_id, first.route_id, second.route_id}) == 3
        assert (first.town, kind_of(first), first.vehicles) == (route.town, kind_of(route), route.vehicles)
    other = variation(staged, 1)
    assert isinstance(staged, FileRouteSpec)
    assert isinstance(other, FileRouteSpec)
    assert other.points_world[0] != staged.points_world[0]


def test_routes_of_files_with_other_scenarios_have_none() -> None:
    made = kind_route(KindGroup("Accident", "Town03", 1, 5, 120.0), 5, "r")
    assert isinstance(made, FileRouteSpec)
    assert variation(replace(made, scenarios=()), 1) is None
    assert variation(replace(made, scenarios=made.scenarios * 2), 1) is None
    strange = replace(made.scenarios[0], type="OppositeVehicleRunningRedLight")
    assert variation(replace(made, scenarios=(strange,)), 1) is None


def test_a_route_that_cannot_be_varied_is_left_out() -> None:
    """Found by reading: a town without such a place would have ended every night for ever."""
    made = kind_route(KindGroup("Accident", "Town03", 1, 5, 120.0), 5, "r")
    assert isinstance(made, FileRouteSpec)
    oncoming = replace(made.scenarios[0], type="AccidentTwoWays")
    assert variation(replace(made, town="Town06", scenarios=(oncoming,)), 1) is None
    assert variation(replace(made, town="Elsewhere"), 1) is None
    assert variation(RouteSpec("p", "Elsewhere", 5, 150.0), 1) is None
    assert variation(RouteSpec("p", "Town02", 5, 50_000.0), 1) is None
