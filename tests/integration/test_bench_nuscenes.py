"""`drive bench nuscenes` on the real mini tables: counts, independent computations, honesty and refusals."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shapely import intersects, polygons

from drive.bench.floors import ConstantVelocity, GoStraight
from drive.bench.inputs import observation_at
from drive.bench.nuscenes import _training_scenes, bench_nuscenes, cases_of
from drive.bench.nuscenes_scenes import read_scenes
from drive.bench.nuscenes_tables import Tables, open_tables, split_scenes
from drive.bench.report import BenchReport
from drive.cli.main import main
from drive.contracts import EGO_NUSCENES, Observation, Plan, UserError
from drive.logs.nuscenes_rows import devkit, read_tables
from drive.score.openloop import FAILED_L2_M

KEY_ROWS = np.arange(4, 30, 5)


class Recorder(GoStraight):
    """Go straight, remembering every plan by its time."""

    name = "recorder"

    def __init__(self) -> None:
        self.plans: dict[int, Plan] = {}
        self.seen: list[Observation] = []

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        plans = super().plan(observations, seed)
        self.plans |= {o.t_us: p for o, p in zip(observations, plans, strict=True)}
        self.seen += observations
        return plans


class Unreliable(GoStraight):
    """Fails three times in a batch of 8: not finite, replaced by itself, and no plan for the last one."""

    name = "unreliable"

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        plans = super().plan(observations, seed)
        plans[0].best.pose_ego[7] = np.nan
        plans[2] = dataclasses.replace(plans[2], flags=("fallback",))
        return plans[:-1] if len(plans) == 8 else plans


class Camera(Recorder):
    """A policy that needs images."""

    name = "camera_policy"
    needs_images = True


@pytest.fixture(scope="module")
def tables(nuscenes_mini: Path) -> Any:
    """The devkit's."""
    return devkit(nuscenes_mini, "v1.0-mini", read_tables(nuscenes_mini / "v1.0-mini"))


@pytest.fixture(scope="module")
def ours(nuscenes_mini: Path) -> Tables:
    return open_tables(nuscenes_mini, "v1.0-mini")


@pytest.fixture(scope="module")
def recorded(nuscenes_mini: Path) -> tuple[BenchReport, Recorder]:
    policy = Recorder()
    return bench_nuscenes(nuscenes_mini, "v1.0-mini", policy, "mini_val"), policy


def devkit_pose(tables: Any, sample: dict) -> tuple[np.ndarray, Any]:
    from pyquaternion import Quaternion

    record = tables.get("ego_pose", tables.get("sample_data", sample["data"]["LIDAR_TOP"])["ego_pose_token"])
    return np.array(record["translation"]), Quaternion(record["rotation"])


def heading(turn: Any) -> float:
    ahead = turn.rotate(np.array([1.0, 0.0, 0.0]))
    return float(np.arctan2(ahead[1], ahead[0]))


def future_samples(tables: Any, sample: dict) -> list[dict]:
    out = []
    while sample["next"] and len(out) < 6:
        sample = tables.get("sample", sample["next"])
        out.append(sample)
    return out


def test_counts_are_the_published_ones(recorded: tuple[BenchReport, Recorder], nuscenes_mini: Path) -> None:
    report, _ = recorded
    assert (report.samples, report.without_history, report.without_future, report.evaluated) == (
        81,
        2,
        12,
        67,
    )
    whole = bench_nuscenes(nuscenes_mini, "v1.0-mini", GoStraight(), "all")
    assert (whole.samples, whole.evaluated) == (404, 334)
    for row in (*report.rows, *whole.rows):
        assert row.l2_m.n_at.tolist() == [row.planned] * 3
        assert row.failed == 0
    assert [row.policy for row in report.rows] == ["recorder", "constant_velocity", "go_straight", "ego_mlp"]
    assert whole.floor_training == "5 folds by scene"
    mlp = {row.policy: row.l2_m.at[2] for row in whole.rows}
    assert mlp["ego_mlp"] < mlp["constant_velocity"]


