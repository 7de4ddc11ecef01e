"""The trained planner as a Policy."""

import time
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from drive.contracts import (
    F32,
    I64,
    DrivingCommand,
    Lateral,
    Longitudinal,
    Observation,
    Plan,
    Trajectory,
    UserError,
)
from drive.data.camera import conform
from drive.geometry.commands import LEAD_GAP_M, agree
from drive.model.diffusion import Proposals, sample
from drive.model.horizon import brake_poses, poses_from_knots
from drive.model.network import Inputs, PlannerNetwork, Scene

Rows = TypeVar("Rows", Scene, Proposals)
_LIGHT_NAMES = ("red light", "yellow light", "green light")


class PlannerPolicy:
    """Image and route -> driving command -> proposals -> best trajectory.

    Every observation draws its noise from (seed, t_us), so a plan does not depend on what was planned before.
    """

    needs_images = True

    def __init__(self, network: PlannerNetwork, name: str) -> None:
        self.name = name
        self.network = network.eval()

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        """Plan for each observation.

        Raises:
            UserError: an observation lacks the camera this model was trained on.
        """
        if not observations:
            return []
        start = time.perf_counter()
        with torch.inference_mode():
            inputs = inputs_from(observations, self.network)
            seen = time.perf_counter()
            scene = self.network.encode(inputs)
            lateral, longitudinal = scene.lateral.softmax(1), scene.longitudinal.softmax(1)
            command = torch.stack([lateral.argmax(1), longitudinal.argmax(1)], 1)
            confidence = lateral.amax(1) * longitudinal.amax(1)
            encoded = time.perf_counter()
            proposals = sample(
                self.network, scene, command, inputs.speed_mps, self._noise(observations, seed)
            )
        done = time.perf_counter()
        latency = {
            "prepare": 1e3 * (seen - start) / len(observations),
            "encode": 1e3 * (encoded - seen) / len(observations),
            "diffuse": 1e3 * (done - encoded) / len(observations),
        }
        return [
            _plan(
                observation,
                _row(scene, i),
                _row(proposals, i),
                command[i].numpy(),
                float(confidence[i]),
                latency,
            )
            for i, observation in enumerate(observations)
        ]

    def _noise(self, observations: Sequence[Observation], seed: int) -> Tensor:
        shape = (1 + len(self.network.anchors), self.network.anchors[0].numel())
        draws = [
            np.random.default_rng([seed % 2**64, o.t_us % 2**64]).standard_normal(shape, np.float32)
            for o in observations
        ]
        return torch.from_numpy(np.stack(draws))


def inputs_from(observations: Sequence[Observation], network: PlannerNetwork) -> Inputs:
    """Observations as a batch; images pass through the one preprocessing shared with training."""
    camera = network.config.camera
    for observation in observations:
        if camera.name not in observation.images:
            have = ", ".join(sorted(observation.images)) or "none"
            raise UserError(
                f"this planner needs images of camera {camera.name!r}, the observation has {have}"
            )
    images = [conform(o.images[camera.name][-1], o.cameras[camera.name], camera) for o in observations]
    return Inputs(
        image=torch.from_numpy(np.stack(images)),
        speed_mps=torch.tensor([o.speed_mps for o in observations], dtype=torch.float32),
        speed_limit_mps=torch.tensor([o.route.speed_limit_mps for o in observations], dtype=torch.float32),
        turn=torch.tensor([int(o.route.turn) for o in observations]),
        targets_ego=torch.from_numpy(np.stack([o.route.target_points_ego for o in observations])),
    )


def _row(batch: Rows, index: int) -> Rows:
    return type(batch)(*(value[index] for value in batch))


def _plan(
    observation: Observation,
    scene: Scene,
    proposals: Proposals,
    command: I64,
    confidence: float,
    latency_ms: dict[str, float],
) -> Plan:
    knots, scores = proposals.knots_ego.numpy(), proposals.scores.numpy()
    usable = np.isfinite(knots).all() and np.isfinite(scores).all() and np.isfinite(observation.speed_mps)
    if not usable:
        return fallback_plan(observation, latency_ms)
    order = np.argsort(-scores, kind="stable")
    poses = poses_from_knots(knots[order], observation.speed_mps)
    end_speed = float(np.hypot(*(poses[0, -1, :2] - poses[0, -6, :2])) / 0.5)
    split = not bool(agree(command, poses[0], observation.speed_mps))
    return Plan(
        best=Trajectory(poses[0]),
        proposals_ego=poses,
        scores=scores[order].astype(np.float32),
        command=DrivingCommand(
            Lateral(int(command[0])),
            Longitudinal(int(command[1])),
            end_speed,
            (float(poses[0, -1, 0]), float(poses[0, -1, 1])),
            confidence,
            _reason(scene),
        ),
        flags=("split_brain",) if split else (),
        latency_ms=latency_ms,
    )


def _reason(scene: Scene) -> str:
    """What the perception heads see ahead, in words."""
    parts = []
    light, stop_m, lead_m = int(scene.light.argmax()), float(scene.stop_m), float(scene.lead_m)
    if light < len(_LIGHT_NAMES):
        parts.append(f"{_LIGHT_NAMES[light]} {max(stop_m, 0.0):.0f} m ahead")
    if lead_m < LEAD_GAP_M:
        parts.append(f"vehicle {max(lead_m, 0.0):.0f} m ahead")
    return ", ".join(parts)


def fallback_plan(observation: Observation, latency_ms: dict[str, float]) -> Plan:
    """Brake straight ahead: used when the network's output is not finite."""
    poses: F32 = brake_poses(observation.speed_mps)
    return Plan(
        Trajectory(poses), poses[None], np.zeros(1, np.float32), flags=("fallback",), latency_ms=latency_ms
    )
