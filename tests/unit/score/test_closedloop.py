"""Driving score and success: hand-made cases, honest denominators, and four published result files."""

import json
from pathlib import Path

import pytest

from drive.contracts import UserError
from drive.score.closedloop import (
    INFRACTIONS,
    driving_score,
    efficiency,
    is_success,
    record_score,
    suite_score,
)

PUBLISHED = {
    "UniAD-Base": (45.813, 0.16364),
    "UniAD-Tiny": (40.729, 0.13182),
    "VAD": (42.351, 0.15),
    "TCP-only-traj": (59.897, 0.30),
}


def record(route: str, score: float, status: str = "Completed", **infractions: int) -> dict:
    counts = {key: ["message"] * infractions.get(key, 0) for key in INFRACTIONS}
    return {
        "route_id": route,
        "status": status,
        "infractions": counts,
        "scores": {"score_route": score, "score_composed": score},
    }


def test_the_worked_example() -> None:
    assert driving_score(80, {"collisions_pedestrian": 1, "red_light": 1}) == pytest.approx(28.0)
    assert driving_score(80, {"collisions_pedestrian": 1, "red_light": 1}, "2.1") == pytest.approx(80 / 2.4)


@pytest.mark.parametrize("rule", ["2.0", "2.1"])
def test_a_clean_route_scores_its_completion_and_infractions_only_lower_it(rule: str) -> None:
    assert driving_score(73.5, {}, rule) == pytest.approx(73.5)
    for key in INFRACTIONS:
        once, twice = (driving_score(100, {key: n}, rule) for n in (1, 2))
        assert twice <= once <= 100


def test_lanes_and_speed_shares() -> None:
    assert driving_score(100, {}, outside_lanes_pct=20) == pytest.approx(80)
    assert driving_score(100, {}, min_speed_pcts=[0]) == pytest.approx(70)
    assert driving_score(100, {}, min_speed_pcts=[250]) == pytest.approx(100)
    assert driving_score(100, {}, min_speed_pcts=[50, 0]) == pytest.approx(100 * 0.85 * 0.7)
    assert driving_score(100, {}, "2.1", min_speed_pcts=[0]) == pytest.approx(100 / 1.4)
    assert driving_score(100, {}, "2.1", min_speed_pcts=[50, 0]) == pytest.approx(100 / 1.6)


def slow(*percents: float) -> dict:
    entry = record("a", 100)
    entry["infractions"]["min_speed_infractions"] = [
        f"Average speed is {p}% of the surrounding traffic's one" for p in percents
    ]
    return entry


def test_slow_driving_costs_points_only_when_asked() -> None:
    assert record_score(slow(50.0)) == pytest.approx(100)
    assert record_score(slow(50.0), min_speed=True) == pytest.approx(85)
    assert record_score(slow(50.0, 180.0), "2.1", min_speed=True) == pytest.approx(100 / 1.2)


def test_efficiency_is_a_mean_of_means_without_outliers_and_without_silent_routes() -> None:
    assert efficiency([slow(50.0, 150.0), slow(200.0, 1000.5), record("b", 0)]) == pytest.approx(150)
    assert efficiency([slow(2000.0), record("b", 100)]) is None


@pytest.mark.parametrize(
    ("completion", "infractions", "rule"),
    [
        (float("nan"), {}, "2.0"),
        (-1, {}, "2.0"),
        (101, {}, "2.0"),
        (50, {"red_lights": 1}, "2.0"),
        (50, {"red_light": -1}, "2.0"),
        (50, {}, "3.0"),
    ],
)
def test_nonsense_is_refused(completion: float, infractions: dict, rule: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        driving_score(completion, infractions, rule)


def test_success_tolerates_nothing_but_minimum_speed() -> None:
    assert is_success("Completed", {"min_speed_infractions": 7, "red_light": 0})
    assert is_success("Perfect", {})
    assert not is_success("Completed", {"outside_route_lanes": 1})
    assert not is_success("Failed - Agent got blocked", {})


def test_every_planned_route_is_in_the_denominator() -> None:
    records = [record("a", 100), record("b", 50, red_light=1)]
    whole = suite_score(records, planned=4)
    assert (whole.driving_score, whole.success_rate) == (37.5, 0.25)
    assert (whole.recorded, whole.missing, whole.succeeded) == (2, 2, 1)
    assert suite_score(records[:1], planned=4).driving_score <= whole.driving_score


def test_a_repeated_record_counts_once() -> None:
    score = suite_score([record("a", 10), record("a", 100)], planned=2)
    assert (score.driving_score, score.duplicate, score.recorded) == (5.0, 1, 1)


def test_a_non_finite_score_counts_as_zero() -> None:
    assert suite_score([record("a", float("nan")), record("b", 60)], planned=2).driving_score == 30


def test_more_routes_than_planned_is_refused() -> None:
    with pytest.raises(UserError, match="2 routes but 1"):
        suite_score([record("a", 1), record("b", 1)], planned=1)


@pytest.mark.parametrize("model", sorted(PUBLISHED))
def test_published_results_are_reproduced(shared_data: Path, model: str) -> None:
    path = shared_data / "carla" / "results" / f"b2dzoo_{model}.json"
    if not path.is_file():
        pytest.skip(f"no {path.name} in ../shared/data")
    data = json.loads(path.read_text(encoding="utf-8"))
    records = data["_checkpoint"]["records"]
    score = suite_score(records, planned=220)
    driving, success = PUBLISHED[model]
    assert score.driving_score == pytest.approx(data["driving score"], abs=1e-9)
    assert score.success_rate == pytest.approx(data["success rate"], abs=1e-12)
    assert score.driving_score == pytest.approx(driving, abs=5e-4)
    assert score.success_rate == pytest.approx(success, abs=5e-6)
    for entry in records:  # shares are printed with two digits in the files
        assert record_score(entry) == pytest.approx(entry["scores"]["score_composed"], abs=0.006)
