"""Checkpoints: tensors and JSON only, written whole, verified on reading, damaged ones passed over."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from drive.contracts import UserError
from drive.files import new_folder, read_json, sha256_file, write_json

FOLDER = "checkpoints"
_STATE, _TENSORS = "state.json", "tensors.safetensors"
_KEEP = 2


def save_checkpoint(out_dir: Path, step: int, tensors: Mapping[str, Tensor], fingerprint: str) -> Path:
    """Write the state after `step` optimiser steps; only the two newest checkpoints are kept."""
    from safetensors.torch import save_file

    folder = out_dir / FOLDER / f"step-{step:08d}"
    with new_folder(folder) as temp:
        save_file(
            {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, str(temp / _TENSORS)
        )
        state = {"step": step, "fingerprint": fingerprint, "sha256": sha256_file(temp / _TENSORS)}
        write_json(temp / _STATE, state)
    for old in _folders(out_dir)[:-_KEEP]:
        shutil.rmtree(old)
    return folder


def newest_checkpoint(out_dir: Path, fingerprint: str) -> tuple[int, dict[str, Tensor]] | None:
    """Newest undamaged checkpoint as (step, tensors), None if there is none.

    Raises:
        UserError: the folder belongs to a run with another config or other data.
    """
    for folder in reversed(_folders(out_dir)):
        read = _read(folder, fingerprint)
        if read is not None:
            return read
        print(f"warning: {folder} is damaged, falling back to the checkpoint before it", file=sys.stderr)
    return None


def _folders(out_dir: Path) -> list[Path]:
    return sorted((out_dir / FOLDER).glob("step-*"))


def _read(folder: Path, fingerprint: str) -> tuple[int, dict[str, Tensor]] | None:
    """None if damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state = read_json(folder / _STATE)
        if sha256_file(folder / _TENSORS) != state["sha256"]:
            return None
        tensors = load_file(str(folder / _TENSORS))
    except (UserError, OSError, KeyError, TypeError, SafetensorError):
        return None
    if state["fingerprint"] != fingerprint:
        raise UserError(
            f"{folder.parents[1]}: holds a run with another config or other data; "
            "choose another output folder, or delete this one to start again"
        )
    return int(state["step"]), tensors
