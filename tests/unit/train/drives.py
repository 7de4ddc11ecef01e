"""Small drives with pictures to learn from: the brightness of the road says how fast to go."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from drive.contracts import DriveLog
from drive.logs import write_drive
from tests import builders

SIZE = (36, 64)


def picture_drive(index: int, town: str = "Town01") -> DriveLog:
    """A straight drive; speed and brightness go with `index`, each drive is its own route."""
    speed = 3.0 + 1.5 * (index % 5)
    log = builders.cruise(speed, 7.0, image_size=16)
    plans = log.plans
    rng = np.random.default_rng(index)
    level = 60 + 30 * (index % 5)
    images = np.clip(level + rng.normal(0, 5, (len(plans.step), *SIZE, 3)), 0, 255).astype(np.uint8)
    camera = replace(plans.cameras["front"], size_px=(SIZE[1], SIZE[0]))
    plans = replace(plans, images={"front": images}, cameras={"front": camera})
    meta = replace(log.meta, log_id=f"drive-{index:03d}", route=f"route-{index}", town=town)
    return replace(log, meta=meta, plans=plans)


def write_drives(root: Path, count: int = 6) -> Path:
    """Write `count` drives below `root`."""
    for index in range(count):
        write_drive(root, picture_drive(index))
    return root