def test_l2_equals_an_independent_devkit_computation(
    tables: Any, recorded: tuple[BenchReport, Recorder]
) -> None:
    report, policy = recorded
    errors = []
    for token in report.columns["recorder"].token:
        sample = tables.get("sample", token)
        place, turn = devkit_pose(tables, sample)
        plan = policy.plans[sample["timestamp"]].best.pose_ego
        row = []
        for step, later in enumerate(future_samples(tables, sample)):
            there, _ = devkit_pose(tables, later)
            local = turn.inverse.rotate(there - place)
            row.append(float(np.linalg.norm(plan[5 * step + 4, :2].astype(np.float64) - local[:2])))
        errors.append(row)
    assert np.shape(errors) == (67, 6)
    # The devkit rotates in space, we turn in the plane: pitch and roll of the car make up to centimetres.
    assert np.abs(np.array(errors) - report.columns["recorder"].l2_m).max() < 0.05
    assert report.rows[0].l2_m.at == pytest.approx(np.mean(errors, 0)[[1, 3, 5]], abs=5e-3)


def test_l2_equals_an_independent_planar_computation(
    tables: Any, recorded: tuple[BenchReport, Recorder]
) -> None:
    report, policy = recorded
    errors = []
    for token in report.columns["recorder"].token:
        sample = tables.get("sample", token)
        place, turn = devkit_pose(tables, sample)
        yaw = heading(turn)
        world_from_ego = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
        plan = policy.plans[sample["timestamp"]].best.pose_ego[KEY_ROWS, :2].astype(np.float64)
        predicted = place[:2] + plan @ world_from_ego.T
        truth = np.array([devkit_pose(tables, later)[0][:2] for later in future_samples(tables, sample)])
        errors.append(np.sqrt(((predicted - truth) ** 2).sum(1)))
    errors = np.array(errors)
    row = report.rows[0]
    assert np.abs(errors - report.columns["recorder"].l2_m).max() <= 1e-9
    assert np.abs(row.l2_m.at - errors[:, [1, 3, 5]].mean(0)).max() <= 1e-9
    assert np.abs(row.l2_m.up_to - [errors[:, :k].mean() for k in (2, 4, 6)]).max() <= 1e-9


def test_collisions_equal_shapely_on_devkit_boxes(
    tables: Any, recorded: tuple[BenchReport, Recorder]
) -> None:
    report, policy = recorded
    ours = report.columns["recorder"].collided
    offset, half_l, half_w = (
        EGO_NUSCENES.centre_from_axle_m,
        EGO_NUSCENES.length_m / 2,
        EGO_NUSCENES.width_m / 2,
    )
    outline = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * [half_l, half_w] + [offset, 0.0]
    for i, token in enumerate(report.columns["recorder"].token):
        sample = tables.get("sample", token)
        place, turn = devkit_pose(tables, sample)
        yaw0 = heading(turn)
        poses = policy.plans[sample["timestamp"]].best.pose_ego[KEY_ROWS].astype(np.float64)
        for step, later in enumerate(future_samples(tables, sample)):
            angle = yaw0 + poses[step, 2]
            turn0 = np.array([[np.cos(yaw0), -np.sin(yaw0)], [np.sin(yaw0), np.cos(yaw0)]])
            turn1 = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            ego = polygons(outline @ turn1.T + place[:2] + turn0 @ poses[step, :2])
            boxes = [tables.get_box(t) for t in later["anns"]]
            users = [b for b in boxes if b.name.startswith(("vehicle.", "human."))]
            hit = bool(intersects(ego, polygons([b.bottom_corners()[:2].T for b in users])).any())
            assert hit == ours[i, step], (token, step)
    assert 0 < ours.sum() < ours.size / 2


def test_the_report_recomputes_from_its_columns(recorded: tuple[BenchReport, Recorder]) -> None:
    report, _ = recorded
    for row in report.rows:
        columns = report.columns[row.policy]
        assert row.l2_m.at == pytest.approx(columns.l2_m[:, [1, 3, 5]].mean(0), abs=1e-12)
        assert row.collision.up_to == pytest.approx([columns.collided[:, :k].mean() for k in (2, 4, 6)])
    assert report.truth_collision_steps == report.truth_collided.sum()
    assert report.truth_steps == 67 * 6


