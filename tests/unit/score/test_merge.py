"""Merging results files: any order, copies once, honest about cut files and about records that differ."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.bench.closed_loop import closed_loop
from drive.contracts import UserError
from drive.score.closedloop import INFRACTIONS
from drive.score.merge import ResultFile, merge, read_result_file, whole_records

PUBLISHED = {
    "UniAD-Base": (45.813, 0.16364, 218),
    "UniAD-Tiny": (40.729, 0.13182, 215),
    "VAD": (42.351, 0.15, 213),
    "TCP-only-traj": (59.897, 0.30, 210),
}


def record(route: int, completion: float = 100, status: str = "Completed", **counts: int) -> dict[str, Any]:
    composed = completion * 0.7 ** counts.get("red_light", 0)
    return {
        "route_id": f"RouteScenario_{route}_rep0",
        "scenario_name": "Accident_1",
        "status": status,
        "infractions": {key: ["message"] * counts.get(key, 0) for key in INFRACTIONS},
        "scores": {"score_route": completion, "score_composed": composed},
    }


def written(folder: Path, name: str, *records: Any, **more: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps({"_checkpoint": {"records": list(records)}, **more}))
    return path


def file_of(records: list[dict[str, Any]], folder: Path, name: str) -> ResultFile:
    return read_result_file(written(folder, name, *records))


RECORDS = st.lists(
    st.builds(
        lambda route, completion, light: record(route, completion, red_light=light),
        st.integers(0, 9),
        st.floats(0, 100),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=10,
    unique_by=lambda r: r["route_id"],
)


@settings(max_examples=25)
@given(RECORDS, st.randoms(use_true_random=False))
def test_neither_the_order_nor_copies_change_a_score(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], random: Any
) -> None:
    folder = tmp_path_factory.mktemp("files")
    shuffled = records * 2
    random.shuffle(shuffled)
    cut = random.randint(0, len(shuffled))
    parts = [shuffled[cut:], shuffled[:cut]]
    whole = closed_loop(merge([file_of(records, folder, "a.json")]), 12)
    again = merge([file_of(part, folder, f"{i}.json") for i, part in enumerate(parts)])
    assert again.copies == len(records)
    assert closed_loop(again, 12).means == whole.means
    assert closed_loop(again, 12).rows == whole.rows


@settings(max_examples=25)
@given(RECORDS, st.integers(0, 9))
def test_removing_a_record_never_raises_a_score(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], which: int
) -> None:
    folder = tmp_path_factory.mktemp("files")
    planned = {f"RouteScenario_{n}_rep0": "Accident" for n in range(12)}
    less = [r for i, r in enumerate(records) if i != which % len(records)]
    whole = closed_loop(merge([file_of(records, folder, "a.json")]), planned)
    part = closed_loop(merge([file_of(less, folder, "b.json")]), planned)
    for name, value in whole.means.items():
        assert part.means[name].mean <= value.mean + 1e-12
    suite = part.score.suite
    assert suite.recorded + suite.missing == suite.planned == 12
    assert len(part.rows) == 12


@pytest.mark.parametrize("model", sorted(PUBLISHED))
def test_published_results_are_reproduced_from_shuffled_parts(
    shared_data: Path, tmp_path: Path, model: str, rng: Any
) -> None:
    path = shared_data / "carla" / "results" / f"b2dzoo_{model}.json"
    if not path.is_file():
        pytest.skip(f"no {path.name} in ../shared/data")
    one = closed_loop(merge([read_result_file(path)]), 220)
    driving, success, recorded = PUBLISHED[model]
    assert round(one.means["driving_score"].mean, 3) == driving
    assert round(one.means["success_rate"].mean, 5) == success
    assert (one.score.suite.recorded, one.score.suite.missing) == (recorded, 220 - recorded)
    records = json.loads(path.read_text(encoding="utf-8"))["_checkpoint"]["records"]
    order = rng.permutation(len(records))
    parts = [[records[i] for i in order[k::3]] for k in range(3)]
    files = [file_of(part, tmp_path, f"{k}.json") for k, part in enumerate(parts)]
    assert closed_loop(merge(files), 220).means == one.means


def test_both_rules_and_slow_driving_stand_beside_each_other(tmp_path: Path) -> None:
    slow = record(2)
    slow["infractions"]["min_speed_infractions"] = ["Average speed is 50% of the surrounding traffic's one"]
    found = closed_loop(
        merge([file_of([record(1, 80, collisions_pedestrian=1, red_light=1), slow], tmp_path, "a")]), 4
    )
    means = {name: value.mean for name, value in found.means.items()}
    assert means["ds_2_0"] == pytest.approx((28.0 + 100) / 4)
    assert means["ds_2_1"] == pytest.approx((80 / 2.4 + 100) / 4)
    assert means["ds_2_0_min_speed"] == pytest.approx((28.0 + 85) / 4)
    assert means["success_rate"] == 0.25
    assert found.rules_differ == 1


def test_a_recorded_score_that_is_no_number_counts_nothing_and_is_counted(tmp_path: Path) -> None:
    broken = record(1)
    broken["scores"]["score_composed"] = float("nan")
    found = closed_loop(merge([file_of([broken, record(2)], tmp_path, "a")]), 2)
    assert (found.not_numbers, found.means["driving_score"].mean) == (1, 50.0)


def test_records_that_differ_are_refused_or_chosen_by_name(tmp_path: Path) -> None:
    files = [file_of([record(1, 40), record(2)], tmp_path, "a"), file_of([record(1, 60)], tmp_path, "b")]
    with pytest.raises(UserError, match=r"a, .*b: different records of RouteScenario_1_rep0; .*--duplicates"):
        merge(files)
    best, worst = (merge(f, how) for f, how in ((files, "best"), (files[::-1], "worst")))
    assert [r["scores"]["score_route"] for r in best.results.records] == [60, 100]
    assert [r["scores"]["score_route"] for r in worst.results.records] == [40, 100]
    assert best.conflicts == worst.conflicts == ("RouteScenario_1_rep0",)


def test_a_rerun_with_the_same_outcome_is_a_copy(tmp_path: Path) -> None:
    later = record(1) | {"save_name": "another", "meta": {"duration_system": 7.0}}
    assert merge([file_of([record(1), later], tmp_path, "a")]).copies == 1


@given(st.integers(0, 2), st.floats(0.05, 0.99))
def test_every_cut_is_noticed_and_whole_records_are_found(
    tmp_path_factory: pytest.TempPathFactory, extra: int, share: float
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = written(folder, "a.json", *(record(n) for n in range(3 + extra)))
    text = path.read_text()
    start = text.index("[") + 1
    path.write_text(text[: start + int(share * (len(text) - start))])
    with pytest.raises(UserError, match=r"a\.json: cut or damaged after \d whole records"):
        read_result_file(path)
    found = read_result_file(path, salvage=True)
    assert found.cut
    assert [r["route_id"] for r in found.results.records] == [
        record(n)["route_id"] for n in range(len(found.results.records))
    ]
    assert merge([found]).cut == (str(path),)


def test_what_is_no_results_file_is_never_salvaged(tmp_path: Path) -> None:
    assert whole_records('{"other": [') is None
    path = tmp_path / "a.json"
    for text in ("", "{", "[1, 2", '{"other": ['):
        path.write_text(text)
        with pytest.raises(UserError, match="not valid JSON"):
            read_result_file(path, salvage=True)
    with pytest.raises(UserError, match="no such file"):
        read_result_file(tmp_path / "absent.json", salvage=True)


def test_files_of_different_protocols_are_refused(tmp_path: Path) -> None:
    ours = {"nightdrive": {"planned": 3, "protocol": "light simulator"}}
    files = [
        read_result_file(written(tmp_path, "a", record(1), **ours)),
        read_result_file(written(tmp_path, "b", record(2))),
    ]
    with pytest.raises(UserError, match="different protocols: CARLA leaderboard; light simulator"):
        merge(files)
    assert merge(files[:1]).results.planned == 3
    with pytest.raises(UserError, match="no results file given"):
        merge([])
