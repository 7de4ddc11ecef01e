"""Each term: right gradient, monotone, symmetric, and of one mind with the scores on the true scene."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from drive.contracts import GATES, STEPS, WEIGHTED, Lateral, Longitudinal
from drive.geometry.commands import agree
from drive.model.field.reward import NAMES, TERMS, RewardField
from drive.model.field.rollout import Rollout
from drive.model.field.scene import Prepared
from drive.model.field.terms import CommandConsistency, hinge
from drive.model.horizon import poses_from_knots
from drive.score.scene import FrozenScene, freeze_log
from drive.score.terms import WEIGHTS, reduce, reward_terms, total
from tests import builders
from tests.unit.model.field import scenes

BY_NAME = {term.name: term for term in TERMS}
LEFT = (int(Lateral.TURN_LEFT), int(Longitudinal.YIELD))
BUSY = scenes.with_car(30.0, 0.7, 2.0, 0.3)


def energy(name: str, knots: Tensor, scene: Prepared) -> float:
    return float(BY_NAME[name].energy(Rollout(knots, scene))[0, 0])


def values(scene: FrozenScene, knots: Tensor) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Terms and total of the scores."""
    speed = np.full(knots.shape[1], scene.speed_mps)
    terms = reward_terms(poses_from_knots(knots[0].numpy(), speed), scene)
    return reduce(terms), total(terms)


@pytest.mark.parametrize("name", NAMES)
def test_energy_gradients_agree_with_finite_differences(name: str) -> None:
    red = scenes.with_red_light(25.0)
    frozen = red if name == "red_light" else BUSY
    scene = scenes.prepared(frozen, command=LEFT, double=True)
    drift = scenes.straight(13.0, {"right_way": -1.7, "on_road": 5.0}.get(name, 1.3))
    knots = (drift + 0.3 * torch.randn(1, 3, 8, 2, generator=torch.Generator().manual_seed(3))).double()
    if name == "speed_limit":
        knots[..., 0] *= 1.4
    knots.requires_grad_()
    value = BY_NAME[name].energy(Rollout(knots, scene))
    assert float(value.detach().min()) >= 0
    assert float(value.detach().max()) > 0
    (grad,) = torch.autograd.grad(value.sum(), knots)
    with torch.no_grad():
        for at in range(0, knots.numel(), 5):
            step = torch.zeros(knots.numel(), dtype=torch.float64)
            step[at] = 1e-6
            step = step.view_as(knots)
            ahead, back = (BY_NAME[name].energy(Rollout(knots + s * step, scene)).sum() for s in (1, -1))
            assert float(grad.flatten()[at]) == pytest.approx(float(ahead - back) / 2e-6, abs=2e-5, rel=2e-4)


def test_every_energy_grows_with_what_it_measures() -> None:
    def rising(name: str, *cases: tuple[FrozenScene, Tensor], command: tuple[int, int] | None = None) -> None:
        found = [energy(name, knots, scenes.prepared(frozen, command=command)) for frozen, knots in cases]
        assert found == sorted(found), name
        assert found[-1] > found[0] >= 0, name
        rewards = [
            float(BY_NAME[name].reward(_judged(knots, scenes.prepared(frozen, command=command)))[0, 0])
            for frozen, knots in cases
        ]
        assert rewards == sorted(rewards, reverse=True), name
        assert all(0 <= reward <= 1 for reward in rewards), name

    at_ten = scenes.straight(10.0)
    near = [(scenes.with_car(x), at_ten) for x in (60.0, 45.0, 40.0, 30.0, 20.0, 10.0)]
    rising("no_collision", *near)
    rising("ttc", *near)
    aside = [(scenes.road(), scenes.straight(10.0, y)) for y in (0.0, 2.5, 4.5, 5.0, 7.0)]
    rising("on_road", *aside)
    rising("lane", *aside)
    rising("right_way", *((scenes.road(), scenes.straight(10.0, -y)) for y in (0.0, 1.0, 2.0, 3.5)))
    rising("progress", *((scenes.road(), scenes.straight(v)) for v in (12.0, 10.0, 5.0, 0.0)))
    rising("speed_limit", *((scenes.road(), scenes.straight(v)) for v in (10.0, 16.0, 20.0, 30.0)))
    rising("comfort", *((scenes.road(), weaving(y)) for y in (0.0, 0.2, 0.6, 1.5)))
    rising("red_light", *((scenes.with_red_light(x), at_ten) for x in (60.0, 40.0, 20.0, 10.0)))
    turn = (int(Lateral.KEEP), int(Longitudinal.CRUISE))
    rising("command", *((scenes.road(), scenes.straight(10.0, y)) for y in (0.0, 3.0, 6.0)), command=turn)


def weaving(aside_m: float) -> Tensor:
    """10 m/s, each knot on the other side."""
    knots = scenes.straight(10.0)
    knots[..., 1] = aside_m * torch.tensor([1.0, -1.0]).repeat(4)
    return knots


def _judged(knots: Tensor, scene: Prepared) -> Rollout:
    rollout = Rollout(knots, scene)
    rollout.best_m = torch.tensor([48.0])
    return rollout


@given(st.integers(0, 10_000), st.floats(10, 40), st.floats(-3, 3), st.floats(-1.5, 1.5))
@settings(max_examples=12)
def test_a_mirrored_world_gives_the_same_energies_and_rewards(
    seed: int, x: float, y: float, yaw: float
) -> None:
    frozen = scenes.with_car(x, y, 2.0, yaw)
    knots = scenes.wild(seed)
    field = RewardField()
    a, b = scenes.prepared(frozen), scenes.prepared(scenes.mirrored(frozen))
    plain, flipped = (field.energies(Rollout(k, s)) for k, s in ((knots, a), (scenes.flip(knots), b)))
    np.testing.assert_allclose(plain, flipped, rtol=1e-3, atol=1e-4)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(12, 60), st.floats(-3.5, 3.5), st.floats(0, 8), st.floats(-3.1, 3.1))
