"""The latency tool: own times of nested parts, sums, more proposals, and refusals."""

import json
import time
from pathlib import Path

import pytest
import torch

from drive.contracts import UserError
from drive.model.folder import save_model
from drive.model.policy import PlannerPolicy
from tests.unit.model.networks import tiny_network
from tools.bench.planner_latency import (
    AFTER,
    BACKBONE,
    PREPARE,
    REST,
    WHOLE,
    Clock,
    main,
    measure,
    observations,
    with_proposals,
)


def test_a_part_counts_without_the_parts_it_calls() -> None:
    clock = Clock()
    inner = clock.timed("inner", lambda: time.sleep(0.03))
    outer = clock.timed("outer", lambda: (inner(), inner(), time.sleep(0.01)))
    outer()
    assert clock.spent["inner"][0] >= 0.06
    assert 0.01 <= clock.spent["outer"][0] < clock.spent["inner"][0]
    assert clock.spent["inner"][1] < clock.spent["inner"][0]  # sleeping takes no CPU time


def test_one_plan_is_the_sum_of_its_parts() -> None:
    policy = PlannerPolicy(tiny_network(), "tiny")
    costs = measure(policy, observations(policy.network.config.camera), runs=1)
    sums = (AFTER, WHOLE)
    parts = sum(cost.wall_ms for name, cost in costs.items() if name not in sums)
    assert parts == pytest.approx(costs[WHOLE].wall_ms)
    before = costs[PREPARE].wall_ms + costs[BACKBONE].wall_ms
    assert costs[AFTER].wall_ms == pytest.approx(costs[WHOLE].wall_ms - before)
    assert {"command head", "denoising", "check of the command", "ranking, 10 Hz poses", REST} <= costs.keys()


def test_a_measured_policy_is_left_as_it_was() -> None:
    policy = PlannerPolicy(tiny_network(), "tiny")
    seen = observations(policy.network.config.camera)
    before = policy.plan(seen, 3)
    measure(policy, seen, runs=2)
    assert "see" not in vars(policy.network)
    for one, two in zip(before, policy.plan(seen, 3), strict=True):
        assert (one.best.pose_ego == two.best.pose_ego).all()


def test_anchors_are_repeated_to_any_number_of_proposals_and_put_back() -> None:
    network = tiny_network()
    anchors = network.anchors
    policy = PlannerPolicy(network, "tiny")
    seen = observations(network.config.camera, 1)
    for count in (3, 25, 41):
        with with_proposals(network, count):
            assert policy.plan(seen, 0)[0].proposals_ego.shape[0] == count
    assert torch.equal(network.anchors, anchors)
    with pytest.raises(UserError, match="at least 2"), with_proposals(network, 1):
        pass


@pytest.mark.parametrize("changes", [{}, {"head": "regression", "use_command": False}])
def test_the_tool_prints_and_writes_what_it_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object]
) -> None:
    save_model(tmp_path / "model", tiny_network(**changes))
    out = tmp_path / "numbers.json"
    arguments = [
        "--model",
        str(tmp_path / "model"),
        "--runs",
        "2",
        "--threads",
        "1",
        "--proposals",
        "10",
        "20",
    ]
    threads = torch.get_num_threads()
    try:
        assert main([*arguments, "--json", str(out)]) == 0
    finally:
        torch.set_num_threads(threads)
    numbers = json.loads(out.read_text())
    assert numbers["stages"]["1"][WHOLE]["wall_ms"] > 0
    assert list(numbers["proposals"]["1"]) == ([] if changes else ["10", "20"])
    assert numbers["memory_peak_mb"] >= numbers["memory_before_mb"] > 50
    assert "x backbone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nowhere"], "not a model folder"),
        (["--runs", "0"], "--runs: must be at least 1"),
        (["--threads", "0"], "--threads: must be at least 1"),
    ],
)
def test_bad_options_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
