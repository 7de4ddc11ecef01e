"""Routes on packaged towns: same seed same route, all on lanes, and honest hints."""

import carla
import numpy as np
import pytest

from drive.contracts import Turn, UserError
from sim.routes import SPEED_CAP_MPS, RouteSpec, build_route, curve_speeds, road_speeds_mps, town_map
from sim.server.opendrive import read_town
from tests.sim_builders import straight_route


@pytest.fixture(scope="module")
def town01() -> carla.Map:
    return town_map("Town01", read_town("Town01"))


def spec(seed: int, length: float = 150.0) -> RouteSpec:
    return RouteSpec(f"r{seed}", "Town01", seed, length)


@pytest.mark.parametrize("seed", range(6))
def test_route_follows_lanes_and_has_the_length(town01: carla.Map, seed: int) -> None:
    route = build_route(town01, spec(seed))
    hops = np.hypot(*np.diff(route.pose_world[:, :2], axis=0).T)
    assert hops == pytest.approx(np.ones(len(hops)), abs=0.8)
    assert route.length_m == 150.0
    assert len(route.pose_world) > route.goal_m + 30
    assert (route.limit_mps <= SPEED_CAP_MPS).all()
    assert (route.speed_mps <= route.limit_mps).all()
    assert not route.junction[: int(route.start_m) + 8].any()


def test_same_seed_same_route_and_other_seed_another(town01: carla.Map) -> None:
    first, again, other = (build_route(town01, spec(s)) for s in (3, 3, 4))
    assert first.pose_world.tobytes() == again.pose_world.tobytes()
    assert first.pose_world.tobytes() != other.pose_world.tobytes()


def test_turn_labels_agree_with_the_heading_change(town01: carla.Map) -> None:
    seen = set()
    for seed in range(10):
        route = build_route(town01, spec(seed, 200.0))
        yaw = np.unwrap(route.pose_world[:, 2])
        inside = np.flatnonzero(route.junction)
        for group in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1):
            if len(group) < 3:
                continue
            change = yaw[group[-1]] - yaw[group[0] - 1]
            turn = Turn(int(route.turn[group[0]]))
            seen.add(turn)
            assert (turn is Turn.LEFT) == (change > 0.5)
            assert (turn is Turn.RIGHT) == (change < -0.5)
    assert {Turn.LEFT, Turn.RIGHT} <= seen


def test_too_long_a_route_is_a_user_error(town01: carla.Map) -> None:
    with pytest.raises(UserError, match="Town01: no route of 9000 m"):
        build_route(town01, spec(0, 9000.0))


def test_an_empty_map_is_a_user_error() -> None:
    with pytest.raises(UserError, match="no drivable lanes"):
        town_map("nowhere", "<x/>")


def test_speeds_are_converted() -> None:
    text = '<road name="" id="7"><type><speed max="25" unit="mph"/></type></road>'
    text += '<road id="8"><speed max="36" unit="km/h"/>'
    assert road_speeds_mps(text) == pytest.approx({7: 11.176, 8: 10.0}, abs=1e-3)


def test_curves_are_taken_slowly_and_braked_for_in_time() -> None:
    route = straight_route(120, bend_at=60, radius_m=10.0)
    speed = curve_speeds(route.pose_world, route.limit_mps)
    assert speed[65] == pytest.approx(np.sqrt(2.0 * 10.0), rel=0.15)
    assert speed[20] == 10.0
    assert (np.diff(speed[:60] ** 2) / 2 >= -1.5 - 1e-6).all()


def test_hint_points_lie_ahead_on_the_route() -> None:
    route = straight_route()
    hint = route.hint(np.array([20.0, 1.0, 0.0]), 20.0)
    assert hint.target_points_ego == pytest.approx(np.array([[10.0, -1.0], [25.0, -1.0]]))
    assert hint.turn is Turn.FOLLOW


def test_locate_gives_arc_length_and_left_offset() -> None:
    route = straight_route()
    assert route.locate((33.3, 1.5, 0.0), 30.0) == pytest.approx((33.3, 1.5))
    assert route.locate((33.3, -1.5, 2.0), 33.0) == pytest.approx((33.3, -1.5))
