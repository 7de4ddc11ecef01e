"""The VLA's training job: what it should say about recorded moments, token by token."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from drive.contracts import Turn
from drive.data.frames import COLOURS
from drive.model.vla.command import SLOTS, spell
from drive.model.vla.prompt import PromptInput, Task
from drive.model.vla.speaker import Speaker, padded
from drive.model.vla.truth import reasoning_of
from drive.train.config import LoopConfig
from drive.train.fit import Learner
from drive.train.vla_config import VlaLoss

_WORDS = 2  # letters of the command that are words; the others are numbers
_TRUTH = ("light", "stop_m", "lead_m", "command", "ground", "ground_known")


class VlaLearner(Learner):
    """Trains what requires a gradient: all, or adapters and heads; only that is kept and averaged."""

    def __init__(self, speaker: Speaker, loop: LoopConfig, loss: VlaLoss) -> None:
        super().__init__(speaker.network, loop)
        self.speaker, self.loss = speaker, loss
        self.letters = torch.tensor(speaker.letters)

    def blocks(self) -> list[nn.Module]:
        """The layers of the vision-language model."""
        network: Any = self.network
        lists = [part for part in network.vlm.modules() if isinstance(part, nn.ModuleList)]
        return [layer for part in lists for layer in part]

    def save_memory(self) -> None:
        """Switch gradient checkpointing on, which transformers has of its own."""
        network: Any = self.network
        model = network.vlm
        enable = getattr(model, "activation_checkpointing_enable", None)
        (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})

    def trained(self) -> dict[str, Tensor]:
        """Trainable parameters; shared ones once."""
        return {name: value for name, value in self.network.named_parameters() if value.requires_grad}

    def load_trained(self, tensors: dict[str, Tensor]) -> None:
        """Put trainable parameters back."""
        own = self.trained()
        if own.keys() != tensors.keys():
            raise RuntimeError(f"other parameters: {sorted(own.keys() ^ tensors.keys())[:3]}")
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(tensors[name])

    def terms(self, batch: dict[str, Tensor], _generator: torch.Generator) -> dict[str, Tensor]:
        """Weighted loss terms; the first rows of the (shuffled) batch are asked for the reasoning."""
        count = len(batch["weight"])
        share = self.loss.reasoning_share
        asked = min(count - 1, max(1, round(share * count))) if share and count > 1 else 0
        device = batch["image"].device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.loop.precision == "bf16"):
            terms = self._command_terms({name: value[asked:] for name, value in batch.items()})
            if asked:
                first = {name: value[:asked] for name, value in batch.items()}
                terms["reasoning"] = self.loss.reasoning * self._reasoning_loss(first)
        return terms

    def _command_terms(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Cross entropy of the five letters, and of what the heads draft of the last four."""
        prompts = [
            self.speaker.prompt_ids(prompt, Task.COMMAND) for prompt in prompts_of(batch, self.speaker)
        ]
        letters = spell(batch["command"].cpu().numpy(), batch["label_ego"].cpu().numpy())
        targets = self.letters[torch.from_numpy(letters)]  # (B, slots)
        rows = [[*prompt, *reply[:-1]] for prompt, reply in zip(prompts, targets.tolist(), strict=True)]
        hidden = self._read(rows, batch)
        ends = torch.tensor([len(prompt) - 1 for prompt in prompts], device=hidden.device)
        places = ends[:, None] + torch.arange(len(SLOTS), device=hidden.device)
        network: Any = self.network
        said = network.words(hidden[torch.arange(len(rows), device=hidden.device)[:, None], places])
        drafted = network.drafts(hidden[torch.arange(len(rows), device=hidden.device), ends])
        targets, weight = targets.to(hidden.device), batch["weight"][:, None]
        loss = cross_entropy(said.transpose(1, 2), targets, reduction="none") * weight
        ahead = cross_entropy(drafted.transpose(1, 2), targets[:, 1:], reduction="none") * weight
        decay = self.loss.draft_decay ** torch.arange(ahead.shape[1], device=hidden.device)
        return {
            "command": self.loss.command * loss[:, :_WORDS].sum(1).mean(),
            "goal": self.loss.goal * loss[:, _WORDS:].sum(1).mean(),
            "drafts": self.loss.drafts * (ahead * decay).sum(1).mean(),
        }

    def _reasoning_loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Mean cross entropy of the tokens of the true reasonings."""
        prompts = [
            self.speaker.prompt_ids(prompt, Task.REASONING) for prompt in prompts_of(batch, self.speaker)
        ]
        replies = [self.speaker.reply_ids(reasoning_of(row)) for row in rows_of(batch)]
        rows = [[*prompt, *reply[:-1]] for prompt, reply in zip(prompts, replies, strict=True)]
        hidden = self._read(rows, batch)
        said = [state[len(p) - 1 : len(row)] for state, p, row in zip(hidden, prompts, rows, strict=True)]
        targets = torch.tensor([word for reply in replies for word in reply], device=hidden.device)
        network: Any = self.network
        return cross_entropy(network.words(torch.cat(said)), targets)

    def _read(self, rows: list[list[int]], batch: dict[str, Tensor]) -> Tensor:
        ids, mask = (part.to(batch["image"].device) for part in padded(rows, self.speaker.pad))
        network: Any = self.network
        return network.read(ids, batch["image"][..., :COLOURS][:, None], self.speaker.size_px, mask).hidden


def prompts_of(batch: dict[str, Tensor], speaker: Speaker) -> list[PromptInput]:
    """The prompts of a batch; a hidden speed is said to be unknown."""
    cameras = tuple(camera.name for camera in speaker.config.cameras)
    names = ("speed_mps", "speed_limit_mps", "turn")
    columns = zip(*(batch[name].tolist() for name in names), batch["targets_ego"].cpu().numpy(), strict=True)
    return [PromptInput(cameras, speed, limit, Turn(turn), points) for speed, limit, turn, points in columns]


def rows_of(batch: dict[str, Tensor]) -> list[dict[str, Any]]:
    """What is recorded of each sample of a batch, as `reasoning_of` takes it."""
    columns = {name: np.asarray(batch[name].cpu()) for name in _TRUTH}
    return [{name: column[i] for name, column in columns.items()} for i in range(len(batch["light"]))]
