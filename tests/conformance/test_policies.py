"""What every policy must do, whatever is inside it."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from drive.bench.floors import FLOORS
from drive.cli.policies import policy_factory
from drive.contracts import EGO_MKZ, STEPS, CameraModel, Observation, Plan, Policy, Turn
from tests import builders

UNTRAINED = {name for name in FLOORS if name != "ego_mlp"}  # the MLP is trained inside the benchmark
SPECS = [*sorted(UNTRAINED), "base"]


@pytest.fixture(scope="module", params=SPECS)
def policy(request: pytest.FixtureRequest) -> Policy:
    return policy_factory(request.param)()


def road_picture(seed: int) -> np.ndarray:
    """uint8 (1, 144, 256, 3): sky above, road below, a little noise."""
    image = np.full((1, 144, 256, 3), 150, np.uint8)
    image[:, 72:] = 90
    noise = np.random.default_rng(seed).integers(0, 20, image.shape)
    return (image + noise).astype(np.uint8)


def front_camera() -> CameraModel:
    """The recorder's camera: 256 x 144, 100 degrees, 1.9 m ahead of the rear axle."""
    focal = 128 / np.tan(np.radians(50))
    model = builders.camera(256)
    return replace(
        model, intrinsics=np.array([[focal, 0, 128.0], [0, focal, 72.0], [0, 0, 1.0]]), size_px=(256, 144)
    )


def observations() -> list[Observation]:
    """Standing, slow and fast; straight on, left and right."""
    found = []
    for i, (speed, turn) in enumerate([(0.0, Turn.FOLLOW), (6.0, Turn.LEFT), (13.0, Turn.RIGHT)]):
        plain = builders.observation(speed, turn=turn)
        images, cameras = {"front": road_picture(i)}, {"front": front_camera()}
        found.append(replace(plain, t_us=200_000 * i, images=images, cameras=cameras))
    return found


def arrays(plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return plan.best.pose_ego, plan.proposals_ego, plan.scores


def assert_equal(a: list[Plan], b: list[Plan], tolerance: float = 0.0) -> None:
    for one, two in zip(a, b, strict=True):
        for x, y in zip(arrays(one), arrays(two), strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=tolerance)
        assert one.command is None or two.command is not None
        assert one.flags == two.flags


def test_has_a_name_and_says_what_it_needs(policy: Policy) -> None:
    assert policy.name
    assert isinstance(policy.needs_images, bool)


def test_plans_are_finite_ranked_and_of_full_length(policy: Policy) -> None:
    plans = policy.plan(observations(), seed=3)
    assert len(plans) == 3
    for plan in plans:
        assert plan.best.pose_ego.shape == (STEPS, 3)
        assert plan.proposals_ego.shape[1:] == (STEPS, 3)
        assert all(np.isfinite(a).all() for a in arrays(plan))
        if not plan.flags:
            np.testing.assert_array_equal(plan.best.pose_ego, plan.proposals_ego[plan.scores.argmax()])


def test_the_same_seed_gives_the_same_plans(policy: Policy) -> None:
    assert_equal(policy.plan(observations(), seed=3), policy.plan(observations(), seed=3))


def test_plans_do_not_depend_on_batch_or_order(policy: Policy) -> None:
    seen = observations()
    together = policy.plan(seen, seed=3)
    alone = [policy.plan([o], seed=3)[0] for o in seen]
    backwards = policy.plan(seen[::-1], seed=3)[::-1]
    assert_equal(together, alone, tolerance=1e-4)
    assert_equal(together, backwards, tolerance=1e-4)


def test_inputs_are_left_alone(policy: Policy) -> None:
    seen = observations()
    before = copy.deepcopy(seen)
    policy.plan(seen, seed=3)
    for a, b in zip(seen, before, strict=True):
        np.testing.assert_array_equal(a.images["front"], b.images["front"])
        np.testing.assert_array_equal(a.history_ego, b.history_ego)
        np.testing.assert_array_equal(a.route.target_points_ego, b.route.target_points_ego)


def test_nothing_to_plan_is_no_plans(policy: Policy) -> None:
    assert policy.plan([], seed=0) == []


def test_motion_is_possible_for_a_car(policy: Policy) -> None:
    """From the current speed: no jump at the first step, no speed above 40 m/s, no turning on the spot."""
    for observation, plan in zip(observations(), policy.plan(observations(), seed=3), strict=True):
        path = np.concatenate([np.zeros((1, 3)), plan.best.pose_ego.astype(np.float64)])
        step = np.hypot(*np.diff(path[:, :2], axis=0).T) / 0.1
        assert step.max() < 40
        assert abs(step[0] - observation.speed_mps) < 3.0
        turned = np.abs(np.unwrap(path[:, 2])[-1])
        assert turned < 0.2 + step.sum() * 0.1 / (EGO_MKZ.length_m - 1.5)  # length / smallest turning radius


@pytest.mark.parametrize("spec", SPECS)
def test_factories_travel_to_other_processes(spec: str) -> None:
    factory: Callable[[], Policy] = policy_factory(spec)
    copied = pickle.loads(pickle.dumps(factory))
    assert copied().name == factory().name
