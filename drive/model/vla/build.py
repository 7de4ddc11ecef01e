"""Builds a vision-language model from sizes, or loads one with its tokenizer."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from drive.contracts import UserError
from drive.model.vla.config import VlaConfig, VlmSpec
from drive.model.vla.families import facts_of, model_config
from drive.model.vla.network import VlaNetwork
from drive.model.vla.speaker import Speaker
from drive.model.vla.words import END, PAD, small_tokenizer

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def make_speaker(config: VlaConfig, seed: int = 0) -> Speaker:
    """The VLA of a config, not yet trained for driving; its heads draft nothing of use.

    Raises:
        UserError: no such model, a damaged one, or one of a family that is not known here.
    """
    if config.vlm.source is None:
        tokenizer = small_tokenizer()
        torch.manual_seed(seed)
        vlm = build_vlm(config.vlm, tokenizer)
    else:
        vlm, tokenizer = load_vlm(config.vlm.source, config.vlm.dtype)
    return Speaker(VlaNetwork(vlm).eval(), tokenizer, config)


def build_vlm(spec: VlmSpec, tokenizer: Any) -> nn.Module:
    """A vision-language model of these sizes with random weights (or none, under `torch.device("meta")`)."""
    from transformers import AutoModelForImageTextToText

    ids = tokenizer.get_vocab()
    vocabulary = spec.shape.vocabulary or len(ids)
    if vocabulary < len(ids):
        raise UserError(f"vlm.shape.vocabulary: {vocabulary} is less than the tokenizer's {len(ids)}")
    config = model_config(spec.shape, vocabulary, ids, ids[PAD], ids[END])
    model: nn.Module = AutoModelForImageTextToText.from_config(config, dtype=getattr(torch, spec.dtype))
    return model.eval()


def load_vlm(source: str, dtype: str = "float32") -> tuple[nn.Module, Any]:
    """A model and its tokenizer from a local folder (nothing is fetched) or by hub id.

    Raises:
        UserError: in one line: nothing there, not reachable, damaged, or not known here.
    """
    from transformers import AutoTokenizer

    model = load_model(source, dtype)
    with _one_line(source):
        return model, AutoTokenizer.from_pretrained(source, local_files_only=Path(source).is_dir())


def load_model(source: str, dtype: str) -> nn.Module:
    """The model alone, in eval mode; as `load_vlm`."""
    local = Path(source).is_dir()
    if not local and (Path(source).is_absolute() or not _HUB_ID.fullmatch(source)):
        raise UserError(f"vlm.source {source}: no such folder, and not a hub id of the form OWNER/NAME")
    from transformers import AutoConfig, AutoModelForImageTextToText

    with _one_line(source):
        facts_of(AutoConfig.from_pretrained(source, local_files_only=local))
        model: nn.Module = AutoModelForImageTextToText.from_pretrained(
            source, local_files_only=local, dtype=getattr(torch, dtype)
        )
    return model.eval()


@contextmanager
def _one_line(source: str) -> Iterator[None]:
    """Errors of loading, of which there are many kinds, as one line."""
    from safetensors import SafetensorError

    try:
        with without_bars():
            yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        first = " ".join(str(error).split())[:160]
        mend = "restore the folder" if Path(source).is_dir() else "download it first and give its folder"
        raise UserError(f"vlm.source {source}: cannot be loaded ({first}); {mend}") from None


@contextmanager
def without_bars() -> Iterator[None]:
    """No progress bars of transformers: they would stand in between ours."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def weights_sha(network: nn.Module) -> str:
    """Hash of all weights, names included."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def parameters(network: nn.Module) -> int:
    """Number of parameters, shared ones once."""
    return sum(p.numel() for p in network.parameters())
