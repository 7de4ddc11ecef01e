"""Recorded scenes as the open-loop benchmark sees them, made of numbers."""

from typing import Any

import numpy as np

from drive.bench.nuscenes_tables import SceneTrack
from drive.contracts import AgentKind, AgentTracks


def scene(
    name: str = "scene-0001",
    frames: int = 12,
    speed_mps: float = 8.0,
    yaw_rate_radps: float = 0.1,
    agents: int = 0,
    seed: int = 0,
) -> SceneTrack:
    """A drive at steady speed and yaw rate somewhere on the map, among standing cars and pedestrians."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames) * 0.5
    yaw = 0.7 + yaw_rate_radps * t
    half = np.sinc(yaw_rate_radps * 0.25 / np.pi)
    step = (
        speed_mps
        * 0.5
        * half
        * np.stack([np.cos(yaw + 0.25 * yaw_rate_radps), np.sin(yaw + 0.25 * yaw_rate_radps)], -1)
    )
    xy = np.array([650.0, 1600.0]) + np.concatenate([np.zeros((1, 2)), np.cumsum(step, 0)[:-1]])
    pose = np.concatenate([xy, yaw[:, None]], -1)
    place = xy[rng.integers(frames, size=agents)] + rng.uniform(-12, 12, (agents, 2))
    standing = np.concatenate([place, rng.uniform(-3, 3, (agents, 1))], -1)
    kind = np.where(np.arange(agents) % 3 == 0, AgentKind.PEDESTRIAN, AgentKind.CAR).astype(np.int32)
    size = np.where(kind[:, None] == AgentKind.CAR, [4.5, 1.9], [0.7, 0.7]).astype(np.float32).reshape(-1, 2)
    tracks = AgentTracks(
        ids=np.arange(agents, dtype=np.int32),
        kind=kind,
        size_m=size,
        pose_world=np.repeat(standing[:, None], frames, 1).reshape(agents, frames, 3),
        speed_mps=np.zeros((agents, frames), np.float32),
        valid=np.ones((agents, frames), bool),
    )
    empty: Any = ()
    return SceneTrack(
        name=name,
        location="nowhere",
        map_file="",
        tokens=tuple(f"{name}-{k:02d}" for k in range(frames)),
        t_us=(t * 1e6).astype(np.int64),
        pose_world=pose,
        agents=tracks,
        frames=empty,
        files=empty,
    )
