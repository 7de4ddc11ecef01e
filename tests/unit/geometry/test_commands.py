"""Trajectory -> command: named manoeuvres, mirror symmetry, and agreement that is strict but not brittle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import DT_S, STEPS, Lateral, Longitudinal
from drive.geometry.commands import (
    LANE_CHANGE_M,
    MARGINS,
    MOVED_M,
    SPEED_CHANGE_MPS,
    STOP_MPS,
    TURN_RAD,
    U_TURN_RAD,
    agree,
    classify,
)

TIMES = np.arange(1, STEPS + 1) * DT_S
MIRROR = {
    Lateral.KEEP: Lateral.KEEP,
    Lateral.U_TURN: Lateral.U_TURN,
    Lateral.LANE_LEFT: Lateral.LANE_RIGHT,
    Lateral.LANE_RIGHT: Lateral.LANE_LEFT,
    Lateral.TURN_LEFT: Lateral.TURN_RIGHT,
    Lateral.TURN_RIGHT: Lateral.TURN_LEFT,
}


def arc(speed_mps: float, accel_mps2: float = 0.0, turn_rad: float = 0.0, aside_m: float = 0.0) -> np.ndarray:
    """Speed profile along a path that turns by `turn_rad` and slides aside by `aside_m` over 4 s."""
    speed = np.maximum(0.0, speed_mps + accel_mps2 * TIMES)
    yaw = turn_rad * TIMES / TIMES[-1]
    xy = np.cumsum(np.stack([speed * np.cos(yaw), speed * np.sin(yaw)], -1) * DT_S, 0)
    xy[:, 1] += aside_m * (TIMES / TIMES[-1]) ** 2
    return np.concatenate([xy, np.arctan2(np.sin(yaw), np.cos(yaw))[:, None]], -1)


@pytest.mark.parametrize(
    ("pose", "speed", "lateral", "longitudinal"),
    [
        (arc(8), 8, Lateral.KEEP, Longitudinal.CRUISE),
        (arc(8, turn_rad=-1.2), 8, Lateral.TURN_RIGHT, Longitudinal.CRUISE),
        (arc(8, turn_rad=1.2), 8, Lateral.TURN_LEFT, Longitudinal.CRUISE),
        (arc(5, turn_rad=3.1), 5, Lateral.U_TURN, Longitudinal.CRUISE),
        (arc(5, turn_rad=3.6), 5, Lateral.U_TURN, Longitudinal.CRUISE),
        (arc(8, aside_m=3.5), 8, Lateral.LANE_LEFT, Longitudinal.CRUISE),
        (arc(8, aside_m=-3.5), 8, Lateral.LANE_RIGHT, Longitudinal.CRUISE),
        (arc(8, -4), 8, Lateral.KEEP, Longitudinal.STOP),
        (arc(8, -1), 8, Lateral.KEEP, Longitudinal.YIELD),
        (arc(4, 1.5), 4, Lateral.KEEP, Longitudinal.ACCELERATE),
        (np.zeros((STEPS, 3)), 0, Lateral.KEEP, Longitudinal.STOP),
    ],
)
def test_named_manoeuvres(
    pose: np.ndarray, speed: float, lateral: Lateral, longitudinal: Longitudinal
) -> None:
    assert classify(pose, speed).tolist() == [lateral, longitudinal]


def test_a_lead_vehicle_turns_cruise_into_follow() -> None:
    assert classify(arc(8), 8.0, 20.0)[1] == Longitudinal.FOLLOW
    assert classify(arc(8), 8.0, 40.0)[1] == Longitudinal.CRUISE


@given(st.floats(0, 15), st.floats(-4, 3), st.floats(-3.5, 3.5), st.floats(-4, 4))
def test_a_mirrored_trajectory_gives_the_mirrored_command(
    speed: float, accel: float, turn: float, aside: float
) -> None:
    pose = arc(speed, accel, turn, aside)
    lateral, longitudinal = classify(pose, speed)
    mirrored = classify(pose * [1.0, -1.0, -1.0], speed)
    assert mirrored.tolist() == [MIRROR[Lateral(lateral)], longitudinal]


@given(st.floats(0, 15), st.floats(-4, 3), st.floats(-3.5, 3.5), st.floats(-4, 4))
def test_every_trajectory_carries_out_the_command_it_is_named_by(
    speed: float, accel: float, turn: float, aside: float
) -> None:
    pose = arc(speed, accel, turn, aside)
    assert agree(classify(pose, speed), pose, speed)
    assert agree(classify(pose, speed, 10.0), pose, speed)  # FOLLOW equals CRUISE


@given(st.floats(0, 15), st.floats(-4, 3), st.floats(-3.5, 3.5), st.integers(0, 5), st.integers(0, 4))
def test_agreement_is_mirror_symmetric(
    speed: float, accel: float, turn: float, lateral: int, longitudinal: int
) -> None:
    pose = arc(speed, accel, turn)
    plain = agree([lateral, longitudinal], pose, speed)
    assert plain == agree([MIRROR[Lateral(lateral)], longitudinal], pose * [1.0, -1.0, -1.0], speed)


@pytest.mark.parametrize(
    ("command", "pose", "speed"),
    [
        ((Lateral.KEEP, Longitudinal.STOP), arc(8), 8),
        ((Lateral.KEEP, Longitudinal.STOP), arc(4, 1.5), 4),
        ((Lateral.KEEP, Longitudinal.YIELD), arc(8), 8),
        ((Lateral.KEEP, Longitudinal.CRUISE), arc(8, -4), 8),
        ((Lateral.KEEP, Longitudinal.CRUISE), arc(4, 1.5), 4),
        ((Lateral.KEEP, Longitudinal.FOLLOW), arc(4, 1.5), 4),
        ((Lateral.KEEP, Longitudinal.ACCELERATE), arc(8), 8),
        ((Lateral.TURN_RIGHT, Longitudinal.CRUISE), arc(8, turn_rad=1.2), 8),
        ((Lateral.TURN_RIGHT, Longitudinal.STOP), arc(8, -3, turn_rad=1.2), 8),
        ((Lateral.TURN_LEFT, Longitudinal.CRUISE), arc(8), 8),
        ((Lateral.KEEP, Longitudinal.CRUISE), arc(8, turn_rad=1.2), 8),
        ((Lateral.KEEP, Longitudinal.CRUISE), np.full((STEPS, 3), np.nan), 8),
        ((Lateral.KEEP, Longitudinal.CRUISE), arc(8), np.nan),
    ],
)
def test_split_brain_is_seen(command: tuple[int, int], pose: np.ndarray, speed: float) -> None:
    assert not agree(command, pose, speed)


@pytest.mark.parametrize(
    ("command", "pose", "speed"),
    [
        ((Lateral.KEEP, Longitudinal.STOP), arc(8, -1), 8),
        ((Lateral.KEEP, Longitudinal.YIELD), arc(8, -4), 8),
        ((Lateral.TURN_LEFT, Longitudinal.STOP), np.zeros((STEPS, 3)), 0),
        ((Lateral.TURN_LEFT, Longitudinal.CRUISE), arc(8, aside_m=2.0), 8),
        ((Lateral.KEEP, Longitudinal.FOLLOW), arc(8), 8),
        ((Lateral.KEEP, Longitudinal.ACCELERATE), arc(8, 0.25), 8),
        ((Lateral.KEEP, Longitudinal.CRUISE), arc(8, 0.3), 8),
    ],
)
def test_borderline_and_equal_meanings_agree(
    command: tuple[int, int], pose: np.ndarray, speed: float
) -> None:
    assert agree(command, pose, speed)


def test_classify_and_agree_are_batched() -> None:
    pose = np.stack([[arc(8), arc(8, turn_rad=1.2), arc(8, -4)], [arc(4), arc(4, 1.5), arc(4, turn_rad=-1)]])
    speed = np.array([[8.0], [4.0]])
    commands = classify(pose, speed)
    assert commands.shape == (2, 3, 2)
    assert commands.dtype == np.int32
    assert agree(commands, pose, speed).all()
    one_for_all = agree(np.array([Lateral.KEEP, Longitudinal.CRUISE]), pose, speed)
    assert one_for_all.tolist() == [[True, False, False], [True, False, False]]


def name_of(pose: np.ndarray, speed: float, scale: float) -> tuple[int, int]:
    """The classifier's rules in plain words, one trajectory at a time, thresholds times `scale`."""
    turn = float(np.unwrap(np.concatenate([[0.0], pose[:, 2]]))[-1])
    aside, end = float(pose[-1, 1]), float(np.hypot(*(pose[-1, :2] - pose[-6, :2]))) / 0.5
    lateral = Lateral.KEEP
    if np.hypot(pose[:, 0], pose[:, 1]).max() > MOVED_M:
        if abs(turn) > scale * U_TURN_RAD:
            lateral = Lateral.U_TURN
        elif abs(turn) > scale * TURN_RAD:
            lateral = Lateral.TURN_LEFT if turn > 0 else Lateral.TURN_RIGHT
        elif abs(aside) > scale * LANE_CHANGE_M:
            lateral = Lateral.LANE_LEFT if aside > 0 else Lateral.LANE_RIGHT
    if end < scale * STOP_MPS:
        return lateral, Longitudinal.STOP
    if end < speed - scale * SPEED_CHANGE_MPS:
        return lateral, Longitudinal.YIELD
    return lateral, Longitudinal.ACCELERATE if end > speed + scale * SPEED_CHANGE_MPS else Longitudinal.CRUISE


