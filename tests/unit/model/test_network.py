"""Network and sampler: shapes, the command as start and condition, truncation."""

import numpy as np
import torch

from drive.contracts import Lateral, Longitudinal
from drive.model.diffusion import consensus, obedience, sample
from drive.model.network import NO_COMMAND
from tests.unit.model.networks import random_inputs, tiny_network


def test_shapes_and_normalisation_round_trip() -> None:
    network, inputs = tiny_network(), random_inputs(3)
    scene = network.encode(inputs)
    assert scene.lateral.shape == (3, len(Lateral))
    assert scene.longitudinal.shape == (3, len(Longitudinal))
    knots = torch.randn(4, 8, 2)
    torch.testing.assert_close(network.metres(network.normalise(knots)), knots, atol=1e-4, rtol=1e-4)


def test_the_command_changes_where_diffusion_starts_and_what_it_gives() -> None:
    network, inputs = tiny_network(), random_inputs(2)
    scene = network.encode(inputs)
    noise = torch.zeros(2, 1 + len(network.anchors), 16)
    results = []
    for longitudinal in (Longitudinal.STOP, Longitudinal.ACCELERATE):
        command = torch.tensor([[Lateral.KEEP, longitudinal]] * 2)
        start = network.starts(network.condition(scene.features, command))
        results.append((start[:, 0], sample(network, scene, command, inputs.speed_mps, noise).knots_ego))
    assert not torch.allclose(results[0][0], results[1][0])
    assert not torch.allclose(results[0][1], results[1][1])


def test_a_hidden_speed_is_not_read() -> None:
    network, inputs = tiny_network(), random_inputs(2)
    hidden = inputs._replace(speed_mps=torch.full((2,), float("nan")))
    assert torch.isfinite(network.encode(hidden).features).all()
    assert not torch.allclose(network.encode(hidden).features, network.encode(inputs).features)


def test_proposals_that_obey_get_the_bonus_and_no_command_means_no_bonus() -> None:
    network, inputs = tiny_network(), random_inputs(2)
    scene = network.encode(inputs)
    noise = torch.zeros(2, 1 + len(network.anchors), 16)
    command = torch.tensor([[Lateral.KEEP, Longitudinal.STOP], [NO_COMMAND, NO_COMMAND]])
    proposals = sample(network, scene, command, inputs.speed_mps, noise)
    assert not proposals.obeys[1].any()
    assert obedience(command, torch.zeros(2, 1, 8, 2), inputs.speed_mps).tolist() == [[True], [False]]


def test_sampling_does_not_depend_on_the_batch() -> None:
    network, inputs = tiny_network(), random_inputs(3)
    noise = torch.from_numpy(
        np.random.default_rng(0).standard_normal((3, 1 + len(network.anchors), 16), np.float32)
    )
    command = torch.tensor([[0, 3], [3, 2], [0, 0]])
    whole = sample(network, network.encode(inputs), command, inputs.speed_mps, noise)
    one = type(inputs)(*(value[1:2] for value in inputs))
    alone = sample(network, network.encode(one), command[1:2], one.speed_mps, noise[1:2])
    torch.testing.assert_close(alone.knots_ego[0], whole.knots_ego[1], atol=1e-4, rtol=1e-4)


def test_guidance_of_one_is_the_plain_decoder_and_more_changes_the_result() -> None:
    network, inputs = tiny_network(), random_inputs(2)
    scene, command = network.encode(inputs), torch.tensor([[0, 0], [3, 1]])
    noise = torch.zeros(2, 1 + len(network.anchors), 16)
    plain = sample(network, scene, command, inputs.speed_mps, noise)
    from dataclasses import replace

    network.config = replace(network.config, guidance=2.0)
    guided = sample(network, scene, command, inputs.speed_mps, noise)
    assert not torch.allclose(plain.knots_ego, guided.knots_ego)


def test_the_driven_trajectory_is_what_the_proposals_near_the_best_agree_on() -> None:
    x = torch.arange(1.0, 9.0)
    straight = torch.stack([x * 4, 0 * x], -1)
    knots = torch.stack([straight, straight + torch.tensor([0.0, 1.0]), straight + torch.tensor([0.0, 9.0])])[
        None
    ]
    scores = torch.tensor([[1.0, 1.0, 0.9]])
    torch.testing.assert_close(consensus(knots, scores, 2.0)[0], straight + torch.tensor([0.0, 0.5]))
    assert torch.equal(consensus(knots, scores + torch.tensor([0.0, 0.5, 0.0]), 0.0)[0], knots[0, 1])
    far = consensus(knots, torch.tensor([[0.0, 0.0, 5.0]]), 2.0)[0]
    torch.testing.assert_close(far, knots[0, 2])  # another mode is not mixed in
    mirrored = consensus(knots * torch.tensor([1.0, -1.0]), scores, 2.0)[0]
    torch.testing.assert_close(mirrored, consensus(knots, scores, 2.0)[0] * torch.tensor([1.0, -1.0]))
