"""The reasoning that the VLA learns is what was recorded."""

from dataclasses import replace
from typing import Any

import numpy as np

from drive.contracts import Lateral, Longitudinal
from drive.data import ground
from drive.data.batches import collate
from drive.data.camera import CameraSpec
from drive.data.samples import samples_of
from drive.model.vla.reasoning import SceneFacts, SeenObject, parse
from drive.model.vla.truth import reasoning_of
from tests import builders
from tests.unit.train.drives import picture_drive


def row(**changes: Any) -> dict[str, Any]:
    cells = np.zeros((ground.CHANNELS, ground.ROWS, ground.COLUMNS), np.uint8)
    known = np.ones(ground.CHANNELS, bool)
    found = {
        "light": 3,
        "stop_m": 60.0,
        "lead_m": 60.0,
        "command": np.array([0, 3]),
        "ground": cells,
        "ground_known": known,
    }
    return found | changes


def test_light_and_distances() -> None:
    true = reasoning_of(row(light=0, stop_m=23.4, lead_m=np.nan, command=np.array([0, 0])))
    assert true.scene == SceneFacts("red", 23, None)
    assert (true.lateral, true.longitudinal) == (Lateral.KEEP, Longitudinal.STOP)
    assert reasoning_of(row(light=-1)).scene == SceneFacts("unknown", None, None)
    assert reasoning_of(row(lead_m=-0.3)).scene.lead_m == 0


def test_road_users_are_listed_nearest_first_with_what_becomes_of_their_place() -> None:
    cells = row()["ground"]
    per_m = 1 / ground.CELL_M
    middle = round(ground.HALF_Y_M * per_m)
    last = ground.OCCUPIED + len(ground.OCCUPIED_S) - 1
    far, near = round((30 - ground.FROM_X_M) * per_m), round((10 - ground.FROM_X_M) * per_m)
    cells[ground.OCCUPIED, far : far + 4, middle : middle + 2] = 1
    cells[ground.OCCUPIED, near : near + 4, middle - 6 : middle - 4] = 1
    cells[last, far : far + 4, middle : middle + 2] = 1
    true = reasoning_of(row(ground=cells))
    assert [item.ahead_m for item in true.objects] == [10, 30]
    assert true.objects[0].left_m < 0 < true.objects[1].left_m + 2
    assert true.behaviour == ("leaves", "stays")
    known = np.ones(ground.CHANNELS, bool)
    known[last] = False
    assert reasoning_of(row(ground=cells, ground_known=known)).behaviour == ("unknown", "unknown")


def test_every_sample_of_a_drive_has_a_truth_that_parses() -> None:
    log = picture_drive(1)
    samples = samples_of(log, 0, CameraSpec())
    batch = collate(samples, np.arange(len(samples)))
    for i in range(len(samples)):
        true = reasoning_of({name: column[i] for name, column in batch.items()})
        assert parse(true.text()) == true
        assert (int(true.lateral), int(true.longitudinal)) == tuple(samples.command[i])


def test_a_car_ahead_in_a_drive_is_an_object() -> None:
    log = builders.cruise(5.0, 7.0, image_size=16)
    step = int(log.plans.step[3])
    ego = log.ego.pose_world[step]
    steps = len(log.ego.t_us)
    agents = replace(
        log.agents,
        ids=np.array([7], np.int32),
        kind=np.zeros(1, np.int32),
        size_m=np.array([[4.0, 2.0]], np.float32),
        pose_world=np.tile(ego + np.array([20.0, 0.0, 0.0]), (1, steps, 1)),
        speed_mps=np.zeros((1, steps), np.float32),
        valid=np.ones((1, steps), bool),
    )
    samples = samples_of(replace(log, agents=agents), 0, CameraSpec(), [3])
    batch = collate(samples, np.arange(1))
    true = reasoning_of({name: column[0] for name, column in batch.items()})
    assert true.objects == (SeenObject(18, 0),)
    assert true.behaviour == ("stays",)
