"""What a policy sees at a key frame of a recorded scene: causal but for a route hint marked "oracle"."""

from typing import Literal

import numpy as np

from drive.contracts import F32, F64, I64, U8, CameraModel, Observation, RouteHint, Turn, earlier_frame
from drive.geometry.se2 import resample_poses, to_local, wrap
from drive.score.openloop import KEY_DT_S

HISTORY_ROWS = 5
FUTURE_STEPS = 6
ORACLE_TURN_M = 2.0
TARGET_M = (10.0, 25.0)
URBAN_LIMIT_MPS = 13.9
RouteSource = Literal["oracle", "none"]


def observation_at(
    t_us: I64,
    pose_world: F64,
    k: int,
    *,
    route: RouteSource = "none",
    image: tuple[U8, CameraModel] | None = None,
    earlier: U8 | None = None,
    camera: str = "front",
    measured: tuple[float, float, float] | None = None,
) -> Observation:
    """Observation at key frame k >= 1 from frames 0..k only, except a route hint of provenance "oracle".

    Unless they were measured, speed and yaw rate are extrapolated to now from the last two backward
    differences (one if there is only one).

    Args:
        t_us: int64 (K,), times of the key frames.
        pose_world: float64 (K, 3), rear-axle poses.
        k: Key frame.
        route: "oracle" derives turn and target points from the recorded future; "none" points straight ahead.
        image: uint8 (H, W, 3) RGB and its camera, None for blind policies.
        earlier: The same of key frame k - 1; used if its time fits (drive.contracts.earlier_frame).
        camera: Name under which the image is given.
        measured: Speed [m/s], acceleration [m/s2] and yaw rate [rad/s] now.

    Raises:
        ValueError: k < 1, as one pose tells no speed.
    """
    if k < 1:
        raise ValueError("an observation needs at least one earlier key frame")
    past_us, past = t_us[: k + 1], pose_world[: k + 1]
    speed, accel, yaw_rate = measured or ego_motion(past_us, past)
    hint = oracle_route(pose_world, k) if route == "oracle" else straight_route()
    shots = [] if image is None else [image[0]]
    if shots and earlier is not None and earlier_frame(past_us[-2:]) is not None:
        shots = [earlier, *shots]
    images = {camera: np.stack(shots)} if image else {}
    return Observation(
        t_us=int(t_us[k]),
        images=images,
        cameras={camera: image[1]} if image else {},
        before_ego=to_local(past[len(past) - max(1, len(shots)) : -1], past[-1]).astype(np.float32),
        history_ego=history(past_us, past),
        speed_mps=speed,
        accel_mps2=accel,
        yaw_rate_radps=yaw_rate,
        route=hint,
    )


def ego_motion(t_us: I64, pose_world: F64) -> tuple[float, float, float]:
    """Speed [m/s], acceleration [m/s2] and yaw rate [rad/s] at the last of at least two poses (K, 3)."""
    seconds = np.diff(t_us[-3:]) * 1e-6
    local = to_local(pose_world[-3:], pose_world[-1])
    step = np.diff(local, axis=0)
    mid = local[:-1, 2] + wrap(step[:, 2]) / 2
    speed = (step[:, 0] * np.cos(mid) + step[:, 1] * np.sin(mid)) / seconds
    rate = wrap(step[:, 2]) / seconds
    if len(speed) == 1:
        return float(speed[0]), 0.0, float(rate[0])
    between = seconds.sum() / 2
    accel = (speed[1] - speed[0]) / between
    turning = (rate[1] - rate[0]) / between
    now = speed[1] + accel * seconds[1] / 2
    if now * speed[1] < 0:  # braking to standstill must not turn into reversing
        now = 0.0
    return float(now), float(accel), float(rate[1] + turning * seconds[1] / 2)


def history(t_us: I64, pose_world: F64) -> F32:
    """Poses at -2, -1.5, ..., 0 s, as far as known, in the frame of the last one: float32 (H <= 5, 3)."""
    seconds = (t_us - t_us[-1]) * 1e-6
    wanted = -KEY_DT_S * np.arange(HISTORY_ROWS - 1, -1, -1)
    reach = wanted >= seconds[0] - KEY_DT_S / 4
    poses = resample_poses(to_local(pose_world, pose_world[-1]), seconds, wanted[reach])
    poses[-1] = 0.0
    return poses.astype(np.float32)


def future_ego(pose_world: F64, k: int) -> F64:
    """Recorded poses of the next 6 key frames in the ego frame at frame k, float64 (6, 3)."""
    return to_local(pose_world[k + 1 : k + 1 + FUTURE_STEPS], pose_world[k])


def straight_route() -> RouteHint:
    """A hint that knows nothing: go on straight."""
    points = np.array([[m, 0.0] for m in TARGET_M], np.float32)
    return RouteHint(Turn.FOLLOW, points, URBAN_LIMIT_MPS, "navigation")


def oracle_route(pose_world: F64, k: int) -> RouteHint:
    """Hint from the recorded future: LEFT/RIGHT when the ego is more than 2 m aside after 3 s (UniAD, VAD).

    Target points lie 10 m and 25 m ahead on the driven path; past its end they go on straight.
    """
    ahead = to_local(pose_world[k:], pose_world[k])
    aside = float(ahead[min(FUTURE_STEPS, len(ahead) - 1), 1])
    turn = Turn.LEFT if aside > ORACLE_TURN_M else Turn.RIGHT if aside < -ORACLE_TURN_M else Turn.FOLLOW
    length = np.append(0.0, np.cumsum(np.hypot(*np.diff(ahead[:, :2], axis=0).T)))
    end, yaw = ahead[-1, :2], ahead[-1, 2]
    points = []
    for wanted in TARGET_M:
        over = max(0.0, wanted - float(length[-1]))
        on_path = [np.interp(wanted, length, ahead[:, i]) for i in range(2)] if over == 0.0 else list(end)
        points.append([on_path[0] + over * np.cos(yaw), on_path[1] + over * np.sin(yaw)])
    return RouteHint(turn, np.array(points, np.float32), URBAN_LIMIT_MPS, "oracle")
