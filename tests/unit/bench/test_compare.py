"""Saved results and their comparison: round trip, tampering, refusals, and numbers checked by hand."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.bench.batch import batch_of
from drive.bench.cases import choose
from drive.bench.closed_loop import closed_loop
from drive.bench.compare import POWER_Z, compare
from drive.bench.compare_plot import draw
from drive.bench.result import EvalTable, Metric, closed_loop_table, head_of, load_table, mean_of, save_table
from drive.bench.scoring import columns_of, policy_row, truths
from drive.contracts import UserError
from drive.score.bootstrap import Interval
from drive.score.merge import merge
from tests.bench_builders import scene
from tests.unit.score.test_merge import file_of, record


def table(values: Any, better: str = "higher", model: str = "m", planned: int = 0, **more: Any) -> EvalTable:
    values = np.asarray(values, np.float64)
    n = len(values)
    planned = planned or n
    mean = (values.sum() + 0.0) / planned
    facts = {
        "case_id": [f"c{i}" for i in range(n)],
        "status": ["ok"] * n,
        "cluster": [f"c{i}" for i in range(n)],
        "group": [f"g{i % 2}" for i in range(n)],
        "score": values,
    } | more
    metric = Metric("score", better, 0.0, Interval(mean, mean, mean), planned)
    return EvalTable("results", "s", "p", model, planned, n, 0, (0,), {"numpy": "1"}, {}, (metric,), facts)


def test_round_trip_and_tampering(tmp_path: Path) -> None:
    one = table([1.0, 2.0, 4.0], planned=4)
    save_table(tmp_path / "a", one)
    again = load_table(tmp_path / "a")
    assert head_of(again) == head_of(one)
    assert load_table(tmp_path / "a" / "result.json").result_id == one.result_id
    assert mean_of(again, again.metrics[0]) == pytest.approx(7 / 4)
    cases = pd.read_parquet(tmp_path / "a" / "cases.parquet")
    cases.loc[0, "score"] = 50.0
    cases.to_parquet(tmp_path / "a" / "cases.parquet")
    with pytest.raises(UserError, match="score does not recompute"):
        load_table(tmp_path / "a")


@pytest.mark.parametrize("name", ["result.json", "cases.parquet"])
@pytest.mark.parametrize("keep", [0, 60])
def test_damaged_results_are_one_line(tmp_path: Path, name: str, keep: int) -> None:
    save_table(tmp_path / "a", table([1.0, 2.0]))
    path = tmp_path / "a" / name
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError) as caught:
        load_table(tmp_path / "a")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"no result\.json"):
        load_table(tmp_path)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("planned", []), ("planned", -1), ("planned", True), ("planned", 10**400), ("model", None),
        ("seeds", 5), ("seeds", [{}]), ("versions", []), ("metrics", []), ("metrics", [1]),
        ("missing", [1e300]), ("missing", "x" * 9999), ("better", "blue"), ("interval", {"mean": {}}),
        ("n", "1e999"),
    ],
)  # fmt: skip
def test_heads_of_another_kind_are_one_short_line(tmp_path: Path, where: str, value: Any) -> None:
    save_table(tmp_path / "a", table([1.0, 2.0]))
    path = tmp_path / "a" / "result.json"
    head = json.loads(path.read_text())
    (head if where in head else head["metrics"][0])[where] = value
    path.write_text(json.dumps(head))
    with pytest.raises(UserError, match="damaged") as caught:
        load_table(tmp_path / "a")
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


@pytest.mark.parametrize("column", ["case_id", "group", "score"])
@pytest.mark.parametrize("value", [b"\xff", [1.0], {"a": 1}])
def test_columns_of_another_kind_are_one_line(tmp_path: Path, column: str, value: Any) -> None:
    save_table(tmp_path / "a", table([1.0, 2.0]))
    cases = pd.read_parquet(tmp_path / "a" / "cases.parquet")
    cases[column] = [value] * len(cases)
    cases.to_parquet(tmp_path / "a" / "cases.parquet")
    with pytest.raises(UserError, match="damaged"):
        load_table(tmp_path / "a")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "q"}, "protocol is 'p' in A and 'q' in B"),
        ({"suite": "t"}, "suite is"),
        ({"kind": "nuscenes"}, "kind is"),
        ({"planned": 9}, "planned is"),
        ({"metrics": ()}, "different metrics"),
        ({"columns": {**table([1.0, 2.0]).columns, "case_id": ["x", "y"]}}, "no case in common"),
    ],
)
def test_unlike_results_are_refused(change: dict[str, Any], message: str) -> None:
    one = table([1.0, 2.0])
    with pytest.raises(UserError, match=message):
        compare(one, replace(one, **change))


def test_a_steady_difference_is_found_and_a_noisy_one_is_not(rng: np.random.Generator) -> None:
    base = rng.uniform(0, 100, 60)
    steady = compare(table(base), table(base + 2.0 + rng.normal(0, 0.5, 60))).metrics[0]
    assert (steady.verdict, steady.pairs) == ("better", 60)
    assert steady.change.low > 1.5
    assert steady.p_value < 0.001
    noisy = compare(table(base), table(rng.uniform(0, 100, 60))).metrics[0]
    assert noisy.verdict == "within noise"
    assert noisy.detectable > 5
    assert compare(table(base, "lower"), table(base + 2.0, "lower")).metrics[0].verdict == "worse"


def test_numbers_by_hand() -> None:
    a, b = [10.0, 20.0, 30.0, 40.0], [12.0, 18.0, 36.0, 50.0]
    found = compare(table(a), table(b))
    one, change = found.metrics[0], np.array(b) - a
    assert (one.a, one.b, one.change.mean) == (25.0, 29.0, 4.0)
    assert one.detectable == pytest.approx(POWER_Z * change.std(ddof=1) / 2)
    assert one.p_value == pytest.approx(6 / 16, abs=0.02)  # 6 of the 16 ways to flip 2, 2, 6, 10
    assert [(part.name, part.change) for part in found.worse_cases] == [("c1", -2.0)]
    assert not [part for part in found.worse_groups if part.name == "g0"]


def test_a_missing_case_costs_its_price_in_the_pair() -> None:
    whole, part = table([50.0, 50.0, 50.0], planned=4), table([50.0, 50.0], planned=4)
    found = compare(whole, part)
    assert found.metrics[0].change.mean == pytest.approx(-50 / 4)
    assert (found.metrics[0].pairs, found.worse_cases[0].name) == (4, "c2")
    assert "B covers 2 of 4" in " ".join(found.notes)
    assert "A and B hold the same numbers" in compare(whole, whole).notes


@settings(max_examples=10)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8))
def test_swapping_mirrors_and_copies_of_a_cluster_are_no_evidence(changes: list[float]) -> None:
    base = np.arange(len(changes), dtype=float)
    a, b = table(base), table(base + changes)
    there, back = compare(a, b).metrics[0], compare(b, a).metrics[0]
    assert there.change.mean == pytest.approx(-back.change.mean, abs=1e-9)
    assert there.change.low == pytest.approx(-back.change.high, abs=1e-9)
    doubled = [
        replace(
            t,
            planned=2 * t.planned,
            columns={
                **{k: [*t.columns[k]] * 2 for k in ("status", "cluster", "group")},
                "case_id": [f"d{i}" for i in range(2 * t.planned)],
                "score": np.tile(t.columns["score"], 2),
            },
        )
        for t in (a, b)
    ]
    twice = compare(*doubled).metrics[0]
    assert twice.clusters == len(changes)
    assert twice.change.mean == pytest.approx(there.change.mean, abs=1e-9)
    assert math.isclose(twice.detectable, there.detectable, abs_tol=1e-9)


def test_closed_loop_results_round_trip(tmp_path: Path) -> None:
    planned = {f"RouteScenario_{n}_rep0": "Accident" for n in range(5)}
    result = closed_loop(merge([file_of([record(0, 40), record(1, red_light=1)], tmp_path, "a")]), planned)
    one = closed_loop_table(result, "light simulator", "mine", "five", True)
    save_table(tmp_path / "out", one)
    again = load_table(tmp_path / "out")
    assert (again.planned, again.run, again.failed) == (5, 2, 0)
    assert again.metrics[0].interval.mean == pytest.approx((40 + 70) / 5)
    assert sorted(again.columns["status"]) == ["missing"] * 3 + ["ok"] * 2


def test_open_loop_results_recompute(tmp_path: Path) -> None:
    from drive.bench.report import BenchReport
    from drive.bench.result import open_loop_table

    scenes = tuple(scene(f"s{i}", 14, agents=6, seed=i) for i in range(3))
    cases, chosen = choose(scenes, "every")
    truth = truths(cases, batch_of(cases), families=False)
    pose = np.nan_to_num(truth.batch.truth_ego) + np.array([0.5, 0.0, 0.0])
    pose[3] = np.nan
    columns = columns_of(truth, pose, np.ones(len(cases), bool))
    row = policy_row("p", "oracle command", "file", columns, truth)
    report = BenchReport(
        "nuScenes", "v", "val", "words", 0, 0, 0, len(cases), {}, 0, 0, "", (row,), {"p": columns}, truth.hit,
        chosen, (), truth.commands,
    )  # fmt: skip
    one = open_loop_table(report)
    save_table(tmp_path / "out", one)
    again = load_table(tmp_path / "out")
    means = {metric.name: metric.interval.mean for metric in again.metrics}
    assert means["l2_at_1s"] == pytest.approx(row.l2_m.at[0])
    assert means["collision_at_2s"] == pytest.approx(row.collision_clean.at[1])
    assert (again.planned, again.failed, again.facts["command"]) == (len(cases), 1, "oracle command")
    assert json.loads((tmp_path / "out" / "result.json").read_text())["suite"].endswith(chosen.token_hash)
    draw(compare(one, again), one, again, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
