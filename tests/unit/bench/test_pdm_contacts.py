"""Whose fault a contact is, and how soon one is: NAVSIM's rules, case by case."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely import Polygon

from drive.bench.pdm_contacts import contacts
from drive.bench.pdm_scene import PdmScene
from drive.geometry.boxes import centre_pose, corners
from tests import builders
from tests.unit.bench.test_pdm import NOW, scene

SIZE = builders.EGO_MKZ


def ego(speed: float = 8.0, y: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Pose (1, 41, 3) straight ahead, and speed (1, 41)."""
    pose = np.stack([speed * NOW, np.full(41, y), np.zeros(41)], -1)[None]
    return pose, np.full((1, 41), speed)


def moving(path: np.ndarray, size: tuple[float, float] = (4.5, 1.9)) -> PdmScene:
    """One road user at poses (41, 3)."""
    return scene(
        [(0.0, 0.0, 0.0, False)],
        agent_pose=path[None],
        agent_size_m=np.array([size]),
        static=np.array([False]),
    )


def from_the_side(y: float) -> np.ndarray:
    """A car beside us at our speed that moves onto us, down to 1 m of distance between the centres."""
    return np.stack([8.0 * NOW + 1.4, y + np.sign(-y) * np.minimum(NOW, abs(y) - 1.0), np.zeros(41)], -1)


def test_a_contact_aside_is_a_fault_only_when_we_are_astride() -> None:
    beside = moving(from_the_side(3.0))
    nc, ttc = contacts(beside, *ego(), dt_s=0.1)
    assert (nc[0], ttc[0]) == (1.0, 0.0)  # in 0.9 s it is ahead of where our rear axle is now
    nc, ttc = contacts(beside, *ego(y=-1.2), dt_s=0.1)  # over the line to the lane on the right
    assert (nc[0], ttc[0]) == (1.0, 1.0)  # no contact yet
    closer = moving(from_the_side(3.0) - np.array([0.0, 1.2, 0.0]))
    nc, ttc = contacts(closer, *ego(y=-1.2), dt_s=0.1)
    assert (nc[0], ttc[0]) == (0.0, 0.0)


def test_braking_late_costs_ttc_only() -> None:
    braking = np.clip(NOW - 2.2, 0.0, 8.0 / 6.0)
    pose, speed = ego()
    pose[0, :, 0] = 8.0 * np.minimum(NOW, 2.2) + 8.0 * braking - 3.0 * braking**2
    speed = speed - 6.0 * braking
    standing = scene([(30.05, 0.0, 0.0, False)])
    assert [v[0] for v in contacts(standing, pose, speed, dt_s=0.1)] == [1.0, 0.0]


@pytest.mark.parametrize(("speed", "nc"), [(0.04, 1.0), (0.06, 0.0)])
def test_who_stands_is_not_at_fault(speed: float, nc: float) -> None:
    towards = np.stack([10.0 - 5.0 * NOW, np.zeros(41), np.full(41, np.pi)], -1)
    got, _ = contacts(moving(towards), *ego(speed), dt_s=0.1)
    assert got[0] == nc


def test_what_stands_when_first_seen_is_our_fault_even_aside() -> None:
    parked = np.stack([np.full(41, 12.0), np.full(41, 1.7), np.zeros(41)], -1)
    assert contacts(moving(parked), *ego(), dt_s=0.1)[0][0] == 0.0


def test_only_the_first_contact_counts() -> None:
    """A car that ran into us from behind is forgiven when it is in front later."""
    through = np.stack([-8.0 + 14.0 * NOW, np.zeros(41), np.zeros(41)], -1)
    assert contacts(moving(through), *ego(), dt_s=0.1)[0][0] == 1.0


def test_a_user_that_is_not_there_is_not_met() -> None:
    ahead = scene([(20.0, 0.0, 0.0, False)])
    ahead.agent_valid[:, 10:] = False
    assert [v[0] for v in contacts(ahead, *ego(), dt_s=0.1)] == [1.0, 1.0]


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_no_contact_means_one_by_shapely(seed: int) -> None:
    """Where shapely finds no overlap of driven boxes NC is 1; a contact with a standing user is a fault."""
    rng = np.random.default_rng(seed)
    users = np.repeat(
        np.concatenate([rng.uniform(-15, 30, (6, 1, 2)), rng.uniform(-3, 3, (6, 1, 1))], -1), 41, 1
    )
    one = scene([(0.0, 0.0, 0.0, False)] * 6, agent_pose=users)
    bend = rng.normal(0, 0.03) * 8.0
    yaw = bend * NOW
    pose = np.stack([np.cumsum(0.8 * np.cos(yaw)) - 0.8, np.cumsum(0.8 * np.sin(yaw)), yaw], -1)[None]
    boxes = corners(centre_pose(pose[0], SIZE.centre_from_axle_m), [SIZE.length_m, SIZE.width_m])
    others = [Polygon(c) for c in corners(users[:, 0], [4.5, 1.9])]
    meets = any(Polygon(b).intersects(other) for b in boxes for other in others)
    assert contacts(one, pose, np.full((1, 41), 8.0), dt_s=0.1)[0][0] == (0.0 if meets else 1.0)
