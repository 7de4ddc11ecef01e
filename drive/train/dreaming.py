"""Dreaming: the same frame under another command, with a kinematic roll-out as its label."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from drive.contracts import EGO_MKZ, F32, F64, I64, Bool, Lateral, Longitudinal
from drive.data.ground import CELL_M, COLUMNS, FROM_X_M, HALF_Y_M, OCCUPIED, ONCOMING, ROAD, ROWS
from drive.geometry.commands import LEAD_GAP_M, agree, classify, kind_of
from drive.geometry.se2 import yaw_from_path
from drive.model.diffusion import obedience
from drive.model.horizon import KNOT_S, KNOTS, STRIDE
from drive.model.network import PlannerNetwork, Scene
from drive.score.rollouts import SPACING_M, distances, index_at, possible, simple_paths
from drive.train.losses import Batch, Denoised, distances_m, nearest_anchor, noise_and_denoise
from drive.train.weights import LossWeights

_ON_M = 6.0  # so far a path has to go on after its roll-out: else the command only ends well by ending
_RED = 0
_LIMIT_SHARE, _LIMIT_MPS = 1.1, 0.5
_OUTSIDE = ROWS * COLUMNS
_ALL = len(Lateral) * len(Longitudinal)
_AT_KNOTS = slice(STRIDE - 1, None, STRIDE)
_AGAINST_M = 2.0
_INSET_M = 0.3  # the truth is drawn in cells of 1 m
_BODY = np.array(
    [
        (
            EGO_MKZ.centre_from_axle_m + along * (EGO_MKZ.length_m / 2 - _INSET_M),
            side * (EGO_MKZ.width_m / 2 - _INSET_M),
        )
        for along in (-1, 0, 1)
        for side in (-1, 1)
    ]
)
_SECONDS = ((0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (2, 3), (2, 3))  # who is there at each knot


class Truth(NamedTuple):
    """What the ground truth says, with a last column for places outside of it, where nothing is wrong.

    Attributes:
        road, oncoming: bool (B, cells + 1).
        users: bool (B, 8, cells + 1), road users at each knot; between the seconds those of both.
        red_m: float64 (B,), driving further than this runs a red light; inf if none.
    """

    road: Bool
    oncoming: Bool
    users: Bool
    red_m: F64


class Dreams(NamedTuple):
    """Other commands for R samples.

    Attributes:
        command: int64 (R, 2).
        feasible: bool (R,); else nothing that carries the command out is safe.
        label_ego: float32 (R, 8, 2), a roll-out that carries it out; what the expert did where none does.
        known: bool (R,), False where there is nothing to dream: no truth, no safe roll-out, no such command.
    """

    command: I64
    feasible: Bool
    label_ego: F32
    known: Bool


def dream_loss(
    network: PlannerNetwork, scene: Scene, batch: Batch, weights: LossWeights, generator: torch.Generator
) -> dict[str, Tensor]:
    """Terms of some samples of a batch under other commands, weighted; they do not reach the encoder.

    dream: for a feasible command, what `imitation_loss` asks of a trajectory, with the roll-out as label, and
    only proposals that carry the command out may score. dream_unsafe: for a command that nothing safe carries
    out, scores go by the distance to what the expert did, among safe proposals only, and the anchor nearest
    to it still leads there: so the plan stays safe, and its disagreement with the command is flagged.
    """
    if not network.config.use_command or network.config.head == "regression":
        return {}
    count = max(1, round(weights.dream_share * len(batch["command"])))
    rows = torch.randperm(len(batch["command"]), generator=generator)[:count]
    mine = {name: value[rows] for name, value in batch.items()}
    truth = truth_of(mine)
    dreams = dream(mine, truth, generator)
    command = torch.from_numpy(dreams.command)
    label = torch.from_numpy(dreams.label_ego)
    frozen = Scene(*(part.detach()[rows] for part in scene))
    done = noise_and_denoise(network, frozen, command, label, generator)
    known = torch.from_numpy(dreams.known)
    feasible = torch.from_numpy(dreams.feasible) & known
    speed = mine["true_speed_mps"]
    with torch.no_grad():
        obeys = obedience(command, network.metres(done.clean), speed)
        bad = torch.from_numpy(judged(network.metres(done.clean).numpy(), truth))
        allowed = torch.where(feasible[:, None], obeys, ~bad)
    score, scored = _scores(network, done, label, obeys, allowed, weights)
    near = _nearest_error(network, done, label)
    intent = (done.start[:, 0] - network.normalise(label)).abs().mean(1)
    own = (done.clean[:, 0] - network.normalise(label)).abs().mean(1)
    follow = weights.intent * intent + weights.denoise_intent * own
    both = weights.denoise * near + weights.score * score * scored
    wrong = ~feasible & known
    return {
        "dream": weights.dream * _mean(both + follow, feasible),
        "dream_unsafe": weights.dream_unsafe * _mean(both, wrong),
    }


def _mean(value: Tensor, rows: Tensor) -> Tensor:
    return (value * rows).sum() / rows.sum().clamp(min=1)


def _scores(
    network: PlannerNetwork,
    done: Denoised,
    label: Tensor,
    obeys: Tensor,
    allowed: Tensor,
    weights: LossWeights,
) -> tuple[Tensor, Tensor]:
    """Cross entropy (R,) against nearness to the label among allowed proposals, and where there are any."""
    with torch.no_grad():
        target = torch.softmax(-distances_m(network, done.clean, label) / weights.score_scale_m, 1) * allowed
        target = (target + 1e-6 * allowed) / (target + 1e-6 * allowed).sum(1, keepdim=True).clamp(min=1e-9)
    scores = torch.log_softmax(done.scores + network.config.command_bonus * obeys, 1)
    return -(target * scores).sum(1), allowed.any(1)


def _nearest_error(network: PlannerNetwork, done: Denoised, label: Tensor) -> Tensor:
    """L1 (R,) of the proposal whose anchor is nearest to the label."""
    with torch.no_grad():
        nearest = nearest_anchor(network, done.start, label)[:, 0]
    row = torch.arange(len(label))
    return (done.clean[row, nearest] - network.normalise(label)).abs().mean(1)


def truth_of(batch: Batch) -> Truth:
    """The ground truth of a batch, as it is looked up."""
    planes = batch["ground"].numpy().astype(bool).reshape(len(batch["ground"]), -1, ROWS * COLUMNS)
    seconds = planes[:, OCCUPIED:]
    users = np.stack([seconds[:, a] & seconds[:, b] for a, b in _SECONDS], 1)
    stop_m = batch["stop_m"].numpy().astype(np.float64)
    red = (batch["light"].numpy() == _RED) & np.isfinite(stop_m)
    return Truth(
        _with_outside(planes[:, ROAD], True),
        _with_outside(planes[:, ONCOMING], False),
        _with_outside(users, False),
        np.where(red, stop_m, np.inf),
    )


def _with_outside(cells: Bool, value: bool) -> Bool:
    return np.concatenate([cells, np.full((*cells.shape[:-1], 1), value)], -1)


def dream(batch: Batch, truth: Truth, generator: torch.Generator) -> Dreams:
    """Draw another command for every sample: feasible ones and wrong ones equally often, where there are."""
    speed = np.maximum(batch["true_speed_mps"].numpy().astype(np.float64), 0.0)
    rolled = roll_out(batch, truth, speed)
    lead_m = np.where(np.isfinite(batch["lead_m"]), batch["lead_m"], np.inf)[:, None]
    named = classify(rolled.pose_ego, speed[:, None], lead_m, KNOT_S)
    code = named[..., 0] * len(Longitudinal) + named[..., 1]  # (R, P)
    every = np.stack(np.divmod(np.arange(_ALL), len(Longitudinal)), -1)
    feasible = np.zeros((len(speed), _ALL), bool)
    row = np.broadcast_to(np.arange(len(speed))[:, None], code.shape)
    feasible[row[rolled.sound], code[rolled.sound]] = True
    feasible &= kind_of(every)[None] != kind_of(batch["command"].numpy())[:, None]
    draw = torch.rand((len(speed), _ALL + 1), generator=generator).numpy()
    wants = (draw[:, _ALL] < 0.5) & feasible.any(1)
    unsaid = np.where(lead_m < LEAD_GAP_M, int(Longitudinal.CRUISE), int(Longitudinal.FOLLOW))
    picked = np.where(wants[:, None], feasible, ~feasible & (every[:, 1] != unsaid))
    command = every[np.where(picked, draw[:, :_ALL], -1.0).argmax(1)].astype(np.int64)
    carried = agree(command[:, None], rolled.pose_ego, speed[:, None], KNOT_S)
    wrong = ~(carried & rolled.safe).any(1)
    fits = rolled.sound & (code == (command[:, 0] * len(Longitudinal) + command[:, 1])[:, None])
    best = np.where(fits, rolled.room_m, -np.inf).argmax(1)
    mine = rolled.pose_ego[np.arange(len(speed)), best, :, :2]
    label = np.where(wants[:, None, None], mine, batch["label_ego"].numpy()[:, _AT_KNOTS, :2])
    known = batch["ground_known"].numpy().all(1) & rolled.safe.any(1) & (wants | wrong)
    return Dreams(command, wants, label.astype(np.float32), known)


class Rolled(NamedTuple):
    """Roll-outs of R samples along `simple_paths` under every acceleration.

    Attributes:
        pose_ego: float64 (R, P, 8, 3).
        safe: bool (R, P), nothing that the truth knows is wrong with it.
        sound: bool (R, P), safe, within the speed limit, and its path goes on for 6 m.
        room_m: float64 (R, P), how far the path goes on.
    """

    pose_ego: F64
    safe: Bool
    sound: Bool
    room_m: F64


def roll_out(batch: Batch, truth: Truth, speed_mps: F64) -> Rolled:
    """What could be done in each sample, judged on its ground truth."""
    table, (cells, axle) = simple_paths(), _tables()
    along = distances(speed_mps, KNOT_S, KNOTS)  # (R, A, T)
    at = index_at(along)
    off = ~truth.road[:, cells].all(-1) | (np.cumsum(truth.oncoming[:, axle], -1) * SPACING_M > _AGAINST_M)
    length = np.where(off.any(-1), off.argmax(-1), off.shape[-1])  # (R, M), the first wrong place
    room = (length[:, :, None] - at[:, None, :, -1] - 1) * SPACING_M
    sample = np.arange(len(at))[:, None, None, None, None]
    here = cells[np.arange(len(axle))[None, :, None, None], at[:, None]]  # (R, M, A, T, K)
    met = truth.users[sample, np.arange(KNOTS)[:, None], here].any((-1, -2))
    can = np.stack([possible(table, one, KNOT_S) for one in along])
    end_mps = (along[..., -1] - along[..., -2]) / KNOT_S
    limit = batch["speed_limit_mps"].numpy().astype(np.float64)
    lawful = end_mps <= np.maximum(limit * _LIMIT_SHARE, speed_mps)[:, None] + _LIMIT_MPS
    red = along[..., -1] > truth.red_m[:, None]
    safe = can & (room >= 0) & ~met & ~red[:, None]
    sound = safe & (room >= _ON_M) & lawful[:, None]
    pose = _between(table.pose_ego, along, at)
    return Rolled(pose, *(part.reshape(len(at), -1) for part in (safe, sound, room)))


def _between(path_ego: F64, along: F64, at: I64) -> F64:
    """Poses (R, M * A, T, 3) on all paths (M, S, 3) at distances (R, A, T)."""
    share = (along / SPACING_M - at)[..., None]
    pose = path_ego[:, at] * (1 - share) + path_ego[:, at + 1] * share  # (M, R, A, T, 3)
    return np.asarray(pose.swapaxes(0, 1).reshape(len(at), -1, *at.shape[2:], 3))


@cache
def _tables() -> tuple[I64, I64]:
    """Cells under the ego's body (M, S, K) and under its rear axle (M, S), all along the simple paths."""
    pose = simple_paths().pose_ego
    return cells_of(body(pose)), cells_of(pose[..., :2])


