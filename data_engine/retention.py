"""Keeps a workspace small: the bulk of old nights goes, what says what happened stays."""

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from data_engine.night import NIGHTS, SUMMARY, in_order
from drive.files import write_json

BULK = ("drive/logs", "drive/shown/logs", "drive/shown/tried", "ingest", "finetune/train",
        "evaluate/champion/logs", "evaluate/candidate/logs", "evaluate/siblings", "champion/model",
        "mine/columns")  # fmt: skip
NOTE = "pruned.json"


def prune(workspace: Path, keep: int, protected: Collection[str] = ()) -> list[str]:
    """Remove drives, checkpoints and copies of models of finished nights older than the newest `keep`.

    Summaries, cases, manifests, verdicts and reports stay. What is removed is written down first, so that a
    kill in between leaves a night that says so.

    Args:
        workspace: Folder of all nights.
        keep: Number of newest finished nights that stay whole; 0 = all stay.
        protected: Names of nights that stay whole whatever their age (drives that a registered model needs).

    Returns:
        Names of the nights that were pruned now.
    """
    root = workspace / NIGHTS
    if not keep or not root.is_dir():
        return []
    finished = in_order([p for p in root.iterdir() if (p / SUMMARY).exists()])
    pruned = []
    for folder in finished[:-keep]:
        bulk = [folder / part for part in BULK if os.path.lexists(folder / part)]
        if folder.name in protected or not bulk:
            continue
        write_json(folder / NOTE, {"removed": [str(path.relative_to(folder)) for path in bulk]})
        for path in bulk:
            if path.is_symlink():  # drives of a still earlier night
                path.unlink()
            else:
                shutil.rmtree(path)
        pruned.append(folder.name)
    return pruned
