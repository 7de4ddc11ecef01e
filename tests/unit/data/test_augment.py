"""Disturbance of batches: image, route and label turn together, commands stay true."""

import numpy as np

from drive.contracts import Lateral, Longitudinal
from drive.data.augment import AugmentConfig, augmented, draw, shifted, turned

QUIET = AugmentConfig(gain=0, offset=0, stripe=0, target_m=0, speed_mps=0, speed_drop=0, yaw_rad=0)
FOCAL_PX = 107.4


def batch_of(count: int = 4, speed: float = 10.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    label = np.zeros((count, 40, 3), np.float32)
    label[..., 0] = speed * 0.1 * (np.arange(40) + 1)
    return {
        "image": rng.integers(0, 256, (count, 8, 32, 3)).astype(np.uint8),
        "speed_mps": np.full(count, speed, np.float32),
        "targets_ego": np.tile(np.array([[10.0, 0.0], [25.0, 0.0]], np.float32), (count, 1, 1)),
        "label_ego": label,
        "command": np.tile(np.array([[Lateral.KEEP, Longitudinal.CRUISE]]), (count, 1)),
        "ground_known": np.ones((count, 6), bool),
    }


def keys(count: int, step: int = 0) -> list[tuple[int, int]]:
    return [(step, place) for place in range(count)]


def test_zero_strength_changes_nothing() -> None:
    batch = batch_of()
    same = augmented(batch, QUIET, FOCAL_PX, 0, keys(4))
    assert all(np.array_equal(batch[name], same[name]) for name in batch)


def test_a_draw_does_not_depend_on_the_batch() -> None:
    both, one = draw(AugmentConfig(), 3, [(5, 0), (5, 1)]), draw(AugmentConfig(), 3, [(5, 1)])
    np.testing.assert_array_equal(both.gain[1], one.gain[0])
    np.testing.assert_array_equal(both.yaw_rad[1], one.yaw_rad[0])


def test_turning_left_moves_the_image_right_and_the_road_to_the_right() -> None:
    row = np.arange(32, dtype=np.uint8)
    image = np.broadcast_to(row[None, None, :, None], (1, 8, 32, 3)).copy()
    right = shifted(image, np.array([3]))[0, 0, :, 0]
    assert right[3:].tolist() == row[:-3].tolist()
    assert right[:3].tolist() == [0, 0, 0]
    assert shifted(image, np.array([-3]))[0, 0, :-3, 0].tolist() == row[3:].tolist()
    ahead = turned([[[10.0, 0.0, 0.0]]], np.array([0.05]))[0, 0]
    assert ahead[1] < 0
    np.testing.assert_allclose(ahead[2], -0.05, atol=1e-6)
    np.testing.assert_allclose(np.hypot(*ahead[:2]), 10.0, atol=1e-5)


def test_labels_and_route_points_turn_alike_and_the_command_follows_the_label() -> None:
    batch = batch_of(40)
    out = augmented(batch, AugmentConfig(target_m=0, yaw_rad=0.08), FOCAL_PX, 0, keys(40))
    bearing = np.arctan2(out["targets_ego"][:, 1, 1], out["targets_ego"][:, 1, 0])
    np.testing.assert_allclose(out["label_ego"][:, -1, 2], bearing, atol=1e-5)
    assert not out["ground_known"][np.abs(out["label_ego"][:, -1, 2]) > 0.01].any()  # the ground stays
    lateral = out["command"][:, 0]
    np.testing.assert_array_equal(lateral == Lateral.LANE_LEFT, out["label_ego"][:, -1, 1] > 1.75)
    assert (lateral == Lateral.KEEP).any()
    assert (lateral != Lateral.KEEP).any()
    recorded = batch | {"command": np.tile(np.array([[Lateral.U_TURN, Longitudinal.CRUISE]]), (40, 1))}
    kept = augmented(recorded, AugmentConfig(yaw_rad=0.08), FOCAL_PX, 0, keys(40))
    assert (kept["command"][:, 0] == Lateral.U_TURN).all()
