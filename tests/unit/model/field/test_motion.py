"""Knots become the same motion in torch as in numpy, and its filters are the score's."""

import numpy as np
import torch
from torch.nn.functional import pad

from drive.model.field import motion
from drive.model.field.rollout import Rollout
from drive.model.horizon import poses_from_knots
from drive.score.motion import smooth
from tests.unit.model.field import scenes


def test_points_and_headings_are_those_of_the_planner() -> None:
    knots = torch.cat([scenes.wild(0, 12), torch.zeros(1, 1, 8, 2), scenes.straight(0.3)], 1)
    rollout = Rollout(knots, scenes.prepared(scenes.road(10.0)))
    expected = poses_from_knots(knots[0].numpy(), np.full(14, 10.0))
    np.testing.assert_allclose(torch.view_as_real(rollout.fine_xy)[0], expected[..., :2], atol=2e-5)
    np.testing.assert_allclose(rollout.fine_yaw[0], np.unwrap(expected[..., 2], axis=-1), atol=1e-3)
    np.testing.assert_array_equal(rollout.xy, rollout.fine_xy[..., 1::2])
    step = np.diff(expected[..., :2], axis=1, prepend=0.0)
    np.testing.assert_allclose(rollout.fine_speed[0], np.hypot(*np.moveaxis(step, -1, 0)) / 0.1, atol=1e-3)


def test_filter_matrices_equal_the_filter() -> None:
    values = np.random.default_rng(0).normal(0, 1, (3, 47))
    chain, once = motion.filters(torch.float64, torch.device("cpu"))
    want = smooth(values, 0, 0.1)
    got = (torch.from_numpy(values) @ chain).split([47, 40, 40], -1)
    np.testing.assert_allclose(got[0], want, atol=1e-9)
    for part in got[1:]:
        want = smooth(want, 1, 0.1)
        np.testing.assert_allclose(part, want[:, 7:], atol=1e-7)
    np.testing.assert_allclose(torch.from_numpy(values) @ once, smooth(values, 1, 0.1), atol=1e-9)


def test_a_standing_ego_has_finite_gradients() -> None:
    knots = torch.zeros(1, 1, 8, 2, requires_grad=True)
    xy = torch.view_as_complex(motion.points(knots, torch.tensor([0.0])))
    heading, length = motion.headings(xy - pad(xy, (1, 0))[..., :-1])
    (xy.real.sum() + motion.yaw_of(heading).sum() + length.sum()).backward()
    assert knots.grad is not None
    assert bool(knots.grad.isfinite().all())
