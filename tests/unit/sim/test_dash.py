"""The expert's brisk start into traffic that does not brake for it."""

from dataclasses import replace

import numpy as np
import pytest

from drive.contracts import EGO_MKZ, AgentKind
from drive.geometry.boxes import centre_pose, overlap
from sim.dash import BEGUN, first_touch_s
from sim.expert import FRONT_M, plan_expert
from sim.navigator import Navigator
from sim.room import Room
from tests.sim_builders import AgentRow, agents_of, scene_of, straight_route

CROSSING_M = 20.0 + FRONT_M + 4.5  # so far along the route the flow crosses
SPEED_MPS = 10.0


def flow(first_m: float, spacing_m: float, cars: int = 8) -> list[AgentRow]:
    """Cars that cross from the right at constant speed; the first one is so far before the crossing."""
    return [
        (AgentKind.CAR, CROSSING_M, -first_m - k * spacing_m, np.pi / 2, SPEED_MPS, 4.7, 2.0)
        for k in range(cars)
    ]


def shortest_way(rows: list[AgentRow], poses: np.ndarray) -> bool:
    """Does the driven plan touch one of the flow, which keeps its speed?"""
    agents = agents_of(rows)
    for k, pose in enumerate(poses):
        moved = agents.pose_world + np.array([0.0, SPEED_MPS * 0.1 * (k + 1), 0.0])
        ego = centre_pose(pose + np.array([20.0, 0.0, 0.0]), EGO_MKZ.centre_from_axle_m)
        if overlap(ego, (EGO_MKZ.length_m, EGO_MKZ.width_m), moved, agents.size_m).any():
            return True
    return False


@pytest.mark.parametrize(("spacing", "goes"), [(14.0, False), (60.0, True)])
def test_an_eager_ego_goes_through_a_gap_that_is_long_enough(spacing: float, goes: bool) -> None:
    rows = flow(-4.0, spacing)  # the first one has just passed
    plan = plan_expert(replace(scene_of(0.0, rows), choosy=True, eager=True)).pose_ego
    assert (plan[-1, 0] > 12.0) == goes
    assert not shortest_way(rows, plan.astype(float))


@pytest.mark.parametrize("spacing", [20.0, 26.0, 32.0, 40.0])
def test_whenever_it_goes_it_touches_nobody(spacing: float) -> None:
    went = 0
    for first in np.arange(-10.0, 30.0, 2.0):
        rows = flow(float(first), spacing)
        plan = plan_expert(replace(scene_of(0.0, rows), choosy=True, eager=True)).pose_ego
        went += plan[-1, 0] > 12.0
        assert not shortest_way(rows, plan.astype(float))
    assert went or spacing < 35.0


def test_it_merges_into_a_flow_only_with_room_behind_it() -> None:
    """The ego turns left into a lane whose traffic keeps its speed."""
    route = straight_route(200, bend_at=30)
    end = route.pose_world[60]
    ways = []
    for back in np.arange(24.0, 124.0, 5.0):
        row = (AgentKind.CAR, float(end[0]), float(end[1] - back), np.pi / 2, SPEED_MPS, 4.7, 2.0)
        plan = plan_expert(
            replace(scene_of(0.0, [row], route=route, at_m=28.0), choosy=True, eager=True)
        ).pose_ego
        ways.append(float(np.hypot(plan[-1, 0], plan[-1, 1])))
        ego = centre_pose(plan.astype(float) + np.array([28.0, 0.0, 0.0]), EGO_MKZ.centre_from_axle_m)
        car = np.array(row[1:4]) + np.array([[0.0, SPEED_MPS * 0.1 * (k + 1), 0.0] for k in range(40)])
        assert not overlap(ego, (EGO_MKZ.length_m, EGO_MKZ.width_m), car, (4.7, 2.0)).any(), back
    assert min(ways) < 8.0 < ways[-1]


def test_walkers_get_a_wider_berth_and_standing_ones_do_not_count() -> None:
    run = np.stack([np.linspace(0.5, 20.0, 40), np.zeros(40), np.zeros(40)], -1)
    nobody = np.zeros(1, bool)
    row = (AgentKind.PEDESTRIAN, 15.0, 1.8, 0.0, 0.4, 0.5, 0.5)
    assert first_touch_s(run, agents_of([row]), nobody) < 3.5
    assert first_touch_s(run, agents_of([(AgentKind.CAR, *row[1:])]), nobody) == np.inf
    standing = (AgentKind.CAR, 15.0, 0.0, 0.0, 0.0, 4.7, 2.0)
    assert first_touch_s(run, agents_of([standing]), nobody) == np.inf
    assert first_touch_s(run, agents_of([row]), ~nobody) == np.inf


