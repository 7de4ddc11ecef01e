"""The expert drives the failed routes of a night again, in the light simulator."""

from pathlib import Path

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
