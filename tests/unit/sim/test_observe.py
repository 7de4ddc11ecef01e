"""The earlier image that a policy is shown beside the newest one."""

import numpy as np
import pytest

from drive.contracts import FRAME_GAP_RANGE_S, earlier_frame
from sim.observe import Shots

PERIOD_S = 0.2


def image(level: int) -> dict[str, np.ndarray]:
    return {"front": np.full((2, 3, 3), level, np.uint8)}


def drive(shots: Shots, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """`count` planning steps straight ahead at 5 m/s, heading north."""
    seen = []
    for k in range(count):
        pose = np.array([3.0, 5.0 * PERIOD_S * k, np.pi / 2])
        images, before = shots.add(PERIOD_S * k, pose, image(k))
        seen.append((images["front"], before))
    return seen


def test_the_image_of_two_steps_before_comes_with_where_the_ego_was() -> None:
    seen = drive(Shots(), 6)
    assert [len(images) for images, _ in seen] == [1, 1, 2, 2, 2, 2]
    images, before = seen[-1]
    assert [int(one.max()) for one in images] == [3, 5]
    np.testing.assert_allclose(before, [[-2.0, 0.0, 0.0]], atol=1e-6)
    assert seen[0][1].shape == (0, 3)


def test_an_image_that_is_too_old_or_of_other_cameras_is_not_taken() -> None:
    shots = Shots()
    drive(shots, 3)
    images, before = shots.add(3.0, np.zeros(3), image(9))
    assert len(images["front"]) == 1
    assert before.shape == (0, 3)
    images, _ = shots.add(3.4, np.zeros(3), image(1) | {"left": np.zeros((2, 3, 3), np.uint8)})
    assert {name: len(stack) for name, stack in images.items()} == {"front": 1, "left": 1}
    assert len(shots.kept) == 1


def test_a_policy_without_eyes_gets_no_images() -> None:
    images, before = Shots().add(0.0, np.zeros(3), {})
    assert images == {}
    assert before.shape == (0, 3)


@pytest.mark.parametrize(
    ("ages_s", "wanted"),
    [
        ((0.0,), None),
        ((0.2, 0.0), None),
        ((0.5, 0.0), 0),
        ((0.8, 0.6, 0.45, 0.2, 0.0), 2),
        ((9.0, 0.0), None),
    ],
)
def test_the_frame_nearest_to_four_tenths_of_a_second_before(
    ages_s: tuple[float, ...], wanted: int | None
) -> None:
    now_us = 10_000_000
    times = np.array([now_us - round(1e6 * age) for age in ages_s])
    assert earlier_frame(times) == wanted
    assert FRAME_GAP_RANGE_S[0] < 0.4 < FRAME_GAP_RANGE_S[1]
