"""Refinement, reflection and guidance behind the model's switches: off changes nothing, on is told."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from drive.contracts import GATES, Observation, Plan, UserError
from drive.model.config import ModelConfig
from drive.model.diffusion import Proposals, around, sample
from drive.model.field.refine import DEFAULT, Refined
from drive.model.field.reward import NAMES, Scored
from drive.model.horizon import poses_from_knots
from drive.model.improve import instead
from drive.model.policy import PlannerPolicy, inputs_from
from tests import builders
from tests.unit.model.networks import random_inputs, tiny_network

SEEDS = range(6)


def seen(speed: float) -> Observation:
    return builders.observation(speed, image_size=64)


def plan(seed: int, speed: float = 6.0, **changes: Any) -> Plan:
    return PlannerPolicy(tiny_network(seed, **changes), "tiny").plan([seen(speed)], seed)[0]


@pytest.mark.parametrize("seed", range(2))
def test_switched_off_the_plan_is_what_was_chosen_bit_for_bit(seed: int) -> None:
    network = tiny_network(seed)
    policy = PlannerPolicy(network, "tiny")
    got = policy.plan([seen(6.0)], seed)[0]
    with torch.inference_mode():
        inputs = inputs_from([seen(6.0)], network)
        scene = network.encode(inputs)
        noise = policy.noise([seen(6.0)], seed)
        chosen = sample(network, scene, network.emit(scene), inputs.speed_mps, noise).chosen_ego
    np.testing.assert_array_equal(got.best.pose_ego, poses_from_knots(chosen.numpy(), np.array([6.0]))[0])
    assert not got.critique
    assert "improve" not in got.latency_ms


def test_what_was_changed_is_told_and_the_rest_stays_bit_for_bit() -> None:
    told = set()
    for seed in SEEDS:
        off, on = plan(seed), plan(seed, refine_steps=2)
        assert set(on.critique) == set(NAMES)
        assert all(0 <= value <= 1 for value in on.critique.values())
        refined = "refined" in on.flags
        told.add(refined)
        assert np.array_equal(off.best.pose_ego, on.best.pose_ego) is not refined
        assert off.command is not None
        assert on.command is not None
        assert ("changed for" in on.command.reason) is refined
        np.testing.assert_array_equal(off.proposals_ego[1:], on.proposals_ego[1:])
        np.testing.assert_array_equal(off.scores, on.scores)
    assert told == {True, False}


def test_reflection_alone_breaks_no_gate_and_changes_some_plans() -> None:
    flags = []
    for seed in SEEDS:
        as_it_was, reflected = plan(seed, refine_steps=1), plan(seed, reflect_rounds=3)
        flags.append("refined" in reflected.flags)
        if "refined" not in as_it_was.flags:
            assert all(reflected.critique[name] >= 0.5 or as_it_was.critique[name] < 0.5 for name in GATES)
    assert any(flags)


def test_the_same_seed_gives_the_same_plan_alone_and_in_a_batch() -> None:
    switches = {"refine_steps": 2, "reflect_rounds": 2, "field_guidance": 0.1}
    policy = PlannerPolicy(tiny_network(1, **switches), "tiny")
    alone = policy.plan([seen(6.0)], 3)[0]
    np.testing.assert_array_equal(policy.plan([seen(6.0)], 3)[0].best.pose_ego, alone.best.pose_ego)
    together = policy.plan([seen(2.0), seen(6.0)], 3)[1]
    np.testing.assert_allclose(together.best.pose_ego, alone.best.pose_ego, atol=1e-2)


def test_guidance_changes_what_is_sampled() -> None:
    assert not np.array_equal(plan(0).proposals_ego, plan(0, field_guidance=0.5).proposals_ego)


def test_the_regression_head_is_refined_too() -> None:
    made = [
        plan(seed, head="regression", use_command=False, refine_steps=2, reflect_rounds=3) for seed in SEEDS
    ]
    assert any("refined" in one.flags for one in made)
    assert all(one.command is None for one in made)


def test_a_picture_of_what_is_not_a_number_ends_in_the_fallback() -> None:
    network = tiny_network(0, refine_steps=2, reflect_rounds=1)
    torch.nn.init.constant_(network.fuse[1].weight, torch.nan)
    made = PlannerPolicy(network, "tiny").plan([seen(6.0)], 0)[0]
    assert made.flags == ("fallback",)
    assert np.isfinite(made.best.pose_ego).all()


def test_drawing_around_a_trajectory_stays_near_it() -> None:
    network = tiny_network(0)
    with torch.inference_mode():
        inputs = random_inputs(2)
        scene = network.encode(inputs)
        knots = torch.stack([scaled * torch.arange(1.0, 9.0) for scaled in torch.tensor([2.0, 4.0])])
        knots = torch.stack([knots, torch.zeros_like(knots)], -1)
        drawn = around(network, scene, network.emit(scene), knots, torch.randn(2, 7, 16))
    assert drawn.shape == (2, 7, 8, 2)
    ends = drawn[..., -1, 0].mean(1)
    assert float(ends[1]) > float(ends[0]) + 5.0


@pytest.mark.parametrize("switch", ["refine_steps", "reflect_rounds", "field_guidance"])
def test_a_planner_without_eyes_cannot_judge(switch: str) -> None:
    with pytest.raises(UserError, match=f"model.{switch}: needs model.use_image"):
        replace(ModelConfig(use_image=False), **{switch: 1})


def scores(total: float, gate: float) -> Scored:
    """Two rows of one trajectory: the first one breaks a gate to `gate`, the second none."""
    terms = torch.ones(2, 1, len(NAMES))
    terms[0, 0, 1] = gate
    return Scored(terms, torch.tensor([[total], [0.8]]), torch.full((2,), 10.0))


def test_where_a_gate_stays_broken_another_proposal_is_driven() -> None:
    first, better = scores(0.0, 0.0), scores(0.9, 1.0)
    chosen, other = torch.zeros(2, 8, 2), torch.ones(2, 1, 8, 2)
    both = Scored(
        torch.cat([first.terms, better.terms], 1), torch.cat([first.total, better.total], 1), first.best_m
    )
    made = Proposals(other, torch.zeros(2, 1), torch.zeros(2, 1, dtype=torch.bool), torch.zeros(2, 1), chosen)
    start = Refined(chosen, first, torch.zeros(2, dtype=torch.bool))
    best = instead(start, first, made, both, DEFAULT)
    assert best.accepted.tolist() == [True, False]
    assert (best.knots[0] == 1).all()
    np.testing.assert_array_equal(best.knots[1], chosen[1])
    nothing = Scored(both.terms[:, :1].repeat(1, 2, 1), both.total[:, :1].repeat(1, 2), both.best_m)
    assert not instead(start, first, made, nothing, DEFAULT).accepted.any()
