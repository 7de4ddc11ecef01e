"""Guidance speaks the units of the diffusion state, can brake, and survives what is not finite."""

import torch

from drive.model.field.guidance import Guidance
from drive.model.field.reward import RewardField
from drive.model.field.rollout import Rollout
from tests.unit.model.field import scenes

MEAN, STD = torch.linspace(-1.0, 1.0, 16), torch.linspace(0.5, 20.0, 16)


def normalised(knots: torch.Tensor) -> torch.Tensor:
    return (knots.flatten(-2) - MEAN) / STD


def test_its_gradient_is_that_of_the_state() -> None:
    scene, field = scenes.prepared(scenes.with_car(28.0, 0.5)), RewardField()
    state = normalised(scenes.wild(1, 3))
    guide = Guidance(scene, field, MEAN, STD, scale=2.0, most=1e9)
    got = guide(state)
    knots = scenes.wild(1, 3).requires_grad_()
    (metres,) = torch.autograd.grad(field.energy(Rollout(knots, scene)).sum(), knots)
    torch.testing.assert_close(got, -2.0 * metres.flatten(-2) * STD, rtol=1e-2, atol=1e-3)


def test_a_step_along_it_lowers_the_energy_and_brakes() -> None:
    scene, field = scenes.prepared(scenes.with_car(28.0)), RewardField(energy_weights={"no_collision": 1.0})
    state = normalised(scenes.straight(10.0))
    with torch.inference_mode():
        step = Guidance(scene, field, MEAN, STD)(state)
    assert float(step.norm()) <= 1.0 + 1e-5
    along = step[0, 0, 0::2]
    assert float(along[along.abs().argmax()]) < 0
    assert float(along.sum()) < 0
    moved = ((state + 0.05 * step) * STD + MEAN).unflatten(-1, (8, 2))
    assert float(field.energy(Rollout(moved, scene))) < float(
        field.energy(Rollout(scenes.straight(10.0), scene))
    )


def test_rows_are_independent_and_what_is_not_finite_gets_none() -> None:
    scene, field = scenes.prepared(scenes.with_car(28.0), scenes.with_car(20.0, 1.0)), RewardField()
    state = normalised(torch.cat([scenes.wild(1, 3), scenes.wild(2, 3)]))
    clean = Guidance(scene, field, MEAN, STD)(state)
    state[0, 1, 4] = torch.nan
    got = Guidance(scene, field, MEAN, STD)(state)
    assert got[0, 1].tolist() == [0.0] * 16
    torch.testing.assert_close(got[1], clean[1])
    torch.testing.assert_close(got[0, 0], clean[0, 0])
