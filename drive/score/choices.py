"""Which driving commands can be carried out safely in a frozen scene, judged by roll-outs."""

from typing import Any, NamedTuple

import numpy as np

from drive.contracts import F64, GATES, I32, Bool, Lateral, Longitudinal
from drive.geometry.commands import LEAD_GAP_M, agree, classify, kind_of
from drive.score import road
from drive.score.collision import at_fault, collisions
from drive.score.rollouts import (
    SPACING_M,
    Paths,
    distances,
    index_at,
    joined,
    paths_along,
    poses_at,
    possible,
    simple_paths,
)
from drive.score.scene import FrozenScene
from drive.score.terms import reduce, reward_terms
from drive.score.ways import distinct_lanes, ways_ahead

WAYS_M = 70.0
_LIMIT_SHARE, _LIMIT_MPS = 1.1, 0.5
_ALONG = 0.94  # cosine of 20 degrees
_PACES = (Longitudinal.STOP, Longitudinal.YIELD, Longitudinal.CRUISE, Longitudinal.ACCELERATE)


class Choices(NamedTuple):
    """What could be commanded here.

    Attributes:
        command: int32 (C, 2), every command; FOLLOW stands for CRUISE behind a lead nearer than 25 m.
        feasible: bool (C,), a sound roll-out (see `choices`) is what `classify` names so.
        wrong: bool (C,), no safe roll-out carries it out (`agree`, borderline ones included).
        safe_ego: float64 (K, T, 3), the safe roll-outs.
        progress_m: The furthest a safe roll-out comes along the route, up to the speed limit.
    """

    command: I32
    feasible: Bool
    wrong: Bool
    safe_ego: F64
    progress_m: float


def choices(scene: FrozenScene, lead_gap_m: float = np.inf, also_ego: F64 | None = None) -> Choices:
    """Judge every command in a scene.

    The vocabulary is `simple_paths` and the paths onto the lanes ahead, each under constant accelerations
    from the ego's speed, as far as a car can do it. A roll-out is safe if the gates of drive.score hold
    (the road's gates judged every metre of its path); it is sound if it also ends inside a lane, heading
    along it, and keeps to the speed limit: feasible is more than not to come to grief within four seconds.
    A command that is neither feasible nor wrong is borderline.

    Args:
        scene: Ground truth at 10 Hz.
        lead_gap_m: Gap to the lead vehicle; inf if none.
        also_ego: Further trajectories (Q, T, 3) of the vocabulary, e.g. what the recorded driver did.
    """
    pose = _safe_rollouts(scene)
    if also_ego is not None:
        pose = np.concatenate([pose, also_ego[safe(also_ego, scene)]])
    command, speed = every_command(lead_gap_m), np.full(len(pose), scene.speed_mps)
    named = classify(pose, speed, lead_gap_m)
    feasible = ((named[None] == command[:, None]).all(-1) & _sound(pose, scene)).any(1)
    carried = agree(command[:, None], pose[None], speed[None]).any(1)
    return Choices(command, feasible, ~carried, pose, _progress(pose, scene))


def every_command(lead_gap_m: float = np.inf) -> I32:
    """All pairs of lateral and longitudinal commands, int32 (24, 2)."""
    follows = lead_gap_m < LEAD_GAP_M
    paces = [Longitudinal.FOLLOW if follows and p is Longitudinal.CRUISE else p for p in _PACES]
    return np.array([(lateral, pace) for lateral in Lateral for pace in paces], np.int32)


def kinds_of(command: I32) -> I32:
    """One command of each kind (drive.geometry.commands.kind_of) among some, int32 (K, 2)."""
    return np.asarray(command[np.sort(np.unique(kind_of(command), return_index=True)[1])])


def safe(pose_ego: Any, scene: FrozenScene) -> Bool:
    """Do all gates of `reward_terms` hold all the time?  (P, T, 3) -> bool (P,)."""
    if not len(pose_ego):
        return np.zeros(0, bool)
    worst = reduce(reward_terms(pose_ego, scene))
    return np.asarray(np.all([worst[gate] >= 1.0 for gate in GATES], axis=0))


