"""The critic learns from the true scene, and nothing else learns from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from drive.data.ground import FROM_X_M, HALF_Y_M, ROAD
from drive.model.critic import FAULTS, places
from drive.model.diffusion import safety_of
from drive.train.critic import changed, critic_loss
from drive.train.dreaming import faults, judged, truth_of
from drive.train.learner import encode
from drive.train.losses import knots_of, noise_and_denoise
from drive.train.weights import LossWeights
from tests.unit.model.networks import random_inputs, tiny_network
from tests.unit.train.test_losses import batch_of

WEIGHTS = LossWeights(critic_share=1.0)


def road_batch(count: int = 4) -> dict[str, torch.Tensor]:
    """A road 8 m wide straight ahead, nobody on it."""
    batch = batch_of(count)
    middle = round(HALF_Y_M)
    batch["ground"][:, ROAD, :, middle - 4 : middle + 4] = 1
    return batch


def loss_of(
    batch: dict[str, torch.Tensor], network: torch.nn.Module | None = None
) -> dict[str, torch.Tensor]:
    network = network or tiny_network()
    draw = torch.Generator().manual_seed(0)
    scene = encode(network, random_inputs(4), "fp32")
    done = noise_and_denoise(network, scene, batch["command"], knots_of(batch), draw)
    return critic_loss(network, scene, done, batch, WEIGHTS, draw)


def test_only_the_critic_learns_from_its_loss() -> None:
    network = tiny_network()
    loss_of(road_batch(), network)["critic"].backward()
    moved = {name.split(".")[0] for name, p in network.named_parameters() if p.grad is not None}
    assert moved == {"critic"}


def test_what_is_not_known_is_no_lesson() -> None:
    batch = road_batch()
    assert float(loss_of(batch)["critic"].detach()) > 0
    batch["ground_known"][:] = False
    assert float(loss_of(batch)["critic"].detach()) == 0


@pytest.mark.parametrize("changes", [{"critic_width": 0}, {"head": "regression"}])
def test_a_planner_without_a_critic_has_no_such_term(changes: dict[str, object]) -> None:
    network = tiny_network(**changes)
    assert loss_of(road_batch(), network) == {}
    state = torch.zeros(4, 3, 16)
    scene = encode(network, random_inputs(4), "fp32")
    assert (safety_of(network.faults(scene, state)) == 0).all()


def test_the_critic_learns_where_the_road_ends() -> None:
    torch.manual_seed(0)
    network, batch = tiny_network(), road_batch()
    scene = encode(network, random_inputs(4), "fp32")
    optimiser = torch.optim.Adam(network.critic.parameters(), 3e-3)
    for step in range(60):
        draw = torch.Generator().manual_seed(step)
        done = noise_and_denoise(network, scene, batch["command"], knots_of(batch), draw)
        optimiser.zero_grad()
        critic_loss(network, scene, done, batch, WEIGHTS, draw)["critic"].backward()
        optimiser.step()
    along = torch.arange(1, 9) * 2.0
    on, off = torch.stack([along, 0 * along], -1), torch.stack([along, along], -1)
    state = network.normalise(torch.stack([on, off])[None].expand(4, -1, -1, -1))
    safety = safety_of(network.faults(scene, state))
    assert (safety[:, 0] > np.log(0.7)).all()
    assert (safety[:, 1] < np.log(0.3)).all()


def test_faults_are_named_and_any_of_them_is_wrong() -> None:
    truth = truth_of(road_batch(1) | {"light": torch.tensor([0]), "stop_m": torch.tensor([9.0])})
    along = np.arange(1, 9)
    paths = [np.stack([along * 0.8, 0 * along], -1), np.stack([along * 2.0, 0 * along], -1)]
    paths.append(np.stack([along * 0.8, along * 1.5], -1))
    knots = np.stack(paths)[None].astype(np.float32)
    found = faults(knots, truth)[0]
    named = [{name for name, wrong in zip(FAULTS, row, strict=True) if wrong} for row in found]
    assert named == [set(), {"red light"}, {"off road", "red light"}]
    np.testing.assert_array_equal(judged(knots, truth)[0], found.any(-1))


def test_the_body_is_looked_at_ahead_and_to_both_sides() -> None:
    along = torch.arange(1, 9) * 2.0
    seen = places(torch.stack([along, 0 * along], -1)[None, None])[0, 0].reshape(3, 16, 2)
    axle, left, right = seen
    assert torch.allclose(axle[:, 0], torch.arange(1, 17) * 1.0)
    assert (left[:, 0] > axle[:, 0] + 1).all()
    assert torch.allclose(left[:, 1], -right[:, 1])
    assert (left[:, 1] > 0.5).all()


def test_changed_trajectories_stay_near_their_path() -> None:
    along = torch.arange(1, 9) * 2.0
    knots = torch.stack([along, 0 * along], -1)[None, None].expand(3, 20, -1, -1)
    made = changed(knots, torch.Generator().manual_seed(1))
    assert made.shape == knots.shape
    assert made[..., 1].abs().max() <= 1.2 + 1e-5
    assert made[..., 0].min() >= FROM_X_M
    assert made[..., 0].max() <= 16.0
    assert (made.diff(dim=2)[..., 0] >= 0).all()
    assert not torch.equal(made, knots)


def test_a_share_of_the_batch_is_enough() -> None:
    network, batch = tiny_network(), road_batch()
    scene = encode(network, random_inputs(4), "fp32")
    draw = torch.Generator().manual_seed(0)
    done = noise_and_denoise(network, scene, batch["command"], knots_of(batch), draw)
    some = critic_loss(network, scene, done, batch, replace(WEIGHTS, critic_share=0.25), draw)
    assert torch.isfinite(some["critic"])
