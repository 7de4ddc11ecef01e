"""Boxes are read where they were written, whatever else the maps hold."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.contracts.plan import USER_COLUMNS
from drive.data.ground import COLUMNS, ROWS
from drive.model import agents as head
from drive.model.agents import CHANNELS, LATER_SCALE_M, MOST, AgentHead, boxes_of, road_users


def empty() -> torch.Tensor:
    raw = torch.zeros(1, CHANNELS, ROWS, COLUMNS)
    raw[:, : head.CLASSES] = -9.0
    return raw


@settings(deadline=None)
@given(st.integers(1, ROWS - 2), st.integers(1, COLUMNS - 2), st.booleans(), st.floats(-3.1, 3.1))
def test_a_peak_becomes_one_box_where_it_is(row: int, column: int, walker: bool, yaw: float) -> None:
    raw = empty()
    raw[0, int(walker), row, column] = 2.0
    raw[0, int(walker), row, column + 1] = 1.0  # its slope is no second box
    raw[0, head.OFFSET : head.TURN, row, column] = torch.tensor([0.25, -0.5])
    raw[0, head.TURN : head.SIZE, row, column] = 3 * torch.tensor([np.cos(yaw), np.sin(yaw)])
    raw[0, head.SIZE : head.LATER, row, column] = torch.tensor([4.5, 1.8]).log()
    raw[0, head.LATER :, row, column] = torch.arange(6) / 10
    boxes = boxes_of(raw)
    assert boxes.pose.shape == (1, MOST, 3)
    assert (boxes.probability[0] > 0).sum() == 1
    centre = [row + 0.75, column - 16.0]
    np.testing.assert_allclose(boxes.pose[0, 0].numpy(), [*centre, yaw], atol=1e-4)
    np.testing.assert_allclose(boxes.size[0, 0], [4.5, 1.8], atol=1e-4)
    later = np.array(centre) + LATER_SCALE_M * (np.arange(6) / 10).reshape(3, 2)
    np.testing.assert_allclose(boxes.later[0, 0], later, atol=1e-4)
    assert bool(boxes.walker[0, 0]) is walker
    table = road_users(boxes, 0)
    assert table.shape == (1, USER_COLUMNS)
    np.testing.assert_allclose(table[0, :3], [*centre, yaw], atol=1e-4)


def test_the_likeliest_come_first_and_doubtful_ones_do_not_count() -> None:
    raw = empty()
    raw[0, 0, 10, 10], raw[0, 0, 20, 20], raw[0, 1, 30, 5] = 0.5, 2.0, -2.0
    boxes = boxes_of(raw)
    assert boxes.probability[0, 0] > boxes.probability[0, 1] > 0
    assert (boxes.probability[0, 2:] == 0).all()
    assert float(boxes.pose[0, 0, 0]) == 20.5


def test_a_fresh_head_sees_nobody() -> None:
    torch.manual_seed(0)
    made = AgentHead(8, 2)
    raw = made(torch.randn(2, 8, ROWS // 2, COLUMNS // 2))
    assert raw.shape == (2, CHANNELS, ROWS, COLUMNS)
    assert (boxes_of(raw).probability == 0).all()
