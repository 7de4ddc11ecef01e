"""The seven nights' bookkeeping: settings of each night, spoiled drives, rows and measures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_engine.demo import (
    MARK,
    DemoConfig,
    DemoNight,
    one_night,
    run_demo,
    spoiler,
    table,
    write_results,
)
from data_engine.evidence import ModelEvidence
from data_engine.mine import Mined
from data_engine.night import SUMMARY, Night
from data_engine.pool import label_passes
from data_engine.store import collect, link
from data_engine.suites import gate_suite, tonight_suite
from drive.config import load_config
from drive.contracts import CaseScore, EvalResult, UserError
from drive.files import read_json, write_json
from drive.logs import find_faults, read_drive, write_drive
from tests import builders
from tests.night_builders import summary as night_summary

NIGHTS = (DemoNight(("traffic",)), DemoNight(("HardBreakRoute",)), DemoNight(("HardBreakRoute",), "labels"))
CONFIG = DemoConfig(NIGHTS, towns=("Town01",), gate_towns=("Town02",), routes=1, siblings=1, length_m=100.0)


def test_the_shipped_configuration_loads_and_introduces_a_kind_a_night(repo_root: Path) -> None:
    config = load_config(DemoConfig, repo_root / "configs" / "demo" / "seven_nights.yaml")
    assert len(config.nights) == 7
    assert {night.spoil for night in config.nights} == {"", "labels", "nan"}
    good = [night.kinds[-1] for night in config.nights[:4]]
    assert len(set(good)) == 4
    with pytest.raises(UserError, match="give some of"):
        DemoNight(("Nothing",))


def test_every_night_drives_its_kinds_and_is_compared_on_all(tmp_path: Path) -> None:
    nights = [one_night(CONFIG, tmp_path, n) for n in range(3)]
    assert [night.date for night in nights] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert [len(tonight_suite(n.config, n.date).routes) for n in nights] == [1, 1, 1]
    assert {len(gate_suite(n.config).routes) for n in nights} == {2}
    assert one_night(CONFIG, tmp_path, 1).key == nights[1].key  # the same night on a second run


def test_routes_of_a_kind_are_shared_by_the_towns_that_have_places(tmp_path: Path) -> None:
    config = replace(
        CONFIG, towns=("Town01", "Town03", "Town05"), gate_towns=("Town10HD",), routes=4, length_m=130.0
    )
    night = one_night(replace(config, nights=(DemoNight(("empty", "Accident")),)), tmp_path, 0)
    towns = [(r.route_id.split("_")[1], r.town) for r in tonight_suite(night.config, night.date).routes]
    assert towns.count(("empty", "Town01")) == 2
    assert sum(kind == "empty" for kind, _ in towns) == 4
    assert towns.count(("Accident", "Town01")) == 0
    assert towns.count(("Accident", "Town03")) == towns.count(("Accident", "Town05")) == 2
    nowhere = replace(config, towns=("Town01",), nights=(DemoNight(("Accident",)),))
    with pytest.raises(UserError, match="no place for Accident in Town01"):
        one_night(nowhere, tmp_path, 0)


def test_a_night_is_judged_on_the_kinds_met_so_far(tmp_path: Path) -> None:
    judged = [one_night(CONFIG, tmp_path, n).config.gate.kinds for n in range(3)]
    assert judged == [("traffic",), ("traffic", "HardBreakRoute"), ("traffic", "HardBreakRoute")]


def test_the_memory_is_replayed_every_night(tmp_path: Path) -> None:
    night = one_night(replace(CONFIG, memory=3), tmp_path, 1)
    assert night.config.curate.replay == str(tmp_path / "memory" / "logs")
    assert one_night(CONFIG, tmp_path, 1).config.curate.replay is None


def spoiled(tmp_path: Path, how: str) -> tuple[Path, Path]:
    night = one_night(CONFIG, tmp_path, 2)
    write_drive(night.folder / "drive" / "logs", builders.cruise(image_size=16))
    spoiler(how)(night)  # type: ignore[arg-type]
    return night.folder / "drive", night.folder / "drive" / "logs"


def test_wrong_labels_pass_the_gates_of_the_score(tmp_path: Path) -> None:
    folder, logs = spoiled(tmp_path, "labels")
    log = read_drive(logs, "cruise")
    known = np.isfinite(log.plans.label_ego).all((1, 2))
    assert (log.plans.label_ego[known] == 0).all()
    assert label_passes(log, int(np.flatnonzero(known)[0]))
    assert find_faults(log) == [] or {f.kind for f in find_faults(log)} == {"frozen_image"}
    assert read_json(folder / MARK)["drives"] == ["cruise"]


def test_demonstrations_are_spoiled_where_they_lie(tmp_path: Path) -> None:
    """Found by a night that crashed: what is shown are links to what was tried."""
    night = one_night(CONFIG, tmp_path, 2)
    shown = night.folder / "drive" / "shown"
    write_drive(shown / "tried" / "logs", builders.cruise(image_size=16))
    link(collect([shown / "tried" / "logs"]), shown / "logs")
    spoiler("labels")(night)
    for folder in (shown / "logs", shown / "tried" / "logs"):
        label = read_drive(folder, "cruise").plans.label_ego
        assert np.nanmax(np.abs(label)) == 0
    assert (shown / "logs" / "cruise").is_symlink() or any(
        p.is_symlink() for p in (shown / "logs").rglob("*")
    )


def test_a_dying_sensor_is_a_fault_and_is_spoiled_once(tmp_path: Path) -> None:
    _, logs = spoiled(tmp_path, "nan")
    assert "non_finite" in {f.kind for f in find_faults(read_drive(logs, "cruise"))}
    write_drive(logs, builders.cruise(image_size=16))
    spoiler("nan")(one_night(CONFIG, tmp_path, 2))
    assert "non_finite" not in {f.kind for f in find_faults(read_drive(logs, "cruise"))}


def evidence(model: str, traffic: float, braking: float) -> ModelEvidence:
    cases = (
        CaseScore("t", "ok", 100 * traffic, {"success": traffic}),
        CaseScore("b", "ok", 100 * braking, {"success": braking}),
    )
    kinds = {"t": "traffic", "b": "HardBreakRoute"}
    return ModelEvidence(model, EvalResult("all", "p", model, 2, cases, {}), (), (), kinds=kinds)


def test_rows_and_measures_of_three_nights(tmp_path: Path) -> None:
    nights = [one_night(CONFIG, tmp_path, n) for n in range(3)]
    results = [
        (1.0, 0.0, 1.0, 0.0, "promoted"),
        (1.0, 0.0, 1.0, 1.0, "promoted"),
        (1.0, 1.0, 0.0, 0.0, "refused"),
    ]
    for night, (a, b, c, d, decision) in zip(nights, results, strict=True):
        write_json(night.folder / "evaluate" / "champion.json", evidence("x", a, b))
        write_json(night.folder / "evaluate" / "candidate.json", evidence("y", c, d))
        made = night_summary(Mined((), (), {}, {}), night=night.date, decision=decision)
        reasons = {} if decision == "promoted" else {"score_regression": "-100"}
        write_json(night.folder / SUMMARY, {**made, "reasons": reasons})
    found = write_results(CONFIG, tmp_path, nights)
    rows = found["nights"]
    assert [(row["failed"], row["fixed"]) for row in rows] == [(0, 0), (1, 1), (0, 0)]
    assert [row["union"] for row in rows] == [0.5, 1.0, 1.0]  # a refused candidate changes nothing
    assert (found["whole"]["union_first"], found["whole"]["union_last"]) == (0.5, 1.0)
    assert [row["general_change"]["low"] for row in rows] == [0.0, 0.0, 0.0]
    assert found["whole"]["nbt"] == 0.0
    assert found["whole"]["fwt_gem"] == 0.0
    assert found["whole"]["fwt_libero"] == 1.0
    text = table(found)
    refused = "| 2026-01-03 | HardBreakRoute (labels spoiled) | refused: score_regression | 0 of 0 "
    assert f"{refused}| 100 % -> 100 % | +0.0 [+0.0, +0.0] |" in text
    assert (tmp_path / "demo.md").read_text(encoding="utf-8") == text


def test_an_unfinished_night_ends_the_table(tmp_path: Path) -> None:
    nights = [one_night(CONFIG, tmp_path, n) for n in range(2)]
    found = write_results(CONFIG, tmp_path, nights)
    assert found["nights"] == []
    assert found["whole"]["union_last"] is None


def test_the_same_workspace_by_another_name_is_the_same_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a relative path that began all nights again."""
    started: list[str] = []

    def run(night: Night, _: object) -> None:
        started.append(night.key)
        made = night_summary(Mined((), (), {}, {}), night=night.date, decision="nothing_to_do")
        write_json(night.folder / SUMMARY, made)

    monkeypatch.setattr("data_engine.nightly.run_night", run)
    monkeypatch.setattr("data_engine.nightly.preflight", lambda night: night.start())
    monkeypatch.chdir(tmp_path)
    run_demo(CONFIG, Path("runs"), 1)
    run_demo(CONFIG, tmp_path / "runs", 1)
    run_demo(CONFIG, Path("runs") / ".." / "runs", 1)
    assert len(started) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"first_date": "yesterday"}, "first_date: 'yesterday' is not a date"),
        ({"towns": ("Town02",)}, "held-out towns"),
        ({"length_m": 50_000.0}, "no place for traffic in Town01"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_driven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], said: str
) -> None:
    monkeypatch.setattr("data_engine.demo._remember", lambda *_: pytest.fail("drives already"))
    with pytest.raises(UserError, match=said):
        run_demo(replace(CONFIG, memory=3, **changes), tmp_path)  # type: ignore[arg-type]


def test_other_routes_are_other_nights(tmp_path: Path) -> None:
    longer = one_night(replace(CONFIG, length_m=120.0), tmp_path, 1)
    assert longer.key != one_night(CONFIG, tmp_path, 1).key
