"""Scores of many samples: masks, failed predictions, collisions by exact boxes and by published grids."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely import distance, polygons

from drive.bench.batch import batch_of, box_hits
from drive.bench.cases import choose
from drive.bench.occupancy import FAMILIES, grid_hits
from drive.bench.scoring import columns_of, groups, policy_row, truths
from drive.contracts import EGO_NUSCENES, AgentKind
from drive.geometry.boxes import centre_pose, corners
from drive.score.collision import collisions, touched
from drive.score.openloop import FAILED_L2_M
from tests.bench_builders import scene

SCENES = tuple(
    scene(f"s{i}", 16, speed_mps=3.0 * i, yaw_rate_radps=0.1 * i, agents=6, seed=i) for i in range(4)
)
CASES = choose(SCENES, "every")[0]
TRUTH = truths(CASES, batch_of(CASES), families=True)
SHIFTED = np.nan_to_num(TRUTH.batch.truth_ego) + np.array([0.6, 0.3, 0.0])
EVERYBODY = np.ones(len(CASES), bool)


def test_touched_equals_an_analytic_oracle_on_a_thousand_random_pairs(rng: np.random.Generator) -> None:
    ego = np.concatenate([rng.uniform(-6, 6, (1000, 1, 2)), rng.uniform(-4, 4, (1000, 1, 1))], -1)
    agents = np.concatenate([rng.uniform(-6, 6, (1000, 1, 2)), rng.uniform(-4, 4, (1000, 1, 1))], -1)
    size = rng.uniform(0.5, 6, (1000, 2))
    hit = touched(ego, agents, size, np.ones((1000, 1), bool), np.arange(1000), EGO_NUSCENES)[:, 0]
    box = [EGO_NUSCENES.length_m, EGO_NUSCENES.width_m]
    egos = polygons(corners(centre_pose(ego[:, 0], EGO_NUSCENES.centre_from_axle_m), box))
    assert 100 < hit.sum() < 900
    assert np.array_equal(hit, distance(egos, polygons(corners(agents[:, 0], size))) == 0)


def test_flat_and_per_case_collisions_agree() -> None:
    flat = box_hits(TRUTH.batch, SHIFTED)
    for i, case in enumerate(CASES):
        one = collisions(SHIFTED[i : i + 1], case.agents_ego, case.size_m, case.valid, EGO_NUSCENES)
        assert np.array_equal(flat[i], one[0].any(0))
    assert 0 < flat.sum() < flat.size


def test_the_recorded_egos_own_collisions_are_counted_and_both_variants_given() -> None:
    columns = columns_of(TRUTH, TRUTH.batch.truth_ego, EVERYBODY)
    known = TRUTH.batch.known
    assert TRUTH.hit[known].any()
    pose = np.where(known[..., None], TRUTH.batch.truth_ego, 0.0)
    row = policy_row("truth", "", "", columns_of(TRUTH, pose, EVERYBODY), TRUTH)
    assert np.nanmax(row.collision.up_to) > 0
    assert np.nanmax(row.collision_clean.up_to) == 0
    for name in FAMILIES:
        assert np.nanmax(row.families[name].up_to) == 0
        assert np.nanmax(row.families[f"{name}_all"].up_to) > 0
    assert columns.failed.sum() == (~known.all(1)).sum()  # truth itself ends with the scene


@given(st.floats(0, 1e6))
@settings(max_examples=6)
def test_masked_steps_change_neither_sum_nor_count(junk: float) -> None:
    masked = ~TRUTH.batch.known
    pose = np.where(masked[..., None], junk, SHIFTED)
    a, b = (policy_row("p", "", "", columns_of(TRUTH, p, EVERYBODY), TRUTH) for p in (SHIFTED, pose))
    for name in ("l2_m", "collision", "collision_clean"):
        one, two = getattr(a, name), getattr(b, name)
        assert np.array_equal(one.at, two.at)
        assert np.array_equal(one.n_at, two.n_at)
    assert a.l2_m.n_at.tolist() == [int(TRUTH.batch.known[:, k].sum()) for k in (1, 3, 5)]
    assert a.l2_m.at == pytest.approx(np.full(3, np.hypot(0.6, 0.3)))


@given(st.integers(0, len(CASES) - 1))
@settings(max_examples=6)
def test_removing_a_prediction_never_improves_a_score(which: int) -> None:
    less = SHIFTED.copy()
    less[which] = np.nan
    whole, part = (policy_row("p", "", "", columns_of(TRUTH, p, EVERYBODY), TRUTH) for p in (SHIFTED, less))
    for name in ("l2_m", "collision", "collision_clean"):
        assert (getattr(part, name).up_to >= getattr(whole, name).up_to).all()
    for family in FAMILIES:
        assert (part.families[family].up_to >= whole.families[family].up_to).all()
    assert (part.planned, part.failed) == (whole.planned, 1)
    assert part.l2_m.n_up_to.tolist() == whole.l2_m.n_up_to.tolist()


def test_the_order_of_samples_changes_nothing() -> None:
    order = np.random.default_rng(3).permutation(len(CASES))
    cases = [CASES[i] for i in order]
    mixed = truths(cases, batch_of(cases), families=True)
    a = policy_row("p", "", "", columns_of(TRUTH, SHIFTED, EVERYBODY), TRUTH)
    b = policy_row("p", "", "", columns_of(mixed, SHIFTED[order], EVERYBODY), mixed)
    assert a.l2_m.up_to == pytest.approx(b.l2_m.up_to, abs=1e-12)
    assert np.array_equal(a.collision.up_to, b.collision.up_to)
    for name, value in a.l2_interval.items():
        assert b.l2_interval[name].high == pytest.approx(value.high, abs=1e-9)


def test_groups_add_up_and_failed_cost_their_price() -> None:
    pose = SHIFTED.copy()
    pose[0] = np.nan
    columns = columns_of(TRUTH, pose, EVERYBODY)
    rows = groups(columns, TRUTH)
    whole = policy_row("p", "", "", columns, TRUTH)
    for kind in ("scene", "oracle command"):
        parts = [row for row in rows if row.kind == kind]
        assert sum(row.n for row in parts) == len(CASES)
        total = sum(row.l2_m.up_to[2] * row.l2_m.n_up_to[2] for row in parts)
        assert total == pytest.approx(whole.l2_m.up_to[2] * whole.l2_m.n_up_to[2])
    assert whole.l2_m.at[0] > FAILED_L2_M / len(CASES)
    assert {row.name for row in rows if row.kind == "scene"} == {s.name for s in SCENES}


def test_a_policy_that_was_not_asked_is_not_failed() -> None:
    asked = np.array([case.k > 0 for case in CASES])
    pose = np.where(asked[:, None, None], SHIFTED, np.nan)
    row = policy_row("p", "", "", columns_of(TRUTH, pose, asked), TRUTH)
    assert (row.planned, row.failed) == (int(asked.sum()), 0)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_grid_is_blind_to_turning_and_beyond_its_edge(name: str) -> None:
    family = FAMILIES[name]
    turned = SHIFTED + np.array([0.0, 0.0, 1.0])
    if not family.in_lidar:
        assert np.array_equal(grid_hits(TRUTH.batch, turned, family), grid_hits(TRUTH.batch, SHIFTED, family))
    assert not np.array_equal(box_hits(TRUTH.batch, turned), box_hits(TRUTH.batch, SHIFTED))
    assert not grid_hits(TRUTH.batch, SHIFTED + np.array([300.0, 0.0, 0.0]), family).any()
    assert not grid_hits(TRUTH.batch, np.full_like(SHIFTED, np.nan), family).any()


def test_grids_are_near_the_boxes_and_differ_as_they_say() -> None:
    exact = box_hits(TRUTH.batch, SHIFTED)
    hits = {name: grid_hits(TRUTH.batch, SHIFTED, family) for name, family in FAMILIES.items()}
    for one in hits.values():
        assert (one == exact).mean() > 0.7
    assert not (hits["uniad"] & ~hits["vad"]).any()  # vehicles only, else alike
    walkers = replace(TRUTH.batch, kind=np.full_like(TRUTH.batch.kind, AgentKind.PEDESTRIAN))
    assert not grid_hits(walkers, SHIFTED, FAMILIES["uniad"]).any()
    assert np.array_equal(grid_hits(walkers, SHIFTED, FAMILIES["vad"]), hits["vad"])
