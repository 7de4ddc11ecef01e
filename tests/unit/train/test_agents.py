"""Training of the detection: what is there is learned, who is not seen or not known does not count."""

import numpy as np
import torch

from drive.data import agents as table
from drive.data.ground import COLUMNS, ROWS
from drive.model.agents import AgentHead, boxes_of
from drive.train.agents import agents_loss, found

SEEN = torch.ones(ROWS, COLUMNS, dtype=torch.bool)
KNOWN = torch.ones(1, dtype=torch.bool)


def users(*rows: tuple[float, ...]) -> torch.Tensor:
    out = np.full((1, table.MOST, table.COLUMNS), np.nan, np.float32)
    for k, row in enumerate(rows):
        out[0, k, : len(row)] = row
    return torch.from_numpy(out)


CAR = (20.3, 3.6, 0.5, 4.5, 1.9, 0.0, 24.0, 5.0, 28.0, 7.0, 32.0, 9.0)
WALKER = (8.9, -4.2, -2.0, 0.6, 0.6, 1.0)  # its future was not recorded


def learned(truth: torch.Tensor, seen: torch.Tensor = SEEN, known: torch.Tensor = KNOWN) -> torch.Tensor:
    torch.manual_seed(1)
    made, ground = AgentHead(24, 2), torch.randn(1, 24, ROWS // 2, COLUMNS // 2)
    made.train()
    steps = torch.optim.Adam(made.parameters(), 1e-2)
    for _ in range(250):
        steps.zero_grad()
        agents_loss(made(ground), truth, seen, known).backward()
        steps.step()
    with torch.no_grad():
        return made(ground)


def test_what_is_there_is_found_with_size_heading_and_future() -> None:
    truth = users(CAR, WALKER)
    boxes = boxes_of(learned(truth))
    assert (boxes.probability[0] > 0).sum() == 2
    order = boxes.walker[0, :2].long().argsort()
    pose, size, later = boxes.pose[0, order], boxes.size[0, order], boxes.later[0, order]
    np.testing.assert_allclose(pose[0], CAR[:3], atol=0.3)
    np.testing.assert_allclose(size[0], CAR[3:5], rtol=0.1)
    np.testing.assert_allclose(later[0].flatten(), CAR[6:], atol=0.6)
    np.testing.assert_allclose(pose[1, :2], WALKER[:2], atol=0.3)
    numbers = found(boxes, truth, SEEN)
    assert numbers["agents_missed"].tolist() == numbers["agents_invented"].tolist() == [0.0]
    assert numbers["walkers_missed"].tolist() == [0.0]
    assert float(numbers["agents_later_m"]) < 0.6


def test_who_is_out_of_sight_teaches_nothing_and_is_not_missed() -> None:
    seen = SEEN.clone()
    seen[18:23] = False
    raw = torch.zeros(1, 14, ROWS, COLUMNS, requires_grad=True)
    agents_loss(raw, users(CAR), seen, KNOWN).backward()
    assert raw.grad is not None
    assert (raw.grad[:, :, 18:23] == 0).all()
    assert (raw.grad[:, :2, :18] != 0).any()  # elsewhere nobody is
    nobody = boxes_of(torch.full((1, 14, ROWS, COLUMNS), -9.0))
    assert torch.isnan(found(nobody, users(CAR), seen)["agents_missed"]).all()
    assert found(nobody, users(CAR), SEEN)["agents_missed"].tolist() == [1.0]


def test_an_unknown_truth_and_an_empty_one_have_finite_gradients() -> None:
    for truth, known in ((users(), KNOWN), (users(CAR), ~KNOWN)):
        raw = torch.randn(1, 14, ROWS, COLUMNS, requires_grad=True)
        loss = agents_loss(raw, truth, SEEN, known)
        loss.backward()
        assert raw.grad is not None
        assert raw.grad.isfinite().all()
        assert bool(known.all()) or float(loss.detach()) == 0.0


def test_invented_road_users_are_counted() -> None:
    raw = torch.full((1, 14, ROWS, COLUMNS), -9.0)
    raw[0, 0, 10, 10] = 3.0
    numbers = found(boxes_of(raw), users(CAR), SEEN)
    assert numbers["agents_invented"].tolist() == [1.0]
    assert torch.isnan(numbers["walkers_missed"]).all()