def same(want: tuple[int, int], have: tuple[int, int]) -> bool:
    """What `agree` takes for one another, as sets."""
    paces = ({Longitudinal.STOP, Longitudinal.YIELD}, {Longitudinal.FOLLOW, Longitudinal.CRUISE})
    sides = ({Lateral.TURN_LEFT, Lateral.LANE_LEFT}, {Lateral.TURN_RIGHT, Lateral.LANE_RIGHT})
    pace = want[1] == have[1] or any({want[1], have[1]} <= group for group in paces)
    side = want[0] == have[0] or any({want[0], have[0]} <= group for group in sides)
    return pace and (side or have == (Lateral.KEEP, Longitudinal.STOP))


COMMANDS = np.stack(np.meshgrid(np.arange(-9, 11), np.arange(-9, 11), indexing="ij"), -1).reshape(-1, 2)


@given(st.floats(0, 15), st.floats(-4, 3), st.floats(-3.5, 3.5), st.floats(-4, 4), st.integers(-1, STEPS - 1))
def test_agreement_means_what_the_rules_say_for_every_command(
    speed: float, accel: float, turn: float, aside: float, broken_row: int
) -> None:
    pose = arc(speed, accel, turn, aside)
    names = [name_of(pose, speed, scale) for scale in MARGINS]
    expected = np.array([any(same(tuple(command), name) for name in names) for command in COMMANDS.tolist()])
    got = agree(COMMANDS, pose, speed)
    wrong = COMMANDS[got != expected].tolist()
    assert not wrong[:5]
    assert (agree(COMMANDS[:, None], pose[None], np.full(3, speed)) == expected[:, None]).all()
    if broken_row >= 0:
        pose[broken_row] = np.nan
        assert not agree(COMMANDS, pose, speed).any()
