"""The one image preprocessing: any pinhole image seen through the camera the model was trained on."""

from dataclasses import dataclass

import numpy as np

from drive.contracts import F64, U8, CameraModel

_SAME_PX = 0.75
_SAME_RAD = 0.004


@dataclass(frozen=True)
class CameraSpec:
    """The one view a planner is trained on.

    Attributes:
        name: Key in Observation.images.
        width_px, height_px: Image size.
        fov_deg: Horizontal field of view.
        pitch_deg: Negative looks down.
    """

    name: str = "front"
    width_px: int = 256
    height_px: int = 144
    fov_deg: float = 100.0
    pitch_deg: float = -4.0

    @property
    def intrinsics(self) -> F64:
        """float64 (3, 3), pixels; square pixels, centre of the image."""
        focal = self.width_px / 2 / np.tan(np.deg2rad(self.fov_deg) / 2)
        return np.array([[focal, 0, self.width_px / 2], [0, focal, self.height_px / 2], [0, 0, 1.0]])

    @property
    def rotation(self) -> F64:
        """float64 (3, 3), camera_from_ego: rows are right, down and forward in the ego frame."""
        c, s = np.cos(np.deg2rad(self.pitch_deg)), np.sin(np.deg2rad(self.pitch_deg))
        return np.array([[0.0, -1.0, 0.0], [s, 0.0, -c], [c, 0.0, s]])


def conform(image: U8, camera: CameraModel, spec: CameraSpec) -> U8:
    """See an image through the spec's camera.

    The warp is exact for a pure rotation and change of lens; a different mounting place is not corrected, and
    what the source camera did not see is black. An image that already fits is returned as it is.

    Args:
        image: uint8 (H, W, 3), RGB.
        camera: Model of the camera that took it.
        spec: Wanted view.

    Returns:
        uint8 (spec.height_px, spec.width_px, 3), RGB.
    """
    size = (spec.width_px, spec.height_px)
    rotation = camera.camera_from_ego[:3, :3]
    same_view = np.abs(rotation - spec.rotation).max() < _SAME_RAD
    if (
        image.shape[1::-1] == size
        and same_view
        and np.abs(camera.intrinsics - spec.intrinsics).max() < _SAME_PX
    ):
        return image
    import cv2

    source = camera.intrinsics.copy()
    shrink = spec.intrinsics[0, 0] / source[0, 0]
    if shrink < 0.6:  # area averaging first, or fine detail turns to noise
        image = np.asarray(
            cv2.resize(image, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA), np.uint8
        )
        source[:2] *= shrink
    source_from_spec = source @ rotation @ spec.rotation.T @ np.linalg.inv(spec.intrinsics)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpPerspective(image, source_from_spec, size, flags=flags), np.uint8)
