"""The trained planner as a Policy."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from drive.contracts import (
    F32,
    I64,
    NOBODY,
    U8,
    DrivingCommand,
    Lateral,
    Longitudinal,
    Observation,
    Plan,
    Trajectory,
    UserError,
)
from drive.data.frames import CHANNELS, frame_of
from drive.geometry.commands import LEAD_GAP_M, agree
from drive.model.agents import boxes_of, road_users
from drive.model.config import ModelConfig
from drive.model.diffusion import Proposals, sample
from drive.model.field.reward import NAMES
from drive.model.heed import heed
from drive.model.horizon import brake_poses, poses_from_knots
from drive.model.improve import Improved, guidance, improve, seen_scene, wanted
from drive.model.network import NO_COMMAND, Inputs, PlannerNetwork, Scene

Rows = TypeVar("Rows", Scene, Proposals)
_LIGHT_NAMES = ("red light", "yellow light", "green light")


class _Said(NamedTuple):
    """Emitted command int64 (2,), its probability, and why."""

    command: I64
    confidence: float
    reason: str


class PlannerPolicy:
    """Image and route -> driving command -> proposals -> best trajectory.

    Every observation draws its noise from (seed, t_us), so a plan does not depend on what was planned before.
    """

    def __init__(self, network: PlannerNetwork, name: str) -> None:
        self.name = name
        self.network = network.eval()
        self.needs_images = network.config.use_image

    def plan(self, observations: Sequence[Observation], seed: int, told: I64 | None = None) -> list[Plan]:
        """Plan for each observation.

        Args:
            observations: What is seen.
            seed: Of the noise.
            told: int64 (B, 2), commands to plan under instead of those that the planner would emit; for
                planners with a command. In rows of NO_COMMAND the planner emits its own.

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
            own = self.network.emit(scene)
            command, outside = _commanded(own, told)
            confidence = _probability(scene.lateral, command[:, 0]) * _probability(
                scene.longitudinal, command[:, 1]
            )
            boxes = boxes_of(self.network.agents(scene.ground)) if self.needs_images else None
            encoded = time.perf_counter()
            noise, field = self.noise(observations, seed), None
            if boxes and wanted(self.network):
                field = seen_scene(self.network, scene, inputs, command, boxes)
            predicted = time.perf_counter()
            guide = guidance(self.network, field) if field else None
            proposals = sample(self.network, scene, command, inputs.speed_mps, noise, guide)
            refused = torch.zeros_like(outside)
            if bool(outside.any()) and self.network.criticises:
                mine = sample(self.network, scene, own, inputs.speed_mps, noise, guide)
                proposals, refused = heed(
                    outside, proposals, mine, inputs.speed_mps, self.network.config.trust
                )
            sampled = time.perf_counter()
            better = improve(self.network, scene, field, command, proposals, noise) if field else None
            if better:
                proposals, better = _taken(proposals, better, refused)
        spent = {"prepare": seen - start, "encode": encoded - seen, "diffuse": sampled - predicted}
        if better:
            spent["improve"] = time.perf_counter() - sampled + predicted - encoded
        latency = {stage: 1e3 * seconds / len(observations) for stage, seconds in spent.items()}
        plans = [
            _plan(
                observation,
                _row(proposals, i),
                _Said(command[i].numpy(), float(confidence[i]), self._reason(scene, i))
                if self.network.config.use_command
                else None,
                latency,
                boxes and road_users(boxes, i),
            )
            for i, observation in enumerate(observations)
        ]
        return [_judged(plan, better, i) for i, plan in enumerate(plans)] if better else plans

    def noise(self, observations: Sequence[Observation], seed: int) -> Tensor:
        """Standard normal float32 (B, P, 16), of (seed, t_us) each."""
        shape = (self.network.proposals, self.network.anchors[0].numel())
        draws = [
            np.random.default_rng([seed % 2**64, o.t_us % 2**64]).standard_normal(shape, np.float32)
            for o in observations
        ]
        return torch.from_numpy(np.stack(draws))

    def _reason(self, scene: Scene, index: int) -> str:
        return _seen(_row(scene, index)) if self.needs_images else ""


