"""The table of road users: nearest first, in the ego frame, with what was recorded of their future."""

from dataclasses import replace

import numpy as np

from drive.contracts import AgentKind, AgentTracks, DriveLog
from drive.data import agents as table
from drive.data.agents import agents_of
from tests import builders


def with_users(log: DriveLog, *users: tuple[float, float, float, AgentKind]) -> DriveLog:
    """Road users (x, y, speed along +y, kind) from the ego's first pose on."""
    steps = len(log.ego.t_us)
    t_s = (log.ego.t_us - log.ego.t_us[0]) * 1e-6
    pose = np.zeros((len(users), steps, 3))
    for k, (x, y, speed, _) in enumerate(users):
        pose[k, :, 0], pose[k, :, 1], pose[k, :, 2] = x, y + speed * t_s, np.pi / 2
    kinds = np.array([kind for *_, kind in users], np.int32)
    speeds = np.array([[abs(speed)] * steps for _, _, speed, _ in users], np.float32)
    size = np.array([[4.0, 2.0]] * len(users), np.float32)
    valid = np.ones((len(users), steps), bool)
    return replace(
        log, agents=AgentTracks(np.arange(len(users), dtype=np.int32), kinds, size, pose, speeds, valid)
    )


def test_road_users_stand_in_the_ego_frame_nearest_first_with_their_future() -> None:
    log = with_users(
        builders.cruise(5.0), (30.0, 4.0, 0.0, AgentKind.CAR), (12.0, -3.0, 1.5, AgentKind.PEDESTRIAN)
    )
    out = agents_of(log, 0)
    assert out.shape == (table.MOST, table.COLUMNS)
    assert np.isfinite(out[:, 0]).sum() == 2
    np.testing.assert_allclose(out[0, :6], [12.0, -3.0, np.pi / 2, 4.0, 2.0, 1.0], atol=1e-5)
    np.testing.assert_allclose(out[0, 6:], [12.0, -1.5, 12.0, 0.0, 12.0, 1.5], atol=1e-5)
    np.testing.assert_allclose(out[1, :6], [30.0, 4.0, np.pi / 2, 4.0, 2.0, 0.0], atol=1e-5)
    step = 5
    moved = 5.0 * (log.ego.t_us[log.plans.step[step]] - log.ego.t_us[0]) * 1e-6
    np.testing.assert_allclose(agents_of(log, step)[0, 0], 12.0 - moved, atol=1e-5)


def test_who_is_behind_or_far_is_left_out_and_an_unrecorded_future_is_unknown() -> None:
    log = with_users(
        builders.cruise(5.0),
        (-2.0, 0.0, 0.0, AgentKind.CAR),
        (90.0, 0.0, 0.0, AgentKind.CAR),
        (47.0, 2.0, 0.0, AgentKind.CAR),
    )
    first, last = agents_of(log, 0), agents_of(log, len(log.plans.step) - 1)
    assert np.isfinite(first[:, 0]).sum() == 1
    assert np.isnan(last[0, table.LATER :]).all()