def test_collisions_are_those_of_the_scores(seed: int, x: float, y: float, speed: float, yaw: float) -> None:
    """What the score sees every 0.1 s the field sees every 0.2 s: it may miss a graze, never the rest."""
    frozen = scenes.with_car(x, y, speed, yaw)
    knots = scenes.wild(seed, 8)
    want, _ = values(frozen, knots)
    scene = scenes.prepared(frozen)
    have = RewardField(WEIGHTS).score(knots, scene).terms[0].numpy()
    wrong = have[:, NAMES.index("no_collision")] != want["no_collision"]
    assert wrong.sum() <= 2
    comfort = have[:, NAMES.index("comfort")]
    np.testing.assert_allclose(comfort, want["comfort"], atol=0.03)  # a step on a bound may fall either way


@pytest.mark.parametrize("log", [builders.cruise(), builders.left_turn(), builders.pedestrian_crossing()])
def test_the_field_agrees_with_the_scores_on_recorded_drives(log: object) -> None:
    full = np.flatnonzero(np.isfinite(log.plans.label_ego).all((1, 2)))  # type: ignore[attr-defined]
    for index in full[[0, len(full) // 2, -1]]:
        frozen = freeze_log(log, int(index))  # type: ignore[arg-type]
        own = torch.from_numpy(log.plans.label_ego[index][None, None, 4::5, :2].copy())  # type: ignore
        knots = torch.cat([own, 0.5 * own, scenes.straight(frozen.speed_mps, 3.0)], 1)
        want, want_total = values(frozen, knots)
        scored = RewardField(WEIGHTS).score(knots, scenes.prepared(frozen))
        for name in (*GATES, *WEIGHTED):
            have = scored.terms[0, :, NAMES.index(name)].numpy()
            count = {"lane": 1, "ttc": 2}.get(name, 3)  # off the route are other lanes, and grazes
            np.testing.assert_allclose(have[:count], want[name][:count], atol=0.06, err_msg=name)
        np.testing.assert_allclose(scored.total[0], want_total, atol=0.05)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(0, 15), st.integers(0, 5), st.integers(0, 4))
def test_commands_are_judged_as_everywhere_else(seed: int, speed: float, lateral: int, pace: int) -> None:
    knots = scenes.wild(seed, 6, speed)
    scene = scenes.prepared(scenes.road(speed), command=(lateral, pace))
    have = CommandConsistency().reward(Rollout(knots, scene))[0].numpy()
    pose = poses_from_knots(knots[0].numpy(), np.full(6, speed))
    want = agree(np.array([lateral, pace]), pose, np.full(6, speed))
    assert (have == want).mean() >= 5 / 6  # a value on a threshold may fall either way


def test_being_caught_up_from_behind_costs_nothing() -> None:
    scene = scenes.prepared(scenes.with_car(-15.0, 0.0, 12.0, ego_mps=5.0))
    assert energy("no_collision", scenes.straight(5.0), scene) == 0.0
    assert float(BY_NAME["no_collision"].reward(Rollout(scenes.straight(5.0), scene))) == 1.0


def test_a_likely_agent_weighs_more_than_an_unlikely_one() -> None:
    sure = scenes.prepared(scenes.with_car(30.0))
    sure.scene.agent_prob.fill_(1.0)
    doubtful = scenes.prepared(scenes.with_car(30.0))
    doubtful.scene.agent_prob.fill_(0.25)
    knots = scenes.straight(10.0)
    assert energy("no_collision", knots, doubtful) == pytest.approx(energy("no_collision", knots, sure) / 4)
    assert float(BY_NAME["no_collision"].reward(Rollout(knots, doubtful))) == 0.75


def test_rows_of_a_batch_do_not_mix() -> None:
    frozen = [scenes.with_car(25.0), scenes.road(4.0), scenes.with_red_light(15.0)]
    knots = torch.cat([scenes.wild(k, 5) for k in range(3)])
    field = RewardField()
    together = field.score(knots, scenes.prepared(*frozen))
    for row, scene in enumerate(frozen):
        alone = field.score(knots[row : row + 1], scenes.prepared(scene))
        np.testing.assert_allclose(together.terms[row], alone.terms[0], atol=1e-5)


def test_what_is_not_finite_scores_zero_and_spoils_no_other() -> None:
    knots = scenes.straight(10.0).repeat(1, 2, 1, 1)
    knots[0, 1, 3, 0] = torch.nan
    scored = RewardField().score(knots, scenes.prepared(scenes.road()))
    assert scored.total[0].tolist() == pytest.approx([1.0, 0.0])


def test_wrong_weights_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        RewardField({"nonsense": 1.0})
    with pytest.raises(ValueError, match="at least one"):
        RewardField({})
    scene = scenes.prepared(scenes.road()).scene
    for bad in (
        {"agent_pose": scene.agent_pose[:, :, : STEPS // 5]},
        {"off_road_m": scene.off_road_m[:, 1:]},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            scenes.prepare(scene._replace(**bad))


def test_the_hinge_is_smooth_and_of_bounded_slope() -> None:
    z = torch.tensor([-1.0, 0.0, 1e-4, 1.0, 100.0], requires_grad=True)
    hinge(z).sum().backward()
    assert z.grad is not None
    assert z.grad.tolist() == pytest.approx([0.0, 0.0, 2e-4, 0.75, 1.0], abs=1e-3)
