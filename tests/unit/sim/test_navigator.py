"""The expert's ways around obstacles, on a straight road with a lane of the same way or an oncoming one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from drive.contracts import AgentKind
from sim.expert import FRONT_M, plan_expert
from sim.navigator import Navigator, in_route_frame
from sim.room import Room
from sim.signs import StopSign
from sim.situation import RED, Situation
from tests.sim_builders import AgentRow, scene_of

POINTS = 200


def room(left: float = np.nan, oncoming: float = np.nan, most_left: float = 1.75) -> Room:
    """Lanes 3.5 m wide; `left` and `oncoming` are centres of the lane to the left."""
    full = np.full(POINTS, 1.0)
    return Room(
        1.75 * full, -1.75 * full, left * full, np.nan * full, oncoming * full, most_left * full, -1.75 * full
    )


def parked(x: float, y: float = 0.0) -> AgentRow:
    return (AgentKind.CAR, x, y, 0.0, 0.0, 4.5, 2.0)


def coming(x: float, speed: float = 8.0) -> AgentRow:
    return (AgentKind.CAR, x, 3.5, np.pi, speed, 4.5, 2.0)


def faster(x: float, speed: float = 12.0) -> AgentRow:
    return (AgentKind.CAR, x, 3.5, 0.0, speed, 4.5, 2.0)


def after_a_while(
    navigator: Navigator, rows: Sequence[AgentRow], **scene: float
) -> tuple[Situation, Situation]:
    """What the navigator shows once it has seen for 5 s who stands; with the scene itself."""
    now = scene_of(8.0, rows, **scene)
    navigator.view(replace(now, t_s=0.0))
    return navigator.view(replace(now, t_s=5.0)), now


def highest_shift(view: Situation) -> float:
    return float(view.route.pose_world[:, 1].max())


def test_without_obstacles_the_route_stays() -> None:
    view, now = after_a_while(Navigator(room(left=3.5, most_left=5.25)), [])
    assert view.route is now.route
    assert view.holds == ()


def test_a_free_lane_of_the_same_way_is_used() -> None:
    view, _ = after_a_while(Navigator(room(left=3.5, most_left=5.25)), [parked(60.0)])
    assert highest_shift(view) == pytest.approx(3.5, abs=0.01)
    beside = view.route.pose_world[56:64, 1]
    assert (beside > 3.0).all()
    assert abs(view.route.pose_world[20, 1]) < 0.01
    assert abs(view.route.pose_world[100, 1]) < 0.01
    plan = plan_expert(view)
    assert plan.pose_ego[-1, 0] > 20.0


def test_somebody_faster_behind_in_that_lane_is_let_by() -> None:
    view, _ = after_a_while(Navigator(room(left=3.5, most_left=5.25)), [parked(60.0), faster(8.0)])
    assert highest_shift(view) < 0.01
    (hold,) = view.holds
    assert 60.0 - 2.25 - 12.5 < hold < 60.0 - 2.25 - 6.0


@pytest.mark.parametrize(("far", "goes"), [(95.0, False), (195.0, True)])
def test_the_oncoming_lane_is_used_when_it_stays_free(far: float, goes: bool) -> None:
    view, _ = after_a_while(Navigator(room(oncoming=3.5, most_left=5.25)), [parked(60.0), coming(far)])
    assert (highest_shift(view) > 2.0) == goes
    assert bool(view.holds) != goes


def test_who_comes_slowly_may_just_have_started() -> None:
    road = room(oncoming=3.5, most_left=5.25)
    slow, _ = after_a_while(Navigator(road), [parked(60.0), coming(110.0, speed=1.9)])
    assert highest_shift(slow) < 0.01
    assert slow.holds
    far, _ = after_a_while(Navigator(road), [parked(60.0), coming(195.0, speed=1.9)])
    assert highest_shift(far) > 2.0


@pytest.mark.parametrize(
    ("comes", "lateral", "goes"), [(85.0, 0.3, False), (85.0, 1.5, True), (195.0, 0.3, True)]
)
def test_a_begun_way_is_given_up_while_the_ego_is_still_in_its_lane(
    comes: float, lateral: float, goes: bool
) -> None:
    """Further out it would stand nose to nose with whoever comes, and neither could go on."""
    navigator = Navigator(room(oncoming=3.5, most_left=5.25))
    after_a_while(navigator, [parked(60.0)], at_m=38.0)
    assert navigator.detour is not None
    begun = scene_of(3.0, [parked(60.0), coming(comes, speed=13.0)], at_m=navigator.detour.from_m + 1.0)
    view = navigator.view(replace(begun, t_s=6.0, lateral_m=lateral))
    assert (highest_shift(view) > 2.0) == goes


def test_a_choice_of_the_oncoming_lane_is_made_anew_until_it_is_entered() -> None:
    navigator = Navigator(room(oncoming=3.5, most_left=5.25))
    view, now = after_a_while(navigator, [parked(60.0)])
    assert highest_shift(view) > 2.0
    late = replace(scene_of(8.0, [parked(60.0), coming(100.0)], at_m=24.0), t_s=5.5)
    assert highest_shift(navigator.view(late)) < 0.01
    assert now.s_m < 24.0


def test_a_little_room_in_the_lane_is_enough_for_something_narrow() -> None:
    cone = (AgentKind.OBSTACLE, 60.0, -1.2, 0.0, 0.0, 0.4, 0.4)
    view, _ = after_a_while(Navigator(room()), [cone])
    assert 0.1 < highest_shift(view) < 0.9


def test_no_room_at_all_means_waiting_right_behind() -> None:
    """Who cannot go around needs no room to swing out, and may be what the one in front waits for."""
    navigator = Navigator(room())
    view, _ = after_a_while(navigator, [parked(60.0)])
    assert view.holds == ()
    assert highest_shift(view) < 0.01
    near = scene_of(2.0, [parked(60.0)], at_m=60.0 - 2.25 - FRONT_M - 8.0)
    moved = plan_expert(navigator.view(replace(near, t_s=6.0))).pose_ego[-1, 0]
    assert 3.0 < moved < 8.0 - 1.5


def test_who_waits_keeps_the_room_to_swing_out() -> None:
    """Else it ends right behind what it waits to pass, and cannot get out any more."""
    navigator = Navigator(room(oncoming=3.5, most_left=5.25))
    traffic = [parked(60.0), *(coming(62.0 + 12.0 * k) for k in range(9))]
    for at in (60.0 - 2.25 - FRONT_M - 12.2, 60.0 - 2.25 - FRONT_M - 5.0):
        for t_s, speed in ((0.0, 0.0), (5.0, 0.0), (30.0, 1.0), (60.0, 0.0)):
            view = navigator.view(replace(scene_of(speed, traffic, at_m=at), t_s=t_s))
        assert plan_expert(view).pose_ego[-1, 0] < 1.0


def test_creeping_is_waiting_too() -> None:
    """Patience is not renewed by every small move: else a gap that was taken is given up a moment later."""
    navigator = Navigator(room(left=3.5, most_left=5.25))
    now = scene_of(0.0, [parked(60.0), faster(8.0, 10.0)], at_m=40.0)
    for t_s in (0.0, 5.0):
        navigator.view(replace(now, t_s=t_s))
    creeps = scene_of(0.6, [parked(60.0), faster(8.0, 10.0)], at_m=40.0)
    navigator.view(replace(creeps, t_s=40.0))
    assert highest_shift(navigator.view(replace(creeps, t_s=60.0))) == pytest.approx(3.5, abs=0.01)


def test_it_comes_back_before_a_queue_behind_what_it_passes() -> None:
    queue = [parked(60.0 + 2.25 + 15.5 + 2.25), parked(60.0 + 2.25 + 23.0 + 2.25)]
    view, _ = after_a_while(Navigator(room(oncoming=3.5, most_left=5.25)), [parked(60.0), *queue])
    shift = view.route.pose_world[:, 1]
    assert shift[60] > 2.0
    nose_at = 60.0 + 2.25 + 15.5 - 2.0  # of an ego that stands behind the queue
    assert abs(shift[int(nose_at - FRONT_M)]) < 0.2


def test_who_stands_close_behind_is_no_obstacle_to_swinging_out() -> None:
    behind = (AgentKind.CAR, 34.0, 0.0, 0.0, 0.0, 4.5, 2.0)
    view, _ = after_a_while(
        Navigator(room(oncoming=3.5, most_left=5.25)), [parked(60.0, -1.0), behind], at_m=40.0
    )
    assert highest_shift(view) > 1.2


def test_a_queue_before_a_red_light_is_not_overtaken() -> None:
    view, _ = after_a_while(Navigator(room(left=3.5, most_left=5.25)), [parked(60.0)], lights=[(66.0, RED)])
    assert highest_shift(view) < 0.01
    assert view.holds == ()


def test_a_car_that_has_only_just_stopped_is_not_overtaken() -> None:
    navigator = Navigator(room(left=3.5, most_left=5.25))
    navigator.view(scene_of(8.0, [(AgentKind.CAR, 58.0, 0.0, 0.0, 3.0, 4.5, 2.0)]))
    view = navigator.view(replace(scene_of(8.0, [parked(60.0)]), t_s=1.0))
    assert highest_shift(view) < 0.01


def test_an_emergency_vehicle_behind_gets_the_lane() -> None:
    row = (AgentKind.CAR, 0.0, 0.0, 0.0, 14.0, 6.0, 2.2)
    now = replace(scene_of(8.0, [row]), emergency=frozenset({1}))
    assert highest_shift(Navigator(room(left=3.5, most_left=5.25)).view(now)) == pytest.approx(3.5, abs=0.01)
    plain = replace(now, emergency=frozenset())
    assert highest_shift(Navigator(room(left=3.5, most_left=5.25)).view(plain)) < 0.01


def test_a_stop_sign_holds_until_the_ego_has_stood_there() -> None:
    navigator = Navigator(room(), (StopSign(60.0, 7),))
    (line,) = navigator.view(scene_of(8.0)).holds
    assert line == pytest.approx(59.0)
    assert navigator.view(scene_of(0.0, at_m=59.0 - FRONT_M - 0.5)).holds == ()
    assert navigator.view(scene_of(3.0, at_m=59.0 - FRONT_M)).holds == ()


def test_boxes_in_the_frame_of_the_route() -> None:
    frame = in_route_frame(scene_of(8.0, [parked(60.0, -2.0), coming(90.0)]))
    assert frame.low == pytest.approx([57.75, 87.75])
    assert frame.high == pytest.approx([62.25, 92.25])
    assert frame.right == pytest.approx([-3.0, 2.5])
    assert frame.left == pytest.approx([-1.0, 4.5])
    assert frame.speed == pytest.approx([0.0, -8.0])


def test_cones_beside_what_blocks_are_passed_with_it() -> None:
    site = (AgentKind.OBSTACLE, 60.0, 0.0, 0.0, 0.0, 2.4, 2.4)
    cones = [(AgentKind.OBSTACLE, 60.0 + k, 1.5, 0.0, 0.0, 0.35, 0.35) for k in range(4)]
    view, _ = after_a_while(Navigator(room(oncoming=3.5, most_left=5.25)), [site, *cones])
    assert highest_shift(view) > 1.5 + 0.17 + 0.9
    assert view.holds == ()


def test_whoever_has_waited_long_takes_a_shorter_gap() -> None:
    navigator = Navigator(room(left=3.5, most_left=5.25))
    now = scene_of(0.0, [parked(60.0), faster(8.0, 10.0)], at_m=40.0)
    for t_s in (0.0, 5.0):
        assert highest_shift(navigator.view(replace(now, t_s=t_s))) < 0.01
    assert highest_shift(navigator.view(replace(now, t_s=60.0))) == pytest.approx(3.5, abs=0.01)


def test_after_a_very_long_wait_it_relies_on_the_others_for_a_moment() -> None:
    navigator = Navigator(room())
    standing = scene_of(0.0, [], at_m=40.0)
    choosy = [navigator.view(replace(standing, t_s=t_s)).choosy for t_s in (0.0, 10.0, 30.0, 41.0, 42.0)]
    assert choosy == [True, True, True, False, False]
    driving = scene_of(6.0, [], at_m=50.0)
    assert not navigator.view(replace(driving, t_s=44.0)).choosy
    assert navigator.view(replace(driving, t_s=50.0)).choosy


def test_at_a_red_light_it_gets_eager_but_never_bold() -> None:
    navigator = Navigator(room())
    red = scene_of(0.0, [], at_m=40.0, lights=[(40.0 + FRONT_M + 1.0, RED)])
    views = [navigator.view(replace(red, t_s=t_s)) for t_s in (0.0, 1.0, 50.0)]
    assert [view.eager for view in views] == [False, True, True]
    assert not any(view.bold for view in views)
