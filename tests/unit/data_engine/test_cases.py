"""The case store: the life of a case across nights, written once a night, whole or not at all."""

from dataclasses import replace
from pathlib import Path

import pytest

from data_engine.cases import (
    FILE,
    CaseStore,
    NightOutcome,
    apply_night,
    from_results,
    load_store,
    save_store,
)
from drive.contracts import BadCase, UserError

FIXED_M = 1.5


def case(name: str, severity: float = 0.5) -> BadCase:
    return BadCase(name, "log", "route", "stuck", 1, 2, severity, "closed_loop", {"standing_s": 5.0},
                   ("Town01",), (0.1, 0.2), cause="trajectory")  # fmt: skip


def status(store: CaseStore, name: str = "a") -> str:
    return store.cases[name].case.status


def mined(night: str = "n1", **changes: object) -> CaseStore:
    outcome = replace(NightOutcome(night, [case("a"), case("b")], {"a": [3, 4]}), **changes)  # type: ignore[arg-type]
    return apply_night(CaseStore({}), outcome, FIXED_M)


def test_a_new_case_is_open_and_known_from_its_first_night() -> None:
    store = mined()
    assert status(store) == "open"
    assert store.cases["a"].plan_indices == (3, 4)
    again = apply_night(store, NightOutcome("n2", [case("a")]), FIXED_M)
    assert (again.cases["a"].first_night, again.cases["a"].last_night) == ("n1", "n2")


def test_a_night_counts_once() -> None:
    store = mined()
    assert apply_night(store, NightOutcome("n1", [case("c")]), FIXED_M) is store


def test_training_needs_a_promotion() -> None:
    assert status(mined(trained=["a"])) == "open"
    assert status(mined(trained=["a"], promoted=True)) == "training"


def test_a_case_is_fixed_then_retired_and_opens_when_it_comes_back() -> None:
    store = mined(trained=["a"], promoted=True, error_m={"a": 0.4})
    assert status(store) == "fixed"
    for night, expected in (("n2", "fixed"), ("n3", "retired")):
        store = apply_night(store, NightOutcome(night, [], error_m={"a": 0.3}), FIXED_M)
        assert status(store) == expected
    back = apply_night(store, NightOutcome("n4", [], error_m={"a": 3.0}), FIXED_M)
    assert status(back) == "open"
    assert "3.0 m" in back.cases["a"].note
    unknown = apply_night(store, NightOutcome("n4", [], error_m={"a": float("nan")}), FIXED_M)
    assert status(unknown) == "open"


def test_a_poisoned_case_is_quarantined_for_ever() -> None:
    store = mined(quarantined={"a": "already in violation at t = 0"}, trained=["a"], promoted=True)
    assert status(store) == "quarantined"
    again = NightOutcome("n2", [case("a")], trained=["a"], promoted=True, error_m={"a": 0.1})
    assert status(apply_night(store, again, FIXED_M)) == "quarantined"


def test_cases_tested_longest_ago_are_tested_first() -> None:
    store = mined(trained=["a", "b"], promoted=True, windows={"a": [1], "b": [2]})
    store = apply_night(store, NightOutcome("n2", [], error_m={"a": 0.1}), FIXED_M)
    assert [s.case.case_id for s in store.to_test(5)] == ["b", "a"]
    assert [s.case.case_id for s in store.to_test(1)] == ["b"]
    assert store.count() == {"open": 0, "training": 1, "fixed": 1, "retired": 0, "quarantined": 0}


def test_the_store_comes_back_from_the_disk(tmp_path: Path) -> None:
    store = mined(trained=["a"], promoted=True, error_m={"a": 0.4, "b": 2.0})
    save_store(tmp_path, store)
    assert load_store(tmp_path) == store
    assert [p.name for p in tmp_path.iterdir()] == [FILE]
    assert load_store(tmp_path / "none").cases == {}


def test_a_damaged_store_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"ARROW1 and then nothing")
    with pytest.raises(UserError, match=r"cases\.arrow: damaged"):
        load_store(tmp_path)


def test_benchmarks_give_cases_in_the_same_schema() -> None:
    records = [
        {"route_id": "R1", "infractions": {"red_light": ["x", "y"], "collisions_layout": []}, "score": 49.0},
        {"route_id": "R2", "infractions": {"collisions_vehicle": ["z"]}},
    ]
    found = from_results(records, "bench2drive")
    assert [(c.route, c.kind, c.severity, c.source) for c in found] == [
        ("R1", "red_light", 0.7, "benchmark"),
        ("R2", "collisions_vehicle", 1.0, "benchmark"),
    ]
    assert apply_night(CaseStore({}), NightOutcome("n1", found), FIXED_M).count()["open"] == 2
