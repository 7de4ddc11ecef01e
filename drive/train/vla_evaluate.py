"""How often a VLA's greedy replies are well-formed and right, beside the majority class."""

from collections import Counter

import numpy as np

from drive.contracts import I64, Observation, RouteHint, Turn
from drive.contracts.observation import CameraModel
from drive.data.batches import collate
from drive.data.camera import CameraSpec
from drive.data.frames import COLOURS
from drive.data.samples import Samples
from drive.model.vla.speaker import Speaker
from drive.model.vla.truth import reasoning_of
from drive.progress import track

REASONINGS_EVERY = 10  # a reasoning takes some fifty forward passes: one is asked for per so many commands


def evaluate_vla(speaker: Speaker, samples: Samples, rows: I64, trained: I64) -> dict[str, float]:
    """Ask about every row as in driving, and compare with what was recorded.

    Args:
        speaker: In eval mode.
        samples: Samples of one camera.
        rows: To ask about.
        trained: Rows of training, whose most frequent command is the majority class.

    Returns:
        Means over rows, empty without rows: shares of well-formed replies and of right lateral, longitudinal
        and whole commands (a malformed reply is wrong); the same for always saying the majority class; mean
        recall over the classes that occur; forward passes per command; and the reasonings'.
    """
    if not len(rows):
        return {}
    camera = speaker.config.cameras[0]
    said = np.full((len(rows), 2), -1, np.int64)
    passes = np.zeros(len(rows))
    for i, row in enumerate(track(rows.tolist(), "ask", len(rows))):
        answer = speaker.command(observation_of(samples, row, camera))
        passes[i] = answer.passes
        if answer.command is not None:
            said[i] = int(answer.command.lateral), int(answer.command.longitudinal)
    truth = samples.command[rows].astype(np.int64)
    right = said == truth
    majority = _majority(samples.command[trained]) == truth
    return {
        "well_formed": float((said >= 0).all(1).mean()),
        "lateral": float(right[:, 0].mean()),
        "longitudinal": float(right[:, 1].mean()),
        "command": float(right.all(1).mean()),
        "lateral_recall": _recall(right[:, 0], truth[:, 0]),
        "longitudinal_recall": _recall(right[:, 1], truth[:, 1]),
        "majority_lateral": float(majority[:, 0].mean()),
        "majority_longitudinal": float(majority[:, 1].mean()),
        "majority_command": float((_majority_pair(samples.command[trained]) == truth).all(1).mean()),
        "passes": float(passes.mean()),
        **_reasonings(speaker, samples, rows[::REASONINGS_EVERY]),
    }


def _reasonings(speaker: Speaker, samples: Samples, rows: I64) -> dict[str, float]:
    camera = speaker.config.cameras[0]
    batch = collate(samples, rows)
    formed, decision, light = [], [], []
    for i, row in enumerate(track(rows.tolist(), "ask why", len(rows))):
        found = speaker.reasoning(observation_of(samples, row, camera)).reasoning
        true = reasoning_of({name: column[i] for name, column in batch.items()})
        formed.append(found is not None)
        decision.append(found is not None and found.decision == true.decision)
        light.append(found is not None and found.scene.light == true.scene.light)
    values = {"reasoning_well_formed": formed, "reasoning_decision": decision, "reasoning_light": light}
    return {name: float(np.mean(column)) for name, column in values.items()}


def observation_of(samples: Samples, row: int, camera: CameraSpec) -> Observation:
    """A sample as the observation that it was made of, as far as a VLA reads it; its time is its row."""
    model = CameraModel(camera.intrinsics, _mounted(camera), (camera.width_px, camera.height_px))
    return Observation(
        t_us=row,
        images={camera.name: np.asarray(samples.image[row, ..., :COLOURS])[None]},
        cameras={camera.name: model},
        history_ego=np.zeros((1, 3), np.float32),
        speed_mps=float(samples.speed_mps[row]),
        accel_mps2=0.0,
        yaw_rate_radps=0.0,
        route=RouteHint(
            Turn(int(samples.turn[row])), samples.targets_ego[row], float(samples.speed_limit_mps[row])
        ),
    )


def _mounted(camera: CameraSpec) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3] = camera.rotation
    return matrix


def _majority(command: np.ndarray) -> np.ndarray:
    """Most frequent word per place, (2,)."""
    return np.array([np.bincount(command[:, place]).argmax() for place in range(2)])


def _majority_pair(command: np.ndarray) -> np.ndarray:
    """Most frequent pair, (2,)."""
    pairs = Counter(map(tuple, command.tolist()))
    return np.array(max(sorted(pairs), key=pairs.__getitem__))


def _recall(right: np.ndarray, truth: np.ndarray) -> float:
    """Mean over the classes that occur of the share of theirs that is right."""
    return float(np.mean([right[truth == word].mean() for word in np.unique(truth)]))
