"""Random drives for round-trip tests: odd sizes, absent parts, full-precision numbers."""

import numpy as np
from hypothesis import strategies as st

from drive.contracts import (
    EGO_MKZ,
    STEPS,
    AgentTracks,
    CameraModel,
    DriveLog,
    EgoTrack,
    Event,
    LogMeta,
    PlanSteps,
    RoadPatch,
)


@st.composite
def drives(draw: st.DrawFn) -> DriveLog:
    """A drive whose every array is filled from one drawn seed, with drawn sizes (0 where allowed)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps, agents, lanes = draw(st.integers(1, 8)), draw(st.integers(0, 4)), draw(st.integers(0, 3))
    plans = draw(st.integers(0, steps))
    side = draw(st.sampled_from([0, 0, 8, 13]))
    road = None if draw(st.booleans()) else _road(rng, lanes)
    outcome = draw(st.sampled_from(["completed", "collision", "blocked"]))
    return DriveLog(
        meta=LogMeta("drive-\u00fc=1", "nightdrive", "Town 01", draw(st.text(max_size=8)), 7, "expert",
                     "light simulator", "rendered" if side else "none", outcome),
        ego=_ego(rng, steps),
        agents=_agents(rng, agents, steps),
        ego_size=EGO_MKZ,
        plans=_plans(rng, np.sort(rng.choice(steps, plans, replace=False)).astype(np.int32), side),
        route_world=rng.normal(0, 1e3, (draw(st.integers(0, 5)), 2)),
        road=road,
        events=tuple(Event(f"kind {i}", i * 10**6, "d\u00e9tail") for i in range(draw(st.integers(0, 2)))),
    )  # fmt: skip


def _ego(rng: np.random.Generator, steps: int) -> EgoTrack:
    t_us = 1_532_402_927_000_000 + np.cumsum(rng.integers(1, 200_000, steps))
    pose = np.column_stack([rng.normal(0, 1e4, (steps, 2)), rng.uniform(-np.pi, np.pi, steps)])
    motion = rng.normal(0, 9, (3, steps)).astype(np.float32)
    return EgoTrack(t_us, pose, motion[0], motion[1], motion[2])


def _agents(rng: np.random.Generator, count: int, steps: int) -> AgentTracks:
    valid = rng.random((count, steps)) < 0.6
    pose = np.concatenate([rng.normal(0, 1e4, (count, steps, 2)), rng.uniform(-9, 9, (count, steps, 1))], -1)
    return AgentTracks(
        ids=rng.permutation(1000)[:count].astype(np.int32),
        kind=rng.integers(0, 5, count).astype(np.int32),
        size_m=rng.uniform(0.2, 12, (count, 2)).astype(np.float32),
        pose_world=np.where(valid[..., None], pose, 0.0),
        speed_mps=np.where(valid, rng.normal(0, 9, (count, steps)), 0).astype(np.float32),
        valid=valid,
    )


def _plans(rng: np.random.Generator, step: np.ndarray, side: int) -> PlanSteps:
    d = len(step)
    poses = rng.normal(0, 30, (2, d, STEPS, 3)).astype(np.float32)
    poses[:, rng.random(d) < 0.3] = np.nan
    camera = CameraModel(
        np.array([[107.4, 0, 6.1], [0, 107.4, 5.9], [0, 0, 1]]), _rigid(rng), (side, max(1, side - 1))
    )
    shape = (d, max(1, side - 1), side, 3)
    named = {"front": rng.integers(0, 256, shape, dtype=np.uint8)} if side and d else {}
    return PlanSteps(
        step=step,
        images=named,
        cameras={"front": camera} if side else {},
        turn=rng.integers(0, 6, d).astype(np.int32),
        target_points_ego=rng.normal(0, 30, (d, 2, 2)).astype(np.float32),
        speed_limit_mps=rng.uniform(5, 30, d).astype(np.float32),
        provenance="navigation",
        label_ego=poses[0],
        plan_ego=poses[1],
        command=rng.integers(-1, 5, (d, 2)).astype(np.int32),
        label_command=rng.integers(-1, 5, (d, 2)).astype(np.int32),
        aux=rng.uniform(0, 60, (d, 3)).astype(np.float32),
        split_brain=rng.random(d) < 0.5,
    )


def _rigid(rng: np.random.Generator) -> np.ndarray:
    out = np.eye(4)
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    out[:3, :3], out[:3, 3] = q * np.sign(np.linalg.det(q)), rng.normal(size=3)
    return out


def _road(rng: np.random.Generator, lanes: int) -> RoadPatch:
    return RoadPatch(
        rng.normal(0, 1e3, (lanes, 6, 2)),
        rng.uniform(3, 4, lanes).astype(np.float32),
        rng.random(lanes) < 0.5,
        rng.normal(0, 1e3, (lanes, 2, 2)),
    )
