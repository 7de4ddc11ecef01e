"""Result files: the published ones to the digit, honest denominators, and damage that names the record."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import UserError
from drive.score.closedloop import INFRACTIONS
from drive.score.leaderboard import ability_mean, parse_results, repetitions, score_run

ABILITIES = ("Overtaking", "Merging", "Emergency brake", "Give way")
PUBLISHED = {  # driving score, success rate, efficiency, and mastered/recorded per ability
    "UniAD-Base": (45.813, 0.16364, 129.21, ((8, 45), (11, 78), (13, 60), (1, 10))),
    "UniAD-Tiny": (40.729, 0.13182, 123.92, ((4, 45), (7, 75), (12, 60), (2, 10))),
    "VAD": (42.351, 0.15, 157.95, ((11, 45), (6, 74), (11, 59), (2, 10))),
    "TCP-only-traj": (59.897, 0.30, 76.54, ((4, 45), (17, 70), (31, 60), (4, 10))),
}


def record(route: str, composed: float = 100, **counts: int) -> dict[str, Any]:
    return {
        "route_id": f"RouteScenario_{route}_rep0",
        "scenario_name": "Accident_1",
        "status": "Completed",
        "infractions": {key: ["message"] * counts.get(key, 0) for key in INFRACTIONS},
        "scores": {"score_route": 100, "score_composed": composed},
    }


def file(*records: Any, **more: Any) -> dict[str, Any]:
    return {"_checkpoint": {"records": list(records)}, **more}


@pytest.mark.parametrize("model", sorted(PUBLISHED))
def test_published_results_are_reproduced(shared_data: Path, model: str) -> None:
    path = shared_data / "carla" / "results" / f"b2dzoo_{model}.json"
    if not path.is_file():
        pytest.skip(f"no {path.name} in ../shared/data")
    results = parse_results(json.loads(path.read_text(encoding="utf-8")), path.name)
    assert results.planned == 220
    score = score_run(results.records, results.planned)
    assert score.suite.driving_score == pytest.approx(results.stated["driving_score"], abs=1e-9)
    assert score.suite.success_rate == pytest.approx(results.stated["success_rate"], abs=1e-12)
    driving, success, efficiency, abilities = PUBLISHED[model]
    assert score.suite.driving_score == pytest.approx(driving, abs=5e-4)
    assert score.suite.success_rate == pytest.approx(success, abs=5e-6)
    assert score.efficiency == pytest.approx(efficiency, abs=0.006)
    assert score.recomputed["2.0"] == pytest.approx(score.suite.driving_score, abs=1e-3)
    assert not score.misfits
    table = {row.ability: (row.mastered, row.recorded) for row in score.abilities}
    assert tuple(table[name] for name in ABILITIES) == abilities
    assert score.suite.recorded + score.suite.missing == 220
    assert sum(score.statuses.values()) == score.suite.recorded
    assert sum(run for _, run, _ in score.scenarios.values()) == score.suite.recorded


def test_only_planned_routes_count() -> None:
    planned = {f"RouteScenario_{n}_rep0": "Accident" for n in (1, 2, 3)}
    score = score_run([record("1"), record("1", 0), record("2", 60, red_light=1), record("9")], planned)
    assert (score.suite.recorded, score.suite.missing, score.suite.duplicate, score.unplanned) == (2, 1, 1, 1)
    assert score.suite.driving_score == pytest.approx(160 / 3)
    assert score.suite.success_rate == pytest.approx(1 / 3)
    assert score.completion == pytest.approx(200 / 3)
    assert score.scenarios == {"Accident": (3, 2, 1)}
    assert score.infractions["red_light"] == 1
    assert score.misfits == ("RouteScenario_2_rep0",)
    assert score.recomputed == pytest.approx({"2.0": 170 / 3, "2.1": (100 + 100 / 1.4) / 3})


@given(st.integers(0, 5))
def test_removing_a_record_never_raises_a_score(which: int) -> None:
    records = [record(str(n), 100 - 15 * n, red_light=n % 2) for n in range(6)]
    whole, part = (score_run(r, 6) for r in (records, records[:which] + records[which + 1 :]))
    assert part.suite.driving_score <= whole.suite.driving_score
    assert part.suite.success_rate <= whole.suite.success_rate
    assert all(part.recomputed[rule] <= whole.recomputed[rule] for rule in whole.recomputed)


def test_the_file_says_how_many_were_planned() -> None:
    ours = {"nightdrive": {"planned": 7, "protocol": "light simulator"}}
    assert (parse_results(file(**ours), "f").planned, parse_results(file(**ours), "f").protocol) == (
        7,
        "light simulator",
    )
    merged = {"driving score": 1.5, "success rate": 0.0, "eval num": 0}
    assert parse_results(file(**merged), "f").planned == 220
    assert parse_results(file(**merged), "f").stated == {"driving_score": 1.5, "success_rate": 0.0}
    leaderboard = file()
    leaderboard["_checkpoint"] |= {
        "progress": [3, 20],
        "global_record": {"scores_mean": {"score_composed": 4.5}},
    }
    assert parse_results(leaderboard, "f").planned == 20
    assert parse_results(leaderboard, "f").stated == {"driving_score": 4.5}
    assert parse_results(file(), "f").planned is None


def test_repetitions() -> None:
    first, second = record("1"), record("1")
    second["route_id"] = "RouteScenario_1_rep1"
    assert repetitions([first]) == 1
    assert repetitions([first, second]) == 2
    assert repetitions([{"route_id": "quickstart_000"}]) == 1


def test_the_mean_ability_needs_all_five() -> None:
    assert ability_mean(score_run([record("1")], 1).abilities, of_recorded=True) is None


@pytest.mark.parametrize(
    "data", [None, [], {}, "text", {"_checkpoint": []}, {"_checkpoint": {"records": {}}}]
)
def test_other_files_are_refused(data: Any) -> None:
    with pytest.raises(UserError, match=r"f: no leaderboard results"):
        parse_results(data, "f")


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        ((), 7, "expected keys and values, got int"),
        (("route_id",), None, "route_id is None"),
        (("status",), 3, "status is 3"),
        (("infractions",), [], "infractions is no mapping"),
        (("infractions", "red_light"), 2, "infractions is no mapping"),
        (("infractions", "red_light"), [2], "infractions is no mapping"),
        (("infractions", "red_lights"), [], "unknown infractions red_lights"),
        (("scores",), None, "scores is missing"),
        (("scores", "score_route"), "80", "score_route is '80'"),
        (("scores", "score_route"), float("nan"), "score_route is nan"),
        (("scores", "score_route"), 101, "score_route is 101"),
        (("scores", "score_composed"), None, "score_composed is None"),
        (("scores", "score_composed"), 1e300, "score_composed is 1e.300, expected 0 to 100"),
        (("scores", "score_composed"), -50, "score_composed is -50"),
        (("scores", "score_composed"), float("inf"), "score_composed is inf"),
    ],
)
def test_a_damaged_record_is_named(keys: tuple[str, ...], value: Any, message: str) -> None:
    damaged: Any = copy.deepcopy(record("1"))
    if not keys:
        damaged = value
    else:
        inner = damaged
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
    with pytest.raises(UserError, match=f"f: record 1: {message}"):
        parse_results(file(record("0"), damaged), "f")
