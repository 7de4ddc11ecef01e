"""What can be commanded in hand-made scenes, and which ways lead on from them."""

from dataclasses import replace

import numpy as np
import pytest

from drive.contracts import EGO_MKZ, F64, AgentKind, Lateral, Longitudinal
from drive.geometry.commands import classify
from drive.score.choices import choices, every_command, kinds_of, modes, safe
from drive.score.scene import FrozenScene, freeze, freeze_log, stop_line
from drive.score.ways import branches, distinct_lanes, ways_ahead
from tests import builders

STRAIGHT = np.stack([np.arange(-20.0, 81.0, 2.0), np.zeros(51)], -1)


def names(commands: np.ndarray) -> set[str]:
    return {f"{Lateral(a).name}/{Longitudinal(b).name}".lower() for a, b in commands.tolist()}


def crossing() -> FrozenScene:
    """The ego drives 6 m/s towards a junction 12 m ahead, whence lanes lead left, straight on and right."""
    angle = np.linspace(0, np.pi / 2, 10)
    left = np.stack([12 + 10 * np.sin(angle), 10 * (1 - np.cos(angle))], -1)
    on = np.stack([np.linspace(12, 22, 10), np.zeros(10)], -1)
    north = np.stack([np.full(10, 22.0), np.linspace(10, 80, 10)], -1)
    east = np.stack([np.linspace(22, 80, 10), np.zeros(10)], -1)
    before = np.stack([np.linspace(-20, 12, 10), np.zeros(10)], -1)
    lanes = np.stack([before, before, left, on, left * [1, -1], north, east, north * [1, -1]])
    scene = freeze_log(builders.cruise(6.0), 0)
    inside = np.array([False, False, True, True, True, False, False, False])
    return replace(
        scene,
        lane_ego=lanes,
        lane_width_m=np.full(8, 3.5, np.float32),
        in_junction=inside,
        route_ego=STRAIGHT,
    )


def mirrored(scene: FrozenScene) -> FrozenScene:
    assert scene.lane_ego is not None
    return replace(
        scene,
        lane_ego=scene.lane_ego * [1.0, -1.0],
        route_ego=scene.route_ego * [1.0, -1.0],
        agent_pose_ego=scene.agent_pose_ego * [1.0, -1.0, -1.0],
    )


def test_on_an_empty_lane_only_the_speed_can_be_chosen() -> None:
    scene = freeze_log(builders.cruise(8.0), 0)
    found = choices(scene)
    assert names(found.command[found.feasible]) == {
        "keep/stop", "keep/yield", "keep/cruise", "keep/accelerate"
    }  # fmt: skip
    wrong = names(found.command[found.wrong])
    assert {"u_turn/cruise", "turn_left/accelerate", "turn_right/cruise"} <= wrong
    assert not any(name.startswith("keep/") for name in wrong)
    assert found.progress_m == pytest.approx(min(4 * 8 + 8 * 2.4, 4 * 13.9), abs=0.5)


def test_roll_outs_called_safe_are_safe_for_the_scores() -> None:
    for scene in (freeze_log(builders.lead_braking(), 20), crossing(), freeze_log(builders.left_turn(), 10)):
        found = choices(scene).safe_ego
        assert len(found) > 10
        assert safe(found, scene).mean() > 0.97  # the road is judged every metre here, every 0.1 s there
    assert safe(np.zeros((0, 40, 3)), crossing()).shape == (0,)


def test_behind_a_braking_car_going_on_is_wrong_and_stopping_is_not() -> None:
    scene = freeze_log(builders.lead_braking(12.0, 10.0, 4.0), 10)
    found = choices(scene, 12.0)
    assert "keep/stop" in names(found.command[found.feasible])
    assert {"keep/follow", "keep/accelerate"} <= names(found.command[found.wrong])
    assert "keep/cruise" not in names(found.command)


def test_at_a_red_light_going_on_is_wrong() -> None:
    scene = freeze_log(builders.cruise(6.0), 0)
    scene = replace(scene, red_line_ego=stop_line(scene.route_ego, 16.0))
    found = choices(scene)
    assert {"keep/cruise", "keep/accelerate"} <= names(found.command[found.wrong])
    assert "keep/stop" in names(found.command[found.feasible])


