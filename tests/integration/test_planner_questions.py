"""The shipped model and a trained one are asked about recorded drives; the tables say what they answered."""

from dataclasses import replace
from pathlib import Path

import pytest

from data_engine.planner_config import ModelEntry, PlannerEvalConfig
from data_engine.planner_jobs import Member, Validation, train_member
from data_engine.planner_questions import (
    answers_path,
    check_scenes,
    model_of,
    question_member,
    question_row,
)
from data_engine.planner_summary import summarise
from data_engine.planner_table import tables
from drive.config import load_config
from drive.contracts import UserError
from drive.files import read_json
from drive.logs import write_drive
from drive.model import BASE, policy_factory
from drive.train import TrainConfig
from tests.unit.train.drives import picture_drive, write_drives

MODELS = {"ours": ModelEntry(), "base": ModelEntry(policy="base"), "expert": ModelEntry(policy="expert")}
OURS, READY = Member("ours", 0), Member("base", None)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> PlannerEvalConfig:
    folder = tmp_path_factory.mktemp("questions")
    for index in (1, 3):
        write_drive(folder / "held", picture_drive(index, "Town02"))
    overrides = ["loop.max_steps=4", "validation_share=0.3"]
    train = load_config(TrainConfig, repo_root / "configs/train/debug.yaml", overrides)
    train = replace(train, data=(write_drives(folder / "logs"),))
    return PlannerEvalConfig(
        MODELS,
        folder / "out",
        seeds=(0,),
        bootstrap=100,
        train=train,
        scenes=(folder / "held",),
        scene_count=5,
    )


def test_the_shipped_model_answers_about_held_out_drives_once(config: PlannerEvalConfig) -> None:
    folder = model_of(config, READY, policy_factory(BASE))
    assert folder is not None
    question_member(config, READY, folder, Validation())
    path = answers_path(config.out, READY)
    routes = read_json(path)["routes"]
    assert set(routes) == {"Town02/route-1", "Town02/route-3"}
    assert sum(route["no_way_out"][1] for route in routes.values()) == 5
    before = path.stat().st_mtime_ns
    question_member(config, READY, folder, Validation())
    assert path.stat().st_mtime_ns == before
    question_member(replace(config, scene_count=2), READY, folder, Validation())
    assert path.stat().st_mtime_ns != before  # another number of scenes is another measurement
    question_member(config, READY, folder, Validation())
    assert read_json(path)["routes"] == routes  # and the same question has the same answer


def test_a_trained_model_is_asked_about_its_validation_routes(config: PlannerEvalConfig) -> None:
    config = replace(config, scenes=())
    assert model_of(config, READY, policy_factory(BASE)) is None  # it may have been trained on them
    validation = Validation()
    train_member(config, OURS, validation)
    folder = model_of(config, OURS, None)
    assert folder is not None
    question_member(config, OURS, folder, validation)
    routes = read_json(answers_path(config.out, OURS))["routes"]
    assert set(routes) <= {f"Town01/route-{n}" for n in range(6)}
    assert sum(route["no_way_out"][1] for route in routes.values()) == 5
    row = question_row(config, "ours", [OURS])
    assert row is not None
    assert row["scenes"] == 5
    assert row["agrees"]["n"] == row["safe"]["n"] <= 5
    assert row["agrees"]["low"] <= row["agrees"]["mean"] <= row["agrees"]["high"]
    summary = summarise(config, ())
    text = tables(summary)
    assert [r["model"] for r in summary["questions"]][:1] == ["ours"]
    assert f"({row['obeys']['n']})" in text


def test_scenes_of_training_towns_or_without_drives_are_refused(
    config: PlannerEvalConfig, tmp_path: Path
) -> None:
    assert len(check_scenes(config)) == 2
    with pytest.raises(UserError, match=r"only drives in Town01, where training may be"):
        check_scenes(replace(config, scenes=config.train.data))
    with pytest.raises(UserError, match="no such log folder"):
        check_scenes(replace(config, scenes=(tmp_path / "none",)))
    assert question_row(replace(config, out=tmp_path), "ours", [OURS]) is None
