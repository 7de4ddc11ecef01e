"""Questions to a small untrained planner: what is counted is what its plans do on the true scene."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from drive.contracts import DriveLog
from drive.geometry.commands import agree, kind_of
from drive.model.network import PlannerNetwork
from drive.model.policy import PlannerPolicy
from drive.score.choices import choices, safe
from drive.score.terms import reward_terms, total
from drive.train.questions import COUNTS, REFLECT, WRONG_PER_SCENE, Situation, ask, situations, usable_steps
from tests.unit.model.networks import TINY, statistics, tiny_network
from tests.unit.train.drives import picture_drive


@pytest.fixture(scope="module")
def log() -> DriveLog:
    return picture_drive(2)


@pytest.fixture(scope="module")
def policy() -> PlannerPolicy:
    return PlannerPolicy(tiny_network(), "tiny")


def first(log: DriveLog) -> Situation:
    return next(situations(log, usable_steps(log)[:1]))


def test_usable_steps_have_a_label_and_the_whole_horizon_recorded(log: DriveLog) -> None:
    steps = usable_steps(log)
    t_s = (log.ego.t_us - log.ego.t_us[0]) * 1e-6
    assert len(steps)
    assert t_s[log.plans.step[steps]].max() <= t_s[-1] - 4.0 + 0.05
    gone = np.full_like(log.plans.label_ego, np.nan)
    assert not len(usable_steps(replace(log, plans=replace(log.plans, label_ego=gone))))


def test_answers_are_what_the_plans_do(log: DriveLog, policy: PlannerPolicy) -> None:
    at = first(log)
    answers = ask(policy, at)
    plan = policy.plan([at.observation], 0)[0]
    assert plan.command is not None
    own = np.array([plan.command.lateral, plan.command.longitudinal])
    pose = plan.best.pose_ego.astype(np.float64)
    assert answers["agrees"] == [float(agree(own, pose, at.scene.speed_mps)), 1]
    assert answers["safe"] == [float(safe(pose[None], at.scene)[0]), 1]
    assert answers[f"agrees/{plan.command.lateral.name.lower()}"] == answers["agrees"]
    judged = choices(at.scene, at.lead_gap_m, at.label_ego[None].astype(np.float64))
    other = judged.command[judged.feasible & (kind_of(judged.command) != kind_of(own))]
    obeyed = 0
    for command in other:
        told = policy.plan([at.observation], 0, command[None].astype(np.int64))[0]
        assert told.command is not None
        assert (told.command.lateral, told.command.longitudinal) == tuple(command)
        obeyed += bool(agree(command, told.best.pose_ego, at.scene.speed_mps))
    assert answers["obeys"] == [float(obeyed), len(other)]
    asked = min(WRONG_PER_SCENE, int(judged.wrong.sum()))
    assert answers["wrong_safe"][1] == answers["wrong_flagged"][1] == asked > 0
    words = [value for name, value in answers.items() if name.startswith("wrong_safe/")]
    assert [sum(column) for column in zip(*words, strict=True)] == answers["wrong_safe"]


def test_the_own_command_told_gives_the_own_plan(log: DriveLog, policy: PlannerPolicy) -> None:
    at = first(log)
    plan = policy.plan([at.observation], 3)[0]
    assert plan.command is not None
    own = np.array([[plan.command.lateral, plan.command.longitudinal]], np.int64)
    told = policy.plan([at.observation], 3, own)[0]
    np.testing.assert_array_equal(told.proposals_ego, plan.proposals_ego)
    assert told.command == plan.command


def test_more_proposals_only_come_nearer_and_all_of_them_are_the_plan(log: DriveLog) -> None:
    torch.manual_seed(0)
    network = PlannerNetwork(replace(TINY, kmeans_anchors=11), statistics(kmeans_anchors=11))
    policy = PlannerPolicy(network, "tiny")
    assert policy.network.proposals == COUNTS[-1]
    at = first(log)
    answers = ask(policy, at)
    nearest = [answers[f"best_ade_m/{count}"][0] for count in COUNTS]
    assert nearest == sorted(nearest, reverse=True)
    assert all(answers[f"ade_m/{n}"][0] >= answers[f"best_ade_m/{n}"][0] - 1e-6 for n in COUNTS)
    best = policy.plan([at.observation], 0)[0].best.pose_ego
    gap = np.linalg.norm((best - at.label_ego)[4::5, :2], axis=-1).mean()
    assert answers["ade_m/16"][0] == pytest.approx(gap, abs=1e-4)
    assert all(0 <= answers[f"{name}/{n}"][0] <= 1 for name in ("reward", "reflected") for n in COUNTS)


def test_the_reflected_plan_is_the_plan_of_a_planner_that_reflects(log: DriveLog) -> None:
    torch.manual_seed(0)
    network = PlannerNetwork(replace(TINY, kmeans_anchors=11), statistics(kmeans_anchors=11))
    answers = ask(PlannerPolicy(network, "tiny"), first(log))
    network.config = replace(
        network.config, refine_steps=REFLECT.refine_steps, reflect_rounds=REFLECT.reflect_rounds
    )
    at = first(log)
    best = PlannerPolicy(network, "tiny").plan([at.observation], 0)[0].best.pose_ego
    judged = choices(at.scene, at.lead_gap_m, at.label_ego[None].astype(np.float64))
    reward = total(reward_terms(best[None], at.scene, judged.progress_m))[0]
    assert answers["reflected/16"][0] == pytest.approx(float(reward), abs=1e-3)


def test_planners_without_a_command_or_proposals_answer_what_they_can(log: DriveLog) -> None:
    at = first(log)
    plain = ask(PlannerPolicy(tiny_network(use_command=False), "plain"), at)
    assert "agrees" not in plain
    assert not any(name.startswith(("obeys", "wrong")) for name in plain)
    assert {"safe", "ade_m/8", "reward/1", "reflected/1"} <= plain.keys()
    one = ask(PlannerPolicy(tiny_network(head="regression", use_command=False), "one"), at)
    assert {name for name in one if name.startswith("ade_m")} == {"ade_m/1"}


def test_where_nothing_can_be_done_nothing_is_asked(policy: PlannerPolicy) -> None:
    at = first(picture_drive(2))
    gone = replace(at.scene, lane_ego=np.full((1, 2, 2), 500.0), lane_width_m=np.ones(1, np.float32))
    gone = replace(gone, in_junction=np.zeros(1, bool))
    assert ask(policy, at._replace(scene=gone)) == {"no_way_out": [1.0, 1]}
