"""Image features laid out on the ground by camera geometry, and read back along trajectories."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import grid_sample, pixel_shuffle

from drive.data import ground as truth
from drive.data.camera import CameraSpec

CELL_M = 2.0  # twice the ground truth's: the heads draw each cell finer
HEIGHTS_M = (0.0, 1.2)  # road surface; bodies and what stands on it
FINER = round(CELL_M / truth.CELL_M)
ROWS, COLUMNS = truth.ROWS // FINER, truth.COLUMNS // FINER
_NEAREST_M = 0.5


def image_places(
    camera: CameraSpec, mount_m: Sequence[float], rows: tuple[int, int], cell_m: float = CELL_M
) -> Tensor:
    """Where the middles of cells are in the image: float32 (heights, R, C, 2).

    Args:
        camera: View of the network.
        mount_m: Place of the camera, forward of the rear axle and above the ground [m].
        rows: First and last (exclusive) image row that the network uses.
        cell_m: Size of the cells that the ground is divided into.

    Returns:
        (x, y) in [-1, 1] over the used rows, as `grid_sample` wants them; far outside what is not seen.
    """
    x = torch.arange(truth.FROM_X_M, truth.TO_X_M, cell_m, device="cpu") + cell_m / 2
    y = torch.arange(-truth.HALF_Y_M, truth.HALF_Y_M, cell_m, device="cpu") + cell_m / 2
    flat = torch.meshgrid(x - mount_m[0], y, indexing="ij")
    levels = (torch.full_like(flat[0], height - mount_m[1]) for height in HEIGHTS_M)
    points = torch.stack([torch.stack((*flat, z), -1) for z in levels]).double()
    seen = points @ torch.from_numpy((camera.intrinsics @ camera.rotation).T)
    depth = seen[..., 2:]
    place = seen[..., :2] / depth.clamp(min=_NEAREST_M)
    scale = place.new_tensor([camera.width_px, rows[1] - rows[0]])
    normal = 2 * (place - place.new_tensor([0.0, rows[0]])) / scale - 1
    return torch.where(depth > _NEAREST_M, normal, 9.0).clamp(-9, 9).float()


def seen_cells(camera: CameraSpec, mount_m: Sequence[float], rows: tuple[int, int]) -> Tensor:
    """Which cells of the ground truth are in the image, at one of HEIGHTS_M: bool (ROWS, COLUMNS) of it."""
    return (image_places(camera, mount_m, rows, truth.CELL_M).abs() <= 1).all(-1).any(0)


class GroundView(nn.Module):
    """Features on the ground (B, C, ROWS, COLUMNS) from feature maps of the image.

    Every cell reads the maps where the camera sees it, at each of HEIGHTS_M (Simple-BEV, Harley et al. 2022).
    """

    places: Tensor

    def __init__(self, places: Tensor, inside: Sequence[int], channels: int, read_channels: int = 24) -> None:
        super().__init__()
        self.register_buffer("places", places.flatten(0, 1), persistent=False)  # (heights * ROWS, COLUMNS, 2)
        self.read = nn.ModuleList(nn.Conv2d(width, read_channels, 1) for width in inside)
        together = read_channels * len(inside) * len(HEIGHTS_M)
        self.place = nn.Parameter(torch.zeros(channels, ROWS, COLUMNS))
        self.mix = nn.Conv2d(together, channels, 1)
        self.smooth = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        )
        self.head = nn.Conv2d(channels, truth.CHANNELS * FINER**2, 1)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Feature maps (B, inside[i], h, w) of the used image rows -> (B, C, ROWS, COLUMNS)."""
        places = self.places.expand(len(maps[0]), -1, -1, -1)
        read = [
            grid_sample(conv(image), places, align_corners=False)
            for conv, image in zip(self.read, maps, strict=True)
        ]
        lifted = torch.cat(read, 1)  # (B, c, heights * ROWS, COLUMNS)
        lifted = lifted.unflatten(2, (len(HEIGHTS_M), ROWS)).transpose(1, 2).flatten(1, 2)
        out: Tensor = self.smooth(self.mix(lifted) + self.place)
        return out

    def logits(self, ground: Tensor) -> Tensor:
        """What is there: (B, drive.data.ground.CHANNELS, its ROWS, its COLUMNS)."""
        return pixel_shuffle(self.head(ground), FINER)


def along(ground: Tensor, points_ego: Tensor) -> Tensor:
    """Features at points: (B, C, ROWS, COLUMNS), (B, P, K, 2) [m] -> (B, P, K * C); zero outside."""
    span_x, span_y = truth.TO_X_M - truth.FROM_X_M, 2 * truth.HALF_Y_M
    across = 2 * (points_ego[..., 1] + truth.HALF_Y_M) / span_y - 1
    ahead = 2 * (points_ego[..., 0] - truth.FROM_X_M) / span_x - 1
    place = torch.stack([across, ahead], -1).clamp(-9, 9)
    read = grid_sample(ground, place, align_corners=False)  # (B, C, P, K)
    return read.permute(0, 2, 3, 1).flatten(2)
