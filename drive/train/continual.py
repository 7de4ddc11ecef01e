"""Learning something new and keeping the old: distance to the champion, EWC, A-GEM, plain training.

EWC (Kirkpatrick et al., 2017): a penalty lambda * sum F (theta - theta*)^2, F the per-sample Fisher
information of the replay samples. A-GEM (Chaudhry et al., 2019): a gradient g that would raise the loss on
replay (g . g_r < 0) loses its part along g_r.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from drive.model.network import PlannerNetwork, Scene
from drive.train.adapters import TARGETS
from drive.train.config import FinetuneConfig
from drive.train.learner import FROZEN, PlannerLearner, see, seen_of
from drive.train.losses import Denoised, hide_commands, imitation_loss, inputs_of, knots_of, noise_and_denoise

FISHER_BATCHES = 2
REPLAY = "replay"


def distance(old_scene: Scene, old: Denoised, scene: Scene, done: Denoised, replay: Tensor) -> Tensor:
    """||v - v_old||^2 of trajectories and scores plus KL divergence of commands, mean over replay samples."""
    gap = (done.clean - old.clean).square().sum(2).mean(1)
    gap = gap + (done.start[:, 0] - old.start[:, 0]).square().sum(1)
    gap = gap + (done.scores.log_softmax(1) - old.scores.log_softmax(1)).square().mean(1)
    gap = gap + _divergence(scene.lateral, old_scene.lateral)
    gap = gap + _divergence(scene.longitudinal, old_scene.longitudinal)
    return (gap * replay).sum() / replay.sum().clamp(min=1)


def _divergence(logits: Tensor, old_logits: Tensor) -> Tensor:
    """KL divergence of two classifiers per sample, (B,)."""
    new, old = logits.log_softmax(1), old_logits.log_softmax(1)
    return kl_div(new, old, reduction="none", log_target=True).sum(1)


class RememberingLearner(PlannerLearner):
    """Adds EWC and A-GEM to whatever `terms` a fine-tuning job has; both act on what is trainable."""

    def __init__(self, network: PlannerNetwork, config: FinetuneConfig) -> None:
        super().__init__(network, config.loop, config.loss)
        self.ewc, self.agem = config.ewc, config.agem
        self.fisher: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        self.memory: list[Tensor] | None = None

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """Parameters that training changes, by name."""
        return {name: p for name, p in self.network.named_parameters() if p.requires_grad}

    def anchor_at(self, batches: Sequence[Mapping[str, Any]]) -> None:
        """Remember where the parameters are and how much replay samples care; for EWC, before training."""
        if not self.ewc:
            return
        found = self.trainable()
        self.anchor = {name: p.detach().clone() for name, p in found.items()}
        self.fisher = {name: torch.zeros_like(p) for name, p in found.items()}
        count = 0
        for batch in batches:
            for row in torch.nonzero(torch.as_tensor(batch[REPLAY])).flatten().tolist():
                one = {key: torch.as_tensor(value)[row : row + 1] for key, value in batch.items()}
                for name, g in zip(found, self._gradient(one), strict=True):
                    self.fisher[name] += g.square()
                count += 1
        for value in self.fisher.values():
            value /= max(count, 1)

    def penalty(self) -> Tensor:
        """Lambda * sum F (theta - theta*)^2."""
        gaps = [
            (self.fisher[name] * (p - self.anchor[name]).square()).sum()
            for name, p in self.trainable().items()
        ]
        return self.ewc * torch.stack(gaps).sum()

    def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
        """Loss of one batch with the EWC penalty; remembers the gradient on replay for A-GEM."""
        replay = batch[REPLAY] > 0
        self.memory = None
        if self.agem and replay.any() and not replay.all():
            self.memory = self._gradient({key: value[replay] for key, value in batch.items()})
        loss = super().training_step(batch, index)
        if self.fisher:
            penalty = self.penalty()
            self.last_terms["ewc"] = float(penalty.detach())
            loss = loss + penalty
        return loss

    def on_after_backward(self) -> None:
        """Take from the gradient what would raise the loss on replay."""
        if self.memory is not None:
            project(list(self.trainable().values()), self.memory)

    def _gradient(self, batch: dict[str, Tensor]) -> list[Tensor]:
        """Gradient of the loss on a batch with fixed random numbers, one tensor per trainable parameter."""
        torch.manual_seed(self.loop.seed * 1_000_003 + self.step)
        generator = torch.Generator().manual_seed(self.loop.seed * 1_000_003 + self.step + 250_000)
        found = list(self.trainable().values())
        loss = torch.stack([value.float() for value in self.terms(batch, generator).values()]).sum()
        grads = torch.autograd.grad(loss, found, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(found, grads, strict=True)]


def project(parameters: Sequence[Tensor], memory: Sequence[Tensor]) -> float:
    """A-GEM: change the parameters' gradients in place if they point against `memory`.

    Returns:
        The inner product g . g_r before; negative if something was changed.
    """
    pairs = [(p.grad, m) for p, m in zip(parameters, memory, strict=True) if p.grad is not None]
    along = float(sum((g * m).sum() for g, m in pairs))
    norm = float(sum(m.square().sum() for _, m in pairs))
    if along < 0 and norm > 0:
        for g, m in pairs:
            g.sub_(m * (along / norm))
    return along


class DirectLearner(RememberingLearner):
    """Trains the layers that adapters would sit on ("heads") or everything ("full"), beside a frozen teacher.

    Batch-norm statistics stay as they are: the network is in evaluation mode while it trains.
    """

    def __init__(self, network: PlannerNetwork, config: FinetuneConfig) -> None:
        super().__init__(network, config)
        self.distill, self.heads_only = config.distill, config.method == "heads"
        self.teacher = (copy.deepcopy(network).requires_grad_(False),)  # in a tuple: not a part of this job
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(not self.heads_only or name.rpartition(".")[0] in TARGETS)

    def terms(self, batch: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """Weighted loss terms; noise and hidden commands are the same for student and teacher."""
        command = hide_commands(batch["command"], self.network.config.command_drop, generator)
        before = generator.get_state()
        inputs = inputs_of(batch)
        with torch.no_grad():
            old_seen = seen_of(self.teacher[0], batch, self.loop.precision)
            old_scene = self.teacher[0].interpret(old_seen, inputs)
            old = noise_and_denoise(self.teacher[0], old_scene, command, knots_of(batch), generator)
        generator.set_state(before)
        seen = old_seen if self.heads_only else see(self.network, inputs, self.loop.precision)
        scene = self.network.interpret(seen, inputs)
        done = noise_and_denoise(self.network, scene, command, knots_of(batch), generator)
        terms = imitation_loss(self.network, scene, done, batch, self.weights)
        if self.heads_only:
            terms = {name: value for name, value in terms.items() if name not in FROZEN}
        terms |= self.dreams(scene, batch, generator)
        terms["distill"] = self.distill * distance(old_scene, old, scene, done, batch[REPLAY])
        return terms


def first_batches(batches: Any) -> list[Mapping[str, Any]]:
    """The batches that Fisher information is taken from."""
    return [batches[step] for step in range(FISHER_BATCHES)]
