"""Which quad a camera shows at each pixel: labels, bodies and distances that agree with the colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drive.contracts import F64, I32, I64, U8
from drive.viz.faces import NEAR_M, Faces, fill, visible_faces
from drive.viz.quads import Landscape, Quads, Tag
from drive.viz.view import DAYLIGHT, Style, View

GROUND, SKY = -1, -2
_LOWEST_EYE_M = 0.05


@dataclass(frozen=True)
class Survey:
    """What each pixel of a view shows.

    Attributes:
        view: The camera.
        faces: The M quads in view.
        pixel: int32 (H, W), row of the face that is seen there; GROUND or SKY where there is none.
    """

    view: View
    faces: Faces
    pixel: I32

    @property
    def tags(self) -> U8:
        """Tag of every pixel, uint8 (H, W)."""
        return self.tag_of(self.pixel)

    @property
    def bodies(self) -> I64:
        """Body at every pixel, int64 (H, W); -1 for surroundings, sky, and shadows on the road."""
        return self.body_of(self.pixel)

    def tag_of(self, face: I32) -> U8:
        """Tags of faces, uint8 (...,); TERRAIN for GROUND and SKY for SKY."""
        tags: U8 = np.concatenate([self.faces.tag, np.array([Tag.SKY, Tag.TERRAIN], np.uint8)])[face]
        return tags

    def body_of(self, face: I32) -> I64:
        """Bodies of faces, int64 (...,)."""
        owner = np.where(self.faces.tag == Tag.ROADS, -1, self.faces.body)
        bodies: I64 = np.concatenate([owner, [-1, -1]]).astype(np.int64)[face]
        return bodies

    def depth(self, ground_m: float) -> F64:
        """Distance of what is seen along the optical axis.

        Args:
            ground_m: Height of the bare ground in the world, where no quad covers it [m].

        Returns:
            float64 (H, W) [m]; infinite in the sky.
        """
        width, height = self.view.size_px
        fx, fy, cx, cy = self.view.pinhole
        u, v = np.meshgrid((np.arange(width) + 0.5 - cx) / fx, (np.arange(height) + 0.5 - cy) / fy)
        return self.depth_along(u, v, self.pixel, ground_m)

    def depth_along(self, u: F64, v: F64, face: I32, ground_m: float) -> F64:
        """Where the rays (u, v, 1) of the camera frame meet the planes of faces, as depth [m].

        A pixel at the rim of a quad may look past it; its depth stays within that of the quad's corners.

        Args:
            u: float64 (...,), slope of the rays to the right.
            v: float64 (...,), slope of the rays downwards.
            face: int32 (...,), row of the face that each ray meets, or GROUND or SKY.
            ground_m: Height of the bare ground in the world [m].

        Returns:
            float64 (...,); infinite in the sky.
        """
        normal, offset, nearest, farthest = self._planes
        slope = normal[face, 0] * u + normal[face, 1] * v + normal[face, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = offset[face] / slope
            lost = ~np.isfinite(depth)
            depth = np.clip(np.where(lost, farthest[face], depth), nearest[face], farthest[face])
            up = self.view.camera_from_world[:3, 2]
            fall = -(up[0] * u + up[1] * v + up[2])
            eye = max(_LOWEST_EYE_M, float(self.view.centre_world[2]) - ground_m)
            ground = np.where(fall > 0, eye / fall, np.inf)
        depth = np.where(face == GROUND, ground, depth)
        far: F64 = np.where(face == SKY, np.inf, depth)
        return far

    def incidence(self, u: F64, v: F64, face: I32) -> F64:
        """Cosine of the angle between rays (u, v, 1) and the normals of faces, float64 (...,) in [0, 1]."""
        normal = self._planes[0]
        length = np.sqrt(u * u + v * v + 1)
        cosine = np.abs(normal[face, 0] * u + normal[face, 1] * v + normal[face, 2]) / length
        fall = -(self.view.camera_from_world[:3, 2] @ np.stack([u, v, np.ones_like(u)])) / length
        facing: F64 = np.where(face == GROUND, np.clip(fall, 0, 1), np.clip(cosine, 0, 1))
        return facing

    @cached_property
    def _planes(self) -> tuple[F64, F64, F64, F64]:
        """Normals (M+2, 3), offsets, nearest and farthest depth (M+2,); the last two are placeholders."""
        points = self.faces.points.astype(np.float64)
        normal = np.cross(points[:, 2] - points[:, 0], points[:, 3] - points[:, 1], axis=0).T
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
        offset = (normal * points.mean(1).T).sum(1)
        nearest, farthest = points[2].min(0), points[2].max(0)
        blank = np.ones(2)
        return (
            np.concatenate([normal, np.ones((2, 3))]),
            np.concatenate([offset, blank]),
            np.maximum(np.concatenate([nearest, blank]), NEAR_M),
            np.maximum(np.concatenate([farthest, blank]), NEAR_M),
        )


def survey(
    view: View,
    static: Landscape | None,
    groups: Sequence[Quads],
    style: Style = DAYLIGHT,
) -> Survey:
    """Find out what each pixel of `paint`'s picture shows; arguments as there."""
    faces = visible_faces(view, static, groups, style)
    width, height = view.size_px
    pixel = np.full((height, width), GROUND, np.int32)
    pixel[: view.horizon_row] = SKY
    fill(pixel, view, faces, np.arange(len(faces.tag)))
    return Survey(view, faces, pixel)