def judged(knots_ego: F32, truth: Truth) -> Bool:
    """Is something wrong with trajectories (R, P, 8, 2), as far as the truth knows?  bool (R, P)."""
    return np.asarray(faults(knots_ego, truth).any(-1))


def faults(knots_ego: F32, truth: Truth) -> Bool:
    """What is wrong with trajectories (R, P, 8, 2): bool (R, P, 4), as drive.model.critic.FAULTS."""
    knots = np.concatenate([np.zeros_like(knots_ego[..., :1, :]), knots_ego], 2).astype(np.float64)
    middle = (knots[..., 1:, :] + knots[..., :-1, :]) / 2
    path = np.stack([middle, knots[..., 1:, :]], 3).reshape(*knots_ego.shape[:2], 2 * KNOTS, 2)
    pose = np.concatenate([path, yaw_from_path(path, min_step_m=0.2)[..., None]], -1)
    sample = np.arange(len(knots))[:, None, None, None]
    cells = cells_of(body(pose))  # (R, P, 16, K)
    off = ~truth.road[sample, cells].all((-1, -2))
    met = truth.users[sample, np.arange(KNOTS)[:, None], cells[:, :, 1::2]].any((-1, -2))
    step = np.repeat(np.hypot(*np.moveaxis(np.diff(knots, axis=2), -1, 0)) / 2, 2, axis=-1)
    against = (truth.oncoming[sample[..., 0], cells_of(path)] * step).sum(-1) > _AGAINST_M
    return np.stack([off, met, against, step.sum(-1) > truth.red_m[:, None]], -1)


def body(pose_ego: F64) -> F64:
    """Points of the ego's body, 0.3 m inside its edge: poses (..., 3) -> (..., 6, 2)."""
    x, y = _BODY[:, 0], _BODY[:, 1]
    c, s = np.cos(pose_ego[..., 2:]), np.sin(pose_ego[..., 2:])
    return np.stack([pose_ego[..., :1] + c * x - s * y, pose_ego[..., 1:2] + s * x + c * y], -1)


def cells_of(points_ego: F64) -> I64:
    """Index of the truth's cell under each point (..., 2), int64 (...); the last one where there is none."""
    row = np.floor((points_ego[..., 0] - FROM_X_M) / CELL_M).astype(np.int64)
    column = np.floor((points_ego[..., 1] + HALF_Y_M) / CELL_M).astype(np.int64)
    inside = (row >= 0) & (row < ROWS) & (column >= 0) & (column < COLUMNS)
    return np.where(inside, row * COLUMNS + column, _OUTSIDE)
