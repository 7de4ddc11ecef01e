"""The expert on hand-made scenes: it follows, stops, yields, and comes back to its lane."""

import math
from dataclasses import replace

import numpy as np
import pytest

from drive.contracts import AgentKind, Lateral, Longitudinal
from sim.expert import FRONT_M, on_path, plan_expert
from sim.situation import GREEN, RED, YELLOW
from tests.sim_builders import LIMIT_MPS, AgentRow, scene_of, straight_route

CAR = AgentKind.CAR


def car(x: float, y: float, yaw: float = 0.0, speed: float = 0.0) -> AgentRow:
    return (CAR, x, y, yaw, speed, 4.8, 2.0)


def end(scene_end: np.ndarray) -> float:
    return float(scene_end[-1, 0])


def test_free_road_reaches_the_limit() -> None:
    plan = plan_expert(scene_of(LIMIT_MPS))
    assert end(plan.pose_ego) == pytest.approx(4 * LIMIT_MPS, abs=1.0)
    assert plan.command.tolist() == [Lateral.KEEP, Longitudinal.CRUISE]
    assert plan.aux.tolist() == [3.0, 60.0, 60.0]


def test_starts_from_standstill() -> None:
    plan = plan_expert(scene_of(0.0))
    assert 8.0 < end(plan.pose_ego) < 16.0
    assert plan.command[1] == Longitudinal.ACCELERATE


@pytest.mark.parametrize("state", [RED, YELLOW])
def test_stops_before_the_line(state: int) -> None:
    line = 20.0 + FRONT_M + 30.0
    plan = plan_expert(scene_of(8.0, lights=[(line, state)]))
    assert end(plan.pose_ego) + 20.0 + FRONT_M < line
    assert plan.command[1] in (Longitudinal.STOP, Longitudinal.YIELD)
    assert plan.aux[0] == state
    assert plan.aux[1] == pytest.approx(30.0)


def test_passes_on_green_and_when_yellow_comes_too_late() -> None:
    near = 20.0 + FRONT_M + 6.0
    for state in (GREEN, YELLOW):
        plan = plan_expert(scene_of(9.0, lights=[(near, state)]))
        assert end(plan.pose_ego) > 25.0


def test_keeps_a_gap_to_a_standing_car() -> None:
    plan = plan_expert(scene_of(8.0, [car(55.0, 0.0)]))
    assert end(plan.pose_ego) + 20.0 + FRONT_M < 55.0 - 2.4 - 1.0
    assert plan.aux[2] == pytest.approx(55.0 - 2.4 - 20.0 - FRONT_M, abs=0.1)


def test_follows_a_car_of_the_same_speed() -> None:
    plan = plan_expert(scene_of(6.0, [car(36.5, 0.0, speed=6.0)]))
    assert plan.command[1] in (Longitudinal.FOLLOW, Longitudinal.CRUISE)
    assert end(plan.pose_ego) > 18.0


@pytest.mark.parametrize("y", [3.5, -3.5])
def test_parked_and_oncoming_cars_beside_the_lane_do_not_matter(y: float) -> None:
    free = plan_expert(scene_of(8.0)).pose_ego
    beside = plan_expert(scene_of(8.0, [car(40.0, y), car(60.0, y, math.pi, 8.0)])).pose_ego
    assert end(beside) == pytest.approx(end(free), abs=0.1)


def test_cars_behind_do_not_matter() -> None:
    assert on_path(scene_of(8.0, [car(12.0, 0.0, speed=8.0)])) == []


def test_yields_to_crossing_traffic_that_arrives_first_and_not_to_what_comes_later() -> None:
    free = end(plan_expert(scene_of(8.0)).pose_ego)
    first = plan_expert(scene_of(8.0, [car(45.0, -14.0, math.pi / 2, 6.0)]))
    later = plan_expert(scene_of(8.0, [car(45.0, -60.0, math.pi / 2, 6.0)]))
    assert end(first.pose_ego) < free - 8.0
    assert end(later.pose_ego) == pytest.approx(free, abs=0.1)


def test_stops_for_a_crossing_walker() -> None:
    walker = (AgentKind.PEDESTRIAN, 42.0, -4.0, math.pi / 2, 1.4, 0.5, 0.5)
    plan = plan_expert(scene_of(8.0, [walker]))
    assert end(plan.pose_ego) + 20.0 + FRONT_M < 42.0


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_comes_back_to_the_lane(side: float) -> None:
    plan = plan_expert(scene_of(8.0, lateral_m=1.2 * side, yaw_rad=0.1 * side)).pose_ego
    c, s = math.cos(0.1 * side), math.sin(0.1 * side)
    lateral = 1.2 * side + plan[:, 0] * s + plan[:, 1] * c
    assert abs(lateral[-1]) < 0.15
    assert np.abs(lateral).max() < 1.6


def test_mirrored_scene_gives_the_mirrored_plan() -> None:
    left = plan_expert(scene_of(7.0, [car(50.0, 1.4)], lateral_m=0.8, yaw_rad=0.05)).pose_ego
    right = plan_expert(scene_of(7.0, [car(50.0, -1.4)], lateral_m=-0.8, yaw_rad=-0.05)).pose_ego
    assert left * [1, -1, -1] == pytest.approx(right, abs=1e-5)


def test_turns_left_at_the_speed_of_the_curve() -> None:
    route = straight_route(200, bend_at=30)
    plan = plan_expert(scene_of(5.0, route=route, at_m=26.0))
    assert plan.command[0] == Lateral.TURN_LEFT
    speed = np.hypot(*np.diff(plan.pose_ego[:, :2], axis=0).T) / 0.1
    assert speed.max() < 7.0


def test_same_scene_same_plan() -> None:
    scene = scene_of(8.0, [car(45.0, -14.0, math.pi / 2, 6.0)], lights=[(60.0, RED)])
    first, second = plan_expert(scene), plan_expert(scene)
    assert first.pose_ego.tobytes() == second.pose_ego.tobytes()


def test_after_a_long_wait_a_shorter_gap_in_crossing_traffic_will_do() -> None:
    crossing = [(AgentKind.CAR, 28.0, -34.0, np.pi / 2, 10.0, 4.5, 2.0)]
    careful = scene_of(0.0, crossing, at_m=20.0)
    waits = plan_expert(careful).pose_ego[-1, 0]
    goes = plan_expert(replace(careful, bold=True)).pose_ego[-1, 0]
    assert waits < 3.0
    assert goes > 8.0
    crawling = scene_of(0.0, [(AgentKind.CAR, 28.0, -4.0, np.pi / 2, 2.0, 4.5, 2.0)], at_m=20.0)
    assert plan_expert(replace(crawling, bold=True)).pose_ego[24, 0] < 3.2


@pytest.mark.parametrize(("line", "short"), [(40.0, True), (22.0, False)])
def test_it_gives_way_before_a_signalled_line_rather_than_on_it(line: float, short: bool) -> None:
    """With its tail on the line when the light turns red, it would have run it."""
    crossing = [car(46.0, -4.0 - 14.0 * k, math.pi / 2, 4.0) for k in range(4)]
    scene = replace(scene_of(6.0, crossing, at_m=24.0, lights=[(line, GREEN)]), choosy=True)
    plan = plan_expert(scene).pose_ego
    nose = 24.0 + FRONT_M + plan[-1, 0]
    assert (nose < line) == short
    assert nose < 46.0 - 1.0
