"""Numbers of a comparison: pairs, spoilt drives, suites together, the gap; and the tables made of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from data_engine.planner_config import ModelEntry, PlannerEvalConfig
from data_engine.planner_jobs import Member, errors_path, results_path
from data_engine.planner_summary import summarise
from data_engine.planner_table import BEGIN, END, check_markers, insert, tables, write_tables
from drive.contracts import Event, UserError
from drive.files import read_json, write_json
from sim.episode import DriveReport
from sim.results import SIMULATION_CRASHED, ResultsFile, failure_record, record_of
from sim.suites import Suite, load_suite, take

HIT = (Event("collisions_vehicle", 1, "hit"),)
SUITE = replace(take(load_suite("heldout"), 3), name="quiet")
BUSY = replace(
    SUITE,
    name="busy",
    routes=tuple(replace(r, route_id=f"busy-{r.route_id}", vehicles=9) for r in SUITE.routes),
)


@pytest.fixture
def config(tmp_path: Path) -> PlannerEvalConfig:
    models = {
        "ours": ModelEntry(),
        "plain": ModelEntry(change=("model.use_command=false",)),
        "straight": ModelEntry(policy="constant_velocity"),
    }
    return PlannerEvalConfig(
        models, tmp_path, seeds=(0, 1), suites=("quiet", "busy"), bootstrap=500, gap_from="plain"
    )


def drove(config: PlannerEvalConfig, suite: Suite, member: Member, outcomes: str) -> None:
    """Results of one member, a letter a route: "." clean, "x" a collision, "s" spoilt by the simulator."""
    path = results_path(config.out, suite.name, member)
    path.parent.mkdir(parents=True)
    results = ResultsFile(path, suite, {"policy": member.name, "simulator": "light simulator"})
    for n, outcome in enumerate(outcomes):
        if outcome == "s":
            results.add(failure_record(suite.routes[n], n, SIMULATION_CRASHED, "gone"))
            continue
        report = DriveReport(
            spec=suite.routes[n], ended="completed", events=HIT if outcome == "x" else (), completion=1.0,
            outside_m=0.0, driven_m=100.0, route_length_m=100.0, game_s=20.0, wall_s=3.0, plans=10,
            split_brain=0, unusable_plans=0, late_images=0, plan_ms=(5.0,),
        )  # fmt: skip
        results.add(record_of(report, n))


def everybody_drove(config: PlannerEvalConfig) -> None:
    for suite, outcomes in (
        (SUITE, ("...", "..x", "xxx", "x..", "xx.")),
        (BUSY, ("x..", "...", "x.s", "xxx", "xxx")),
    ):
        who = [
            Member("ours", 0),
            Member("ours", 1),
            Member("plain", 0),
            Member("plain", 1),
            Member("straight", None),
        ]
        for member, letters in zip(who, outcomes, strict=True):
            drove(config, suite, member, letters)


def measured(config: PlannerEvalConfig, name: str, seed: int, **sums: float) -> None:
    routes = {
        "Town01/a": {"samples": 10, **sums},
        "Town01/b": {"samples": 30, **{k: 3 * v for k, v in sums.items()}},
    }
    write_json(errors_path(config.out, name, seed), {"model_id": "m", "routes": routes})


def row(summary: dict, table: str, **wanted: str) -> dict:
    (found,) = [r for r in summary[table] if wanted.items() <= r.items()]
    return found


def test_scores_are_means_over_planned_drives_and_seeds(config: PlannerEvalConfig) -> None:
    everybody_drove(config)
    summary = summarise(config, (SUITE, BUSY))
    assert summary["missing"] == []
    ours = row(summary, "closed_loop", suite="quiet", model="ours")
    assert (ours["trained_with"], ours["places"], ours["drives"]) == ([0, 1], 3, 6)
    assert ours["success"]["mean"] == pytest.approx(5 / 6)
    assert ours["driving_score"]["mean"] == pytest.approx((5 * 100 + 60) / 6)
    assert ours["driving_score_by_seed"] == pytest.approx([100.0, 260 / 3])
    assert ours["collisions_per_100"] == pytest.approx(100 / 6)
    assert ours["driving_score"]["low"] < ours["driving_score"]["mean"] < ours["driving_score"]["high"]
    spoilt = row(summary, "closed_loop", suite="busy", model="plain")
    assert spoilt["simulator_failed"] == 1
    assert spoilt["driving_score"]["mean"] == pytest.approx((60 + 100 + 0 + 180) / 6)


def test_pairs_share_route_and_seed_and_leave_spoilt_drives_out(config: PlannerEvalConfig) -> None:
    everybody_drove(config)
    summary = summarise(config, (SUITE, BUSY))
    quiet = row(summary, "paired", suite="quiet", baseline="plain")
    assert quiet["pairs"] == 6
    assert quiet["driving_score_change"]["mean"] == pytest.approx((3 * 40 + 40 + 0 - 40) / 6)
    assert quiet["success_change"]["mean"] == pytest.approx(100 * (3 + 1 + 0 - 1) / 6)
    busy = row(summary, "paired", suite="busy", baseline="plain")
    assert busy["pairs"] == 5
    assert busy["driving_score_change"]["mean"] == pytest.approx((0 + 0 + 3 * 40) / 5)
    blind = row(summary, "paired", suite="busy", baseline="straight")
    assert (blind["pairs"], blind["trained_with"]) == (6, [0, 1])
    assert blind["driving_score_change"]["mean"] == pytest.approx((0 + 40 + 40 + 3 * 40) / 6)
    assert blind["verdict"] == "better"


def test_a_ready_made_model_can_be_ours(config: PlannerEvalConfig) -> None:
    everybody_drove(config)
    summary = summarise(replace(config, ours="straight"), (SUITE, BUSY))
    plain = row(summary, "paired", suite="busy", baseline="plain")
    assert (plain["pairs"], plain["trained_with"]) == (5, [0, 1])
    assert plain["driving_score_change"]["mean"] == pytest.approx(-40 / 5)
    assert plain["verdict"] == "within noise"


def test_all_suites_together_count_a_place_once(config: PlannerEvalConfig) -> None:
    everybody_drove(config)
    summary = summarise(config, (SUITE, BUSY))
    ours = row(summary, "closed_loop", suite="all", model="ours")
    assert (ours["places"], ours["drives"]) == (3, 12)
    assert ours["driving_score"]["mean"] == pytest.approx((10 * 100 + 2 * 60) / 12)
    assert row(summary, "paired", suite="all", baseline="plain")["pairs"] == 10


def test_what_was_not_driven_in_full_is_left_out_and_named(config: PlannerEvalConfig) -> None:
    assert len(summarise(config, (SUITE, BUSY))["missing"]) == 10
    drove(config, SUITE, Member("ours", 0), "...")
    drove(config, SUITE, Member("plain", 1), "..")
    summary = summarise(config, (SUITE, BUSY))
    assert [(r["suite"], r["model"]) for r in summary["closed_loop"]] == [("quiet", "ours")]
    assert "plain, seed 1 on quiet" in summary["missing"]
    assert "ours, seed 0 on quiet" not in summary["missing"]
    assert "Not driven in full yet" in tables(summary)


def test_the_gap_begins_where_the_config_says(config: PlannerEvalConfig) -> None:
    for seed in (0, 1):
        measured(config, "ours", seed, ade_m=6.0, ade_intent_m=10.0, ade_best_m=4.0)
        measured(config, "plain", seed, ade_m=8.0, ade_best_m=4.0)
        measured(config, "straight", seed, ade_m=9.0)
    summary = summarise(config, (SUITE, BUSY))
    ours, straight = (row(summary, "validation", model=name) for name in ("ours", "straight"))
    assert (ours["samples"], ours["routes"]) == (80, 4)
    assert ours["ade_m"]["mean"] == pytest.approx(0.6)
    assert ours["gap_closed"]["mean"] == pytest.approx((8 - 6) / (8 - 4))
    assert (straight["ade_best_m"], straight["gap_closed"]) == (None, None)
    own = summarise(replace(config, gap_from=None), (SUITE, BUSY))
    assert row(own, "validation", model="ours")["gap_closed"]["mean"] == pytest.approx((10 - 6) / (10 - 4))
    assert row(own, "validation", model="plain")["gap_closed"] is None


def test_tables_say_what_the_summary_says(config: PlannerEvalConfig) -> None:
    everybody_drove(config)
    measured(config, "ours", 0, ade_m=6.0, ade_intent_m=10.0, ade_best_m=4.0)
    summary = summarise(config, (SUITE, BUSY))
    write_tables(config, summary)
    text = (config.out / "planner.md").read_text()
    ours = row(summary, "closed_loop", suite="quiet", model="ours")["driving_score"]
    assert f"| {ours['mean']:.1f} [{ours['low']:.1f}, {ours['high']:.1f}] |" in text
    assert "| ours minus straight | 0, 1 | 6 |" in text
    assert "Town02" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {12, 8}
    assert read_json(config.out / "summary.json")["closed_loop"] == summary["closed_loop"]
    assert (config.out / "planner.png").read_bytes().startswith(b"\x89PNG")


def test_tables_go_between_markers_and_only_there(config: PlannerEvalConfig, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    summary = summarise(config, (SUITE, BUSY))
    insert(page, summary)
    once = page.read_text()
    assert once.startswith(f"before\n{BEGIN}\nLight simulator")
    assert once.endswith(f"{END}\nafter\n")
    assert "old" not in once
    insert(page, summary)
    assert page.read_text() == once


@pytest.mark.parametrize("text", [None, "", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_markers_is_refused(tmp_path: Path, text: str | None) -> None:
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    with pytest.raises(UserError, match="--into"):
        check_markers(page)