def inputs_from(observations: Sequence[Observation], network: PlannerNetwork) -> Inputs:
    """Observations as a batch; images pass through the one preprocessing shared with training."""
    return Inputs(
        image=torch.from_numpy(_images(observations, network.config)),
        speed_mps=torch.tensor([o.speed_mps for o in observations], dtype=torch.float32),
        speed_limit_mps=torch.tensor([o.route.speed_limit_mps for o in observations], dtype=torch.float32),
        turn=torch.tensor([int(o.route.turn) for o in observations]),
        targets_ego=torch.from_numpy(np.stack([o.route.target_points_ego for o in observations])),
    )


def _images(observations: Sequence[Observation], config: ModelConfig) -> U8:
    """uint8 (B, H, W, 4); for a planner that looks at none one black pixel each."""
    if not config.use_image:
        return np.zeros((len(observations), 1, 1, CHANNELS), np.uint8)
    camera = config.camera
    for observation in observations:
        if camera.name not in observation.images:
            have = ", ".join(sorted(observation.images)) or "none"
            raise UserError(
                f"this planner needs images of camera {camera.name!r}, the observation has {have}"
            )
    return np.stack([frame_of(observation, camera) for observation in observations])


def _probability(logits: Tensor, chosen: Tensor) -> Tensor:
    """Probability (B,) of each row's choice; NO_COMMAND has that of the first word."""
    return logits.softmax(1).gather(1, chosen.clamp(min=0)[:, None])[:, 0]


def _row(batch: Rows, index: int) -> Rows:
    return type(batch)(*(value[index] for value in batch))


def _plan(
    observation: Observation,
    proposals: Proposals,
    said: _Said | None,
    latency_ms: dict[str, float],
    users: F32 | None,
) -> Plan:
    knots, scores = proposals.knots_ego.numpy(), proposals.scores.numpy()
    usable = np.isfinite(knots).all() and np.isfinite(scores).all() and np.isfinite(observation.speed_mps)
    if not usable:
        return fallback_plan(observation, latency_ms)
    order = np.argsort(-scores, kind="stable")
    knots = np.concatenate([proposals.chosen_ego.numpy()[None], knots[order[1:]]])  # in the best one's place
    poses = poses_from_knots(knots, observation.speed_mps)
    end_speed = float(np.hypot(*(poses[0, -1, :2] - poses[0, -6, :2])) / 0.5)
    split = said is not None and not bool(agree(said.command, poses[0], observation.speed_mps))
    return Plan(
        best=Trajectory(poses[0]),
        proposals_ego=poses,
        scores=scores[order].astype(np.float32),
        command=said
        and DrivingCommand(
            Lateral(int(said.command[0])),
            Longitudinal(int(said.command[1])),
            end_speed,
            (float(poses[0, -1, 0]), float(poses[0, -1, 1])),
            said.confidence,
            said.reason,
        ),
        flags=("split_brain",) if split else (),
        latency_ms=latency_ms,
        road_users=NOBODY if users is None or not np.isfinite(users).all() else users,
    )


def _commanded(own: Tensor, told: I64 | None) -> tuple[Tensor, Tensor]:
    """The commands (B, 2) to plan under, and in which rows they are other than the planner's own."""
    given = torch.full_like(own, NO_COMMAND) if told is None else torch.from_numpy(told)
    outside = (given >= 0).all(1) & (given != own).any(1)
    return torch.where(outside[:, None], given, own), outside


def _taken(proposals: Proposals, better: Improved, refused: Tensor) -> tuple[Proposals, Improved]:
    """Drive what was improved; a plan that refuses its command stays as it is."""
    chosen = torch.where(refused[:, None, None], proposals.chosen_ego, better.knots_ego)
    changed = better.changed & ~refused
    return proposals._replace(chosen_ego=chosen), better._replace(changed=changed)


def _judged(plan: Plan, better: Improved, index: int) -> Plan:
    """The plan with its critique; if it was changed, the flag says so and the reason says for what."""
    if "fallback" in plan.flags:
        return plan
    critique = dict(zip(NAMES, better.critique[index].tolist(), strict=True))
    if not bool(better.changed[index]):
        return replace(plan, critique=critique)
    said = plan.command
    reasons = [said.reason, better.why[index]] if said else []
    command = said and replace(said, reason="; ".join(reason for reason in reasons if reason))
    return replace(plan, critique=critique, command=command, flags=(*plan.flags, "refined"))


def _seen(scene: Scene) -> str:
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
