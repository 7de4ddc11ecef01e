"""Loss terms: what they reward, what they ignore, and that they do not depend on unknown values."""

import numpy as np
import torch

from drive.data.ground import CHANNELS, COLUMNS, ROWS
from drive.train.critic import critic_loss
from drive.train.learner import FROZEN, encode
from drive.train.losses import (
    distances_m,
    hide_commands,
    imitation_loss,
    knots_of,
    noise_and_denoise,
)
from drive.train.weights import LossWeights
from tests.unit.model.networks import random_inputs, tiny_network

WEIGHTS = LossWeights()


def batch_of(count: int = 4) -> dict[str, torch.Tensor]:
    inputs = random_inputs(count)
    t = (torch.arange(40) + 1) * 0.1
    label = torch.zeros(count, 40, 3)
    label[..., 0] = 6 * t
    return {
        "label_ego": label,
        "true_speed_mps": inputs.speed_mps,
        "command": torch.tensor([[0, 3]] * count),
        "light": torch.full((count,), 3),
        "stop_m": torch.full((count,), 60.0),
        "lead_m": torch.full((count,), 60.0),
        "speed_limit_mps": torch.full((count,), 14.0),
        "weight": torch.ones(count),
        "ground": torch.zeros((count, CHANNELS, ROWS, COLUMNS), dtype=torch.uint8),
        "ground_known": torch.ones((count, CHANNELS), dtype=torch.bool),
        "agents": torch.tensor([[[12.0, 1.0, 0.0, 4.5, 1.9, 0.0, *(12.0, 1.0) * 3]]]).expand(count, -1, -1),
    }


def terms_of(batch: dict[str, torch.Tensor], seed: int = 0) -> dict[str, torch.Tensor]:
    network = tiny_network()
    scene = encode(network, random_inputs(len(batch["weight"])), "fp32")
    done = noise_and_denoise(
        network, scene, batch["command"], knots_of(batch), torch.Generator().manual_seed(seed)
    )
    return imitation_loss(network, scene, done, batch, WEIGHTS)


def test_the_same_generator_gives_the_same_loss() -> None:
    first, again, other = terms_of(batch_of()), terms_of(batch_of()), terms_of(batch_of(), 1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["denoise"], other["denoise"])


def test_unknown_perception_labels_do_not_count() -> None:
    unknown = batch_of() | {
        "light": torch.full((4,), -1),
        "stop_m": torch.full((4,), torch.nan),
        "lead_m": torch.full((4,), torch.nan),
    }
    assert float(terms_of(unknown)["perception"].detach()) == 0.0
    half = batch_of()
    half["lead_m"][:2] = torch.nan
    assert np.isfinite(float(terms_of(half)["perception"].detach()))


def test_unknown_perception_labels_give_finite_gradients() -> None:
    network = tiny_network()
    batch = batch_of() | {"stop_m": torch.full((4,), torch.nan), "lead_m": torch.full((4,), torch.nan)}
    scene = encode(network, random_inputs(4), "fp32")
    done = noise_and_denoise(
        network, scene, batch["command"], knots_of(batch), torch.Generator().manual_seed(0)
    )
    sum(imitation_loss(network, scene, done, batch, WEIGHTS).values()).backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


def test_samples_without_weight_do_not_count() -> None:
    batch = batch_of() | {"weight": torch.zeros(4)}
    terms = terms_of(batch)
    assert all(float(terms[name].detach()) == 0 for name in terms if name not in FROZEN)


def test_every_head_gets_a_gradient() -> None:
    network = tiny_network()
    batch = batch_of()
    scene = encode(network, random_inputs(4), "fp32")
    draw = torch.Generator().manual_seed(0)
    done = noise_and_denoise(network, scene, batch["command"], knots_of(batch), draw)
    terms = imitation_loss(network, scene, done, batch, WEIGHTS)
    terms |= critic_loss(network, scene, done, batch, WEIGHTS, draw)
    sum(terms.values()).backward()
    without = [name for name, p in network.named_parameters() if p.grad is None]
    assert without == []


def test_distances_are_in_metres_and_count_sideways_more() -> None:
    network = tiny_network()
    label = torch.zeros(1, 8, 2)
    along, across = torch.zeros(1, 8, 2), torch.zeros(1, 8, 2)
    along[..., 0], across[..., 1] = 2.0, 2.0
    state = torch.stack([network.normalise(along), network.normalise(across)], 1)
    torch.testing.assert_close(distances_m(network, state, label), torch.tensor([[2.0, 5.0]]))


def test_a_third_of_the_commands_is_hidden() -> None:
    command = torch.tensor([[1, 2]]).expand(3000, -1)
    hidden = hide_commands(command, 1 / 3, torch.Generator().manual_seed(0))
    share = (hidden == -1).all(1).float().mean()
    assert 0.3 < share < 0.37
    assert ((hidden == -1).all(1) | (hidden == command).all(1)).all()


def test_bfloat16_encoding_stays_close_and_comes_back_as_float32() -> None:
    network, inputs = tiny_network(), random_inputs(2)
    exact, fast = encode(network, inputs, "fp32"), encode(network, inputs, "bf16")
    assert fast.features.dtype == torch.float32
    torch.testing.assert_close(fast.features, exact.features, atol=0.05, rtol=0.05)
