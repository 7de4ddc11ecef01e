"""Suites from route files: chosen routes, labels, and every unusable route said at once."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import UserError
from sim.episode import DriveReport
from sim.file_suites import file_suite, plan_routes, prepare_pictures
from sim.results import ResultsFile, failure_record, record_of
from sim.route_files import FileRoute, Point, RouteFile, Scenario, Weather, read_routes
from sim.routes import Route, RouteSpec, build_route, town_map
from sim.server.opendrive import read_town
from sim.suites import Suite, load_suite
from tests.route_xml import route_xml

TOWN = "Town01"
TYPES = ("Accident", "ParkingCutIn", "Accident", "Accident", "HardBreakRoute", "ParkingCutIn")


@pytest.fixture(scope="module")
def path() -> Route:
    return build_route(town_map(TOWN, read_town(TOWN)), RouteSpec("r", TOWN, 3, 150.0))


@pytest.fixture(scope="module")
def points(path: Route) -> tuple[Point, ...]:
    rows = np.column_stack([path.pose_world[:, :2], path.z_m])[5:156:15]
    return tuple((float(x), float(y), float(z)) for x, y, z in rows)


def staged(kind: str, at: Point) -> Scenario:
    return Scenario(f"{kind}_1", kind, (*at, 0.0))


@pytest.fixture
def file(tmp_path: Path, points: tuple[Point, ...]) -> RouteFile:
    routes = [
        FileRoute(str(n), TOWN, points, (Weather(0.0, {"wetness": 5.0}),), (staged(kind, points[2]),))
        for n, kind in enumerate(TYPES)
    ]
    written = tmp_path / "six.xml"
    written.write_text(route_xml(routes))
    return read_routes(written)


def ids(file: RouteFile, **limits: int) -> list[str]:
    return [route.route_id for route in file_suite(file, **limits)[0].routes]


def names(*numbers: int) -> list[str]:
    return [f"RouteScenario_{n}_rep0" for n in numbers]


def test_all_routes_are_taken_with_lengths_seeds_and_the_leaderboards_names(file: RouteFile) -> None:
    suite, warnings = file_suite(file)
    assert suite.name == "six"
    assert [r.route_id for r in suite.routes] == names(0, 1, 2, 3, 4, 5)
    assert [r.length_m for r in suite.routes] == pytest.approx([150.0] * 6, abs=3.0)
    assert len({r.seed for r in suite.routes}) == 6
    assert file_suite(file)[0] == suite
    assert not warnings


def test_limits(file: RouteFile) -> None:
    assert ids(file, limit=2) == names(0, 3)
    assert ids(file, limit=99) == names(0, 1, 2, 3, 4, 5)
    assert ids(file, per_scenario=1) == names(0, 1, 4)
    assert ids(file, per_scenario=2) == names(0, 1, 2, 4, 5)
    assert ids(file, per_scenario=1, limit=1) == names(0)


@pytest.mark.parametrize("limits", [{"limit": 0}, {"limit": -3}, {"per_scenario": 0}])
def test_limits_below_one_are_refused(file: RouteFile, limits: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"--limit(-per-scenario)? must be at least 1"):
        file_suite(file, **limits)


def test_every_unusable_route_is_told_at_once(tmp_path: Path, points: tuple[Point, ...]) -> None:
    nan = float("nan")
    routes = [
        FileRoute("good", TOWN, points),
        FileRoute("still", TOWN, (points[0], points[0])),
        FileRoute("nowhere", "Town99", points),
        FileRoute("blank", TOWN, (points[0], (nan, 0.0, 0.0))),
        FileRoute("field", TOWN, (points[0], (points[0][0] + 900.0, 0.0, 0.0))),
        FileRoute("step", TOWN, (points[0], tuple(v + 0.2 for v in points[0]))),
        FileRoute("good", TOWN, points),
    ]
    written = tmp_path / "bad.xml"
    written.write_text(route_xml(routes))
    with pytest.raises(UserError) as refused:
        file_suite(read_routes(written))
    message = str(refused.value)
    assert "bad.xml: 6 of 7 routes cannot be driven" in message
    for expected in (
        "fewer than 2 different waypoints (1 route): route still",
        "not a number (1 route): route blank: waypoint 1: x is 'nan'",
        "repeated id (1 route): route good",
        "unknown town (1 route): route nowhere: 'Town99'; known: Town01,",
        "waypoints off any lane (1 route): route field: 1 of 2, up to",
        "too short (1 route): route step",
    ):
        assert expected in message
    assert "\n" not in message


@given(st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3), max_size=4))
def test_any_coordinates_are_a_suite_or_one_clear_line(points: list[Point]) -> None:
    file = RouteFile(Path("any.xml"), (FileRoute("1", TOWN, tuple(points) or ((0.0, 0.0, 0.0),)),))
    with suppress(UserError):
        assert len(file_suite(file)[0].routes) == 1


def test_routes_that_are_not_chosen_need_not_be_usable(tmp_path: Path, points: tuple[Point, ...]) -> None:
    written = tmp_path / "half.xml"
    written.write_text(route_xml([FileRoute("1", TOWN, points), FileRoute("2", "Town99", points)]))
    assert ids(read_routes(written), limit=1) == names(1)


def test_detours_and_scenarios_beside_the_route_are_told(points: tuple[Point, ...]) -> None:
    back = FileRoute("1", TOWN, (*points, points[-2]), scenarios=(staged("Accident", (0.0, 0.0, 0.0)),))
    plans, problems, warnings = plan_routes([back])
    assert not problems
    assert plans["1"].length_m > 250
    assert {w.kind for w in warnings} == {"detours", "scenarios beside the route"}


def test_the_first_junction_is_a_share_of_the_route(path: Route, points: tuple[Point, ...]) -> None:
    plans, _, _ = plan_routes([FileRoute("1", TOWN, points), FileRoute("2", TOWN, points[:2])])
    begins = int(np.flatnonzero(path.junction)[0] - path.start_m)
    assert plans["1"].junction_share == pytest.approx((begins + 9) / 150, abs=0.03)
    assert plans["2"].junction_share == float("inf")


def test_what_is_left_out_is_written_beside_every_result(tmp_path: Path, file: RouteFile) -> None:
    suite, _ = file_suite(file, limit=2)
    assert suite.left_out == {}
    assert suite.note == "route file: background traffic left out"
    results = ResultsFile(tmp_path / "results.json", suite, {"policy": "p", "simulator": "light simulator"})
    results.add(failure_record(suite.routes[0], 0, "Failed - Agent crashed", "boom"))
    results.add(record_of(_report(suite.routes[1]), 1))
    assert results.protocol == f"light simulator, driving score 2.0, {suite.note}"
    assert results.result({}).protocol == results.protocol
    for record in results.records:
        assert "scenarios_left_out" not in record
        assert record["scenario_name"] == "Accident_1"
    again = ResultsFile(tmp_path / "results.json", suite, {"policy": "p", "simulator": "light simulator"})
    assert again.finished == set(names(0, 3))


def test_a_file_without_scenarios_still_lacks_traffic(tmp_path: Path, points: tuple[Point, ...]) -> None:
    written = tmp_path / "plain.xml"
    written.write_text(route_xml([FileRoute("1", TOWN, points)], leaderboard=1))
    suite, _ = file_suite(read_routes(written))
    assert suite.left_out == {}
    assert suite.note == "route file: background traffic left out"


def test_background_vehicles_are_part_of_every_route_and_said_to_be(file: RouteFile) -> None:
    suite, _ = file_suite(file, limit=2, background=7)
    assert [route.vehicles for route in suite.routes] == [7, 7]
    assert suite.note == "route file: simplified traffic"
    plain, _ = file_suite(file, limit=2)
    assert [route.vehicles for route in plain.routes] == [0, 0]
    for count in (-1, 1000):
        with pytest.raises(UserError, match=f"--background must be between 0 and 200, got {count}"):
            file_suite(file, background=count)


def test_unknown_scenario_types_are_left_out_and_said_to_be(
    tmp_path: Path, points: tuple[Point, ...]
) -> None:
    written = tmp_path / "odd.xml"
    kinds = (staged("Earthquake", points[2]), staged("Accident", points[3]))
    written.write_text(route_xml([FileRoute("1", TOWN, points, scenarios=kinds)]))
    suite, warnings = file_suite(read_routes(written))
    assert [w.kind for w in warnings] == ["unknown scenario type"]
    assert suite.left_out == {"Earthquake": 1}
    assert suite.note == "route file: background traffic and some scenarios left out"
    results = ResultsFile(tmp_path / "results.json", suite, {"policy": "p", "simulator": "light simulator"})
    results.add(record_of(_report(suite.routes[0]), 0))
    assert results.records[0]["scenarios_left_out"] == ["Earthquake"]


def test_suites_by_seed_have_nothing_to_add(tmp_path: Path) -> None:
    suite = load_suite("quickstart")
    assert (suite.note, suite.left_out) == ("", {})
    results = ResultsFile(tmp_path / "results.json", suite, {"policy": "p", "simulator": "light simulator"})
    results.add(record_of(_report(suite.routes[0]), 0))
    assert results.protocol == "light simulator, driving score 2.0"
    assert "scenarios_left_out" not in results.records[0]


def test_towns_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    suite = Suite("s", "", (RouteSpec("r", "Town02", 1, 100.0),))
    prepare_pictures(suite)
    (drawn,) = (tmp_path / "nightdrive" / "meshes").iterdir()
    before = drawn.stat()
    prepare_pictures(suite)
    assert drawn.name.startswith("Town02-")
    assert drawn.stat().st_mtime_ns == before.st_mtime_ns


def _report(spec: RouteSpec) -> DriveReport:
    return DriveReport(spec, "completed", (), 1.0, 0.0, 100.0, 100.0, 20.0, 3.0, 100, 0, 0, 0)
