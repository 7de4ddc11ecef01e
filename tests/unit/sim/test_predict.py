"""Where vehicles may go: along the lanes that they were seen to be on."""

import numpy as np
import pytest

from drive.contracts import F64
from sim.frames import waypoint_pose
from sim.predict import MAX_PATHS, Ways
from sim.routes import town_map
from sim.server.opendrive import read_town

TOWN = "Town01"


@pytest.fixture(scope="module")
def town():  # type: ignore[no-untyped-def]
    return town_map(TOWN, read_town(TOWN))


def drives(town) -> list[F64]:  # type: ignore[no-untyped-def]
    """Ways through junctions with every choice at the first fork, poses 1 m apart."""
    found = []
    before = [w for w in town.generate_waypoints(9.0) if not w.next(6.0)[0].is_junction]
    for start in [w for w in before if w.next(18.0)[0].is_junction][:25]:
        for turn in range(3):
            here, poses = start, []
            for _ in range(70):
                choices = here.next(1.0)
                if not choices:
                    break
                here = choices[min(turn, len(choices) - 1)]
                poses.append(waypoint_pose(here))
            if len(poses) == 70:
                found.append(np.array(poses))
    return found


def test_inside_a_junction_the_way_it_is_on_is_kept(town) -> None:  # type: ignore[no-untyped-def]
    right = 0
    ways = drives(town)
    for number, way in enumerate(ways):
        kept = Ways(town)
        for k in range(0, 50, 2):
            paths = kept.of(number, way[k], 0.0, 20.0)
            assert 1 <= len(paths) <= MAX_PATHS
            ends = [float(np.hypot(*(way[k:, :2] - path[9, :2]).T).min()) for path in paths]
            right += min(ends) < 0.6
    assert right == len(ways) * 25


def test_who_leaves_its_way_is_looked_up_anew(town) -> None:  # type: ignore[no-untyped-def]
    first, other = drives(town)[0], drives(town)[-1]
    kept = Ways(town)
    kept.of(7, first[0], 0.0, 20.0)
    (path, *_) = kept.of(7, other[0], 0.0, 20.0)
    assert path[0] == pytest.approx(other[0])
    assert np.hypot(*(path[5, :2] - other[0, :2])) < 15.0
    aside = first[0] + np.array([0.0, 0.0, np.pi])
    assert kept.of(8, aside, 0.0, 20.0) == ()


def forks(town) -> list[list[F64]]:  # type: ignore[no-untyped-def]
    """Ways from the same place that part at a junction."""
    found: dict[tuple[float, float], list[F64]] = {}
    for way in drives(town):
        same = found.setdefault((float(way[0, 0]), float(way[0, 1])), [])
        if all(np.hypot(*(way[60, :2] - other[60, :2])) > 20.0 for other in same):
            same.append(way)
    return [ways for ways in found.values() if len(ways) > 1]


def test_a_vehicle_is_expected_where_those_before_it_went(town) -> None:  # type: ignore[no-untyped-def]
    ways, *_ = forks(town)
    for usual in ways:
        kept = Ways(town)
        assert len(kept.of(0, ways[0][0], 0.0, 44.0)) >= len(ways)
        for number in (1, 2):
            for k in range(0, 66, 2):
                kept.of(number, usual[k], 0.0, 44.0)
        (path,) = kept.of(3, usual[0], 0.0, 44.0)
        assert np.hypot(*(usual[:, :2] - path[20, :2]).T).min() < 0.7
        other = next(way for way in ways if way is not usual)
        for k in range(0, 56, 2):  # this one goes another way: that is seen once it is off the usual one
            (path, *_) = kept.of(4, other[k], 0.0, 10.0)
        assert np.hypot(*(other[:, :2] - path[4, :2]).T).min() < 0.7
