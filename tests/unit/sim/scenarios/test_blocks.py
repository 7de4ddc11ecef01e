"""Each building block of the scenarios, played on the real light server with an ego that is moved by hand."""

from collections.abc import Iterator
from itertools import pairwise

import carla
import numpy as np
import pytest

from drive.contracts import AgentKind
from sim.scenarios import crossings, manoeuvres, obstacles
from sim.scenarios.catalog import junction_flow
from sim.scenarios.flows import Flow
from sim.scenarios.lanes import oncoming_path
from sim.scenarios.stage import Act, Unplaceable, route_path
from tests.stage_builder import Rehearsal, across, route_of, theatre

LEFT, RIGHT = 17, 6  # seeds of routes with a long straight and then a left or right turn


@pytest.fixture(scope="module")
def world() -> Iterator[carla.World]:
    with theatre("Town01") as found:
        yield found


@pytest.fixture
def left(world: carla.World) -> Iterator[Rehearsal]:
    rehearsal = Rehearsal(world, route_of(world, LEFT))
    world.tick()
    yield rehearsal
    rehearsal.close()


@pytest.fixture
def right(world: carla.World) -> Iterator[Rehearsal]:
    rehearsal = Rehearsal(world, route_of(world, RIGHT))
    world.tick()
    yield rehearsal
    rehearsal.close()


def others(world: carla.World) -> set[int]:
    found = [*world.get_actors().filter("vehicle.*"), *world.get_actors().filter("walker.*")]
    return {a.id for a in (*found, *world.get_actors().filter("static.prop.*"))}


def leaves_nothing(rehearsal: Rehearsal, act: Act) -> None:
    act.close()
    rehearsal.world.tick()
    assert others(rehearsal.world) == {rehearsal.stage.ego.id}


@pytest.mark.parametrize("make", [obstacles.accident, obstacles.parked, obstacles.construction])
def test_obstacles_stand_in_the_lane_at_their_distance(left: Rehearsal, make: obstacles.Maker) -> None:
    act = make(left.cue("x", distance=40.0))
    *_, now = left.play(act, 0.3, 0.0)
    agents = now.scene.agents
    assert len(agents.ids)
    assert np.abs(across(left.route, agents.pose_world)).max() < 2.0
    along = [left.route.locate(tuple(p), 60.0, 60)[0] for p in agents.pose_world]
    assert min(along) == pytest.approx(60.0, abs=1.5)
    assert act.end_m > max(along)
    assert np.abs(agents.speed_mps).max() < 0.05
    leaves_nothing(left, act)


def test_a_place_that_is_taken_is_no_place(left: Rehearsal) -> None:
    first = obstacles.parked(left.cue("x"))
    left.world.tick()
    with pytest.raises(Unplaceable, match="no room"):
        obstacles.accident(left.cue("x"))
    leaves_nothing(left, first)


def test_riders_ride_slowly_at_the_edge(left: Rehearsal) -> None:
    act = obstacles.riders(left.cue("x", bicycle_speed=10.0, bicycle_drive_distance=40.0))
    *_, now = left.play(act, 4.0, 0.0)
    agents = now.scene.agents
    assert set(agents.kind.tolist()) == {int(AgentKind.CYCLIST)}
    assert agents.speed_mps == pytest.approx(10 / 3.6, abs=0.5)
    assert (across(left.route, agents.pose_world) < -0.5).all()
    leaves_nothing(left, act)


def test_a_pedestrian_steps_out_only_when_the_ego_is_near_and_crosses(left: Rehearsal) -> None:
    act = crossings.dynamic_object(left.cue("x", distance=40.0, blocker_model="static.prop.container"))
    side = []
    for now in left.play(act, 14.0, 6.0, until_m=50.0):
        walkers = now.scene.agents.kind == AgentKind.PEDESTRIAN
        if walkers.any():
            side.append((left.s_m, float(across(left.route, now.scene.agents.pose_world[walkers])[0])))
    far = [y for s, y in side if s < 30.0]
    assert np.ptp(far) < 0.2
    assert far[0] < -2.5
    assert side[-1][1] > 2.0
    leaves_nothing(left, act)


def test_people_cross_behind_the_junction(right: Rehearsal) -> None:
    act = crossings.at_crosswalk(right.cue("x", s_m=60.0))
    right.s_m = act.at_m - 30.0
    *_, now = right.play(act, 6.0, 5.0, until_m=act.at_m - 12.0)
    assert (now.scene.agents.kind == AgentKind.PEDESTRIAN).sum() == 3
    assert all(person.walking for person in act.people)
    leaves_nothing(right, act)


def test_a_cyclist_meets_the_ego_behind_the_turn(right: Rehearsal) -> None:
    act = crossings.after_turn(right.cue("x", s_m=60.0), walkers=False)
    right.s_m = 80.0
    nearest = min(
        float(np.abs(across(right.route, now.scene.agents.pose_world)).min())
        for now in right.play(act, 8.0, 5.0)
        if len(now.scene.agents.ids)
    )
    assert nearest < 0.5
    leaves_nothing(right, act)


