"""The planner's training job: imitation of the expert, with the command told or hidden."""

from contextlib import nullcontext
from functools import cache

import torch
from torch import Tensor

from drive.contracts import UserError
from drive.model.network import Inputs, PlannerNetwork, Scene, Seen
from drive.train.config import LoopConfig
from drive.train.critic import critic_loss
from drive.train.dreaming import dream_loss
from drive.train.fit import Learner
from drive.train.losses import hide_commands, imitation_loss, inputs_of, knots_of, noise_and_denoise
from drive.train.weights import LossWeights

FEATURES = "pooled"  # in a batch: what the images show was computed before (drive.train.features)
FROZEN = ("perception", "ground", "agents")  # terms of the image part


class PlannerLearner(Learner):
    """Trains every parameter of the network."""

    network: PlannerNetwork

    def __init__(self, network: PlannerNetwork, loop: LoopConfig, weights: LossWeights) -> None:
        super().__init__(network, loop)
        self.weights = weights

    def terms(self, batch: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """Weighted loss terms."""
        scene = scene_of(self.network, batch, self.loop.precision)
        command = hide_commands(batch["command"], self.network.config.command_drop, generator)
        done = noise_and_denoise(self.network, scene, command, knots_of(batch), generator)
        terms = imitation_loss(self.network, scene, done, batch, self.weights)
        if FEATURES in batch:
            terms = {name: value for name, value in terms.items() if name not in FROZEN}
        if self.weights.critic:
            terms |= critic_loss(self.network, scene, done, batch, self.weights, generator)
        return terms | self.dreams(scene, batch, generator)

    def dreams(self, scene: Scene, batch: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """Terms of drive.train.dreaming; nothing is drawn nor computed where their weights are 0."""
        if not (self.weights.dream or self.weights.dream_unsafe):
            return {}
        return dream_loss(self.network, scene, batch, self.weights, generator)


class CriticLearner(PlannerLearner):
    """Trains the critic alone: the planner stays as it is, to the bit.

    Raises:
        UserError: The planner has no critic.
    """

    def __init__(self, network: PlannerNetwork, loop: LoopConfig, weights: LossWeights) -> None:
        super().__init__(network, loop, weights)
        if not network.criticises:
            raise UserError("part: this planner has no critic to train; set model.critic_width above 0")
        network.eval().requires_grad_(False)
        network.critic.train().requires_grad_(True)

    def terms(self, batch: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """The critic's term, on what the frozen planner proposes under its own and other commands."""
        with torch.no_grad():
            scene = scene_of(self.network, batch, self.loop.precision)
            command = hide_commands(batch["command"], self.network.config.command_drop, generator)
            done = noise_and_denoise(self.network, scene, command, knots_of(batch), generator)
        return critic_loss(self.network, scene, done, batch, self.weights, generator)

    def trained(self) -> dict[str, Tensor]:
        """The critic's tensors."""
        return self.network.critic.state_dict()

    def load_trained(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `trained` gave."""
        self.network.critic.load_state_dict(tensors)


def scene_of(network: PlannerNetwork, batch: dict[str, Tensor], precision: str) -> Scene:
    """Encode a batch; where it brings what its images show, the image part is not run."""
    return network.interpret(seen_of(network, batch, precision), inputs_of(batch))


def seen_of(network: PlannerNetwork, batch: dict[str, Tensor], precision: str) -> Seen:
    """What the image part sees on a batch, or what the batch says that it saw before."""
    if FEATURES in batch:
        return Seen(batch[FEATURES], batch["ground_features"])
    return see(network, inputs_of(batch), precision)


def encode(network: PlannerNetwork, inputs: Inputs, precision: str) -> Scene:
    """Encode; `precision` concerns the image part only, everything after it is float32."""
    return network.interpret(see(network, inputs, precision), inputs)


def see(network: PlannerNetwork, inputs: Inputs, precision: str) -> Seen:
    """Image features in float32, computed in bfloat16 if `precision` is or comes to "bf16"."""
    kind = inputs.image.device.type
    low = precision == "bf16" or (precision == "auto" and (kind != "cpu" or _has_amx()))
    with torch.autocast(kind, torch.bfloat16) if low else nullcontext():
        seen = network.see(inputs.image)
    return Seen(*(part.float() for part in seen))


@cache
def _has_amx() -> bool:
    """Does this CPU multiply bfloat16 matrices in hardware?"""
    return bool(torch.cpu.get_capabilities().get("amx_bf16", False))