def modes(pose_ego: F64, speed_mps: float) -> int:
    """How many distinct commands trajectories (P, T, 3) carry out.

    Two are distinct if neither carries out what the other is classified as (`agree`), so trajectories on
    both sides of a threshold are no two modes.
    """
    named = classify(pose_ego, np.full(len(pose_ego), speed_mps))
    kept: list[int] = []
    for row in range(len(pose_ego)):
        others = pose_ego[kept]
        same = agree(named[row], others, np.full(len(kept), speed_mps)) | agree(
            named[kept], pose_ego[row], np.float64(speed_mps)
        )
        if not same.any():
            kept.append(row)
    return len(kept)


def _safe_rollouts(scene: FrozenScene) -> F64:
    """Safe roll-outs (P, T, 3)."""
    along = distances(np.array(scene.speed_mps), scene.dt_s, scene.agent_valid.shape[1])  # (A, T)
    lanes = distinct_lanes(scene)
    ways = ways_ahead(lanes, WAYS_M)
    paths = joined(simple_paths(), paths_along([way.points_ego for way in ways]))
    last = int(index_at(along).max()) + 2
    paths = Paths(paths.pose_ego[:, :last], paths.curvature_1pm[:, :last])
    path, accel = np.nonzero(
        possible(paths, along, scene.dt_s) & _road_allows(paths.pose_ego, along, scene, lanes)
    )
    pose = poses_at(paths.pose_ego[path], along[accel])
    hit = collisions(pose, scene.agent_pose_ego, scene.agent_size_m, scene.agent_valid, scene.ego_size)
    speed = np.diff(along, axis=1, prepend=0.0)[accel] / scene.dt_s
    hit = at_fault(hit, pose, speed, scene.agent_pose_ego, scene.ego_size)
    return np.asarray(pose[~hit.any((1, 2))])


def _road_allows(path_ego: F64, along_m: F64, scene: FrozenScene, lanes: road.Lanes | None) -> Bool:
    """Do on_road, right_way and red_light hold?  Paths (M, S, 3), distances (A, T) -> bool (M, A)."""
    good = ~road.crossed(path_ego, scene.ego_size, scene.red_line_ego)
    at = index_at(along_m) + (along_m > 0)  # the point behind counts: the pose lies between two
    if lanes is None:
        return np.asarray(good[:, at[:, -1]])
    on_road = road.lane_terms(path_ego, scene.ego_size, lanes, scene.dt_s)["on_road"] >= 1.0
    good = np.logical_and.accumulate(good & on_road, axis=1)
    against = np.cumsum(road.against_way(path_ego, lanes), 1) * SPACING_M
    driven = against[:, at]  # (M, A, T)
    driven[..., round(road.AGAINST_S / scene.dt_s) :] -= against[:, at][
        ..., : -round(road.AGAINST_S / scene.dt_s)
    ]
    return np.asarray(good[:, at[:, -1]] & (driven < road.AGAINST_HALF_M).all(-1))


def _sound(pose: F64, scene: FrozenScene) -> Bool:
    end_mps = np.hypot(*(pose[:, -1, :2] - pose[:, -6, :2]).T) / (5 * scene.dt_s)
    lawful = end_mps <= max(scene.speed_limit_mps * _LIMIT_SHARE, scene.speed_mps) + _LIMIT_MPS
    lanes = distinct_lanes(scene)
    if lanes is None:
        return np.asarray(lawful)
    return np.asarray(lawful & road.fits_lane(pose[:, -1], lanes, _ALONG))


def _progress(pose: F64, scene: FrozenScene) -> float:
    if not len(pose):
        return 0.0
    most = scene.speed_limit_mps * scene.dt_s * pose.shape[1]
    return float(np.clip(road.along(pose[:, -1, :2], scene.route_ego), 0.0, most).max())
