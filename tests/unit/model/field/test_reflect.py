"""Reflection: the worst term picks the move, the best so far is kept, three rounds are the most."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from drive.model.field.refine import Refined
from drive.model.field.reflect import MOST_ROUNDS, reflect
from drive.model.field.reward import NAMES, RewardField
from drive.model.field.scene import Prepared
from drive.score.scene import FrozenScene
from tests.unit.model.field import scenes

FIELD = RewardField()
FULL = torch.tensor([40.0])


def start(knots: Tensor, scene: Prepared, field: RewardField = FIELD) -> Refined:
    """Trajectories (B, 8, 2) as they came; 40 m count as full progress."""
    score = field.score(knots[:, None], scene, FULL.expand(len(knots)))
    return Refined(knots, score, torch.zeros(len(knots), dtype=torch.bool))


def nothing_new(knots: Tensor, turn: int) -> Tensor:
    return knots[:, None]


@pytest.mark.parametrize(
    ("frozen", "aside_m", "term", "move"),
    [
        (scenes.with_car(30.0), 0.0, "no_collision", "yield"),
        (scenes.road(), 5.0, "on_road", "shift"),
        (scenes.with_red_light(35.0), 0.0, "red_light", "slow"),
    ],
)
def test_the_worst_term_picks_the_move(frozen: FrozenScene, aside_m: float, term: str, move: str) -> None:
    scene = scenes.prepared(frozen)
    before = start(scenes.straight(10.0, aside_m)[:, 0], scene)
    result = reflect(before, scene, FIELD, nothing_new)
    assert result.moves[0][0] == (term, move)
    assert float(result.best.score.total) > float(before.score.total)
    assert result.best.score.critique(0, 0)[term] == 1.0


def test_a_command_that_is_not_followed_asks_for_other_noise() -> None:
    rounds: list[int] = []

    def renoise(best: Tensor, turn: int) -> Tensor:
        rounds.append(turn)
        return torch.cat([best[:, None], scenes.straight(10.0)], 1)

    scene = scenes.prepared(scenes.road(), command=(0, 3))
    field = RewardField({"command": 1.0, "progress": 1.0})
    result = reflect(start(scenes.straight(10.0, 3.5)[:, 0], scene, field), scene, field, renoise)
    assert rounds == [0]
    assert torch.equal(result.best.knots, scenes.straight(10.0)[:, 0])
    assert result.moves[0] == (("command", "re-noise"),)


@given(st.integers(0, 10_000), st.floats(8, 35), st.floats(-3, 3))
@settings(max_examples=5)
def test_the_best_so_far_is_kept_within_three_rounds(seed: int, x: float, y: float) -> None:
    scene = scenes.prepared(scenes.with_car(x, y), scenes.with_red_light(x))
    before = start(scenes.wild(seed, 2)[0], scene)
    result = reflect(before, scene, FIELD, lambda best, turn: best[:, None] - 50.0)
    assert bool((result.best.score.total >= before.score.total).all())
    assert all(len(moves) <= MOST_ROUNDS for moves in result.moves)
    again = FIELD.score(result.best.knots[:, None], scene, FULL.expand(2))
    assert bool((again.total >= result.best.score.total - 1e-5).all())


def test_a_good_plan_needs_no_second_thought() -> None:
    scene = scenes.prepared(scenes.road())
    before = start(scenes.straight(10.0)[:, 0], scene)
    result = reflect(before, scene, FIELD, nothing_new)
    assert result.best.knots is before.knots
    assert result.moves == ((),)


def test_what_is_not_finite_comes_back() -> None:
    knots = scenes.straight(10.0)[:, 0]
    knots[0, 0, 0] = torch.nan
    scene = scenes.prepared(scenes.road())
    result = reflect(start(knots, scene), scene, FIELD, nothing_new)
    assert bool(result.best.knots.isnan().any())
    assert float(result.best.score.total) == 0.0
    assert result.moves == ((),)


def test_every_term_has_a_move() -> None:
    from drive.model.field.reflect import MOVES

    assert set(MOVES) == set(NAMES)
