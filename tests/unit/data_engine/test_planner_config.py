"""A comparison's config: what its entries may be, and how each model is trained."""

from dataclasses import replace
from pathlib import Path

import pytest

from data_engine.planner_config import ModelEntry, PlannerEvalConfig, training
from drive.config import dump_config, load_config
from drive.contracts import UserError
from sim.suites import HELD_OUT_TOWNS, load_suite

CONFIG = "configs/eval/planner.yaml"


@pytest.fixture
def shipped(repo_root: Path) -> PlannerEvalConfig:
    return load_config(PlannerEvalConfig, repo_root / CONFIG)


def test_the_shipped_config_compares_with_every_baseline_on_held_out_towns(
    shipped: PlannerEvalConfig,
) -> None:
    made = {name: training(shipped, name, 1).model for name, e in shipped.models.items() if e.trained}
    assert replace(made["ours"], refine_steps=0) == shipped.train.model
    assert shipped.models["generate_and_score"].weights_of == "ours"
    assert shipped.train.eyes_from == Path("base")
    assert made["regression"].head == "regression"
    assert not made["diffusion_without_command"].use_command
    assert not made["without_ego_status"].use_speed
    assert not made["ego_status_mlp"].use_image
    assert {e.policy for e in shipped.models.values()} >= {"constant_velocity", "expert"}
    assert len(shipped.seeds) == 3
    suites = [load_suite(name) for name in shipped.suites]
    assert sum(len(suite.routes) for suite in suites) >= 100
    assert {town for suite in suites for town in suite.towns} <= set(HELD_OUT_TOWNS)
    assert set(HELD_OUT_TOWNS) <= set(shipped.train.exclude_towns)


def test_every_seed_trains_alike_but_for_its_seed(shipped: PlannerEvalConfig) -> None:
    zero, one = (training(shipped, "regression", seed) for seed in (0, 1))
    assert (zero.loop.seed, one.loop.seed) == (0, 1)
    assert (zero.model, zero.augment, zero.data) == (one.model, one.augment, one.data)
    assert zero.cache == one.cache == shipped.out / "cache"


def test_changed_use_of_weights_keeps_their_training(shipped: PlannerEvalConfig) -> None:
    entry = ModelEntry(change=("model.command_bonus=0",), weights_of="ours")
    config = PlannerEvalConfig(models={**shipped.models, "no_bonus": entry}, train=shipped.train)
    ours, changed = training(config, "ours", 2), training(config, "no_bonus", 2)
    assert (ours.model.command_bonus, changed.model.command_bonus) == (1.0, 0.0)
    assert ours.loop == changed.loop


def test_what_is_written_is_read_back(shipped: PlannerEvalConfig, tmp_path: Path) -> None:
    dump_config(shipped, tmp_path / "config.yaml")
    assert load_config(PlannerEvalConfig, tmp_path / "config.yaml") == shipped


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("ours=other", "ours: no model 'other'"),
        ("gap_from=expert", "gap_from: no trained model 'expert'"),
        ("seeds=[]", "seeds: give at least one"),
        ("seeds=[1, 1]", "seeds: give at least one, and each only once"),
        ("suites=[]", "suites: give at least one"),
        ("workers=0", "workers: must be at least 1"),
        ("models.a.polcy=base", "unknown key 'models.a.polcy'; did you mean 'models.a.policy'"),
        ("models.a/b.policy=base", "models.a/b: use letters"),
        ("models.expert.change=[model.width=3]", "models.expert: a policy is driven as it is"),
        ("models.a.weights_of=expert", "models.a.weights_of: 'expert' is not trained here; trained: ours"),
        ("models.a={weights_of: ours, change: [loop.lr=1]}", "only `model.` keys"),
        ("train.loop.max_step=3", "did you mean 'train.loop.max_steps'"),
    ],
)
def test_nonsense_is_refused_and_named(repo_root: Path, override: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        load_config(PlannerEvalConfig, repo_root / CONFIG, [override])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_change_that_training_refuses_names_the_model(shipped: PlannerEvalConfig) -> None:
    config = PlannerEvalConfig(models={"ours": ModelEntry(change=("model.hed=regression",))})
    with pytest.raises(UserError, match=r"models\.ours\.change: unknown key 'model\.hed'; did you mean"):
        training(config, "ours", 0)
