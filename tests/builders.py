"""Hand-made drives with known geometry: every number in them can be checked by hand.

World frame throughout: x east, y north, metres, radians; 10 Hz. The ego drives east from the origin.
"""

from collections.abc import Sequence

import numpy as np

from drive.contracts import (
    EGO_MKZ,
    STEPS,
    AgentKind,
    AgentTracks,
    CameraModel,
    DriveLog,
    EgoTrack,
    Event,
    LogMeta,
    Observation,
    PlanSteps,
    RoadPatch,
    RouteHint,
    Turn,
)
from drive.contracts.arrays import F32, F64
from drive.geometry.commands import classify
from drive.geometry.se2 import resample_poses, to_local

STEP_S = 0.1
PLAN_EVERY = 2
LANE_WIDTH_M = 3.5
LIGHT_NONE = 3.0
FAR_M = 60.0


def straight_road(length_m: float = 200.0, lanes: int = 1, points: int = 41) -> RoadPatch:
    """`lanes` eastbound lanes from x = -20, lane k on y = k * 3.5; a stop line at x = 100."""
    x = np.linspace(-20.0, length_m - 20.0, points)
    centre = np.stack([np.stack([x, np.full(points, k * LANE_WIDTH_M)], -1) for k in range(lanes)])
    stop = np.array([[[100.0, -LANE_WIDTH_M / 2], [100.0, LANE_WIDTH_M / 2]]])
    return RoadPatch(centre, np.full(lanes, LANE_WIDTH_M, np.float32), np.zeros(lanes, bool), stop)


def left_turn_path(straight_m: float = 30.0, radius_m: float = 12.0, spacing_m: float = 0.25) -> F64:
    """float64 (R, 2): east along y = 0, a quarter circle to the left, then north for `straight_m`."""
    before = np.stack([np.arange(0.0, straight_m, spacing_m), np.zeros(int(straight_m / spacing_m))], -1)
    angle = np.arange(0.0, np.pi / 2, spacing_m / radius_m)
    arc = np.stack([straight_m + radius_m * np.sin(angle), radius_m * (1 - np.cos(angle))], -1)
    north = np.arange(0.0, straight_m, spacing_m)
    after = np.stack([np.full(len(north), straight_m + radius_m), radius_m + north], -1)
    return np.concatenate([before, arc, after])


def ego_track(pose_world: F64, start_us: int = 0) -> EgoTrack:
    """Ego through poses float64 (T, 3) at 10 Hz; speed, acceleration and yaw rate by finite differences."""
    pose = np.asarray(pose_world, np.float64)
    step = np.diff(pose[:, :2], axis=0)
    speed = np.hypot(step[:, 0], step[:, 1]) / STEP_S
    speed = np.append(speed, speed[-1:])
    rate = np.gradient(np.unwrap(pose[:, 2]), STEP_S)
    t_us = start_us + (np.arange(len(pose)) * STEP_S * 1e6).astype(np.int64)
    accel = np.gradient(speed, STEP_S)
    return EgoTrack(t_us, pose, speed.astype(np.float32), accel.astype(np.float32), rate.astype(np.float32))


def along_x(x_m: F64, y_m: float = 0.0, yaw_rad: float = 0.0) -> F64:
    """Poses float64 (T, 3) at the given x positions."""
    x = np.asarray(x_m, np.float64)
    return np.stack([x, np.full_like(x, y_m), np.full_like(x, yaw_rad)], -1)


def agents(tracks: Sequence[tuple[AgentKind, tuple[float, float], F64]], steps: int) -> AgentTracks:
    """Road users from (kind, (length, width), poses float64 (T, 3)); no tracks give arrays of length 0."""
    n = len(tracks)
    pose = np.array([t[2] for t in tracks], np.float64).reshape(n, steps, 3)
    step = np.diff(pose[..., :2], axis=1, append=pose[:, -1:, :2])
    speed = np.hypot(step[..., 0], step[..., 1]) / STEP_S
    if steps > 1:
        speed[:, -1] = speed[:, -2]
    return AgentTracks(
        ids=np.arange(1, n + 1, dtype=np.int32),
        kind=np.array([int(t[0]) for t in tracks], np.int32),
        size_m=np.array([t[1] for t in tracks], np.float32).reshape(n, 2),
        pose_world=pose,
        speed_mps=speed.astype(np.float32),
        valid=np.ones((n, steps), bool),
    )


