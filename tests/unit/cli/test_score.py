"""`drive score`: numbers for people and machines, exit codes, and one line for bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from drive.cli.main import main
from drive.score.closedloop import INFRACTIONS
from sim.route_files import FileRoute, Scenario
from tests.route_xml import route_xml

ROUTE = tuple((334.7 + 0.0 * k, -280.0 - 2.0 * k, 0.0) for k in range(12))  # southwards in Town01


def record(route: str, kind: str = "Accident", composed: float = 100, **counts: int) -> dict[str, Any]:
    return {
        "route_id": f"RouteScenario_{route}_rep0",
        "scenario_name": f"{kind}_1",
        "status": "Completed",
        "infractions": {key: ["message"] * counts.get(key, 0) for key in INFRACTIONS},
        "scores": {"score_route": 100, "score_composed": composed},
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    path = tmp_path / "results.json"
    records = [record("1"), record("2", "T_Junction", 60, collisions_vehicle=1)]
    path.write_text(json.dumps({"_checkpoint": {"records": records}}))
    return path


@pytest.fixture
def routes(tmp_path: Path) -> Path:
    path = tmp_path / "routes.xml"
    path.write_text(
        route_xml(
            FileRoute(str(n), "Town01", ROUTE, scenarios=(Scenario(f"{kind}_1", kind, (*ROUTE[0], 0.0)),))
            for n, kind in ((1, "Accident"), (2, "T_Junction"), (3, "Accident"))
        )
    )
    return path


def scored(arguments: list[str], tmp_path: Path) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "out" / "score.json"
    code = main(["score", *arguments, "--json", str(out)])
    return code, json.loads(out.read_text())


def test_a_complete_run(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, numbers = scored([str(results), "--planned", "2"], tmp_path)
    assert code == 0
    assert (numbers["driving_score"], numbers["success_rate"], numbers["missing"]) == (80.0, 0.5, 0)
    assert numbers["command"] == "score"
    (overtaking,) = [row for row in numbers["abilities"] if row["ability"] == "Overtaking"]
    assert (overtaking["recorded"], overtaking["mastered"], overtaking["rate_of_recorded"]) == (1, 1, 1.0)
    printed = capsys.readouterr().out
    assert "80.000" in printed
    assert "traffic signs need --routes" in printed


def test_missing_routes_are_exit_code_1(results: Path, tmp_path: Path) -> None:
    code, numbers = scored([str(results), "--planned", "4"], tmp_path)
    assert (code, numbers["driving_score"], numbers["missing"]) == (1, 40.0, 2)


def test_a_route_file_gives_planned_routes_and_junctions(results: Path, routes: Path, tmp_path: Path) -> None:
    code, numbers = scored([str(results), "--routes", str(routes)], tmp_path)
    assert (code, numbers["planned"], numbers["missing"]) == (1, 3, 1)
    rows = {row["ability"]: row for row in numbers["abilities"]}
    assert (rows["Overtaking"]["planned"], rows["Overtaking"]["rate"]) == (2, 0.5)
    assert rows["Traffic signs"]["mastered"] == 0  # it hit something, and there is no junction to have passed


def test_slow_driving_counts_when_asked(results: Path, tmp_path: Path) -> None:
    data = json.loads(results.read_text())
    slow = "Average speed is 50% of the surrounding traffic's one"
    data["_checkpoint"]["records"][0]["infractions"]["min_speed_infractions"] = [slow]
    results.write_text(json.dumps(data))
    _, plain = scored([str(results), "--planned", "2"], tmp_path)
    _, strict = scored([str(results), "--planned", "2", "--min-speed"], tmp_path)
    assert plain["recomputed"]["2.0"] == pytest.approx(80.0)
    assert strict["recomputed"]["2.0"] == pytest.approx(72.5)
    assert plain["efficiency"] == strict["efficiency"] == 50.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "names no number of planned routes"),
        (["--planned", "1"], "2 routes but 1 were planned"),
        (["--planned", "0"], "--planned must be at least 1"),
        (["--planned", "99999999999999999999"], "99999999999999999999 planned routes; at most 100000"),
        (["--planned", "2", "--drives", "absent"], "no such folder"),
        (["--routes", "absent.xml"], "absent.xml: cannot be read"),
    ],
)
def test_bad_options(
    results: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", str(results), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"_checkpoint": {"records": [1]}}', "\x00\xff"])
def test_other_files(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content.encode("latin-1"))
    assert main(["score", str(path), "--planned", "3"]) == 2
    error = capsys.readouterr().err
    assert "results.json" in error
    assert error.count("\n") == 1


def test_a_folder_is_no_results_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.slow
def test_published_abilities(shared_data: Path, tmp_path: Path) -> None:
    carla = shared_data / "carla"
    results, routes = carla / "results" / "b2dzoo_UniAD-Base.json", carla / "routes" / "bench2drive220.xml"
    if not results.is_file() or not routes.is_file():
        pytest.skip("no Bench2Drive results in ../shared/data")
    code, numbers = scored([str(results), "--routes", str(routes)], tmp_path)
    rows = {row["ability"]: row for row in numbers["abilities"]}
    assert code == 1  # two routes have no record
    assert {name: (r["planned"], r["recorded"], r["mastered"]) for name, r in rows.items()} == {
        "Overtaking": (45, 45, 8),
        "Merging": (80, 78, 11),
        "Emergency brake": (60, 60, 13),
        "Give way": (10, 10, 1),
        "Traffic signs": (95, 95, 23),
    }
