"""Dreams on hand-made ground: what is drawn, how it is judged, and what the loss moves."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from drive.contracts import DriveLog, Lateral, Longitudinal
from drive.data.ground import CHANNELS, COLUMNS, OCCUPIED, ROAD, ROWS, ground_of, unpack
from drive.geometry.commands import agree, kind_of
from drive.score.choices import safe
from drive.score.scene import freeze_log
from drive.train.config import LoopConfig
from drive.train.dreaming import dream, dream_loss, judged, roll_out, truth_of
from drive.train.learner import PlannerLearner, encode
from drive.train.weights import LossWeights
from tests import builders
from tests.unit.model.networks import random_inputs, tiny_network
from tests.unit.train.test_losses import batch_of

DREAMING = LossWeights(dream=1.0, dream_unsafe=1.0, dream_share=1.0)
MIDDLE = COLUMNS // 2


def lane_batch(count: int = 32, speed_mps: float = 6.0) -> dict[str, Tensor]:
    """A straight lane of 4 m, nobody there, no light."""
    batch = batch_of(count)
    batch["ground"][:, ROAD, :, MIDDLE - 2 : MIDDLE + 2] = 1
    batch["true_speed_mps"] = torch.full((count,), speed_mps)
    batch["speed_limit_mps"] = torch.full((count,), 13.9)
    return batch


def drawn(batch: dict[str, Tensor], draws: int = 5) -> tuple[set[str], set[str]]:
    """Names of the feasible and of the wrong commands that were dreamt."""
    found: tuple[set[str], set[str]] = (set(), set())
    truth = truth_of(batch)
    for seed in range(draws):
        dreams = dream(batch, truth, torch.Generator().manual_seed(seed))
        for (a, b), known, can in zip(dreams.command.tolist(), dreams.known, dreams.feasible, strict=True):
            if known:
                found[0 if can else 1].add(f"{Lateral(a).name}/{Longitudinal(b).name}".lower())
    return found


def test_in_a_lane_only_the_speed_can_change_and_the_label_says_how() -> None:
    batch = lane_batch()
    feasible, wrong = drawn(batch)
    assert feasible == {"keep/stop", "keep/yield", "keep/accelerate"}  # cruise is what the label does
    assert {"turn_left/cruise", "turn_right/accelerate", "lane_left/accelerate"} <= wrong
    assert not any(name.startswith("keep") for name in wrong)
    dreams = dream(batch, truth_of(batch), torch.Generator().manual_seed(0))
    can = dreams.feasible & dreams.known
    assert can.sum() > 5
    pose = np.concatenate([dreams.label_ego, np.zeros((*dreams.label_ego.shape[:2], 1))], -1)
    assert agree(dreams.command[can], pose[can], np.full(can.sum(), 6.0), 0.5).all()
    assert (kind_of(dreams.command[can]) != kind_of(np.array([0, 3]))).all()
    expert = batch["label_ego"].numpy()[:, 4::5, :2]
    np.testing.assert_array_equal(dreams.label_ego[~dreams.feasible], expert[~dreams.feasible])


def test_a_red_light_and_a_standing_car_make_going_on_wrong() -> None:
    red = lane_batch() | {"light": torch.zeros(32, dtype=torch.int64), "stop_m": torch.full((32,), 14.0)}
    assert {"keep/cruise", "keep/accelerate"} <= drawn(red)[1]
    blocked = lane_batch() | {"lead_m": torch.full((32,), 10.0)}
    blocked["ground"][:, OCCUPIED:, 14:18, MIDDLE - 1 : MIDDLE + 1] = 1
    wrong = drawn(blocked)[1]
    assert {"keep/follow", "keep/accelerate"} <= wrong
    assert "keep/cruise" not in wrong  # behind a lead it is called follow
    gone = lane_batch() | {"ground_known": torch.zeros((32, CHANNELS), dtype=torch.bool)}
    assert drawn(gone) == (set(), set())


def batch_at(log: DriveLog, step: int) -> dict[str, Tensor]:
    planes, known = unpack(ground_of(log, step)[None])
    aux = log.plans.aux[step]
    return {
        "ground": torch.from_numpy(planes),
        "ground_known": torch.from_numpy(known),
        "light": torch.tensor([int(aux[0])]),
        "stop_m": torch.tensor([float(aux[1])]),
        "lead_m": torch.tensor([float(aux[2])]),
        "speed_limit_mps": torch.tensor([float(log.plans.speed_limit_mps[step])]),
        "true_speed_mps": torch.tensor([float(log.ego.speed_mps[log.plans.step[step]])]),
    }


@pytest.mark.parametrize("name", ["cruise", "lead_braking", "left_turn", "pedestrian_crossing"])
def test_roll_outs_are_judged_much_as_the_scores_judge_them(name: str) -> None:
    log = getattr(builders, name)()
    batch, scene = batch_at(log, 12), freeze_log(log, 12)
    rolled = roll_out(batch, truth_of(batch), batch["true_speed_mps"].numpy().astype(np.float64))
    knots = rolled.pose_ego[0]
    at = np.linspace(0, 4, 9)
    fine = np.arange(1, 41) / 10
    begun = np.concatenate([np.zeros_like(knots[:, :1]), knots], 1)
    pose = np.stack([np.stack([np.interp(fine, at, one[:, axis]) for axis in range(3)], -1) for one in begun])
    true = safe(pose, scene)
    near = np.hypot(pose[..., 0], pose[..., 1]).max(1) < 40
    mine, true = rolled.safe[0][near], true[near]
    assert (mine & true).sum() > 10
    assert (mine & ~true).sum() <= 0.2 * mine.sum()  # cells of 1 m, every half second
    assert (rolled.sound <= rolled.safe).all()


def test_trajectories_are_judged_like_roll_outs_and_mirrored_ones_alike() -> None:
    batch = lane_batch(1)
    batch["ground"][:, OCCUPIED:, 20:24, MIDDLE - 1 : MIDDLE + 1] = 1
    truth = truth_of(batch)
    t = (np.arange(8) + 1) / 8
    straight, far = np.stack([12 * t, 0 * t], -1), np.stack([26 * t, 0 * t], -1)
    aside = np.stack([12 * t, 4 * t**2], -1)
    knots = np.stack([straight, far, aside, aside * [1, -1]])[None].astype(np.float32)
    assert judged(knots, truth)[0].tolist() == [False, True, True, True]
    red = truth._replace(red_m=np.array([8.0]))
    assert judged(knots, red)[0].all()


def test_switched_off_nothing_changes_not_even_what_is_drawn() -> None:
    network, inputs = tiny_network(), random_inputs(4)
    batch = lane_batch(4) | inputs._asdict() | {"true_speed_mps": inputs.speed_mps}

    def terms(weights: LossWeights) -> tuple[dict[str, Tensor], Tensor]:
        generator = torch.Generator().manual_seed(0)
        return PlannerLearner(network, LoopConfig(), weights).terms(batch, generator), generator.get_state()

    off, state = terms(LossWeights())
    assert "dream" not in off
    on, after = terms(DREAMING)
    assert {"dream", "dream_unsafe"} <= on.keys()
    assert not torch.equal(state, after)
    assert all(torch.equal(off[name], on[name]) for name in off)  # dreams are drawn last
    plain = tiny_network(use_command=False)
    generator = torch.Generator().manual_seed(0)
    assert dream_loss(plain, encode(plain, inputs, "fp32"), batch, DREAMING, generator) == {}


def test_dreams_move_the_decoder_and_the_scores_but_not_the_eyes() -> None:
    network, inputs = tiny_network(), random_inputs(32)
    batch = lane_batch(32)
    scene = encode(network, inputs, "fp32")
    terms = dream_loss(network, scene, batch, DREAMING, torch.Generator().manual_seed(0))
    assert all(float(term.detach()) > 0 for term in terms.values())
    sum(terms.values()).backward()
    moved = {name.split(".")[0] for name, p in network.named_parameters() if p.grad is not None}
    assert {"decode_offset", "decode", "judge", "intent", "lateral_embedding"} <= moved
    assert not moved & {"fine", "coarse", "ground", "fuse", "command"}


def test_a_small_planner_learns_to_dream() -> None:
    network, inputs = tiny_network(), random_inputs(12)
    batch = lane_batch(12)
    with torch.no_grad():
        scene = encode(network, inputs, "fp32")
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    losses = []
    for step in range(30):
        terms = dream_loss(network, scene, batch, DREAMING, torch.Generator().manual_seed(step))
        loss = torch.stack(list(terms.values())).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-8:]) < 0.75 * np.mean(losses[:8])


def test_samples_that_cannot_dream_give_no_loss() -> None:
    network, inputs = tiny_network(), random_inputs(4)
    batch = lane_batch(4) | {"ground_known": torch.zeros((4, CHANNELS), dtype=torch.bool)}
    scene = encode(network, inputs, "fp32")
    share = replace(DREAMING, dream_share=0.5)
    terms = dream_loss(network, scene, batch, share, torch.Generator().manual_seed(0))
    assert [float(term.detach()) for term in terms.values()] == [0.0, 0.0]
    assert batch["ground"].shape[2:] == (ROWS, COLUMNS)