def plan_steps(ego: EgoTrack, path_world: F64, turn: Turn = Turn.FOLLOW, image_size: int = 0) -> PlanSteps:
    """Planning steps every 0.2 s whose label and plan are the driven future.

    Steps without a full 4 s future get NaN labels. `image_size` > 0 adds grey square "front" images.
    """
    step = np.arange(0, len(ego.t_us), PLAN_EVERY, dtype=np.int32)
    d = len(step)
    label = np.full((d, STEPS, 3), np.nan, np.float32)
    command = np.full((d, 2), -1, np.int32)
    t_s = (ego.t_us - ego.t_us[0]) * 1e-6
    targets = np.zeros((d, 2, 2), np.float32)
    for i, k in enumerate(step):
        at_s = t_s[k] + STEP_S * np.arange(1, STEPS + 1)
        if at_s[-1] <= t_s[-1] + 1e-6:
            future = to_local(resample_poses(ego.pose_world, t_s, at_s), ego.pose_world[k])
            label[i], command[i] = future, classify(future, ego.speed_mps[k])
        targets[i] = _targets(path_world, ego.pose_world[k])
    images = {"front": np.full((d, image_size, image_size, 3), 128, np.uint8)} if image_size else {}
    aux = np.tile(np.array([LIGHT_NONE, FAR_M, FAR_M], np.float32), (d, 1))
    return PlanSteps(
        step=step,
        images=images,
        cameras={"front": camera(image_size)} if image_size else {},
        turn=np.full(d, int(turn), np.int32),
        target_points_ego=targets,
        speed_limit_mps=np.full(d, 13.9, np.float32),
        provenance="navigation",
        label_ego=label,
        plan_ego=label.copy(),
        command=command,
        label_command=command.copy(),
        aux=aux,
        split_brain=np.zeros(d, bool),
    )


def camera(size_px: int = 64) -> CameraModel:
    """Square forward-looking pinhole camera, field of view 90 degrees, 1.9 m ahead of the axle, 1.7 m up."""
    half = size_px / 2
    intrinsics = np.array([[half, 0.0, half], [0.0, half, half], [0.0, 0.0, 1.0]])
    camera_from_ego = np.array(
        [[0.0, -1.0, 0.0, 0.0], [0.0, 0.0, -1.0, 1.7], [1.0, 0.0, 0.0, -1.9], [0.0, 0.0, 0.0, 1.0]]
    )
    return CameraModel(intrinsics, camera_from_ego, (size_px, size_px))


def drive_log(
    pose_world: F64,
    others: Sequence[tuple[AgentKind, tuple[float, float], F64]] = (),
    *,
    log_id: str = "hand-made",
    road: RoadPatch | None = None,
    path_world: F64 | None = None,
    turn: Turn = Turn.FOLLOW,
    events: tuple[Event, ...] = (),
    image_size: int = 0,
) -> DriveLog:
    """A drive through `pose_world` float64 (T, 3) with other road users over the same T steps."""
    ego = ego_track(pose_world)
    path = straight_road().centre_world[0] if path_world is None else path_world
    meta = LogMeta(
        log_id=log_id,
        dataset="nightdrive",
        town="HandMade",
        route=log_id,
        seed=0,
        driver="builder",
        simulator="light simulator",
        image_kind="rendered" if image_size else "none",
        outcome="recorded",
    )
    return DriveLog(
        meta=meta,
        ego=ego,
        agents=agents(others, len(ego.t_us)),
        ego_size=EGO_MKZ,
        plans=plan_steps(ego, path, turn, image_size),
        route_world=path,
        road=straight_road() if road is None else road,
        events=events,
    )


def cruise(speed_mps: float = 10.0, seconds: float = 8.0, *, image_size: int = 0) -> DriveLog:
    """Straight on at constant speed on an empty road."""
    return drive_log(along_x(speed_mps * _times(seconds)), log_id="cruise", image_size=image_size)


