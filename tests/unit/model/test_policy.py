"""The planner as a policy, and its model folder."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drive.contracts import UserError
from drive.geometry.commands import agree
from drive.model import load_policy, policy_factory
from drive.model.folder import load_model, read_meta, save_model
from drive.model.policy import PlannerPolicy
from tests import builders
from tests.unit.model.networks import tiny_network


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path / "model", tiny_network(), provenance={"kind": "test"})
    return tmp_path / "model"


def observation(speed: float = 6.0, t_us: int = 0):
    return replace(builders.observation(speed, image_size=64), t_us=t_us)


def test_plans_are_complete_and_the_best_comes_first() -> None:
    plan = PlannerPolicy(tiny_network(), "tiny").plan([observation()], 0)[0]
    assert plan.proposals_ego.shape == (10, 40, 3)
    assert plan.scores.argmax() == 0
    np.testing.assert_array_equal(plan.best.pose_ego, plan.proposals_ego[0])
    assert plan.command is not None
    assert 0 < plan.command.confidence <= 1
    assert set(plan.latency_ms) == {"prepare", "encode", "diffuse"}


def test_split_brain_is_flagged_exactly_when_command_and_plan_disagree() -> None:
    seen = set()
    for seed in range(8):
        for speed in (0.0, 3.0, 9.0):
            plan = PlannerPolicy(tiny_network(seed), "tiny").plan([observation(speed)], seed)[0]
            assert plan.command is not None
            emitted = (int(plan.command.lateral), int(plan.command.longitudinal))
            whole = bool(agree(emitted, plan.best.pose_ego, speed))
            assert ("split_brain" in plan.flags) is not whole
            seen.add(whole)
    assert seen == {True, False}


def test_same_seed_and_time_same_plan() -> None:
    policy = PlannerPolicy(tiny_network(), "tiny")
    first = policy.plan([observation(t_us=5)], 1)[0].proposals_ego
    policy.plan([observation(3.0)], 9)
    np.testing.assert_array_equal(policy.plan([observation(t_us=5)], 1)[0].proposals_ego, first)
    assert not np.array_equal(policy.plan([observation(t_us=5)], 2)[0].proposals_ego, first)
    assert not np.array_equal(policy.plan([observation(t_us=6)], 1)[0].proposals_ego, first)


def test_output_that_is_not_finite_becomes_a_flagged_brake() -> None:
    network = tiny_network()
    torch.nn.init.constant_(network.decode_offset.bias, float("nan"))
    plan = PlannerPolicy(network, "tiny").plan([observation(8.0)], 0)[0]
    assert plan.flags == ("fallback",)
    assert np.isfinite(plan.best.pose_ego).all()
    assert plan.best.pose_ego[-1, 0] == pytest.approx(8.0)


def test_input_that_is_not_finite_brakes_only_its_own_plan() -> None:
    broken = observation(float("nan"))
    plans = PlannerPolicy(tiny_network(), "tiny").plan([broken, observation(5.0)], 0)
    assert plans[0].flags == ("fallback",)
    assert "fallback" not in plans[1].flags


def test_a_missing_camera_is_named() -> None:
    with pytest.raises(UserError, match="needs images of camera 'front'"):
        PlannerPolicy(tiny_network(), "tiny").plan([builders.observation()], 0)


def test_a_saved_model_plans_the_same(folder: Path) -> None:
    loaded = load_policy(folder).plan([observation()], 4)[0]
    fresh = PlannerPolicy(tiny_network(), "tiny").plan([observation()], 4)[0]
    np.testing.assert_array_equal(loaded.proposals_ego, fresh.proposals_ego)
    assert load_policy(folder).name == f"planner-{read_meta(folder).model_id}"


def test_the_factory_pickles(folder: Path) -> None:
    factory = pickle.loads(pickle.dumps(policy_factory(folder)))
    assert factory().name == load_policy(folder).name


@pytest.mark.parametrize(
    ("name", "damage"), [("model.safetensors", b"x" * 50), ("config.json", b"{"), ("meta.json", b"[]")]
)
def test_damaged_files_are_named(folder: Path, name: str, damage: bytes) -> None:
    (folder / name).write_bytes(damage)
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        load_model(folder)


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "width": 64}))
    with pytest.raises(UserError, match="do not fit"):
        load_model(folder)


def test_no_model_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a model folder"):
        policy_factory(tmp_path)
