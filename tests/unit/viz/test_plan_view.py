"""The picture of a plan: projection, words, and that a plan of every kind can be drawn."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from drive.contracts import DriveLog, DrivingCommand, Lateral, Longitudinal, Plan, Trajectory
from drive.viz.plan_view import draw_plan, on_image, words
from tests import builders


def plan_for(log: DriveLog, command: bool = True) -> Plan:
    best = log.plans.label_ego[0].copy()
    proposals = np.stack([best, best * np.float32(0.5)])
    said = DrivingCommand(Lateral.KEEP, Longitudinal.STOP, 0.0, (9.0, 0.0), 0.8, "red light 20 m ahead")
    return Plan(
        Trajectory(best), proposals, np.array([1.0, 0.5], np.float32), said if command else None,
        flags=("split_brain",), latency_ms={"encode": 6.25},
    )  # fmt: skip


def test_what_is_straight_ahead_is_in_the_middle_and_what_is_behind_is_nowhere() -> None:
    camera = builders.cruise(image_size=32).plans.cameras["front"]
    pixel = on_image(np.array([[10.0, 0.0], [20.0, 0.0], [20.0, 3.0], [-5.0, 0.0]]), camera)
    assert pixel[0, 0] == pytest.approx(camera.intrinsics[0, 2], abs=0.5)
    assert pixel[1, 1] < pixel[0, 1]  # further away is higher up
    assert pixel[2, 0] < pixel[1, 0]  # left is left
    assert np.isnan(pixel[3]).all()


def test_the_words_name_command_flags_and_judgement() -> None:
    log = builders.cruise(image_size=32)
    text = "\n".join(words(log, 0, plan_for(log)))
    for part in (
        "keep/stop",
        "80 % sure",
        "red light 20 m ahead",
        "split_brain",
        "no_collision 1.00",
        "6.2 ms",
    ):
        assert part in text
    assert "emits none" in "\n".join(words(log, 0, plan_for(log, command=False)))


@pytest.mark.parametrize("kind", ["whole", "no pictures", "no label", "no map, no road users"])
def test_every_drive_can_be_drawn(kind: str) -> None:
    log = builders.lead_braking() if kind == "no pictures" else builders.cruise(image_size=32)
    plan = plan_for(log)
    if kind == "no label":
        log = replace(log, plans=replace(log.plans, label_ego=np.full_like(log.plans.label_ego, np.nan)))
    if kind == "no map, no road users":
        log = replace(log, road=None)
    image = cv2.imdecode(np.frombuffer(draw_plan(log, 0, plan), np.uint8), cv2.IMREAD_COLOR)
    assert image.shape[1] > 1000
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 50


def test_road_users_that_the_planner_sees_are_drawn_where_it_sees_them() -> None:
    log = builders.cruise(image_size=32)
    user = np.array([[20.0, 5.0, 0.3, 4.5, 1.9, 0.9, 22.0, 6.0, 24.0, 7.0, 26.0, 8.0]], np.float32)
    plain, seen = plan_for(log), replace(plan_for(log), road_users=user)
    images = [
        cv2.imdecode(np.frombuffer(draw_plan(log, 0, plan), np.uint8), cv2.IMREAD_COLOR).astype(int)
        for plan in (plain, seen)
    ]
    changed = np.argwhere(np.abs(images[0] - images[1]).sum(2) > 60)
    assert len(changed) > 20
    middle = images[0].shape[1] * np.array([0.4, 0.695])  # of the bird's-eye view
    assert (changed[:, 1] > middle[0]).all()
    assert (changed[:, 1] < middle.mean()).all()  # left of the ego


def test_the_critique_of_the_planner_itself_is_told() -> None:
    log = builders.cruise(image_size=32)
    plan = replace(plan_for(log), critique={"no_collision": 0.4, "on_road": 1.0})
    assert "on what it sees itself: no_collision 0.40" in "\n".join(words(log, 0, plan))
