"""A small comparison of planners: real trainings, real drives, kill -9, and the tables."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_engine.planner_config import ModelEntry, PlannerEvalConfig, training
from data_engine.planner_jobs import (
    Member,
    Validation,
    change_member,
    check_models,
    errors_path,
    measurable,
    measure_member,
    model_path,
    policy_errors,
    read_errors,
    train_member,
)
from drive.bench.floors import ConstantVelocity
from drive.cli.main import main
from drive.config import dump_config, load_config
from drive.contracts import UserError
from drive.model.folder import read_config, read_meta
from drive.train import TrainConfig
from tests.unit.train.drives import write_drives

MODELS = {
    "ours": ModelEntry(),
    "no_bonus": ModelEntry(change=("model.command_bonus=0",), weights_of="ours"),
    "mlp": ModelEntry(change=("model.head=regression", "model.use_command=false", "model.use_image=false")),
    "straight": ModelEntry(policy="constant_velocity"),
    "expert": ModelEntry(policy="expert"),
}
SUITE = """groups:
  - {town: Town02, count: 1, first_seed: 5000, length_m: [30], start_speed_mps: [5]}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> PlannerEvalConfig:
    folder = tmp_path_factory.mktemp("comparison")
    (folder / "one.yaml").write_text(SUITE)
    overrides = ["loop.max_steps=6", "validation_share=0.3"]
    train = load_config(TrainConfig, repo_root / "configs/train/debug.yaml", overrides)
    train = replace(train, data=(write_drives(folder / "logs"),))
    suites = (str(folder / "one.yaml"),)
    return PlannerEvalConfig(MODELS, folder / "out", seeds=(0,), suites=suites, bootstrap=200, train=train)


@pytest.fixture(scope="module")
def trained(config: PlannerEvalConfig) -> PlannerEvalConfig:
    validation = Validation()
    train_member(config, Member("ours", 0), validation)
    change_member(config, Member("no_bonus", 0))
    for name in ("ours", "no_bonus"):
        measure_member(config, name, 0, None, validation)
    measure_member(config, "straight", 0, ConstantVelocity, validation)
    return config


def test_a_model_is_trained_as_the_config_says_and_only_once(trained: PlannerEvalConfig) -> None:
    folder = model_path(trained.out, Member("ours", 0))
    assert read_config(folder) == trained.train.model
    assert load_config(TrainConfig, folder.parent / "config.yaml") == training(trained, "ours", 0)
    before = (folder / "meta.json").stat().st_mtime_ns
    train_member(trained, Member("ours", 0), Validation())
    assert (folder / "meta.json").stat().st_mtime_ns == before


def test_changed_use_of_weights_keeps_the_weights(trained: PlannerEvalConfig) -> None:
    ours, other = (model_path(trained.out, Member(name, 0)) for name in ("ours", "no_bonus"))
    assert read_meta(ours).sha256 == read_meta(other).sha256
    assert (read_config(ours).command_bonus, read_config(other).command_bonus) == (1.0, 0.0)


def test_errors_are_those_that_training_reports(trained: PlannerEvalConfig) -> None:
    routes = read_errors(errors_path(trained.out, "ours", 0))
    provenance = read_meta(model_path(trained.out, Member("ours", 0))).provenance
    samples = sum(route["samples"] for route in routes.values())
    assert samples == provenance["validation_samples"] > 0
    for key in ("ade_m", "ade_intent_m", "ade_best_m"):
        total = sum(route[key] for route in routes.values())
        assert total / samples == pytest.approx(provenance["validation"][key], rel=1e-4)


def test_steady_drives_are_no_problem_for_constant_velocity(trained: PlannerEvalConfig) -> None:
    routes = read_errors(errors_path(trained.out, "straight", 0))
    assert routes.keys() == read_errors(errors_path(trained.out, "ours", 0)).keys()
    wanted, validation = training(trained, "ours", 0), Validation()
    errors = policy_errors(ConstantVelocity(), validation.bundle(wanted), validation.rows(wanted))
    assert errors.sum() == pytest.approx(sum(route["ade_m"] for route in routes.values()), rel=1e-5)
    assert np.median(errors) < 0.05  # a drive's first half second has no velocity yet
    assert measurable(ConstantVelocity)
    assert not measurable("expert")


def test_models_of_other_settings_or_data_are_refused(trained: PlannerEvalConfig, tmp_path: Path) -> None:
    check_models(trained)
    other = replace(trained, train=replace(trained.train, loop=replace(trained.train.loop, lr=1e-4)))
    with pytest.raises(UserError, match=r"trained with other settings \(loop\.lr\)"):
        check_models(other)
    changed = {**MODELS, "no_bonus": replace(MODELS["no_bonus"], change=("model.command_bonus=2",))}
    with pytest.raises(UserError, match="made with other changes"):
        check_models(replace(trained, models=changed))
    shutil.copytree(trained.out, tmp_path / "out")
    logs = write_drives(tmp_path / "logs", 4)
    moved = replace(trained, out=tmp_path / "out", train=replace(trained.train, data=(logs,)))
    with pytest.raises(UserError, match="the logs have changed"):
        train_member(moved, Member("ours", 0), Validation())


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_killed_and_run_again_it_ends_with_tables(trained: PlannerEvalConfig, tmp_path: Path) -> None:
    out, page = tmp_path / "out", tmp_path / "numbers.json"
    dump_config(replace(trained, out=out), tmp_path / "config.yaml")
    command = ["eval", "planner", "--config", str(tmp_path / "config.yaml"), "--json", str(page)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [sys.executable, "-m", "drive.cli.main", *command]
    with subprocess.Popen(started, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "drive no_bonus" in line:
                break
        time.sleep(2.0)
        process.send_signal(signal.SIGKILL)
    kept = out / "drives" / "one" / "ours" / "seed-0" / "results.json"
    driven = json.loads(kept.read_text())["_checkpoint"]["records"]
    made = model_path(out, Member("mlp", 0)).stat().st_mtime_ns
    assert not (out / "planner.md").exists()
    assert main(command) == 0
    assert model_path(out, Member("mlp", 0)).stat().st_mtime_ns == made
    assert json.loads(kept.read_text())["_checkpoint"]["records"] == driven  # wall times included
    numbers = json.loads(page.read_text())
    assert [row["model"] for row in numbers["closed_loop"]] == list(MODELS)
    assert {row["baseline"] for row in numbers["paired"]} == set(MODELS) - {"ours"}
    assert numbers["closed_loop"][-1]["success"]["mean"] == 1.0  # the expert
    assert numbers["missing"] == []
    assert (out / "planner.png").exists()
    assert main(["eval", "planner", "--config", str(tmp_path / "config.yaml"), "--tables-only"]) == 0