@pytest.mark.parametrize("make", [manoeuvres.parking_cut_in, manoeuvres.static_cut_in])
def test_a_car_cuts_in_when_the_ego_is_near(left: Rehearsal, make: obstacles.Maker) -> None:
    act = make(left.cue("x", distance=40.0))
    seen = [
        (left.s_m, float(across(left.route, now.scene.agents.pose_world)[0]))
        for now in left.play(act, 12.0, 6.0, until_m=44.0)
        if len(now.scene.agents.ids)
    ]
    assert abs(seen[0][1]) > 2.0
    assert abs(seen[-1][1]) < 0.5
    assert all(abs(y) > 2.0 for s, y in seen if s < 30.0)
    leaves_nothing(left, act)


def test_a_leader_brakes_hard_and_goes_on(left: Rehearsal) -> None:
    act = manoeuvres.HardBrake(left.cue("x"))
    speeds = [act.car.speed_now_mps for _ in left.play(act, 18.0, 5.0, until_m=56.0)]
    fast = next(k for k, speed in enumerate(speeds) if speed > 4.0)
    stood = next(k for k, speed in enumerate(speeds) if k > fast and speed < 0.1)
    assert (stood - fast) * 0.05 < 5.0
    assert max(speeds[stood : stood + round(3.5 / 0.05)]) < 0.2
    assert speeds[-1] > 3.0
    leaves_nothing(left, act)


def test_a_blocked_exit_clears_after_a_wait(right: Rehearsal) -> None:
    act = manoeuvres.Blocked(right.cue("x", s_m=60.0))
    right.s_m = act.at_m - 12.0
    moved = [float(np.abs(n.scene.agents.speed_mps).max(initial=0.0)) for n in right.play(act, 9.0, 0.0)]
    assert max(moved[: round(4.5 / 0.05)]) < 0.2
    assert moved[-1] > 3.0
    leaves_nothing(right, act)


def test_a_flow_keeps_its_gaps_and_ends_with_its_path(left: Rehearsal) -> None:
    path = oncoming_path(left.stage, 70.0, 60.0, 60.0)
    flow = Flow(left.cue("x"), path, 8.0, (15.0, 25.0), 150.0)
    ids: set[int] = set()
    for now in left.play(flow, 20.0, 0.0):
        ids.update(int(i) for i in now.scene.agents.ids)
        at = sorted(car.at_m for car in flow.cars)
        assert all(b - a > 6.0 for a, b in pairwise(at))
    assert len(ids) > len(flow.cars) + 2
    assert {car.speed_mps for car in flow.cars} == {8.0}
    assert (across(left.route, now.scene.agents.pose_world) > 2.5).all()
    leaves_nothing(left, flow)


def test_a_flow_stops_for_the_ego(left: Rehearsal) -> None:
    left.s_m = 60.0
    flow = Flow(left.cue("x"), route_path(left.route, 5.0, 120.0), 8.0, (15.0, 25.0), 150.0, filled=False)
    *_, now = left.play(flow, 15.0, 0.0)
    first = max(car.at_m for car in flow.cars) + 5.0
    assert first < 58.0
    assert np.abs(now.scene.agents.speed_mps).min() < 0.3
    leaves_nothing(left, flow)


def test_a_flow_through_a_junction_meets_the_route(left: Rehearsal) -> None:
    act = junction_flow("opposite", False, False)(left.cue("NonSignalizedJunctionLeftTurn", s_m=60.0))
    entry = 114
    mine = left.route.pose_world[entry - 3 : entry + 40, :2]
    gap = np.hypot(*(act.path[:, None, :2] - mine[None]).transpose(2, 0, 1))
    assert gap.min() < 2.5
    leaves_nothing(left, act)


def test_an_emergency_vehicle_that_cannot_pass_is_the_egos_fault(left: Rehearsal) -> None:
    left.s_m = 60.0
    act = manoeuvres.Emergency(left.cue("x", s_m=58.0, distance=30.0))
    act.end_m = 90.0
    for _ in left.play(act, 8.0, 6.0):
        pass
    assert [kind for kind, _ in act.faults] == ["yield_emergency_vehicle_infractions"]
    leaves_nothing(left, act)


def test_a_slippery_road_disturbs_the_controls_the_same_way_for_the_same_seed(left: Rehearsal) -> None:
    runs = []
    for _ in range(2):
        act = manoeuvres.Slipping(left.cue("x", seed=4))
        for _ in left.play(act, 0.1, 0.0):
            pass
        runs.append([act.disturb(0.4, 0.0) for _ in range(20)])
        leaves_nothing(left, act)
    assert runs[0] == runs[1]
    assert len({steer for _, steer in runs[0]}) == 20
    assert all(0.4 <= throttle <= 1.0 for throttle, _ in runs[0])


def test_a_door_opens_when_the_ego_is_near(left: Rehearsal) -> None:
    act = obstacles.OpeningDoor(left.cue("x"), 60.0)
    for _ in left.play(act, 1.0, 0.0):
        pass
    assert not act.open
    left.s_m = 50.0
    *_, now = left.play(act, 0.5, 0.0)
    assert act.open
    assert (now.scene.agents.kind == AgentKind.OBSTACLE).sum() == 1
    leaves_nothing(left, act)
