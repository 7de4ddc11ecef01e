"""The refinement tool: what it calls helped and harmed, and its refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drive.model.policy import PlannerPolicy
from drive.score.scene import freeze_log
from drive.train.questions import Situation, usable_steps
from tests import builders
from tests.unit.model.networks import tiny_network
from tools.bench.refinement import PREDICTED, TRUE, Judged, Outcome, judge, main, summary


def plan(reward: float, *holds: bool) -> Judged:
    return Judged(reward, holds or (True, True, True))


def test_shares_are_of_scenes_and_count_more_than_a_point() -> None:
    outcomes = [
        Outcome(plan(0.0, False, True, True), {PREDICTED: plan(0.8)}, {PREDICTED: True}),
        Outcome(plan(0.8), {PREDICTED: plan(0.5, True, False, True)}, {PREDICTED: True}),
        Outcome(plan(0.8), {PREDICTED: plan(0.795)}, {PREDICTED: True}),
        Outcome(plan(0.9), {PREDICTED: plan(0.9)}, {PREDICTED: False}),
    ]
    got = summary(outcomes, PREDICTED)
    assert got["broken_before_after"] == {
        "no_collision": [0.25, 0.0],
        "on_road": [0.0, 0.25],
        "red_light": [0.0, 0.0],
    }
    assert (got["changed"], got["harmed"][0], got["helped"][0]) == (0.75, 0.25, 0.25)
    assert got["gain"][0] == pytest.approx((0.8 - 0.3 - 0.005) / 4)
    assert got["harmed"][1] < 0.25 < got["harmed"][2]


def test_on_the_true_scene_no_plan_gets_worse() -> None:
    log = builders.pedestrian_crossing()
    steps = usable_steps(log)
    changed = 0
    for seed, step in enumerate(np.resize(steps[:: max(1, len(steps) // 3)], 5)):
        policy = PlannerPolicy(tiny_network(seed, refine_steps=1), "tiny")
        scene = freeze_log(log, int(step))
        seen = replace(builders.observation(scene.speed_mps, image_size=64), t_us=int(step))
        got = judge(policy, Situation(seen, scene, log.plans.label_ego[step], np.inf))
        changed += got.accepted[TRUE]
        if got.accepted[TRUE]:
            assert got.refined[TRUE].reward > got.chosen.reward
            assert all(
                after or not before
                for before, after in zip(got.chosen.holds, got.refined[TRUE].holds, strict=True)
            )
        else:
            assert got.refined[TRUE] == got.chosen
    assert changed


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--scenes", "0"], "--scenes must be at least 1"),
        (["--change", "refine_steps=0"], "nothing to refine"),
        (["--change", "width=3"], "asks for other weights"),
        (["--change", "refine=1"], "refine"),
        ([], "no"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    more: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none"), *more]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
