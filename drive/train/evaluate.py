"""How far a network's plans are from the expert's on given samples, and if its commands are right."""

import numpy as np
import torch
from torch import Tensor

from drive.contracts import F32, I64
from drive.data.batches import collate
from drive.data.ground import OCCUPIED, ONCOMING, ROAD
from drive.data.samples import Samples
from drive.model.agents import boxes_of
from drive.model.diffusion import Proposals, obedience, sample
from drive.model.horizon import KNOTS, STRIDE
from drive.model.network import PlannerNetwork
from drive.train.agents import found
from drive.train.dreaming import faults, truth_of
from drive.train.learner import encode
from drive.train.losses import Batch, inputs_of

_BATCH = 256
_ERRORS = {"road_error": ROAD, "oncoming_error": ONCOMING, "users_error": OCCUPIED}


def evaluate_samples(network: PlannerNetwork, samples: Samples, rows: I64) -> dict[str, float]:
    """Means over samples: distances of chosen, intended and best proposal [m], and shares of right answers.

    Empty if there are no rows.
    """
    measured = measure_samples(network, samples, rows)
    return {name: float(np.nanmean(value)) for name, value in measured.items() if np.isfinite(value).any()}


def measure_samples(network: PlannerNetwork, samples: Samples, rows: I64) -> dict[str, F32]:
    """The numbers of `evaluate_samples` per row, each (N,); what the network lacks has no number.

    NaN in rows where there is nothing to measure: nobody to be found, say.
    """
    parts = [
        _measure(network, samples, rows[first : first + _BATCH]) for first in range(0, len(rows), _BATCH)
    ]
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@torch.inference_mode()
def _measure(network: PlannerNetwork, samples: Samples, rows: I64) -> dict[str, F32]:
    batch = {
        name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in collate(samples, rows).items()
    }
    scene = encode(network, inputs_of(batch), "fp32")
    command = network.emit(scene)
    noise = np.random.default_rng(0).standard_normal((len(rows), network.proposals, 2 * KNOTS), np.float32)
    proposals = sample(network, scene, command, batch["true_speed_mps"], torch.from_numpy(noise))
    label = batch["label_ego"][:, STRIDE - 1 :: STRIDE, :2]
    ade = (proposals.knots_ego - label[:, None]).norm(dim=-1).mean(-1)
    chosen = proposals.chosen_ego
    known = batch["light"] >= 0
    numbers = {"ade_m": (chosen - label).norm(dim=-1).mean(-1)}
    if network.intents:
        numbers |= {"ade_intent_m": ade[:, 0]}
    numbers |= {"ade_best_m": ade.amin(1)}
    if network.config.use_command:
        numbers |= {
            "lateral": command[:, 0] == batch["command"][:, 0],
            "longitudinal": command[:, 1] == batch["command"][:, 1],
        }
    if network.config.use_image:
        numbers |= {"light": (scene.light.argmax(1) == batch["light"]) | ~known}
        numbers |= _ground_errors(network.ground.logits(scene.ground) > 0, batch)
        numbers |= found(boxes_of(network.agents(scene.ground)), batch["agents"], network.seen_cells)
    if network.config.use_command:
        numbers |= {"obeyed": obedience(command, chosen[:, None], batch["true_speed_mps"])[:, 0]}
    if network.criticises:
        numbers |= _critic_errors(proposals, batch)
    return {name: value.float().numpy() for name, value in numbers.items()}


def _critic_errors(proposals: Proposals, batch: Batch) -> dict[str, Tensor]:
    """Shares of the faulty proposals found safe, and of the safe ones found faulty, (B,); NaN without one."""
    bad = torch.from_numpy(faults(proposals.knots_ego.numpy(), truth_of(batch)).any(-1)).float()
    told = (proposals.safety.exp() < 0.5).float()
    known = torch.where(batch["ground_known"].all(1), 1.0, torch.nan)
    return {
        "critic_missed": known * (bad * (1 - told)).sum(1) / bad.sum(1),
        "critic_false": known * (told * (1 - bad)).sum(1) / (1 - bad).sum(1),
    }


def _ground_errors(seen: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Share of the cells that are a thing, or seen as one, and not both, per sample (B,): 1 - IoU.

    0 where there is none and none is seen, or where the truth is not known.
    """
    truth = batch["ground"].bool()
    either = (seen | truth).sum((2, 3)).clamp(min=1)
    wrong = (seen ^ truth).sum((2, 3)) / either * batch["ground_known"]
    return {
        "road_error": wrong[:, ROAD],
        "oncoming_error": wrong[:, ONCOMING],
        "users_error": wrong[:, OCCUPIED],
    }
