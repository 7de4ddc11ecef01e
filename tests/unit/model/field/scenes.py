"""Hand-made frozen scenes, their mirror images, and trajectories in them."""

import dataclasses

import numpy as np
import torch
from torch import Tensor

from drive.contracts import DT_S, EGO_MKZ, STEPS
from drive.model.field.scene import FieldScene, Prepared, prepare
from drive.model.field.truth import true_scene
from drive.score.scene import FrozenScene, stop_line

TIMES = np.arange(1, STEPS + 1) * DT_S
KNOT_TIMES = np.arange(1, 9) * 0.5
LANE_M = 3.5


def road(speed_mps: float = 10.0, **changes: object) -> FrozenScene:
    """Two lanes ahead, at y = 0 and to its left, and one against the ego at y = -3.5; route along y = 0."""
    lane = np.linspace([-50.0, 0.0], [200.0, 0.0], 51)
    scene = FrozenScene(
        speed_mps=speed_mps,
        ego_size=EGO_MKZ,
        agent_pose_ego=np.zeros((0, STEPS, 3)),
        agent_size_m=np.zeros((0, 2), np.float32),
        agent_valid=np.zeros((0, STEPS), bool),
        lane_ego=np.stack([lane, lane + np.array([0.0, LANE_M]), (lane - np.array([0.0, LANE_M]))[::-1]]),
        lane_width_m=np.full(3, LANE_M, np.float32),
        in_junction=np.zeros(3, bool),
        route_ego=lane,
        speed_limit_mps=15.0,
    )
    return dataclasses.replace(scene, **changes)


def with_car(
    x_m: float, y_m: float = 0.0, speed_mps: float = 0.0, yaw_rad: float = 0.0, ego_mps: float = 10.0
) -> FrozenScene:
    """The road with one car of 4.5 x 1.9 m that keeps its speed."""
    pose = np.zeros((1, STEPS, 3))
    pose[0, :, 0] = x_m + speed_mps * TIMES * np.cos(yaw_rad)
    pose[0, :, 1] = y_m + speed_mps * TIMES * np.sin(yaw_rad)
    pose[..., 2] = yaw_rad
    return road(
        ego_mps,
        agent_pose_ego=pose,
        agent_size_m=np.array([[4.5, 1.9]], np.float32),
        agent_valid=np.ones((1, STEPS), bool),
    )


def with_red_light(distance_m: float) -> FrozenScene:
    """The road with a red stop line this far ahead of the rear axle."""
    return road(red_line_ego=stop_line(road().route_ego, distance_m))


def mirrored(scene: FrozenScene) -> FrozenScene:
    """Left and right exchanged."""
    assert scene.lane_ego is not None
    flip = np.array([1.0, -1.0])
    return dataclasses.replace(
        scene,
        agent_pose_ego=scene.agent_pose_ego * [1, -1, -1],
        lane_ego=scene.lane_ego * flip,
        route_ego=scene.route_ego * flip,
        red_line_ego=scene.red_line_ego * flip,
    )


def prepared(*scenes: FrozenScene, command: tuple[int, int] | None = None, double: bool = False) -> Prepared:
    """True scenes, prepared; float64 if double."""
    scene = true_scene(scenes, commands=None if command is None else [command] * len(scenes))
    if double:
        scene = FieldScene(*(_double(value) for value in scene))
    return prepare(scene)


def _double(value: object) -> object:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def straight(speed_mps: float, aside_m: float = 0.0) -> Tensor:
    """Knots (1, 1, 8, 2) at constant speed that drift `aside_m` to the left within two seconds."""
    u = np.clip(KNOT_TIMES / 2.0, 0.0, 1.0)
    y = aside_m * u**2 * (3 - 2 * u)
    return torch.tensor(np.stack([speed_mps * KNOT_TIMES, y], -1)[None, None], dtype=torch.float32)


def flip(knots: Tensor) -> Tensor:
    """Mirror image of knots."""
    return knots * knots.new_tensor([1.0, -1.0])


def wild(seed: int, count: int = 4, speed_mps: float = 10.0) -> Tensor:
    """Knots (1, count, 8, 2) of bent drives whose speed changes."""
    rng = np.random.default_rng(seed)
    speed = np.clip(speed_mps + np.cumsum(rng.normal(0, 0.8, (count, 8)), 1), 1.0, None)
    yaw = np.cumsum(rng.normal(0, 0.06, (count, 8)), 1)
    step = 0.5 * speed[..., None] * np.stack([np.cos(yaw), np.sin(yaw)], -1)
    return torch.tensor(np.cumsum(step, 1)[None], dtype=torch.float32)