def test_a_walker_in_front_leaves_no_way_out_when_it_is_too_late() -> None:
    t = np.arange(0.0, 8.0, 0.1)
    walker = np.tile([5.0, 0.0, 0.0], (len(t), 1))
    log = builders.drive_log(builders.along_x(10 * t - 4.0), [(AgentKind.PEDESTRIAN, (0.6, 0.6), walker)])
    found = choices(freeze_log(log, 0))
    assert not len(found.safe_ego)
    assert found.wrong.all()
    assert not found.feasible.any()


def test_at_a_crossing_one_may_turn_and_a_mirrored_crossing_gives_mirrored_choices() -> None:
    found = choices(crossing())
    feasible = names(found.command[found.feasible])
    assert {"turn_left/cruise", "turn_right/cruise", "keep/cruise", "keep/stop"} <= feasible
    assert "u_turn/cruise" not in feasible
    swap = {"left": "right", "right": "left"}
    other = choices(mirrored(crossing()))
    assert {"_".join(swap.get(w, w) for w in n.split("/")[0].split("_")) + "/" + n.split("/")[1]
            for n in feasible} == names(other.command[other.feasible])  # fmt: skip


def test_what_the_recorded_driver_did_counts_as_well() -> None:
    scene = freeze_log(builders.cruise(8.0), 0)
    assert scene.lane_ego is not None
    swerve = np.zeros((1, 40, 3))
    swerve[0, :, 0] = np.linspace(0.8, 32, 40)
    swerve[0, :, 1] = np.linspace(0, 3.0, 40)
    wide = replace(scene, lane_width_m=np.full(1, 12.0, np.float32))
    assert len(choices(wide, also_ego=swerve).safe_ego) == len(choices(wide).safe_ego) + 1
    assert len(choices(scene, also_ego=swerve).safe_ego) == len(choices(scene).safe_ego)


def test_without_a_map_only_others_restrict() -> None:
    scene = freeze(np.zeros(3), 6.0, EGO_MKZ, builders.agents([], 10), np.arange(10) * 0.1)
    found = choices(scene)
    assert {"turn_left/cruise", "lane_right/cruise"} <= names(found.command[found.feasible])
    assert branches(distinct_lanes(scene), 40.0) == 0


def test_ways_branch_at_the_crossing_and_repeated_lanes_count_once() -> None:
    lanes = distinct_lanes(crossing())
    assert lanes is not None
    assert len(lanes.centre) == 7
    assert branches(lanes, 40.0) == 3
    assert branches(lanes, 8.0) == 1
    ways = ways_ahead(lanes, 40.0)
    assert {tuple(np.sign(np.round(way.points_ego[-1, 1:], 3))) for way in ways} == {(1.0,), (0.0,), (-1.0,)}
    assert all(way.own for way in ways)


def straight(end_x: float, end_y: float = 0.0) -> F64:
    share = (np.arange(40) + 1) / 40
    return np.stack([end_x * share, end_y * share**2 * (3 - 2 * share), np.zeros(40)], -1)


def test_modes_are_distinct_commands_and_a_threshold_makes_no_second_one() -> None:
    assert modes(np.zeros((0, 40, 3)), 6.0) == 0
    assert modes(np.stack([straight(24.0), straight(24.4)]), 6.0) == 1
    near = [straight(24.0, 1.74), straight(24.0, 1.76)]
    assert len({tuple(row) for row in classify(np.stack(near), np.full(2, 6.0)).tolist()}) == 2
    assert modes(np.stack(near), 6.0) == 1
    assert (
        modes(np.stack([straight(24.0), straight(24.0, 3.5), straight(24.0, -3.5), straight(0.1)]), 6.0) == 4
    )


def test_kinds_group_what_agree_takes_for_one_another() -> None:
    every = every_command()
    assert len(every) == 24
    assert len(kinds_of(every)) == 4 * 3
    behind = every_command(10.0)
    assert (behind[:, 1] == Longitudinal.FOLLOW).sum() == 6
    assert not (behind[:, 1] == Longitudinal.CRUISE).any()
