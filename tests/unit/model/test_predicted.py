"""The predicted scene: boxes, maps and route in the form that the reward field reads."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from drive.data import ground as truth
from drive.model.boxes import MOST, Boxes, boxes_of
from drive.model.field.reward import RewardField
from drive.model.field.scene import REACH_M, prepare
from drive.model.predicted import agents_of, outside_m, predicted_scene, route_of
from tests.unit.model.field import scenes
from tests.unit.model.networks import random_inputs, tiny_network


def ground(*cars: tuple[int, int]) -> np.ndarray:
    """Probabilities (1, CHANNELS, ROWS, COLUMNS): a road 8 m wide, cars of 5 x 2 cells from (row, column)."""
    out = np.zeros((1, truth.CHANNELS, truth.ROWS, truth.COLUMNS), np.float32)
    out[0, truth.ROAD, :, 12:20] = 1.0
    for row, column in cars:
        out[0, truth.OCCUPIED, row : row + 5, column : column + 2] = 0.9
        out[0, truth.OCCUPIED + 1, row + 4 : row + 9, column : column + 2] = 0.9
    return out


def test_connected_cells_become_boxes_that_move() -> None:
    boxes = boxes_of(ground((20, 15), (8, 4)))
    assert boxes.pose.shape == (1, MOST, 3)
    assert (boxes.probability[0] > 0).sum() == 2
    assert boxes.pose[0, 0, :2].tolist() == [10.5, -11.0]  # the nearer one first
    assert boxes.pose[0, 1, :2].tolist() == [22.5, 0.0]
    np.testing.assert_allclose(boxes.size[0, 1], [4.3, 1.3], atol=0.05)
    np.testing.assert_allclose(boxes.velocity[0, 1], [4.0, 0.0])
    assert float(boxes.probability[0, 1]) == np.float32(0.9)


def test_boxes_move_at_constant_velocity_and_doubtful_ones_do_not_count() -> None:
    one = Boxes(
        torch.tensor([[[10.0, 1.0, 0.4], [5.0, 0.0, 0.4]]]),
        torch.ones(1, 2, 2),
        torch.tensor([[[0.0, 2.0], [0.1, 0.0]]]),
        torch.tensor([[0.8, 0.3]]),
    )
    pose, sure = agents_of(one)
    np.testing.assert_allclose(pose[0, 0, -1], [10.0, 9.0, np.pi / 2], atol=1e-5)
    np.testing.assert_allclose(pose[0, 1, 0], [5.02, 0.0, 0.4], atol=1e-5)  # too slow to tell a heading
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
        seen = ground((20, 15))
        seen[0, truth.OCCUPIED + 1] = seen[0, truth.OCCUPIED]  # it stands
        inputs = inputs._replace(speed_mps=torch.tensor([10.0]))
        none = torch.full((1, 2), -1)
        field_scene = prepare(predicted_scene(scene, inputs, none, boxes_of(seen), seen))
        knots = torch.cat([scenes.straight(10.0), scenes.straight(3.0), scenes.straight(3.0, 4.5)], 1)
        scored = RewardField().score(knots, field_scene)
    through, short, off = (scored.critique(0, k) for k in range(3))
    assert through["no_collision"] < 0.2
    assert short["no_collision"] == short["on_road"] == 1.0
    assert off["on_road"] == 0.0
