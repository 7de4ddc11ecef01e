"""Commands from outside are followed where that looks safe; else the planner brakes on its own way."""

import math

import torch

from drive.model.diffusion import Proposals
from drive.model.heed import heed

SPEED = torch.tensor([8.0, 8.0])
TRUST = 0.5


def path(speed: float, aside: float) -> torch.Tensor:
    t = torch.arange(1, 9) * 0.5
    return torch.stack([speed * t, aside * t / 4], -1)


def proposals(safe: tuple[float, float], obeys: tuple[bool, bool] = (False, True)) -> Proposals:
    """Two scenes alike: straight on, which scores better, and to the left."""
    knots = torch.stack([path(8.0, 0.0), path(8.0, 3.0)])[None].expand(2, -1, -1, -1)
    scores = torch.tensor([[5.0, 1.0]]).expand(2, -1)
    safety = torch.tensor([[math.log(p) for p in safe]]).expand(2, -1)
    return Proposals(knots, scores, torch.tensor([obeys]).expand(2, -1), safety, knots[:, 0])


def test_a_safe_proposal_that_obeys_is_driven_and_only_where_somebody_commands() -> None:
    made = proposals((0.9, 0.9))
    done, refused = heed(torch.tensor([True, False]), made, made, SPEED, TRUST)
    assert refused.tolist() == [False, False]
    assert torch.equal(done.chosen_ego[0], made.knots_ego[0, 1])
    assert torch.equal(done.chosen_ego[1], made.chosen_ego[1])
    assert done.scores[0].argmax() == 1
    assert torch.equal(done.scores[1], made.scores[1])


def test_what_looks_unsafe_or_cannot_be_done_is_refused_by_braking_on_the_own_way() -> None:
    own = proposals((0.9, 0.9))
    for made in (proposals((0.9, 0.1)), proposals((0.9, 0.9), obeys=(False, False))):
        done, refused = heed(torch.tensor([True, False]), made, own, SPEED, TRUST)
        assert refused.tolist() == [True, False]
        braked = done.chosen_ego[0]
        assert (braked[:, 1].abs() < 1e-5).all()
        assert abs(float(braked[-1, 0]) - 8.0**2 / (2 * 6.0)) < 0.1  # v^2 / 2a
        assert (braked[1:, 0] >= braked[:-1, 0]).all()
        assert torch.equal(done.chosen_ego[1], made.chosen_ego[1])


def test_braking_never_goes_ahead_of_the_own_plan_and_bears_no_speed() -> None:
    own = proposals((0.9, 0.9))
    slow = own._replace(chosen_ego=path(0.5, 0.0).expand(2, -1, -1))
    done, _ = heed(torch.tensor([True, True]), proposals((0.1, 0.1)), slow, SPEED, TRUST)
    assert (done.chosen_ego <= slow.chosen_ego + 1e-4).all()
    unknown = torch.tensor([torch.nan, -1.0])
    done, _ = heed(torch.tensor([True, True]), proposals((0.1, 0.1)), own, unknown, TRUST)
    assert done.chosen_ego.isfinite().all()
    assert done.chosen_ego.abs().max() < 1e-5
