"""The timing tool: medians, ratios against a named baseline, and refusals."""

import time
from pathlib import Path

import pytest

from drive.contracts import UserError
from tools.bench.metrics import CASES, SCALES, TARGETS, Metric, load_baseline, measure, ratios, save_baseline


def test_median_of_many_ignores_a_slow_run() -> None:
    delays = iter([0.03, 0.03, 0.03, 0.3, 0.03, 0.03, 0.03])
    got = measure(lambda: time.sleep(next(delays)), runs=6, clock=time.perf_counter)
    assert got.runs == 6
    assert 29 < got.median_ms < 80


def test_short_calls_are_repeated_within_a_sample() -> None:
    calls = []
    got = measure(lambda: calls.append(1), runs=3)
    assert len(calls) > 1000
    assert got.median_ms < 1


def test_ratio_is_against_the_named_baseline(tmp_path: Path) -> None:
    save_baseline("before", {"a": Metric(10.0, 9.0, 11.0, 5), "gone": Metric(1.0, 1.0, 1.0, 5)}, tmp_path)
    then = load_baseline("before", tmp_path)
    assert then == {"a": 10.0, "gone": 1.0}
    assert ratios({"a": Metric(15.0, 14.0, 16.0, 5), "new": Metric(1.0, 1.0, 1.0, 5)}, then) == {"a": 1.5}


def test_an_unknown_or_foreign_baseline_is_refused(tmp_path: Path) -> None:
    path = save_baseline("before", {"a": Metric(10.0, 9.0, 11.0, 5)}, tmp_path)
    with pytest.raises(UserError, match=r"after: not found \(have: before\)"):
        load_baseline("after", tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("Python 3", "Python 2"), encoding="utf-8")
    with pytest.raises(UserError, match="this is"):
        load_baseline("before", tmp_path)


@pytest.mark.parametrize("name", [n for n in CASES if n != "help"])
def test_every_case_runs(name: str) -> None:
    assert CASES[name]()() is not None


@pytest.mark.parametrize("name", list(SCALES))
def test_every_scale_runs(name: str) -> None:
    assert SCALES[name](1)() is not None


def test_waiting_is_no_work() -> None:
    assert measure(lambda: [time.sleep(0.002), sum(range(20_000))], runs=3).median_ms < 1.9


def test_targets_are_cases() -> None:
    assert set(TARGETS) <= set(CASES)
