"""Baselines are the planner with parts left out: what is left plans, learns and is stored like the whole."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drive.contracts import Observation
from drive.model import load_policy
from drive.model.folder import load_model, save_model
from drive.model.policy import PlannerPolicy
from drive.train.adapters import attach, merge
from drive.train.critic import critic_loss
from drive.train.learner import encode
from drive.train.losses import imitation_loss, knots_of, noise_and_denoise
from drive.train.weights import LossWeights
from tests import builders
from tests.unit.model.networks import TINY, random_inputs, tiny_network
from tests.unit.train.test_losses import batch_of

ANCHORS = TINY.kmeans_anchors + 4
BASELINES: dict[str, tuple[dict[str, object], int]] = {  # name -> (changes, proposals)
    "whole": ({}, 1 + ANCHORS),
    "regression": ({"head": "regression", "use_command": False}, 1),
    "commanded regression": ({"head": "regression"}, 1),
    "no command": ({"use_command": False}, ANCHORS),
    "no speed": ({"use_speed": False}, 1 + ANCHORS),
    "flow": ({"head": "flow"}, 1 + ANCHORS),
    "one frame": ({"use_motion": False}, 1 + ANCHORS),
    "ego status": ({"head": "regression", "use_command": False, "use_image": False}, 1),
}
NAMES = tuple(BASELINES)


def seen(speed: float = 6.0, t_us: int = 0, image: bool = True) -> Observation:
    return replace(builders.observation(speed, image_size=64 if image else 0), t_us=t_us)


@pytest.mark.parametrize("name", NAMES)
def test_a_baseline_plans_with_its_proposals_and_says_only_what_it_has(name: str) -> None:
    changes, count = BASELINES[name]
    policy = PlannerPolicy(tiny_network(**changes), name)
    assert policy.needs_images == ("use_image" not in changes)
    (plan,) = policy.plan([seen(image=policy.needs_images)], 0)
    assert plan.proposals_ego.shape == (count, 40, 3)
    assert (plan.command is None) == (not policy.network.config.use_command)
    assert plan.command is not None or plan.flags == ()
    np.testing.assert_array_equal(plan.best.pose_ego, plan.proposals_ego[0])


@pytest.mark.parametrize("name", NAMES)
def test_every_part_that_is_there_learns(name: str) -> None:
    network, batch = tiny_network(**BASELINES[name][0]), batch_of()
    scene = encode(network, random_inputs(4), "fp32")
    draw = torch.Generator().manual_seed(0)
    done = noise_and_denoise(network, scene, batch["command"], knots_of(batch), draw)
    terms = imitation_loss(network, scene, done, batch, LossWeights())
    terms |= critic_loss(network, scene, done, batch, LossWeights(), draw)
    sum(terms.values()).backward()
    assert [n for n, p in network.named_parameters() if p.grad is None] == []
    assert ("command" in terms) == network.config.use_command
    assert ("denoise" in terms) == (network.config.head != "regression")


@pytest.mark.parametrize("name", NAMES)
def test_a_baseline_is_stored_and_adapted_like_the_whole(name: str, tmp_path: Path) -> None:
    network = tiny_network(**BASELINES[name][0])
    save_model(tmp_path / "model", network)
    policy = load_policy(tmp_path / "model")
    one, two = (p.plan([seen()], 3)[0] for p in (policy, PlannerPolicy(network, "same")))
    np.testing.assert_array_equal(one.best.pose_ego, two.best.pose_ego)
    loaded, _ = load_model(tmp_path / "model")
    merge(attach(loaded, 2, 4))  # a night can fine-tune it


def test_regression_is_blind_to_the_seed_and_diffusion_is_not() -> None:
    plans = {}
    for name in ("whole", "regression"):
        policy = PlannerPolicy(tiny_network(**BASELINES[name][0]), name)
        plans[name] = [policy.plan([seen()], seed)[0].best.pose_ego for seed in (0, 1)]
    np.testing.assert_array_equal(*plans["regression"])
    assert not np.array_equal(*plans["whole"])


def test_without_command_a_told_command_changes_nothing_in_training() -> None:
    network = tiny_network(use_command=False)
    scene = encode(network, random_inputs(4), "fp32")
    clean = [
        noise_and_denoise(
            network,
            scene,
            torch.tensor([command] * 4),
            knots_of(batch_of()),
            torch.Generator().manual_seed(0),
        )
        for command in ([0, 3], [3, 0])
    ]
    torch.testing.assert_close(clean[0].clean, clean[1].clean, rtol=0, atol=0)
    assert (clean[0].command == -1).all()


def test_what_a_blind_planner_sees_is_not_used() -> None:
    policy = PlannerPolicy(tiny_network(**BASELINES["ego status"][0]), "blind")
    one, two = (policy.plan([seen(image=image)], 0)[0] for image in (True, False))
    np.testing.assert_array_equal(one.best.pose_ego, two.best.pose_ego)
    faster = policy.plan([seen(9.0, image=False)], 0)[0]
    assert not np.array_equal(one.best.pose_ego, faster.best.pose_ego)
