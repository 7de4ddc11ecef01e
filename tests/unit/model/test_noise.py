"""Both chains: what noise adds, the steps take away again."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drive.model import noise
from drive.model.config import ModelConfig
from drive.model.noise import Flow, chain_of
from tests.unit.model.networks import random_inputs, tiny_network

HEADS = ["diffusion", "flow"]


def of(head: str, steps: int = 2) -> noise.Chain:
    return chain_of(ModelConfig(head=head, sampling_steps=steps))  # type: ignore[arg-type]


@pytest.mark.parametrize("head", HEADS)
@given(steps=st.integers(1, 2), seed=st.integers(0, 99))
def test_a_network_that_knows_the_answer_gets_there_whatever_the_noise(
    head: str, steps: int, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    start, goal, drawn = (torch.randn(2, 3, 16, generator=draw) for _ in range(3))
    chain = of(head, steps)
    assert len(chain.levels) == steps
    state = chain.begin(start, drawn)
    for index in range(steps):
        state = chain.step(goal, index, state)
    torch.testing.assert_close(state, goal, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_training_sees_the_states_that_sampling_sees(head: str) -> None:
    draw = torch.Generator().manual_seed(0)
    start, goal = torch.randn(500, 1, 16, generator=draw), torch.randn(500, 1, 16, generator=draw)
    config, chain = ModelConfig(), of(head)
    made = chain.noised(start, goal, torch.zeros(500, 1, 16), draw)
    assert made.level.min() >= 0
    assert made.level.max() < config.noise_levels
    assert max(chain.levels) < config.noise_levels
    first = chain.begin(start, torch.zeros(500, 1, 16))
    if head == "flow":  # at full noise where sampling begins, and on the straight line from there
        at = made.level == config.noise_levels - 1
        torch.testing.assert_close(made.state[at], first[at])
        share = (made.level / (config.noise_levels - 1))[:, None, None]
        torch.testing.assert_close(made.state, share * start + (1 - share) * goal)
    else:
        at = made.level == chain.levels[0]
        torch.testing.assert_close(made.state[at], first[at])
    assert at.any()


def test_flow_keeps_no_state_between_plans() -> None:
    chain, other = Flow(2, 50, 0.1), Flow(2, 50, 0.1)
    start, goal = torch.zeros(1, 1, 16), torch.ones(1, 1, 16)
    one = chain.step(goal, 0, start)
    other.step(goal, 1, start)
    torch.testing.assert_close(chain.step(goal, 0, start), one)
    torch.testing.assert_close(one, torch.full((1, 1, 16), 0.5))


@pytest.mark.parametrize("head", HEADS)
def test_a_chain_first_used_while_planning_still_trains(head: str) -> None:
    noise._ddim.cache_clear()
    noise._euler.cache_clear()
    with torch.inference_mode():
        assert of(head).levels
    start = torch.ones(1, 1, 2, requires_grad=True)
    made = of(head).noised(start, start, torch.zeros(1, 1, 2), torch.Generator())
    made.state.sum().backward()
    assert start.grad is not None
    assert (start.grad > 0).all()


@pytest.mark.parametrize("head", HEADS)
def test_one_device_takes_nothing_from_another(head: str) -> None:
    chain, shape = of(head), (2, 1, 16)
    before = chain.begin(torch.ones(shape), torch.ones(shape))
    absent = torch.ones(shape, device="meta")  # a device that keeps no data
    level = chain.noised(absent, absent, absent, torch.Generator()).level
    assert level.device.type == "meta"
    assert chain.step(absent, 0, chain.begin(absent, absent)).device.type == "meta"
    torch.testing.assert_close(chain.begin(torch.ones(shape), torch.ones(shape)), before)
    chain.noised(torch.ones(shape), torch.ones(shape), torch.ones(shape), torch.Generator())


def test_a_flow_planner_has_the_weights_of_a_diffusion_planner_and_other_plans() -> None:
    one, other, inputs = tiny_network(), tiny_network(head="flow"), random_inputs(2)
    assert {k: v.shape for k, v in one.state_dict().items()} == {
        k: v.shape for k, v in other.state_dict().items()
    }
    scene, drawn = one.encode(inputs), torch.randn(2, one.proposals, 16)
    from drive.model.diffusion import sample

    command = torch.zeros((2, 2), dtype=torch.int64)
    plans = [sample(net, scene, command, inputs.speed_mps, drawn).knots_ego for net in (one, other)]
    assert plans[0].shape == plans[1].shape
    assert not torch.allclose(*plans)
