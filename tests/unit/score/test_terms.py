"""Reward terms on hand-made drives: each defect lowers the term that names it, and nothing else."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import DT_S, EGO_MKZ, GATES, STEPS, WEIGHTED, DriveLog
from drive.score.scene import FrozenScene, freeze_log, stop_line
from drive.score.terms import WEIGHTS, reduce, reward_terms, total
from tests import builders

TIMES = np.arange(1, STEPS + 1) * DT_S
FRONT_M = EGO_MKZ.centre_from_axle_m + EGO_MKZ.length_m / 2


def straight(speed_mps: float, y_m: float = 0.0, yaw_rad: float = 0.0) -> np.ndarray:
    still = np.zeros(STEPS)
    return np.stack([speed_mps * TIMES, still + y_m, still + yaw_rad], -1)


def braking(speed_mps: float, decel_mps2: float) -> np.ndarray:
    t = np.minimum(TIMES, speed_mps / decel_mps2)
    pose = straight(0.0)
    pose[:, 0] = speed_mps * t - 0.5 * decel_mps2 * t**2
    return pose


def empty(speed_mps: float = 10.0, **changes: object) -> FrozenScene:
    """A straight two-lane road (lanes at y = 0 and 3.5), a route along y = 0, nobody there."""
    lane = np.linspace([-50.0, 0.0], [200.0, 0.0], 51)
    scene = FrozenScene(
        speed_mps=speed_mps,
        ego_size=EGO_MKZ,
        agent_pose_ego=np.zeros((0, STEPS, 3)),
        agent_size_m=np.zeros((0, 2), np.float32),
        agent_valid=np.zeros((0, STEPS), bool),
        lane_ego=np.stack([lane, lane + np.array([0.0, 3.5])]),
        lane_width_m=np.array([3.5, 3.5], np.float32),
        in_junction=np.array([False, False]),
        route_ego=lane,
    )
    return dataclasses.replace(scene, **changes)


def with_car(x_m: float, speed_mps: float = 0.0, y_m: float = 0.0) -> FrozenScene:
    pose = straight(speed_mps, y_m)[None]
    pose[..., 0] += x_m
    return empty(
        agent_pose_ego=pose,
        agent_size_m=np.array([[4.5, 1.9]], np.float32),
        agent_valid=np.ones((1, STEPS), bool),
    )


def one(pose: np.ndarray, scene: FrozenScene) -> dict[str, float]:
    return {k: float(v[0]) for k, v in reduce(reward_terms(pose[None], scene)).items()}


def lowered(values: dict[str, float]) -> set[str]:
    return {k for k, v in values.items() if v < 1.0}


def test_good_driving_scores_one() -> None:
    terms = reward_terms(straight(10)[None], empty())
    assert lowered({k: float(v[0]) for k, v in reduce(terms).items()}) == set()
    assert total(terms).tolist() == [1.0]
    assert terms.unknown == ()


def test_hitting_a_standing_car_breaks_the_gate() -> None:
    values = one(straight(10), with_car(30.0))
    assert values["no_collision"] == 0.0
    assert values["ttc"] == 0.0
    terms = reward_terms(straight(10)[None], with_car(30.0))
    first = int(terms.no_collision[0].argmin())
    contact_s = (30.0 - 2.25 - FRONT_M) / 10.0
    assert (first + 1) * DT_S == pytest.approx(contact_s, abs=DT_S)
    assert (terms.no_collision[0, first:] == 0).all()
    assert total(terms)[0] == 0.0


def test_time_to_collision_warns_before_contact() -> None:
    near = 30.0 - 2.25 - FRONT_M - 3.0  # stops 3 m short, still fast shortly before
    pose = braking(12.0, 12.0**2 / 2 / near)
    values = one(pose, with_car(30.0, speed_mps=0.0))
    assert values["no_collision"] == 1.0
    late = straight(10)
    late[:, 0] = np.minimum(late[:, 0], near + 2.0)
    assert one(late, with_car(30.0))["ttc"] == 0.0
    assert one(braking(10.0, 4.0), with_car(30.0))["ttc"] == 1.0


def test_following_at_the_same_speed_is_fine() -> None:
    assert lowered(one(straight(10), with_car(12.0, speed_mps=10.0))) == set()


def test_being_caught_up_from_behind_is_not_held_against_the_ego() -> None:
    assert one(straight(5.0), with_car(-15.0, speed_mps=10.0))["no_collision"] == 1.0


def test_leaving_the_road_breaks_the_gate() -> None:
    values = one(straight(10, y_m=-1.5), empty())
    assert values["on_road"] == 0.0
    assert one(straight(10, y_m=-0.5), empty())["on_road"] == 1.0
    assert one(straight(10, y_m=1.75), empty())["on_road"] == 1.0  # both lanes together are road


@pytest.mark.parametrize(("speed", "expected"), [(10.0, 0.0), (3.0, 0.5), (1.5, 1.0)])
def test_driving_against_the_lane_is_wrong_way(speed: float, expected: float) -> None:
    lanes = empty().lane_ego
    assert lanes is not None
    oncoming = empty(speed, lane_ego=np.stack([lanes[0, ::-1], lanes[1]]))
    assert one(straight(speed), oncoming)["right_way"] == expected
    crossing = dataclasses.replace(oncoming, in_junction=np.array([True, True]))
    assert one(straight(speed), crossing)["right_way"] == 1.0


def test_crossing_a_red_line_breaks_the_gate_when_the_bumper_is_over_it() -> None:
    scene = empty(red_line_ego=stop_line(empty().route_ego, 20.0))
    terms = reward_terms(straight(10)[None], scene)
    first = int(terms.red_light[0].argmin())
    assert (first + 1) * DT_S == pytest.approx((20.0 - FRONT_M) / 10.0, abs=DT_S)
    assert one(braking(10.0, 4.0), scene)["red_light"] == 1.0
    passed = empty(red_line_ego=stop_line(empty().route_ego, FRONT_M - 0.5))
    assert one(straight(10), passed)["red_light"] == 1.0


def test_straddling_lanes_for_two_seconds_costs_lane() -> None:
    assert one(straight(10, y_m=1.7), empty())["lane"] < 0.6
    change = straight(10)
    change[:, 1] = 3.5 * np.clip((TIMES - 1) / 2.0, 0, 1)
    assert one(change, empty())["lane"] == 1.0


def test_harsh_driving_costs_comfort_only() -> None:
    assert lowered(one(braking(10.0, 8.0), empty())) == {"comfort"}
    swerve = straight(10)
    swerve[:, 2] = 0.3 * np.sin(2 * np.pi * TIMES / 0.8)
    assert one(swerve, empty())["comfort"] < 1.0


def test_progress_is_measured_against_the_best_safe_proposal() -> None:
    batch = np.stack([straight(10), straight(5), straight(0)])
    values = reduce(reward_terms(batch, empty()))["progress"]
    assert np.allclose(values, [1.0, 0.5, 0.0])
    crash = reduce(reward_terms(batch, with_car(32.0)))
    assert crash["no_collision"].tolist() == [0.0, 1.0, 1.0]
    assert np.allclose(crash["progress"], [1.0, 1.0, 0.0])
    assert reduce(reward_terms(batch[1:2], empty(), best_progress_m=40.0))["progress"] == pytest.approx(0.5)


def test_speeding_gains_no_progress_and_short_progress_is_forgiven() -> None:
    batch = np.stack([straight(20), straight(10)])
    assert np.allclose(reduce(reward_terms(batch, empty(speed_limit_mps=10.0)))["progress"], [1.0, 1.0])
    assert reduce(reward_terms(straight(0)[None], empty(0.0)))["progress"].tolist() == [1.0]


def test_a_route_that_returns_gives_no_leap() -> None:
    there = np.linspace([0.0, 0.0], [60.0, 0.0], 61)
    loop = np.concatenate([there, there[::-1] + np.array([0.0, 0.5])])
    values = reduce(reward_terms(np.stack([straight(10), straight(5)]), empty(route_ego=loop)))
    assert np.allclose(values["progress"], [1.0, 0.5], atol=1e-3)


def test_without_map_and_route_the_road_terms_are_one_and_named() -> None:
    nothing = {"lane_width_m": np.zeros(0, np.float32), "in_junction": np.zeros(0, bool)}
    bare = empty(lane_ego=None, route_ego=np.zeros((0, 2)), **nothing)
    terms = reward_terms(straight(10, y_m=-30.0)[None], bare)
    assert set(terms.unknown) == {"on_road", "right_way", "lane", "route"}
    assert {k for k, v in reduce(terms).items() if v[0] == 1.0} >= {"on_road", "right_way", "lane"}


def test_a_non_finite_proposal_scores_zero_and_spoils_no_other() -> None:
    bad = straight(10)
    bad[7, 1] = np.nan
    batch = np.stack([straight(10), bad])
    terms = reward_terms(batch, with_car(60.0, 10.0))
    assert total(terms).tolist() == [1.0, 0.0]
    for name in (*GATES, *WEIGHTED):
        assert (getattr(terms, name)[1] == 0).all()


def test_an_agent_that_disappears_does_not_collide_afterwards() -> None:
    scene = with_car(30.0)
    gone = dataclasses.replace(scene, agent_valid=np.arange(STEPS)[None] < 5)
    assert one(straight(10), gone)["no_collision"] == 1.0


@given(st.floats(0, 15), st.floats(-3, 3), st.floats(-0.3, 0.3), st.floats(5, 60))
def test_terms_stay_in_range_and_proposals_are_scored_independently(
    speed: float, y: float, yaw: float, car_x: float
) -> None:
    scene = with_car(car_x)
    batch = np.stack([straight(speed, y, yaw), straight(10), braking(10, 3)]).astype(np.float32)
    terms = reward_terms(batch, scene, best_progress_m=40.0)
    alone = reward_terms(batch[:1], scene, best_progress_m=40.0)
    for name in (*GATES, *WEIGHTED):
        value = getattr(terms, name)
        assert value.shape == (3, STEPS)
        assert value.dtype == np.float32
        assert ((value >= 0) & (value <= 1)).all()
        assert np.array_equal(value[:1], getattr(alone, name))


@given(st.floats(0, 15), st.floats(-3, 3), st.floats(-0.3, 0.3), st.floats(-2, 2))
def test_a_mirrored_world_gives_the_same_score(speed: float, y: float, yaw: float, car_y: float) -> None:
    scene = with_car(25.0, 2.0, car_y)
    flip = np.array([1.0, -1.0])
    assert scene.lane_ego is not None
    mirrored = dataclasses.replace(
        scene,
        agent_pose_ego=scene.agent_pose_ego * [1, -1, -1],
        lane_ego=scene.lane_ego * flip,
        route_ego=scene.route_ego * flip,
    )
    pose = straight(speed, y, yaw)[None]
    plain, flipped = reward_terms(pose, scene), reward_terms(pose * [1, -1, -1], mirrored)
    assert total(plain) == pytest.approx(total(flipped))


def first_full(log: DriveLog, at: int) -> int:
    full = np.flatnonzero(np.isfinite(log.plans.label_ego).all((1, 2)))
    return int(full[at])


@pytest.mark.parametrize("log", [builders.cruise(), builders.left_turn()], ids=lambda log: log.meta.log_id)
def test_recorded_good_drives_score_one(log: DriveLog) -> None:
    for at in (0, 5, -1):
        index = first_full(log, at)
        terms = reward_terms(log.plans.label_ego[index][None], freeze_log(log, index))
        assert total(terms)[0] == 1.0, reduce(terms)


def test_recorded_collisions_are_found() -> None:
    for log in (builders.lead_braking(), builders.pedestrian_crossing()):
        index = first_full(log, -1)
        terms = reward_terms(log.plans.label_ego[index][None], freeze_log(log, index))
        assert reduce(terms)["no_collision"][0] == 0.0


def test_a_recorded_red_light_becomes_a_stop_line() -> None:
    log = builders.cruise()
    aux = log.plans.aux.copy()
    aux[:, :2] = [0.0, 12.0]
    red = dataclasses.replace(log, plans=dataclasses.replace(log.plans, aux=aux))
    scene = freeze_log(red, 0)
    assert np.allclose(scene.red_line_ego[0, :, 0], FRONT_M + 12.0, atol=0.02)
    assert reduce(reward_terms(log.plans.label_ego[0][None], scene))["red_light"][0] == 0.0
    assert len(freeze_log(log, 0).red_line_ego) == 0


def test_steps_must_match_the_scene() -> None:
    with pytest.raises(ValueError, match="proposals_ego"):
        reward_terms(np.zeros((1, 10, 3)), empty())


def test_weights_cover_the_weighted_terms() -> None:
    assert set(WEIGHTS) == set(WEIGHTED)
