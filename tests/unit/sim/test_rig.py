"""Camera rigs: our front camera is the recorded one, Bench2Drive's six look where their names say."""

import math

import numpy as np
import pytest

from sim import frames
from sim.rig import RIGS, Mount, camera_model, leaderboard_sensor

MOST_CAMERAS, FARTHEST_M = 8, 3.0  # the leaderboard's limits
EVERY = [mount for rig in RIGS.values() for mount in rig]
LOOKS_DEG = {"CAM_FRONT": 0, "CAM_FRONT_LEFT": 55, "CAM_FRONT_RIGHT": -55, "CAM_BACK": 180} | {
    "CAM_BACK_LEFT": 110,
    "CAM_BACK_RIGHT": -110,
}


def pixel(mount: Mount, point_ego: np.ndarray) -> tuple[float, float, float]:
    """u, v, depth of a point."""
    camera = camera_model(mount)
    x, y, z = (camera.camera_from_ego @ np.array([*point_ego, 1.0]))[:3]
    u, v, w = camera.intrinsics @ np.array([x, y, z])
    return u / w, v / w, z


def test_our_front_camera_is_the_one_that_logs_are_recorded_with() -> None:
    (mount,) = RIGS["front"]
    ours, recorded = camera_model(mount), frames.front_camera()
    assert ours.size_px == recorded.size_px
    assert ours.intrinsics == pytest.approx(recorded.intrinsics)
    assert ours.camera_from_ego == pytest.approx(recorded.camera_from_ego, abs=1e-12)
    sensor, place = leaderboard_sensor(mount), frames.camera_mount()
    where = place.location.x, place.location.y, place.location.z, place.rotation.pitch
    assert (sensor["x"], sensor["y"], sensor["z"], sensor["pitch"]) == pytest.approx(where, abs=1e-6)


@pytest.mark.parametrize("mount", RIGS["bench2drive"], ids=lambda mount: mount.name)
def test_bench2drive_cameras_look_where_they_say(mount: Mount) -> None:
    yaw = math.radians(LOOKS_DEG[mount.name])
    far = np.array([1e4 * math.cos(yaw), 1e4 * math.sin(yaw), 1.6])
    width, height = mount.size_px
    u, v, depth = pixel(mount, far)
    assert depth > 0
    assert (u, v) == pytest.approx((width / 2, height / 2), abs=0.5)
    to_its_left = far + 1e3 * np.array([-math.sin(yaw), math.cos(yaw), 0.0])
    assert pixel(mount, to_its_left)[0] < u
    edge = yaw + math.radians(mount.fov_deg / 2)
    assert pixel(mount, np.array([1e6 * math.cos(edge), 1e6 * math.sin(edge), 1.6]))[0] == pytest.approx(
        0, abs=1
    )


@pytest.mark.parametrize("mount", EVERY, ids=lambda mount: mount.name)
def test_rotations_are_proper_and_the_ground_is_below(mount: Mount) -> None:
    rotation = camera_model(mount).camera_from_ego[:3, :3]
    assert rotation @ rotation.T == pytest.approx(np.eye(3), abs=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1.0)
    ahead = rotation[2] * 20.0
    assert pixel(mount, np.array([ahead[0], ahead[1], 0.0]))[1] > mount.size_px[1] / 2


def test_all_rigs_together_are_within_the_leaderboards_limits() -> None:
    assert len(EVERY) <= MOST_CAMERAS
    assert len({mount.name for mount in EVERY}) == len(EVERY)
    assert max(math.hypot(*mount.place_m) for mount in EVERY) < FARTHEST_M