def lead_braking(gap_m: float = 25.0, speed_mps: float = 10.0, decel_mps2: float = 4.0) -> DriveLog:
    """A car `gap_m` ahead (bumper to bumper) brakes to a stop from t = 2 s; the ego never does and hits it.

    With the defaults the lead stops after 12.5 m of braking, so the gap closes to 0 at t = 5.75 s.
    """
    t = _times(8.0)
    ego_x = speed_mps * t
    braking = np.clip(t - 2.0, 0.0, speed_mps / decel_mps2)
    travelled = speed_mps * np.minimum(t, 2.0) + speed_mps * braking - 0.5 * decel_mps2 * braking**2
    front_m = EGO_MKZ.centre_from_axle_m + EGO_MKZ.length_m / 2
    lead = along_x(travelled + front_m + gap_m + 2.25)
    return drive_log(along_x(ego_x), [(AgentKind.CAR, (4.5, 1.8), lead)], log_id="lead_braking")


def hard_brake(speed_mps: float = 12.0, decel_mps2: float = 6.0, at_s: float = 3.0) -> DriveLog:
    """The ego itself brakes from `speed_mps` to standstill with a constant `decel_mps2` from `at_s` on."""
    t = _times(10.0)
    braking = np.clip(t - at_s, 0.0, speed_mps / decel_mps2)
    x = speed_mps * np.minimum(t, at_s) + speed_mps * braking - 0.5 * decel_mps2 * braking**2
    return drive_log(along_x(x), log_id="hard_brake")


def left_turn(speed_mps: float = 6.0) -> DriveLog:
    """A quarter turn to the left with 12 m radius after 30 m, on a single lane along the path."""
    path = left_turn_path()
    seen = np.append(0.0, np.cumsum(np.hypot(*np.diff(path, axis=0).T)))
    s = np.arange(0.0, seen[-1] - 1.0, speed_mps * STEP_S)
    x, y = np.interp(s, seen, path[:, 0]), np.interp(s, seen, path[:, 1])
    ahead = np.stack([np.interp(s + 0.5, seen, path[:, i]) for i in range(2)], -1)
    yaw = np.arctan2(ahead[:, 1] - y, ahead[:, 0] - x)
    lane = RoadPatch(path[None], np.array([LANE_WIDTH_M], np.float32), np.array([True]), np.zeros((0, 2, 2)))
    pose = np.stack([x, y, yaw], -1)
    return drive_log(pose, log_id="left_turn", road=lane, path_world=path, turn=Turn.LEFT)


def pedestrian_crossing(speed_mps: float = 8.0, cross_x_m: float = 45.0) -> DriveLog:
    """A pedestrian crosses the lane northward at `cross_x_m` with 1.4 m/s, in mid-lane (y = 0) at t = 5 s."""
    t = _times(8.0)
    walker = np.stack([np.full_like(t, cross_x_m), 1.4 * (t - 5.0), np.full_like(t, np.pi / 2)], -1)
    return drive_log(
        along_x(speed_mps * t), [(AgentKind.PEDESTRIAN, (0.6, 0.6), walker)], log_id="pedestrian_crossing"
    )


def observation(
    speed_mps: float = 8.0, *, turn: Turn = Turn.FOLLOW, frames: int = 1, image_size: int = 0
) -> Observation:
    """What a policy sees when driving straight east at constant speed."""
    back = np.arange(4, -1, -1) * 0.5
    history: F32 = np.stack([-speed_mps * back, 0 * back, 0 * back], -1).astype(np.float32)
    images = {"front": np.full((frames, image_size, image_size, 3), 128, np.uint8)} if image_size else {}
    hint = RouteHint(turn, np.array([[10.0, 0.0], [25.0, 0.0]], np.float32), 13.9)
    cameras = {"front": camera(image_size)} if image_size else {}
    before = np.array([[-0.4 * speed_mps * k, 0, 0] for k in range(frames - 1, 0, -1)], np.float32)
    return Observation(
        0, images, cameras, history, speed_mps, 0.0, 0.0, hint, before_ego=before.reshape(-1, 3)
    )


def _times(seconds: float) -> F64:
    return np.arange(0.0, seconds + 1e-9, STEP_S)


def _targets(path_world: F64, pose_world: F64) -> F32:
    """Path points 10 m and 25 m ahead of a pose, in its frame; float32 (2, 2)."""
    nearest = int(np.argmin(np.hypot(*(path_world - pose_world[:2]).T)))
    ahead = np.append(0.0, np.cumsum(np.hypot(*np.diff(path_world[nearest:], axis=0).T)))
    points = [[np.interp(m, ahead, path_world[nearest:, axis]) for axis in range(2)] for m in (10.0, 25.0)]
    return to_local(np.array(points), pose_world).astype(np.float32)
