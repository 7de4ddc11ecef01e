"""The frame that the network is shown: the newest image, and what moved since an earlier one."""

import numpy as np

from drive.contracts import F32, F64, U8, CameraModel, Observation
from drive.data.camera import CameraSpec, conform

CHANNELS = 4  # red, green, blue, difference
COLOURS = 3
SAME = 128  # value of the fourth channel where nothing changed, or nothing earlier is known


def frame_of(observation: Observation, spec: CameraSpec) -> U8:
    """The frame (H, W, 4) of an observation that has images of `spec.name`."""
    images, camera = observation.images[spec.name], observation.cameras[spec.name]
    if len(images) < 2:
        return frame(images[-1], camera, spec)
    return frame(images[-1], camera, spec, images[0], observation.before_ego[0])


def frame(
    image: U8, camera: CameraModel, spec: CameraSpec, earlier: U8 | None = None, before_ego: F32 | None = None
) -> U8:
    """Newest image with the difference to an earlier one.

    The earlier image is moved to where it would have been taken now: below the horizon as flat ground, above
    it as if infinitely far. What stands still on the road vanishes in the difference, what moves, or stands
    up, remains.

    Args:
        image: uint8 (H, W, 3) RGB.
        camera: What both were taken with.
        spec: Wanted view.
        earlier: uint8 (H, W, 3) RGB, None = none known.
        before_ego: (3,), pose of the ego when it was taken, in the ego frame of now.

    Returns:
        uint8 (spec.height_px, spec.width_px, 4): red, green, blue, and 128 + the difference in brightness.
    """
    now = conform(image, camera, spec)
    out = np.full((*now.shape[:2], CHANNELS), SAME, np.uint8)
    out[..., :COLOURS] = now
    if earlier is not None and before_ego is not None and np.isfinite(before_ego).all():
        out[..., COLOURS] = _difference(
            now, conform(earlier, camera, spec), _place(camera), spec, before_ego.astype(np.float64)
        )
    return out


def _place(camera: CameraModel) -> F64:
    """Where the camera is in the ego frame, (3,) [m]."""
    rotation, shift = camera.camera_from_ego[:3, :3], camera.camera_from_ego[:3, 3]
    return np.asarray(-rotation.T @ shift)


def _difference(now: U8, earlier: U8, place_m: F64, spec: CameraSpec, before_ego: F64) -> U8:
    import cv2

    grey = [cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in (now, earlier)]
    known = cv2.merge([grey[1], np.full_like(grey[1], 255)])  # 255 as long as nothing from outside comes in
    c, s = np.cos(before_ego[2]), np.sin(before_ego[2])
    to_before = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])  # directions; ego now -> ego before
    look = spec.intrinsics @ spec.rotation
    far = look @ to_before @ np.linalg.inv(look)
    shift = to_before @ [before_ego[0], before_ego[1], 0.0]
    ground_now = look @ np.column_stack([[1.0, 0, 0], [0, 1.0, 0], -place_m])
    ground_before = look @ np.column_stack([to_before[:, 0], to_before[:, 1], -shift - place_m])
    near = ground_before @ np.linalg.inv(ground_now)
    horizon = int(np.clip(np.ceil(_horizon_row(spec)), 0, spec.height_px))
    moved = np.zeros_like(known)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    for way, first, end in ((far, 0, horizon), (near, horizon, spec.height_px)):
        if end > first:
            down = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, first], [0.0, 0.0, 1.0]])
            moved[first:end] = cv2.warpPerspective(
                known, way @ down, (spec.width_px, end - first), flags=flags
            )
    change = np.clip(grey[0].astype(np.int16) - moved[..., 0] + SAME, 0, 255)
    return np.where(moved[..., 1] == 255, change, SAME).astype(np.uint8)


def _horizon_row(spec: CameraSpec) -> float:
    focal = float(spec.intrinsics[1, 1])
    return spec.height_px / 2 + focal * float(np.tan(np.deg2rad(spec.pitch_deg)))
