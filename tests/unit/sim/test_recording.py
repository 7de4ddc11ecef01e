"""Lanes around a drive: the same as the client library's own, and no crash on lanes on which it crashes."""

import numpy as np
import pytest

from sim.frames import waypoint_pose
from sim.lane_graph import section_ends
from sim.recording import LANE_STEP_M, _until_road_end, road_patch
from sim.routes import RouteSpec, build_route, town_map
from sim.server.opendrive import read_town


@pytest.mark.parametrize("town", ["Town01", "Town03", "Town04"])
def test_lanes_are_followed_as_the_client_library_does(town: str) -> None:
    text = read_town(town)
    ends = section_ends(text)
    followed = 0
    for first, _ in town_map(town, text).get_topology()[::3]:
        onward = first.next(LANE_STEP_M)
        if len(onward) != 1 or onward[0].road_id != first.road_id:
            continue  # there the library reads memory that is not its own
        theirs = [waypoint_pose(w) for w in first.next_until_lane_end(LANE_STEP_M)]
        ours = [waypoint_pose(w) for w in _until_road_end(first, ends[first.road_id][-1][1])]
        assert ours[1:] == theirs
        followed += 1
    assert followed > 40


def test_lanes_that_end_at_once_or_nowhere_do_not_end_the_process() -> None:
    text = read_town("Town15")
    ends = section_ends(text)
    for first, _ in town_map("Town15", text).get_topology():
        road_m = ends[first.road_id][-1][1]
        line = _until_road_end(first, road_m)
        assert 1 <= len(line) <= road_m / LANE_STEP_M + 4
        assert {w.road_id for w in line[:-1]} <= {first.road_id}


def test_the_patch_holds_the_lanes_within_45_m_of_the_route() -> None:
    town = town_map("Town01", read_town("Town01"))
    route = build_route(town, RouteSpec("r", "Town01", 3, 150.0))
    patch = road_patch(town, route, np.zeros((0, 2, 2)))
    gaps = np.hypot(
        *(patch.centre_world[:, :, None] - route.pose_world[None, None, ::5, :2]).transpose(3, 0, 1, 2)
    )
    assert gaps.min((1, 2)).max() < 45.0
    driven = route.pose_world[int(route.start_m) : int(route.goal_m), :2]
    near = np.hypot(*(patch.centre_world.reshape(-1, 1, 2) - driven[None]).transpose(2, 0, 1)).min(0)
    assert near.max() < 1.5