@pytest.mark.parametrize("tip", [-0.8, -0.4, 0.0])
def test_with_its_nose_at_the_edge_it_does_not_pull_out_before_somebody_who_comes(tip: float) -> None:
    """To clear the place is right only if that ends before the others are there."""
    at = CROSSING_M - 1.0 - FRONT_M + tip
    row = (AgentKind.CAR, CROSSING_M, -11.0, np.pi / 2, SPEED_MPS, 4.7, 2.0)
    plan = plan_expert(replace(scene_of(1.5, [row], at_m=at), choosy=True)).pose_ego.astype(float)
    ego = centre_pose(plan + np.array([at, 0.0, 0.0]), EGO_MKZ.centre_from_axle_m)
    car = np.array(row[1:4]) + np.array([[0.0, SPEED_MPS * 0.1 * (k + 1), 0.0] for k in range(40)])
    touched = overlap(ego, (EGO_MKZ.length_m, EGO_MKZ.width_m), car, (4.7, 2.0)).any()
    assert not touched or tip > -0.3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_gets_through_a_dense_flow_that_does_not_brake(seed: int) -> None:
    """Closed loop: the ego drives as planned, the cars keep their speed, 2.4 to 3.3 s apart."""
    nowhere = np.full(200, np.nan)
    half = np.full(200, 1.75)
    navigator = Navigator(Room(half, -half, nowhere, nowhere, nowhere, half, -half))
    draws = np.random.default_rng(seed)
    y = -10.0 - np.cumsum(draws.uniform(22.0, 30.0, 40))
    at, speed = 20.0, 6.0
    for k in range(300):
        here = y + 9.0 * 0.2 * k
        near = [v for v in here if -60.0 < v < 30.0]
        rows: list[AgentRow] = [(AgentKind.CAR, 60.0, v, np.pi / 2, 9.0, 4.7, 2.0) for v in near]
        now = scene_of(speed, rows, at_m=at, t_s=0.2 * k)
        ego = centre_pose(now.ego.pose_world, EGO_MKZ.centre_from_axle_m)
        size = (EGO_MKZ.length_m, EGO_MKZ.width_m)
        assert not overlap(ego, size, agents_of(rows).pose_world, (4.7, 2.0)).any()
        plan = plan_expert(navigator.view(now)).pose_ego
        speed = float(plan[1, 0] - plan[0, 0]) / 0.1
        at += float(plan[1, 0])
        if at > 75.0:
            return
    raise AssertionError(f"still waiting at {at:.1f} m")


def test_it_follows_close_behind_somebody_who_is_faster() -> None:
    """A gap in a flow begins right behind a car that drives on."""
    ahead = (AgentKind.CAR, 20.0 + FRONT_M + 2.3 + 2.35, 0.0, 0.0, 9.0, 4.7, 2.0)
    now = replace(scene_of(4.0, [ahead]), choosy=True)
    eager = plan_expert(replace(now, eager=True)).pose_ego
    assert eager[9, 0] > 4.0
    assert eager[9, 0] > plan_expert(now).pose_ego[9, 0] + 0.3


@pytest.mark.parametrize("ego_mps", [4.0, 8.0, 12.0])
@pytest.mark.parametrize("kind", [AgentKind.CYCLIST, AgentKind.CAR])
def test_nobody_crosses_unseen_between_two_moments(ego_mps: float, kind: AgentKind) -> None:
    """A short bicycle is in a fast ego's way for less than two tenths of a second."""
    size, speed = ((1.7, 0.56), 3.5) if kind == AgentKind.CYCLIST else ((4.7, 2.0), 10.0)
    fine = np.arange(1, 401) * 0.01
    met = 0
    for first in np.arange(-42.0, -2.0, 0.23):
        row: AgentRow = (kind, 16.0, float(first), np.pi / 2, speed, *size)
        moved = np.stack([np.full(400, 16.0), first + speed * fine, np.full(400, np.pi / 2)], -1)
        middle = np.stack([ego_mps * fine + EGO_MKZ.centre_from_axle_m, 0 * fine, 0 * fine], -1)
        meets = overlap(middle, (EGO_MKZ.length_m, EGO_MKZ.width_m), moved, size)
        poses = np.stack([ego_mps * np.arange(1, 41) * 0.1, np.zeros(40), np.zeros(40)], -1)
        seen = first_touch_s(poses, agents_of([row]), np.zeros(1, bool), BEGUN)
        touch = meets.sum() >= 6  # less is a graze of corners
        met += bool(touch)
        assert np.isfinite(seen) or not touch
    assert met
