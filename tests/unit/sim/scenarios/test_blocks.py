"""Each building block of the scenarios, played on the real light server with an ego that is moved by hand."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import carla
import numpy as np
import pytest

from drive.contracts import AgentKind
from sim.frames import transform
from sim.scenarios import crossings, manoeuvres, obstacles
from sim.scenarios.catalog import Lights, junction_flow
from sim.scenarios.flows import FRONT_M, Flow
from sim.scenarios.lanes import oncoming_path
from sim.scenarios.motion import road_users
from sim.scenarios.stage import Act, Unplaceable, beside, route_path
from sim.situation import StopLine
from tests.light_server import TICK_S
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
        for now in right.play(act, 12.0, 5.0)
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


@pytest.mark.parametrize(
    ("kind", "make"), [("ParkedObstacleTwoWays", obstacles.parked), ("AccidentTwoWays", obstacles.accident)]
)
def test_oncoming_traffic_comes_only_when_the_ego_hesitates(
    left: Rehearsal, kind: str, make: obstacles.Maker
) -> None:
    cue = left.cue(kind, distance=40.0, frequency=(30.0, 40.0))
    act = obstacles.with_oncoming(cue, make(cue))
    left.s_m = 12.0
    seen = []
    for now in left.play(act, 12.0, 4.0, until_m=50.0):
        left_of = across(left.route, now.scene.agents.pose_world) > 2.5
        seen.append((left.t_s, int((left_of & (np.abs(now.scene.agents.speed_mps) > 1.0)).sum())))
    assert not any(count for t, count in seen if t < 5.0)
    assert any(count for _, count in seen)
    assert act.oncoming_ok
    leaves_nothing(left, act)


def test_oncoming_traffic_does_not_appear_before_the_egos_nose(left: Rehearsal) -> None:
    cue = left.cue("ParkedObstacleTwoWays", distance=40.0, frequency=(10.0, 15.0))
    act = obstacles.with_oncoming(cue, obstacles.parked(cue))
    left.s_m = 80.0  # past the obstacle, where the lane's first stretch is
    seen: dict[int, float] = {}
    for now in left.play(act, 8.0, 1.0):
        gap = np.hypot(*(now.scene.agents.pose_world[:, :2] - now.scene.ego.pose_world[:2]).T)
        for agent, far in zip(now.scene.agents.ids[1:], gap[1:], strict=True):
            seen.setdefault(int(agent), float(far))
    assert seen
    assert min(seen.values()) > 20.0
    leaves_nothing(left, act)


@pytest.mark.parametrize("stops_at", [0.0, 30.0])
def test_who_runs_a_light_neither_waits_for_an_ego_that_slows_nor_stays(
    left: Rehearsal, stops_at: float
) -> None:
    act = crossings.vehicle_from(left.cue("OppositeVehicleTakingPriority", s_m=60.0), emergency=False)
    left.s_m = 60.0
    speeds = []
    for now in left.play(act, 14.0, 8.0, until_m=act.meets_m - 5.0 - stops_at):
        speeds.append(float(np.abs(now.scene.agents.speed_mps).max(initial=0.0)))
    gone = max(speeds) > 3.0
    assert gone == (stops_at == 0.0)
    if gone:
        began = next(k for k, speed in enumerate(speeds) if speed > 3.0)
        assert min(speeds[began : began + round(2.0 / TICK_S)]) > 3.0
        assert not len(now.scene.agents.ids)
    leaves_nothing(left, act)


@pytest.mark.parametrize(("gap_m", "state"), [(20.0, "Red"), (3.0, "Green"), (-1.0, "Green")])
def test_a_light_does_not_turn_red_before_an_ego_that_cannot_stop(
    left: Rehearsal, gap_m: float, state: str
) -> None:
    light = sorted(left.world.get_actors().filter("traffic.traffic_light"), key=lambda x: x.id)[0]
    act = Lights(left.cue("x"), 150.0, red_s=8.0)
    now = left.now(6.0, on=True)
    stop = StopLine(left.s_m + FRONT_M + gap_m, light.id)
    act.tick(replace(now, scene=replace(now.scene, stops=(stop,), lights=(2,))))
    left.world.tick()
    assert str(light.get_state()) == state
    light.freeze(False)
    act.close()


def test_nobody_turns_into_the_oncoming_lane_while_the_ego_is_in_it(left: Rehearsal) -> None:
    cue = left.cue("ParkedObstacleTwoWays", distance=40.0, frequency=(30.0, 40.0))
    act = obstacles.with_oncoming(cue, obstacles.parked(cue))
    left.s_m = 50.0
    for now in left.play(act, 7.0, 0.0):
        if now.scene.t_s > 6.0:
            break
    assert len(now.scene.agents.ids) > 1
    act.close()
    act = obstacles.with_oncoming(cue, obstacles.parked(cue))
    for _ in range(round(7.0 / TICK_S)):
        now = left.now(3.0, on=True)
        act.tick(replace(now, scene=replace(now.scene, lateral_m=2.5)))
        left.world.tick()
    assert len(left.now(0.0, on=True).scene.agents.ids) == 1
    leaves_nothing(left, act)


def test_others_know_that_an_ego_beside_its_route_stays_there(left: Rehearsal) -> None:
    now = left.now(6.0, on=True)
    for off, turned in ((3.5, 0.0), (-3.2, 0.0), (0.0, 0.2)):
        pose = beside(left.route, left.s_m, off)
        pose[2] += turned
        ego = replace(now.scene.ego, pose_world=pose)
        poses = road_users(replace(now, scene=replace(now.scene, ego=ego, lateral_m=off)), -1)[0]
        away = across(left.route, poses)
        assert away[:3] == pytest.approx([off + 6.0 * t * np.sin(turned) for t in (0, 0.8, 1.6)], abs=0.4)


def test_the_ego_starts_in_the_middle_of_its_parking_space(left: Rehearsal) -> None:
    left.s_m = left.route.start_m
    act = manoeuvres.ParkingExit(left.cue("ParkingExit", s_m=6.0, front_vehicle_distance=9.0))
    left.world.tick()
    centre = left.stage.ego.get_location()
    gaps = [centre.distance(actor.get_location()) for actor in act.actors]
    assert gaps == pytest.approx([9.0] * len(gaps), abs=0.4)
    leaves_nothing(left, act)


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
    for now in left.play(act, 11.0, 4.0):
        if now.scene.t_s < 9.0:
            assert not act.over
    assert [kind for kind, _ in act.faults] == ["yield_emergency_vehicle_infractions"]
    assert now.scene.s_m > act.end_m
    leaves_nothing(left, act)


def test_an_emergency_vehicle_that_has_passed_is_no_fault(left: Rehearsal) -> None:
    left.s_m = 60.0
    act = manoeuvres.Emergency(left.cue("x", s_m=58.0, distance=20.0))
    for _ in left.play(act, 1.0, 1.0):
        pass
    assert act.car is not None
    left.stage.actors[act.car.actor.id].set_transform(
        transform(left.route.at(100.0), float(left.route.z_m[100]) + 0.1)
    )
    act.car.at_m += 40.0
    for _ in left.play(act, 10.0, 1.0):
        pass
    assert act.over
    assert act.faults == []
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
