"""The VLA's network: a vision-language model, and heads that draft the command in one pass."""

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from drive.model.vla.command import SLOTS
from drive.model.vla.families import facts_of, pixels

DRAFTS = len(SLOTS) - 1  # the first letter is the language model's own next token


class Pass(NamedTuple):
    """Result of one forward pass: hidden (B, L, width) after the last norm, and the cache or None."""

    hidden: Tensor
    cache: Any


class VlaNetwork(nn.Module):
    """A vision-language model with DRAFTS multi-token heads on its last hidden state."""

    def __init__(self, vlm: nn.Module) -> None:
        super().__init__()
        self.vlm = vlm
        model: Any = vlm
        width = model.config.get_text_config().hidden_size
        dtype = next(vlm.parameters()).dtype
        self.heads = nn.ModuleList(nn.Linear(width, width, dtype=dtype) for _ in range(DRAFTS))
        for head in self.heads:
            nn.init.zeros_(head.weight)  # a fresh head says what the language head says
            nn.init.zeros_(head.bias)
        self.typed = facts_of(model.config).typed
        arguments = inspect.signature(type(model.model).forward).parameters
        self._cache = (
            "cache" if "cache" in arguments else "past_key_values"
        )  # renamed within the versions allowed

    @property
    def width(self) -> int:
        """Width of the hidden state: the planning embedding."""
        return int(self.heads[0].in_features)

    def read(
        self,
        ids: Tensor,
        pictures: Tensor | None = None,
        size_px: tuple[int, int] = (0, 0),
        mask: Tensor | None = None,
        cache: Any = None,
        keep: bool = False,
    ) -> Pass:
        """One forward pass.

        Args:
            ids: int64 (B, L).
            pictures: uint8 (B, N, H, W, 3) for the picture tokens in `ids`.
            size_px: Width and height at which the model sees them.
            mask: int64 (B, L), 0 where filled up at the end; None = nothing is.
            cache: Of an earlier pass; `ids` continue it.
            keep: Return a cache.
        """
        model: Any = self.vlm
        extra: dict[str, Any] = {} if pictures is None else pixels(model.config, pictures, size_px)
        if self.typed and pictures is not None:
            extra["mm_token_type_ids"] = (ids == model.config.image_token_id).int()
        if cache is not None:
            extra[self._cache] = cache
        if mask is not None:
            extra["attention_mask"] = mask
        out = model.model(input_ids=ids, use_cache=keep, **extra)
        return Pass(out.last_hidden_state, out.get(self._cache) if keep else None)

    def words(self, hidden: Tensor) -> Tensor:
        """Hidden (..., width) -> logits (..., vocabulary), float32."""
        model: Any = self.vlm
        return model.get_output_embeddings()(hidden).float()

    def drafts(self, hidden: Tensor) -> Tensor:
        """Hidden at the end of a prompt (B, width) -> logits of the letters after the next (B, DRAFTS, V)."""
        ahead = [nn.functional.silu(head(hidden.to(head.weight.dtype))) for head in self.heads]
        return self.words(torch.stack([hidden + step.to(hidden.dtype) for step in ahead], 1))
