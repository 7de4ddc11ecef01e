"""Trajectory collisions against shapely, and who is at fault."""

import numpy as np
import pytest
from shapely import distance, polygons

from drive.contracts import EGO_MKZ, EGO_NUSCENES
from drive.geometry.boxes import centre_pose, corners
from drive.score import collision
from drive.score.collision import at_fault, collisions, touched

CAR = np.array([[4.5, 1.9]], np.float32)


def test_collisions_equal_shapely_on_a_thousand_random_pairs(rng: np.random.Generator) -> None:
    ego = np.concatenate([rng.uniform(-6, 6, (10, 10, 2)), rng.uniform(-4, 4, (10, 10, 1))], -1)
    agents = np.concatenate([rng.uniform(-6, 6, (10, 10, 2)), rng.uniform(-4, 4, (10, 10, 1))], -1)
    size = rng.uniform(0.5, 6, (10, 2))
    hit = collisions(ego, agents, size, np.ones((10, 10), bool), EGO_NUSCENES)
    box = [EGO_NUSCENES.length_m, EGO_NUSCENES.width_m]
    egos = polygons(corners(centre_pose(ego, EGO_NUSCENES.centre_from_axle_m), box))
    others = polygons(corners(agents, size[:, None]))
    gap = distance(egos[:, None], others[None])
    assert hit.size == 1000
    assert 150 < hit.sum() < 850
    assert np.array_equal(hit, gap == 0)


def test_invalid_and_non_finite_never_collide() -> None:
    ego = np.zeros((1, 3, 3))
    agents = np.zeros((2, 3, 3))
    agents[1] = np.nan
    valid = np.array([[True, False, True], [True, True, True]])
    hit = collisions(ego, agents, np.repeat(CAR, 2, 0), valid, EGO_MKZ)
    assert hit.tolist() == [[[True, False, True], [False, False, False]]]
    assert not collisions(np.full((1, 3, 3), np.nan), agents, np.repeat(CAR, 2, 0), valid, EGO_MKZ).any()
    no_size = np.array([[np.nan, 1.0], [np.nan, 1.0]], np.float32)
    assert not collisions(ego, agents, no_size, valid, EGO_MKZ).any()


def test_no_agents_and_no_proposals_give_empty_answers() -> None:
    nobody = collisions(
        np.zeros((2, 5, 3)), np.zeros((0, 5, 3)), np.zeros((0, 2)), np.zeros((0, 5), bool), EGO_MKZ
    )
    assert nobody.shape == (2, 0, 5)
    nothing = collisions(np.zeros((0, 5, 3)), np.zeros((1, 5, 3)), CAR, np.ones((1, 5), bool), EGO_MKZ)
    assert nothing.shape == (0, 1, 5)


def fault(agent_x: list[float], ego_x: list[float]) -> bool:
    """Is an ego at these x positions at fault for touching an agent at those?"""
    ego, agents = np.zeros((1, len(ego_x), 3)), np.zeros((1, len(agent_x), 3))
    ego[0, :, 0], agents[0, :, 0] = ego_x, agent_x
    hit = collisions(ego, agents, CAR, np.ones((1, len(agent_x)), bool), EGO_MKZ)
    assert hit.any()
    speed = np.abs(np.diff(ego[0, :, 0], prepend=0.0))[None] / 0.1
    return bool(at_fault(hit, ego, speed, agents, EGO_MKZ).any())


def test_running_into_somebody_is_the_egos_fault() -> None:
    assert fault([12.0, 12.0, 12.0], [3.0, 6.0, 9.0])


def test_being_hit_from_behind_is_not() -> None:
    assert not fault([-8.0, -5.0, -2.0], [0.1, 0.2, 0.3])


def test_being_hit_while_standing_is_not() -> None:
    assert not fault([12.0, 8.0, 4.0], [0.0, 0.0, 0.0])


def test_an_excused_contact_stays_excused() -> None:
    assert not fault([-2.5, -2.0, 1.0, 4.0], [0.1, 0.2, 0.3, 0.4])


def test_blocks_of_road_users_change_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ego = np.concatenate([rng.uniform(-5, 5, (9, 6, 2)), rng.uniform(-3, 3, (9, 6, 1))], -1)
    users = np.concatenate([rng.uniform(-8, 8, (50, 6, 2)), rng.uniform(-3, 3, (50, 6, 1))], -1)
    case = np.sort(rng.integers(9, size=50))
    size, valid = np.tile([4.5, 1.9], (50, 1)), rng.random((50, 6)) < 0.8
    whole = touched(ego, users, size, valid, case, EGO_NUSCENES)
    monkeypatch.setattr(collision, "ROWS", 7)
    assert np.array_equal(touched(ego, users, size, valid, case, EGO_NUSCENES), whole)
    assert 0 < whole.sum() < whole.size
