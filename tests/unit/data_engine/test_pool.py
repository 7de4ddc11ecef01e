"""Which moments of a drive say something, and what may be replayed."""

from dataclasses import replace

import numpy as np

from data_engine.pool import Pool, by_similarity, does_well, moments, teaches
from drive.contracts import DriveLog
from tests import builders


def standing(seconds: float, label_m: float = 20.0) -> DriveLog:
    """A drive that does not move; its labels lead `label_m` ahead."""
    log = builders.cruise(seconds=seconds, image_size=8)
    ego = replace(log.ego, pose_world=np.zeros_like(log.ego.pose_world))
    label = np.zeros_like(log.plans.label_ego)
    label[:, :, 0] = np.linspace(0, label_m, label.shape[1])
    return replace(log, ego=ego, plans=replace(log.plans, label_ego=label))


def test_a_long_stand_is_a_few_moments() -> None:
    log = standing(10.0)
    kept = np.flatnonzero(moments(log))
    t_s = log.ego.t_us[log.plans.step[kept]] / 1e6
    assert len(log.plans.step) > 2 * len(kept)
    assert np.diff(t_s).min() >= 2.0
    moving = builders.cruise(seconds=10.0, image_size=8)
    assert moments(moving).all()
    label = log.plans.label_ego.copy()
    label[7:] = 0  # the light turns red
    assert moments(replace(log, plans=replace(log.plans, label_ego=label)))[7]


def test_replay_is_what_the_planner_does_well() -> None:
    """Found in a night: distillation on replay held the planner to standing before an obstacle."""
    log = standing(4.0)
    stuck = replace(log, plans=replace(log.plans, plan_ego=np.zeros_like(log.plans.plan_ego)))
    assert not does_well(stuck, 0)
    good = replace(log, plans=replace(log.plans, plan_ego=log.plans.label_ego + np.float32(0.1)))
    assert does_well(good, 0)
    unknown = replace(log, plans=replace(log.plans, plan_ego=np.full_like(log.plans.plan_ego, np.nan)))
    assert does_well(unknown, 0)


def test_a_teacher_does_what_its_labels_say() -> None:
    log = builders.cruise(seconds=10.0, image_size=8)
    assert teaches(log)
    still = replace(log.plans, label_ego=np.zeros_like(log.plans.label_ego))
    assert not teaches(replace(log, plans=still))
    unknown = replace(log.plans, label_ego=np.full_like(log.plans.label_ego, np.nan))
    assert not teaches(replace(log, plans=unknown))


def test_nothing_is_similar_to_nothing() -> None:
    assert by_similarity(Pool(), set()) == []
