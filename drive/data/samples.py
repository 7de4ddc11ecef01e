"""Planning steps of drives as training samples: plain arrays, one row per sample."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive.contracts import F32, I32, I64, U8, DriveLog
from drive.data import agents, ground
from drive.data.camera import CameraSpec
from drive.data.frames import CHANNELS, frame
from drive.data.observations import earlier_step
from drive.geometry.commands import classify
from drive.geometry.se2 import to_local

Batch = dict[str, NDArray[Any]]
NO_LIGHT = 3
MAX_DISTANCE_M = 60.0
_CHANGE_WEIGHT = 3.0


@dataclass(frozen=True)
class Samples:
    """N training samples; every array has N rows.

    Attributes:
        image: uint8 (N, H, W, 4), RGB seen through the spec's camera and what moved (drive.data.frames).
        speed_mps, speed_limit_mps: float32 (N,).
        turn: int32 (N,), observation.Turn.
        targets_ego: float32 (N, 2, 2) [m].
        label_ego: float32 (N, 40, 3), the trajectory to imitate, finite.
        command: int32 (N, 2), what the label does.
        aux: float32 (N, 3), [light, distance to stop line m, gap to lead m]; NaN = unknown.
        weight: float32 (N,), weight in the loss.
        ground: uint8 (N, rows, columns), bits of drive.data.ground.
        agents: float32 (N, 24, 12), tables of drive.data.agents.
        drive: int32 (N,), row in the list of drives.
        plan_index: int32 (N,), planning step within the drive.
    """

    image: U8
    speed_mps: F32
    speed_limit_mps: F32
    turn: I32
    targets_ego: F32
    label_ego: F32
    command: I32
    aux: F32
    weight: F32
    ground: U8
    agents: F32
    drive: I32
    plan_index: I32

    def __len__(self) -> int:
        return len(self.speed_mps)


COLUMNS = tuple(f.name for f in fields(Samples) if f.name != "image")


def samples_of(
    log: DriveLog, drive: int, camera: CameraSpec, plan_indices: Sequence[int] | None = None
) -> Samples:
    """Samples of the planning steps that have a finite label, an image and finite inputs.

    Args:
        log: Drive with images of `camera.name`.
        drive: Row of this drive, stored with each sample.
        camera: View to produce.
        plan_indices: Planning steps to take; all by default.

    Raises:
        ValueError: the drive has no images of this camera.
    """
    plans = log.plans
    if camera.name not in plans.images:
        raise ValueError(f"{log.meta.log_id}: no images of camera {camera.name!r}")
    chosen = np.arange(len(plans.step)) if plan_indices is None else np.asarray(plan_indices, np.int64)
    speed = log.ego.speed_mps[plans.step[chosen]]
    usable = np.isfinite(plans.label_ego[chosen]).all((1, 2)) & np.isfinite(speed)
    usable &= np.isfinite(plans.target_points_ego[chosen]).all((1, 2)) & np.isfinite(
        plans.speed_limit_mps[chosen]
    )
    chosen, speed = chosen[usable], speed[usable]
    label, aux = plans.label_ego[chosen], plans.aux[chosen]
    image = np.zeros((len(chosen), camera.height_px, camera.width_px, CHANNELS), np.uint8)
    for row, step in enumerate(chosen):
        image[row] = _frame(log, int(step), camera)
    return Samples(
        image=image,
        speed_mps=speed,
        speed_limit_mps=plans.speed_limit_mps[chosen],
        turn=plans.turn[chosen],
        targets_ego=plans.target_points_ego[chosen],
        label_ego=label,
        command=_commands(plans.label_command[chosen], label, speed, aux),
        aux=aux,
        weight=loss_weights(speed, label),
        ground=np.stack([ground.ground_of(log, int(i)) for i in chosen])
        if len(chosen)
        else np.zeros((0, ground.ROWS, ground.COLUMNS), np.uint8),
        agents=np.array([agents.agents_of(log, int(i)) for i in chosen], np.float32).reshape(
            -1, agents.MOST, agents.COLUMNS
        ),
        drive=np.full(len(chosen), drive, np.int32),
        plan_index=chosen.astype(np.int32),
    )


def _frame(log: DriveLog, step: int, camera: CameraSpec) -> U8:
    """uint8 (H, W, 4) of a planning step."""
    plans, before = log.plans, earlier_step(log, step)
    images, model = plans.images[camera.name], plans.cameras[camera.name]
    if before is None:
        return frame(images[step], model, camera)
    poses = log.ego.pose_world[plans.step[[before, step]]]
    return frame(images[step], model, camera, images[before], to_local(poses[0], poses[1]).astype(np.float32))


def _commands(recorded: I32, label_ego: F32, speed_mps: F32, aux: F32) -> I32:
    """The recorded command where there is one, else what the label does."""
    lead_m = np.where(np.isfinite(aux[:, 2]), aux[:, 2], np.inf)
    return np.where(recorded >= 0, recorded, classify(label_ego, speed_mps, lead_m)).astype(np.int32)


def loss_weights(speed_mps: Any, label_ego: Any) -> F32:
    """Setting off and stopping count 3, everything else 1: float32 (N,)."""
    speed, label = np.asarray(speed_mps), np.asarray(label_ego)
    end_speed = np.hypot(*np.moveaxis(label[:, -1, :2] - label[:, -6, :2], -1, 0)) / 0.5
    weight = np.ones(len(speed), np.float32)
    weight[(speed < 1.5) & (label[:, -1, 0] > 2.0)] = _CHANGE_WEIGHT
    weight[(speed > 2.0) & (end_speed < 1.0)] = _CHANGE_WEIGHT
    return weight


def thin_standing(samples: Samples, rows: I64, share: float, seed: int) -> I64:
    """Rows with only this share of the samples in which the vehicle stands and is to stay standing."""
    stands = (samples.speed_mps[rows] < 0.1) & (samples.label_ego[rows, -1, 0] < 0.5)
    kept = np.random.default_rng([seed, 2]).random(len(rows)) < share
    chosen: I64 = rows[~stands | kept]
    return chosen
