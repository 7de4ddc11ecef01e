"""Refinement brakes, makes room, mirrors, harms nothing, and leaves alone what it cannot improve."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from drive.model.field.moves import BRAKES_MPS2
from drive.model.field.refine import DEFAULT, HELD, Refined, RefineOptions, path_of, refine
from drive.model.field.reward import GATE_COUNT, RewardField
from drive.model.field.scene import Prepared
from drive.model.horizon import poses_from_knots
from drive.score.terms import reduce, reward_terms
from tests.unit.model.field import scenes

FIELD = RewardField()
FULL = torch.tensor([40.0])


def refined(knots: Tensor, scene: Prepared, options: RefineOptions = DEFAULT) -> Refined:
    """Refine (B, 8, 2); 40 m count as full progress."""
    first = FIELD.score(knots[:, None], scene, FULL.expand(len(knots)))
    return refine(knots, first, scene, FIELD, options)


def test_a_stopped_car_ahead_makes_it_brake() -> None:
    frozen = scenes.with_car(30.0)
    result = refined(scenes.straight(10.0)[0], scenes.prepared(frozen))
    assert bool(result.accepted)
    new = result.knots[0].numpy()
    assert new[-1, 0] < 24.0  # stops behind the car, whose rear is at 27.75 m
    assert np.abs(new[:, 1]).max() < 0.05
    assert (np.diff(new[:, 0]) >= -1e-5).all()
    true = reduce(reward_terms(poses_from_knots(new[None], np.array([10.0])), frozen))
    assert true["no_collision"].tolist() == [1.0]


def test_a_red_light_makes_it_stop_before_the_line() -> None:
    result = refined(scenes.straight(10.0)[0], scenes.prepared(scenes.with_red_light(30.0)))
    assert bool(result.accepted)
    assert float(result.knots[0, -1, 0]) + 3.845 < 30.0


def test_drifting_off_the_road_is_corrected_sideways() -> None:
    result = refined(scenes.straight(10.0, 4.9)[0], scenes.prepared(scenes.road()))
    assert bool(result.accepted)
    assert float(result.knots[0, -1, 1]) < 4.75


@given(st.integers(0, 10_000), st.floats(12, 40), st.floats(-3, 3), st.floats(0, 6), st.floats(-2, 2))
@settings(max_examples=8)
def test_refinement_never_harms(seed: int, x: float, y: float, speed: float, yaw: float) -> None:
    scene = scenes.prepared(*[scenes.with_car(x, y, speed, yaw)] * 3)
    knots = scenes.wild(seed, 3)[0]
    full = FULL.expand(3)
    before = FIELD.score(knots[:, None], scene, full)
    result = refined(knots, scene)
    after = FIELD.score(result.knots[:, None], scene, full)
    assert bool((after.total >= before.total).all())
    held = before.terms[..., :GATE_COUNT] >= HELD
    assert bool((after.terms[..., :GATE_COUNT] >= HELD)[held].all())
    assert torch.equal(result.knots[~result.accepted], knots[~result.accepted])
    assert bool((after.total[:, 0] >= before.total[:, 0] + DEFAULT.min_gain - 1e-5)[result.accepted].all())
    assert bool((result.score.total <= after.total + 1e-5).all())  # judged with a margin: never flattered
    assert _aside(knots, result.knots) <= DEFAULT.lateral_m + 0.02


def _aside(old: Tensor, new: Tensor) -> float:
    """Largest distance of new knots (B, 8, 2) from the old paths, prolonged by 10 m at their ends."""
    path = path_of(old, scenes.prepared(*[scenes.road()] * len(old)))
    beyond = path.xy[:, -1:] + path.direction[:, -1:] * torch.linspace(0, 10, 41)
    line = torch.cat([path.xy, beyond], 1)
    start, step = line[:, None, :-1], line.diff(dim=1)[:, None]
    gap = torch.view_as_complex(new.contiguous())[..., None] - start
    share = ((gap * step.conj()).real / step.abs().square().clamp(min=1e-9)).clamp(0, 1)
    return float((gap - share * step).abs().amin(-1).max())


@pytest.mark.parametrize("seed", range(3))
def test_mirrored_input_gives_the_mirrored_refinement(seed: int) -> None:
    frozen = scenes.with_car(26.0, 0.8, 1.0, 0.2)
    knots = scenes.wild(seed, 3)[0]
    plain = refined(knots, scenes.prepared(*[frozen] * 3))
    flipped = refined(scenes.flip(knots), scenes.prepared(*[scenes.mirrored(frozen)] * 3))
    assert bool(plain.accepted.any())
    np.testing.assert_allclose(scenes.flip(flipped.knots), plain.knots, atol=2e-2)


def test_without_steps_and_for_a_good_plan_the_very_input_comes_back() -> None:
    knots = scenes.straight(10.0)[0]
    off = refined(knots, scenes.prepared(scenes.with_car(25.0)), RefineOptions(steps=0))
    good = refined(knots, scenes.prepared(scenes.road()))
    for result in (off, good):
        assert result.knots is knots
        assert not bool(result.accepted)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_finite_comes_back_unchanged(value: float) -> None:
    scene = scenes.prepared(*[scenes.with_car(28.0)] * 2)
    knots = scenes.straight(10.0)[0].repeat(2, 1, 1)
    knots[0, 2, 1] = value
    result = refined(knots, scene)
    assert torch.equal(result.knots[0].nan_to_num(7.0), knots[0].nan_to_num(7.0))
    assert result.accepted.tolist() == [False, True]


def test_a_batch_is_refined_as_its_rows_are() -> None:
    frozen = [scenes.with_car(30.0), scenes.road(), scenes.with_red_light(28.0)]
    knots = torch.cat([scenes.straight(10.0), scenes.straight(10.0, 4.9), scenes.straight(10.0)])[:, 0]
    together = refined(knots, scenes.prepared(*frozen))
    for row, scene in enumerate(frozen):
        alone = refined(knots[row : row + 1], scenes.prepared(scene))
        np.testing.assert_allclose(together.knots[row], alone.knots[0], atol=1e-3)


def test_it_works_while_planning_and_twice_the_same() -> None:
    frozen = scenes.with_car(30.0)
    with torch.inference_mode():
        scene = scenes.prepared(frozen)
        first, second = (refined(scenes.straight(10.0)[0], scene).knots for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(first, refined(scenes.straight(10.0)[0], scenes.prepared(frozen)).knots)


def test_more_steps_keep_more_of_the_plan() -> None:
    scene = scenes.prepared(*(scenes.with_car(x) for x in (25.0, 28.0, 31.0, 33.0, 37.0)))
    knots = scenes.straight(10.0)[0].expand(5, -1, -1)
    one, three = (refined(knots, scene, RefineOptions(steps=n)).score.total for n in (1, 3))
    assert bool((three >= one).all())
    assert bool((three > one).any())


def test_braking_stays_within_what_a_car_can_do() -> None:
    result = refined(scenes.straight(10.0)[0], scenes.prepared(scenes.with_car(22.0)))
    assert bool(result.accepted)
    speed = np.diff(np.append(0.0, result.knots[0, :, 0].numpy())) / 0.5
    assert np.diff(speed).min() / 0.5 >= -max(BRAKES_MPS2) * 1.2 - 0.1
    assert (speed[0] - 10.0) / 0.25 >= -max(BRAKES_MPS2) * 1.2 - 0.1


def test_an_unlikely_road_user_makes_nobody_brake() -> None:
    scene = scenes.prepared(scenes.with_car(34.0))
    scene.scene.agent_prob.fill_(0.1)
    knots = scenes.straight(10.0)[0]
    assert refined(knots, scene).knots is knots or not bool(refined(knots, scene).accepted)
