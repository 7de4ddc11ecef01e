"""The one image preprocessing."""

import numpy as np

from drive.contracts import CameraModel
from drive.data.camera import CameraSpec, conform

SPEC = CameraSpec()


def camera_like(spec: CameraSpec, yaw_rad: float = 0.0, scale: float = 1.0) -> CameraModel:
    """The spec's camera, turned left by `yaw_rad` and with `scale` times the pixels."""
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    turned = spec.rotation @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    pose = np.eye(4)
    pose[:3, :3] = turned
    intrinsics = spec.intrinsics.copy()
    intrinsics[:2] *= scale
    return CameraModel(intrinsics, pose, (round(spec.width_px * scale), round(spec.height_px * scale)))


def picture(height: int, width: int) -> np.ndarray:
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    return (255 * np.stack([x, y, (x + y) / 2], -1)).astype(np.uint8)


def test_the_spec_looks_forward_and_a_little_down() -> None:
    right, down, forward = SPEC.rotation
    np.testing.assert_allclose(SPEC.rotation @ SPEC.rotation.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.cross(right, down), forward, atol=1e-12)
    assert right[1] == -1
    assert forward[0] > 0.99
    assert forward[2] < 0


def test_an_image_that_fits_is_returned_as_it_is() -> None:
    image = picture(144, 256)
    assert conform(image, camera_like(SPEC), SPEC) is image


def test_a_finer_image_of_the_same_view_is_scaled_down() -> None:
    out = conform(picture(576, 1024), camera_like(SPEC, scale=4.0), SPEC)
    assert out.shape == (144, 256, 3)
    inner = np.abs(out.astype(int) - picture(144, 256).astype(int))[4:-4, 4:-4]
    assert inner.max() <= 3


def test_a_camera_turned_left_sees_the_middle_further_right() -> None:
    image = np.zeros((144, 256, 3), np.uint8)
    yaw = 0.2
    column = round(128 + SPEC.intrinsics[0, 0] * np.tan(yaw) / np.cos(np.deg2rad(4)))
    image[:, column - 2 : column + 3] = 255  # straight ahead of the ego, right of the turned camera's middle
    out = conform(image, camera_like(SPEC, yaw_rad=yaw), SPEC)
    middle = out[60:80, :, 0].mean(0)
    assert abs(int(middle.argmax()) - 128) <= 4
