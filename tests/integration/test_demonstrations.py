"""The expert drives the failed routes of a night again, in the light simulator."""

from pathlib import Path

import pytest

from data_engine import evaluate
from data_engine.config import DriveConfig
from data_engine.evaluate import demonstrate
from data_engine.store import collect
from drive.contracts import CaseScore, EvalResult
from sim.routes import RouteSpec
from sim.suites import Suite

ROUTES = tuple(RouteSpec(name, "Town01", 5, 60.0) for name in ("fine", "bad", "worse", "lost"))
SUITE = Suite("night", "", ROUTES)


def case(name: str, score: float, status: str = "ok") -> CaseScore:
    return CaseScore(name, status, score, {"success": float(score == 100.0)})  # type: ignore[arg-type]


def test_the_worst_failed_route_is_shown_once(tmp_path: Path) -> None:
    cases = (case("fine", 100.0), case("bad", 60.0), case("worse", 10.0), case("lost", 0.0, "infrastructure"))
    result = EvalResult("night", "", "planner", len(cases), cases, {})
    assert demonstrate(DriveConfig(), SUITE, result, tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
    for _ in range(2):  # a rerun drives nothing again
        assert demonstrate(DriveConfig(demonstrations=1), SUITE, result, tmp_path) == ["worse"]
    (ref,) = collect([tmp_path / "logs"])
    assert ref.meta.route == "worse"
    assert ref.meta.driver == "expert"
    assert len(ref.read(images=True).plans.images)


def test_routes_like_it_are_shown_too_and_failed_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = EvalResult("night", "", "planner", 1, (case("bad", 60.0),), {})
    config = DriveConfig(demonstrations=1, variations=1)
    assert demonstrate(config, SUITE, result, tmp_path) == ["bad", "bad_like1"]
    assert {ref.meta.route for ref in collect([tmp_path / "logs"])} == {"bad", "bad_like1"}
    monkeypatch.setattr(evaluate, "succeeded", lambda drive: drive.case_id == "bad_like1")
    assert demonstrate(config, SUITE, result, tmp_path) == ["bad_like1"]
    assert {ref.meta.route for ref in collect([tmp_path / "logs"])} == {"bad_like1"}
    assert {ref.meta.route for ref in collect([tmp_path / "tried" / "logs"])} == {"bad", "bad_like1"}
