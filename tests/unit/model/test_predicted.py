"""The predicted scene: boxes, maps and route in the form that the reward field reads."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from drive.data import ground as truth
from drive.model.agents import Boxes
from drive.model.field.reward import RewardField
from drive.model.field.scene import REACH_M, prepare
from drive.model.predicted import AGENTS_FROM, agents_of, outside_m, predicted_scene, route_of
from tests.unit.model.field import scenes
from tests.unit.model.networks import random_inputs, tiny_network


def ground() -> np.ndarray:
    """Probabilities (1, CHANNELS, ROWS, COLUMNS): a road 8 m wide."""
    out = np.zeros((1, truth.CHANNELS, truth.ROWS, truth.COLUMNS), np.float32)
    out[0, truth.ROAD, :, 12:20] = 1.0
    return out


def boxes(*users: tuple[float, ...]) -> Boxes:
    """Detected road users: x, y, yaw, length, width, probability, places in 1, 2 and 3 s."""
    told = torch.tensor(users)[None]
    walker = torch.zeros(told.shape[:2], dtype=torch.bool)
    return Boxes(told[..., :3], told[..., 3:5], told[..., 6:].unflatten(2, (3, 2)), told[..., 5], walker)


SEEN = np.ones((truth.ROWS, truth.COLUMNS), bool)
CAR = (22.5, 0.0, 0.0, 4.5, 1.9, 0.9, *(22.5, 0.0) * 3)  # it stands


def test_boxes_go_from_place_to_place_and_doubtful_ones_do_not_count() -> None:
    moving = (10.0, 1.0, 0.4, 4.0, 2.0, 0.8, 10.0, 3.0, 10.0, 4.0, 12.0, 4.0)
    doubtful = (5.0, 0.0, 0.4, 4.0, 2.0, AGENTS_FROM - 0.01, *(5.0, 0.0) * 3)
    pose, sure = agents_of(boxes(moving, doubtful))
    assert pose.shape == (1, 2, 20, 3)
    np.testing.assert_allclose(pose[0, 0, [0, 4, 9, 14, 19], :2], [
        [10.0, 1.4], [10.0, 3.0], [10.0, 4.0], [12.0, 4.0], [14.0, 4.0]], atol=1e-5)  # fmt: skip
    np.testing.assert_allclose(pose[0, 0, :, 2], 0.4)
    np.testing.assert_allclose(sure, [[0.8, 0.0]])


def test_signed_distances_change_sign_at_the_edge() -> None:
    there = np.zeros((truth.ROWS, truth.COLUMNS), bool)
    there[:, 12:20] = True
    got = outside_m(there)[5]
    np.testing.assert_allclose(got[10:15], [1.5, 0.5, -0.5, -1.5, -2.5])
    assert got.max() == REACH_M
    assert (outside_m(~there | there) == -REACH_M).all()
    assert (outside_m(there & ~there) == REACH_M).all()


@given(st.floats(2, 20), st.floats(-1.2, 1.2), st.floats(2, 20), st.floats(-1.2, 1.2))
def test_the_route_leaves_in_the_ego_heading_and_meets_its_points(
    near: float, bend: float, far: float, more: float
) -> None:
    first = near * np.array([np.cos(bend / 2), np.sin(bend / 2)])
    second = first + far * np.array([np.cos(bend + more / 2), np.sin(bend + more / 2)])
    route = route_of(np.stack([first, second])[None])[0]
    for point in (np.zeros(2), first, second):
        assert np.hypot(*(route - point).T).min() < 1e-9
    flipped = route_of(np.stack([first, second])[None] * [1, -1])[0]
    np.testing.assert_allclose(flipped, route * [1, -1], atol=1e-9)


def test_the_field_sees_the_car_and_the_edge_that_were_drawn() -> None:
    network, inputs = tiny_network(), random_inputs(1)
    with torch.inference_mode():
        scene = network.encode(inputs)._replace(light=torch.tensor([[0.0, 0.0, 0.0, 9.0]]))
        inputs = inputs._replace(speed_mps=torch.tensor([10.0]))
        none = torch.full((1, 2), -1)
        field_scene = prepare(predicted_scene(scene, inputs, none, boxes(CAR), ground(), SEEN))
        knots = torch.cat([scenes.straight(10.0), scenes.straight(3.0), scenes.straight(3.0, 4.5)], 1)
        scored = RewardField().score(knots, field_scene)
    through, short, off = (scored.critique(0, k) for k in range(3))
    assert through["no_collision"] < 0.2
    assert short["no_collision"] == short["on_road"] == 1.0
    assert off["on_road"] == 0.0
    unseen = SEEN.copy()
    unseen[:, 20:] = False  # to the left of the road
    with torch.inference_mode():
        blind = prepare(predicted_scene(scene, inputs, none, boxes(CAR), ground(), unseen))
        assert RewardField().score(knots, blind).critique(0, 2)["on_road"] == 1.0
