"""Oriented boxes against shapely, and the properties overlap must have."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from shapely import area, distance, intersection, polygons

from drive.geometry.boxes import centre_pose, corners, overlap

EDGE_M = 1e-6
box_pairs = st.tuples(*[st.floats(-6, 6), st.floats(-6, 6), st.floats(-10, 10)] * 2, *[st.floats(0.1, 8)] * 4)


def random_boxes(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    pose = np.concatenate([rng.uniform(-6, 6, (n, 2)), rng.uniform(-7, 7, (n, 1))], 1)
    return pose, rng.uniform(0.2, 7, (n, 2))


def test_overlap_equals_shapely_on_a_thousand_random_pairs(rng: np.random.Generator) -> None:
    pose_a, size_a = random_boxes(rng, 1000)
    pose_b, size_b = random_boxes(rng, 1000)
    gap = distance(polygons(corners(pose_a, size_a)), polygons(corners(pose_b, size_b)))
    shared = area(intersection(polygons(corners(pose_a, size_a)), polygons(corners(pose_b, size_b))))
    clear = (gap > EDGE_M) | (shared > EDGE_M)
    ours = overlap(pose_a, size_a, pose_b, size_b)
    assert clear.sum() > 990
    assert 200 < (gap == 0).sum() < 800
    assert np.array_equal(ours[clear], (gap == 0)[clear])


def test_corners_span_the_box_and_its_area(rng: np.random.Generator) -> None:
    pose, size = random_boxes(rng, 100)
    shape = polygons(corners(pose, size))
    assert np.allclose(area(shape), size[:, 0] * size[:, 1])
    assert np.allclose(corners(pose, size).mean(1), pose[:, :2])
    ahead = corners(np.array([0.0, 0.0, np.pi / 2]), np.array([4.0, 2.0]))
    assert np.allclose(ahead[:, 1].max(), 2.0)
    assert np.allclose(ahead[:, 0].max(), 1.0)


@given(box_pairs)
def test_overlap_is_symmetric_and_blind_to_half_turns(numbers: tuple[float, ...]) -> None:
    a, b = np.array(numbers[:3]), np.array(numbers[3:6])
    size_a, size_b = np.array(numbers[6:8]), np.array(numbers[8:])
    one = overlap(a, size_a, b, size_b)
    grown = overlap(a, size_a + 1e-6, b, size_b + 1e-6)
    assert overlap(b, size_b + 1e-6, a, size_a + 1e-6) >= one
    assert overlap(a + np.array([0, 0, np.pi]), size_a + 1e-6, b, size_b) >= one
    assert grown >= one


def test_overlap_broadcasts_over_proposals_and_agents() -> None:
    ego = np.zeros((5, 1, 7, 3))
    agents = np.zeros((1, 4, 7, 3))
    agents[0, 1, :, 0] = 3.0
    hit = overlap(ego, np.array([4.0, 2.0]), agents, np.full((1, 4, 1, 2), 2.0))
    assert hit.shape == (5, 4, 7)
    assert hit.all()


def test_touching_counts_and_a_gap_does_not() -> None:
    size = np.array([4.0, 2.0])
    a = np.zeros(3)
    assert overlap(a, size, np.array([4.0, 0.0, 0.0]), size)
    assert not overlap(a, size, np.array([4.001, 0.0, 0.0]), size)
    assert not overlap(a, size, np.array([np.nan, 0.0, 0.0]), size)


def test_box_centre_lies_ahead_of_the_axle() -> None:
    axle = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, np.pi / 2]])
    assert np.allclose(centre_pose(axle, 1.4), [[2.4, 2.0, 0.0], [1.0, 3.4, np.pi / 2]])
    assert axle[0].tolist() == [1.0, 2.0, 0.0]
