"""The ground view: cells read the image where the camera sees them, trajectories the ground."""

import numpy as np
import torch

from drive.data import ground as truth
from drive.data.camera import CameraSpec
from drive.model.ground import CELL_M, COLUMNS, HEIGHTS_M, ROWS, along, image_places
from tests.unit.model.networks import TINY, random_inputs, tiny_network

CAMERA, MOUNT_M, USED_ROWS = CameraSpec(), (1.9, 1.7), (20, 132)


def middles() -> tuple[torch.Tensor, torch.Tensor]:
    x = truth.FROM_X_M + CELL_M * (torch.arange(ROWS) + 0.5)
    y = -truth.HALF_Y_M + CELL_M * (torch.arange(COLUMNS) + 0.5)
    return x, y


def test_cells_are_projected_as_a_pinhole_camera_does() -> None:
    places = image_places(CAMERA, MOUNT_M, USED_ROWS)
    assert places.shape == (len(HEIGHTS_M), ROWS, COLUMNS, 2)
    x, y = middles()
    for level, row, column in ((0, 4, 8), (1, 10, 3), (0, 20, 12)):
        point = np.array([float(x[row]) - MOUNT_M[0], float(y[column]), HEIGHTS_M[level] - MOUNT_M[1]])
        u, v, depth = CAMERA.intrinsics @ CAMERA.rotation @ point
        wanted = [2 * u / depth / CAMERA.width_px - 1, 2 * (v / depth - USED_ROWS[0]) / 112 - 1]
        np.testing.assert_allclose(places[level, row, column].numpy(), wanted, atol=1e-5)


def test_the_right_is_right_and_what_is_behind_the_camera_is_not_seen() -> None:
    places = image_places(CAMERA, MOUNT_M, USED_ROWS)
    assert (places[0, 6:, : COLUMNS // 2, 0] > 0).all()  # y < 0 is on the right
    torch.testing.assert_close(places[0, 6:, :, 0], -places[0, 6:, :, 0].flip(1))
    assert (places[:, 0].abs() > 1).any(-1).all()


def test_a_trajectory_reads_the_cells_it_passes() -> None:
    x, y = middles()
    ground = torch.zeros(1, 2, ROWS, COLUMNS)
    ground[0, 0], ground[0, 1] = x[:, None], y[None]
    points = torch.tensor([[[[5.0, -3.0], [20.0, 4.0]]]])
    read = along(ground, points).unflatten(2, (2, 2))
    torch.testing.assert_close(read, points)
    assert (along(ground, points + 200) == 0).all()


def test_what_a_picture_says_reaches_heads_and_scores() -> None:
    network, inputs = tiny_network(), random_inputs(2)
    scene = network.encode(inputs)
    logits = network.ground.logits(scene.ground)
    assert logits.shape == (2, truth.CHANNELS, truth.ROWS, truth.COLUMNS)
    assert scene.ground.shape == (2, TINY.ground_channels, ROWS, COLUMNS)
    condition = network.condition(scene.features, torch.zeros((2, 2), dtype=torch.int64))
    state = network.normalise(network.anchors)[None].expand(2, -1, -1)
    scores = network.score(scene.ground, condition, state)
    assert scores.shape == state.shape[:2]
    assert not torch.allclose(scores, network.score(scene.ground + 1, condition, state))
