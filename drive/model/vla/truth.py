"""What the VLA should say about a recorded moment, from what was recorded and nothing else."""

from typing import Any

import numpy as np

from drive.contracts import U8, Bool, Lateral, Longitudinal
from drive.data import ground
from drive.data.samples import NO_LIGHT
from drive.model.vla.reasoning import (
    FAR_M,
    LIGHTS,
    MOST_OBJECTS,
    Behaviour,
    Reasoning,
    SceneFacts,
    SeenObject,
)

_NOW, _LAST = ground.OCCUPIED, ground.OCCUPIED + len(ground.OCCUPIED_S) - 1
_STILL_THERE = 0.5


def reasoning_of(row: dict[str, Any]) -> Reasoning:
    """The true reasoning of one sample.

    Args:
        row: Columns of a batch (drive.data.batches.collate) without the batch axis: light (-1 = unknown),
            stop_m, lead_m (NaN = unknown), command, ground, ground_known.

    Returns:
        Distances in whole metres; None where nothing is known within 60 m. Objects are places taken by road
        users, the nearest first; "stays" means that most of the place is taken in 3 s as well.
    """
    light = int(row["light"])
    scene = SceneFacts(
        LIGHTS[light] if 0 <= light <= NO_LIGHT else "unknown",  # type: ignore[arg-type]
        _near(row["stop_m"]),
        _near(row["lead_m"]),
    )
    seen = objects_of(np.asarray(row["ground"]), np.asarray(row["ground_known"]))
    lateral, longitudinal = (int(value) for value in row["command"])
    return Reasoning(
        scene,
        tuple(where for where, _ in seen),
        tuple(does for _, does in seen),
        Lateral(lateral),
        Longitudinal(longitudinal),
    )


def objects_of(cells: U8, known: Bool) -> list[tuple[SeenObject, Behaviour]]:
    """The nearest road users on the ground.

    Args:
        cells: uint8 (CHANNELS, ROWS, COLUMNS) of 0 and 1, from drive.data.ground.unpack.
        known: bool (CHANNELS,).
    """
    import cv2

    count, labels = cv2.connectedComponents(cells[_NOW])
    found = []
    for label in range(1, count):
        rows, columns = np.nonzero(labels == label)
        ahead = ground.FROM_X_M + ground.CELL_M * rows.min()
        left = -ground.HALF_Y_M + ground.CELL_M * (columns[rows == rows.min()].mean() + 0.5)
        stays = cells[_LAST][rows, columns].mean() >= _STILL_THERE
        does: Behaviour = ("stays" if stays else "leaves") if known[_LAST] else "unknown"
        found.append(
            (float(np.hypot(ahead, left)), SeenObject(round(float(ahead)), round(float(left))), does)
        )
    nearest = sorted(found, key=lambda item: (item[0], item[1].left_m))[:MOST_OBJECTS]
    return [(where, does) for _, where, does in nearest]


def _near(distance_m: Any) -> int | None:
    value = float(distance_m)
    return round(max(value, 0.0)) if np.isfinite(value) and round(value) < FAR_M else None