@pytest.mark.parametrize("split", ["mini_val", "all"])
def test_repeated_runs_are_identical(split: str, nuscenes_mini: Path) -> None:
    """Constant velocity, go straight and the ego-status MLP, to the bit."""
    one, two = (bench_nuscenes(nuscenes_mini, "v1.0-mini", Recorder(), split) for _ in range(2))
    assert list(one.columns) == ["recorder", "constant_velocity", "go_straight", "ego_mlp"]
    for name, columns in one.columns.items():
        assert np.array_equal(columns.l2_m, two.columns[name].l2_m)
        assert np.array_equal(columns.collided, two.columns[name].collided)
    assert repr([row.l2_m for row in one.rows]) == repr([row.l2_m for row in two.rows])


def test_failed_predictions_stay_in_the_denominator(
    recorded: tuple[BenchReport, Recorder], nuscenes_mini: Path
) -> None:
    report = bench_nuscenes(nuscenes_mini, "v1.0-mini", Unreliable(), "mini_val")
    row, sound = report.rows[0], recorded[0].rows[0]
    failed = report.columns["unreliable"].failed
    assert row.failed == failed.sum() == 8 * 3 + 2
    assert row.l2_m.n_at.tolist() == [67] * 3
    assert row.l2_valid_m.n_at.tolist() == [67 - row.failed] * 3
    truth = recorded[0].columns["recorder"].l2_m
    expected = (truth[~failed].sum(0) + failed.sum() * FAILED_L2_M) / 67
    assert row.l2_m.at == pytest.approx(expected[[1, 3, 5]])
    assert row.l2_valid_m.at == pytest.approx(truth[~failed].mean(0)[[1, 3, 5]])
    assert (row.l2_m.at > sound.l2_m.at).all()
    assert (row.collision.at >= sound.collision.at).all()


def test_no_scene_trains_the_floor_it_is_evaluated_on(ours: Tables) -> None:
    evaluated = set(split_scenes(ours, "mini_val"))
    assert evaluated == {"scene-0103", "scene-0916"}
    assert not evaluated & set(split_scenes(ours, "mini_train"))
    assert len(split_scenes(ours, "all")) == 10


def test_inputs_of_real_scenes_are_causal(ours: Tables, rng: np.random.Generator) -> None:
    scene = read_scenes(ours, ["scene-0103"])[0]
    for case in cases_of(scene)[::5]:
        changed = scene.pose_world.copy()
        changed[case.k + 1 :] += rng.normal(0, 20, changed[case.k + 1 :].shape)
        one, two = (observation_at(scene.t_us, pose, case.k) for pose in (scene.pose_world, changed))
        assert one.history_ego.tobytes() == two.history_ego.tobytes()
        assert (one.speed_mps, one.accel_mps2, one.yaw_rate_radps) == (
            two.speed_mps,
            two.accel_mps2,
            two.yaw_rate_radps,
        )


def test_a_camera_policy_without_images_is_refused_with_the_counts(nuscenes_mini: Path) -> None:
    told: dict = {}
    with pytest.raises(UserError, match=r"81 of 81 CAM_FRONT .* --images rendered"):
        bench_nuscenes(nuscenes_mini, "v1.0-mini", Camera(), "mini_val", announce=told.update)
    assert told["CAM_FRONT"] == (81, 81)
    assert len(told) == 12


def test_rendered_pictures_reach_the_policy_and_are_labelled(nuscenes_mini: Path) -> None:
    policy = Camera()
    report = bench_nuscenes(nuscenes_mini, "v1.0-mini", policy, "mini_val", images="rendered")
    row = report.rows[0]
    assert (row.images, row.command) == ("rendered", "oracle command")
    assert {r.images for r in report.rows[1:]} == {"none"}
    assert len(policy.seen) == 67
    for observation in policy.seen:
        assert observation.images["front"].shape == (2, 144, 256, 3)
        assert observation.before_ego.shape == (1, 3)
        assert observation.route.provenance == "oracle"
    pictures = np.stack([o.images["front"][-1] for o in policy.seen])
    assert len({p.tobytes() for p in pictures}) > 60
    grey = (np.ptp(pictures[:, 100:].astype(int), axis=-1) < 12).mean()
    assert grey > 0.5  # mostly road ahead of the bonnet


