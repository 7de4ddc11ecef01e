"""An evaluator's plan becomes the same route, with its lane changes smoothed."""

import carla
import numpy as np
import pytest

from drive.contracts import F64, Turn, UserError
from sim.frames import location, transform, waypoint_pose
from sim.plan_route import plan_route
from sim.routes import Route, RouteSpec, build_route, road_speeds_mps, town_map
from sim.server.opendrive import read_town


class Town:
    """A town's map and speeds."""

    def __init__(self, name: str) -> None:
        text = read_town(name)
        self.name, self.map, self.speeds = name, town_map(name, text), road_speeds_mps(text)


@pytest.fixture(scope="module")
def town() -> Town:
    return Town("Town05")


def plan_of(route: Route, every_m: int = 1) -> list[carla.Transform]:
    """The part of a route from start to goal, as an evaluator hands it out."""
    part = slice(int(route.start_m), int(route.goal_m) + 1, every_m)
    return [transform(p, z) for p, z in zip(route.pose_world[part], route.z_m[part], strict=True)]


def off_m(route: Route, points: F64) -> float:
    """Largest distance of points (N, 2) from a route."""
    gap = np.hypot(*(points[:, None] - route.pose_world[None, :, :2]).transpose(2, 0, 1))
    return float(gap.min(1).max())


@pytest.mark.parametrize("every_m", [1, 4])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_plan_of_a_route_gives_that_route(town: Town, seed: int, every_m: int) -> None:
    route = build_route(town.map, RouteSpec("r", town.name, seed, 180.0), town.speeds)
    found = plan_route(town.map, plan_of(route, every_m), town.speeds)
    middle = route.pose_world[int(route.start_m) : int(route.goal_m) + 1]
    true_m = np.hypot(*np.diff(middle[:, :2], axis=0).T).sum()
    assert found.length_m == pytest.approx(true_m, abs=4.5 if every_m > 1 else 1.5)
    assert off_m(found, middle[:, :2]) < 0.8
    hops = np.hypot(*np.diff(found.pose_world[:, :2], axis=0).T)
    assert hops == pytest.approx(np.ones(len(hops)), abs=0.2)
    assert len(found.pose_world) > found.goal_m + 40
    turns = set(route.turn[int(route.start_m) : int(route.goal_m)]) - {int(Turn.FOLLOW)}
    assert turns <= set(found.turn)


def neighbours(town: Town) -> tuple[carla.Waypoint, carla.Waypoint]:
    """A waypoint with 80 m of road ahead, and its left neighbour in the same direction."""
    for here in town.map.generate_waypoints(20.0):
        left = here.get_left_lane()
        if left is None or left.lane_type != carla.LaneType.Driving or left.lane_id * here.lane_id <= 0:
            continue
        ahead = [w for d in range(1, 80) for w in here.next(float(d))[:1]]
        if len(ahead) == 79 and not any(w.is_junction or w.road_id != here.road_id for w in ahead):
            return here, left
    raise AssertionError("no such road")


def test_a_lane_change_is_smoothed_and_announced(town: Town) -> None:
    here, left = neighbours(town)
    plan = [here.next(float(d))[0].transform for d in range(1, 30)]
    plan += [left.next(float(d))[0].transform for d in range(31, 70)]
    route = plan_route(town.map, plan, town.speeds)
    assert off_m(route, np.array([waypoint_pose(left.next(68.0)[0])[:2]])) < 0.3
    assert off_m(route, np.array([waypoint_pose(here.next(5.0)[0])[:2]])) < 0.3
    bends = np.abs(np.diff(np.unwrap(route.pose_world[:, 2])))
    assert bends.max() < 0.1
    assert int(Turn.LANE_LEFT) in route.turn
    assert int(Turn.LANE_RIGHT) not in route.turn


def test_repeated_points_and_short_steps_back_are_left_out(town: Town) -> None:
    route = build_route(town.map, RouteSpec("r", town.name, 1, 120.0), town.speeds)
    plan = plan_of(route)
    doubled = [point for one in plan for point in (one, one)]
    again = plan_route(town.map, doubled, town.speeds)
    assert again.pose_world == pytest.approx(plan_route(town.map, plan, town.speeds).pose_world)
    back = [*plan[:40], plan[39], plan[38], *plan[40:]]
    assert plan_route(town.map, back, town.speeds).length_m == pytest.approx(again.length_m, abs=1.0)


def test_plans_that_lead_nowhere_are_refused(town: Town) -> None:
    route = build_route(town.map, RouteSpec("r", town.name, 1, 120.0), town.speeds)
    plan = plan_of(route)
    for short in ([], plan[:1], plan[:1] * 5):
        with pytest.raises(UserError, match=r"different points; a route needs two or more"):
            plan_route(town.map, short, town.speeds)
    far = carla.Transform(location(*(route.pose_world[0, :2] + 500.0)), carla.Rotation())
    with pytest.raises(UserError, match="gap of"):
        plan_route(town.map, [*plan, far], town.speeds)
