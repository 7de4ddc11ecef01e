"""Results file: leaderboard schema, honest denominators, resume, damage."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drive.contracts import Event, UserError
from sim.criteria import KEYS
from sim.episode import DriveReport
from sim.results import AGENT_CRASHED, SIMULATION_CRASHED, ResultsFile, failure_record, failures, record_of
from sim.suites import Suite, load_suite, take

RUN = {"policy": "p", "simulator": "light simulator", "perturb": 0.0}


@pytest.fixture
def suite() -> Suite:
    return take(load_suite("quickstart"), 4)


def report(suite: Suite, n: int, events: tuple[Event, ...] = (), ended: str = "completed") -> DriveReport:
    completion = 1.0 if ended == "completed" else 0.8
    return DriveReport(
        spec=suite.routes[n],
        ended=ended,
        events=events,
        completion=completion,
        outside_m=5.0 if any(e.kind == "outside_route_lanes" for e in events) else 0.0,
        driven_m=100.0,
        route_length_m=100.0,
        game_s=20.0,
        wall_s=3.0,
        plans=100,
        split_brain=1,
        unusable_plans=0,
        late_images=0,
        plan_ms=(5.0, 6.0, 50.0),
    )


def test_a_clean_drive_is_perfect(suite: Suite) -> None:
    record = record_of(report(suite, 0), 0)
    assert record["status"] == "Perfect"
    assert record["scores"] == {"score_route": 100.0, "score_penalty": 1.0, "score_composed": 100.0}
    assert set(record["infractions"]) == set(KEYS)
    assert record["meta"]["plan_ms"] == {"p50": 6.0, "p95": 50.0, "p99": 50.0}


def test_the_documented_example_is_28_points(suite: Suite) -> None:
    events = (Event("collisions_pedestrian", 1, "hit"), Event("red_light", 2, "red"))
    record = record_of(report(suite, 0, events, "blocked"), 0)
    assert record["status"] == "Failed - Agent got blocked"
    assert record["scores"]["score_composed"] == pytest.approx(28.0)
    assert record["num_infractions"] == 2


def test_driving_outside_the_lanes_costs_its_share(suite: Suite) -> None:
    record = record_of(
        report(suite, 0, (Event("outside_route_lanes", 1_000_000, "off the road for 5.0 m"),)), 0
    )
    assert record["status"] == "Completed"
    assert record["scores"]["score_composed"] == pytest.approx(95.0)
    assert "5.00% of the completed route" in record["infractions"]["outside_route_lanes"][0]


def test_means_are_over_planned_routes(tmp_path: Path, suite: Suite) -> None:
    results = ResultsFile(tmp_path / "results.json", suite, RUN)
    results.add(record_of(report(suite, 1), 1))
    results.add(failure_record(suite.routes[2], 2, AGENT_CRASHED, "ValueError: boom"))
    results.add(failure_record(suite.routes[3], 3, SIMULATION_CRASHED, "server died"))
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["_checkpoint"]["progress"] == [3, 4]
    assert data["entry_status"] == "Started"
    assert data["_checkpoint"]["global_record"]["scores_mean"]["score_composed"] == pytest.approx(25.0)
    assert data["_checkpoint"]["global_record"]["success_rate"] == 0.25
    result = results.result({})
    assert result.mean == pytest.approx(25.0)
    assert [c.status for c in result.cases] == ["ok", "failed", "infrastructure"]
    assert result.protocol == "light simulator, driving score 2.0"


def test_a_rerun_skips_what_is_finished_but_not_what_the_simulator_lost(tmp_path: Path, suite: Suite) -> None:
    first = ResultsFile(tmp_path / "results.json", suite, RUN)
    first.add(record_of(report(suite, 2), 2))
    first.add(failure_record(suite.routes[0], 0, SIMULATION_CRASHED, "server died"))
    again = ResultsFile(tmp_path / "results.json", suite, RUN)
    assert again.finished == {suite.routes[2].route_id}


def test_records_come_in_suite_order(tmp_path: Path, suite: Suite) -> None:
    results = ResultsFile(tmp_path / "results.json", suite, RUN)
    for n in (3, 0, 2):
        results.add(record_of(report(suite, n), n))
    assert [r["index"] for r in results.records] == [0, 2, 3]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"_checkpoint": {"records": [{}]}, "nightdrive": {"run": {}}}', "\x00\xff"]
)
def test_a_damaged_file_is_kept_and_reported_never_read_as_empty(
    tmp_path: Path, suite: Suite, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content.encode("latin-1"))
    results = ResultsFile(path, suite, RUN)
    assert results.damaged is not None
    assert results.damaged.read_bytes() == content.encode("latin-1")
    assert "was damaged" in capsys.readouterr().err
    assert results.finished == set()


def _in_record(**changes: Any) -> Callable[[dict[str, Any]], object]:
    def spoil(data: dict[str, Any]) -> None:
        record = data["_checkpoint"]["records"][0]
        for path, value in changes.items():
            *parents, last = path.split("__")
            place = record
            for name in parents:
                place = place[name]
            if value is MISSING:
                del place[last]
            else:
                place[last] = value

    return spoil


MISSING = object()


@pytest.mark.parametrize(
    "spoil",
    [
        _in_record(route_id=MISSING),
        _in_record(route_id=["a"]),
        _in_record(status=MISSING),
        _in_record(status=None),
        _in_record(status=3),
        _in_record(seed="x"),
        _in_record(seed=MISSING),
        _in_record(scenario_name=MISSING),
        _in_record(scores=[]),
        _in_record(scores__score_composed="x"),
        _in_record(scores__score_composed=None),
        _in_record(scores__score_composed=float("nan")),
        _in_record(scores__score_composed=-5.0),
        _in_record(scores__score_composed=1e9),
        _in_record(scores__score_route=float("inf")),
        _in_record(scores__score_penalty=MISSING),
        _in_record(infractions={}),
        _in_record(infractions=None),
        _in_record(infractions__red_light="abc"),
        _in_record(infractions__red_light=3),
        _in_record(meta={}),
        _in_record(meta__route_length="long"),
        _in_record(meta__route_length=float("nan")),
        lambda data: data["_checkpoint"].update(records=None),
        lambda data: data["_checkpoint"].update(records=[None]),
        lambda data: data["_checkpoint"].update(records=["abc"]),
        lambda data: data["_checkpoint"].pop("records"),
        lambda data: data.update(nightdrive={"run": []}),
        lambda data: data.update(nightdrive={"run": 3}),
        lambda data: data.update(nightdrive=None),
    ],
)
def test_a_record_that_is_no_record_is_set_aside_not_counted(
    tmp_path: Path, suite: Suite, spoil: Callable[[dict[str, Any]], object]
) -> None:
    path = tmp_path / "results.json"
    ResultsFile(path, suite, RUN).add(record_of(report(suite, 0), 0))
    data = json.loads(path.read_text())
    spoil(data)
    path.write_text(json.dumps(data))
    again = ResultsFile(path, suite, RUN)
    assert again.damaged is not None
    assert json.dumps(json.loads(again.damaged.read_text())) == json.dumps(data)
    assert again.finished == set()
    again.write()
    assert again.result({}).mean == 0.0


def test_a_folder_in_place_of_the_file_is_set_aside(tmp_path: Path, suite: Suite) -> None:
    (tmp_path / "results.json" / "kept").mkdir(parents=True)
    results = ResultsFile(tmp_path / "results.json", suite, RUN)
    assert results.damaged is not None
    assert (results.damaged / "kept").is_dir()
    results.write()
    assert (tmp_path / "results.json").is_file()


def test_failures_are_listed_with_their_reason(tmp_path: Path, suite: Suite) -> None:
    results = ResultsFile(tmp_path / "results.json", suite, RUN)
    results.add(record_of(report(suite, 0), 0))
    results.add(failure_record(suite.routes[1], 1, AGENT_CRASHED, "ValueError: boom"))
    results.add(failure_record(suite.routes[2], 2, SIMULATION_CRASHED, "server died"))
    found = failures(tmp_path / "results.json")
    assert [(f["route_id"], f["reason"]) for f in found] == [
        (suite.routes[1].route_id, "ValueError: boom"),
        (suite.routes[2].route_id, "server died"),
    ]
    assert [f["status"] for f in found] == [AGENT_CRASHED, SIMULATION_CRASHED]


def test_every_truncation_is_noticed(tmp_path: Path, suite: Suite) -> None:
    path = tmp_path / "results.json"
    ResultsFile(path, suite, RUN).add(record_of(report(suite, 0), 0))
    whole = path.read_bytes()
    for cut in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:cut])
        assert ResultsFile(path, suite, RUN).damaged is not None
    path.write_bytes(whole)
    assert ResultsFile(path, suite, RUN).damaged is None


def test_results_of_another_run_are_refused(tmp_path: Path, suite: Suite) -> None:
    ResultsFile(tmp_path / "results.json", suite, RUN).write()
    with pytest.raises(UserError, match=r"holds another run \(policy differ"):
        ResultsFile(tmp_path / "results.json", suite, {**RUN, "policy": "q"})