def test_the_command_prints_tables_and_writes_the_same_numbers(
    nuscenes_mini: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    argv = ["bench", "nuscenes", "--dataroot", str(nuscenes_mini), "--policy", "constant_velocity"]
    assert main([*argv, "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.index("CAM_FRONT") < printed.index("67 evaluated") < printed.index("L2 [m], strict")
    assert "the recorded ego itself overlaps a box in 0 of 402 steps" in printed
    data = json.loads(file.read_text(encoding="utf-8"))
    row = data["rows"][0]
    assert row["policy"] == "constant_velocity"
    assert f"{row['l2_m']['at']['3s']:.3f}" in printed
    assert data["samples"] == {"total": 81, "without_history": 2, "without_future": 12, "evaluated": 67}
    assert np.mean(data["columns"]["constant_velocity"]["l2_m"], 0)[5] == pytest.approx(
        row["l2_m"]["at"]["3s"]
    )
    assert ConstantVelocity.name in data["columns"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--policy", "constant_velocit"], "did you mean 'constant_velocity'"),
        (["--policy", "expert"], "only `drive sim` has"),
        (["--policy", "models:/nightdrive@champion"], "no registry here yet; run `drive nightly` first"),
        (["--policy", "models:/nightdrive"], "write models:/NAME@ALIAS"),
        (["--policy", "constant_velocity", "--split", "mini_vall"], "did you mean mini_val"),
        (["--policy", "constant_velocity", "--version", "v1.0-mni"], "did you mean v1.0-mini"),
        (["--policy", "constant_velocity", "--version", "v1.0-trainval"], "it has v1.0-mini"),
        (["--policy", "constant_velocity", "--dataroot", "nowhere"], "no such folder"),
    ],
)
def test_wrong_requests_are_refused_before_heavy_imports(
    nuscenes_mini: Path,
    changes: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # no registry here
    assert main(["bench", "nuscenes", "--dataroot", str(nuscenes_mini), *changes]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_refusal_loads_neither_nuscenes_nor_torch(nuscenes_mini: Path) -> None:
    code = (
        "import sys\nfrom drive.cli.main import main\n"
        f"rc = main(['bench', 'nuscenes', '--dataroot', {str(nuscenes_mini)!r}, '--policy', 'x'])\n"
        "print(rc, sorted({'nuscenes', 'torch', 'sklearn', 'cv2'} & set(sys.modules)))"
    )
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert got.stdout.strip() == "2 []"


def test_folds_never_train_on_the_scene_they_predict(ours: Tables) -> None:
    scenes = read_scenes(ours, split_scenes(ours, "all"))
    training = _training_scenes(scenes, None)
    for scene in scenes:
        others = [s.name for s in training(scene.name)]
        assert scene.name not in others
        assert len(others) == 8


def test_trainval_uses_the_official_splits(nuscenes_mini: Path, tmp_path: Path) -> None:
    """The mini tables under the trainval name: four of the ten scenes are official validation scenes."""
    (tmp_path / "v1.0-trainval").symlink_to(nuscenes_mini / "v1.0-mini")
    (tmp_path / "maps").symlink_to(nuscenes_mini / "maps")
    report = bench_nuscenes(tmp_path, "v1.0-trainval", Recorder())
    assert (report.split, report.floor_training, report.evaluated) == ("val", "train", 134)
    evaluated = set(report.columns["recorder"].scene)
    trained = set(split_scenes(open_tables(tmp_path, "v1.0-trainval"), "train"))
    assert {"scene-0103", "scene-0916"} < evaluated
    assert len(evaluated) == 4
    assert len(trained) == 6
    assert not evaluated & trained
