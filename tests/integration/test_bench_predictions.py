"""`drive bench nuscenes --predictions` on the real mini tables: independent L2, coverage, exit codes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive.bench.batch import batch_of
from drive.bench.cases import PUBLISHED, choose
from drive.bench.nuscenes_scenes import read_scenes
from drive.bench.nuscenes_tables import Tables, open_tables
from drive.bench.predictions import match, read_predictions
from drive.bench.scoring import columns_of, policy_row, truths
from drive.cli.main import main
from drive.logs.nuscenes_rows import devkit, read_tables


@pytest.fixture(scope="module")
def tables(nuscenes_mini: Path) -> Any:
    """The devkit's."""
    return devkit(nuscenes_mini, "v1.0-mini", read_tables(nuscenes_mini / "v1.0-mini"))


@pytest.fixture(scope="module")
def ours(nuscenes_mini: Path) -> Tables:
    return open_tables(nuscenes_mini, "v1.0-mini")


def lidar_pose(tables: Any, sample: dict) -> tuple[np.ndarray, float]:
    """Place and heading of the rear axle on the map, from the devkit's tables."""
    data = tables.get("sample_data", sample["data"]["LIDAR_TOP"])
    record = tables.get("ego_pose", data["ego_pose_token"])
    w, x, y, z = record["rotation"]
    return np.array(record["translation"][:2]), np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def chain(tables: Any, sample: dict) -> tuple[int, list[dict]]:
    """Number of earlier key frames and the next six."""
    later, before, back = [], 0, sample
    while back["prev"]:
        back, before = tables.get("sample", back["prev"]), before + 1
    while sample["next"] and len(later) < 6:
        sample = tables.get("sample", sample["next"])
        later.append(sample)
    return before, later


@pytest.fixture(scope="module")
def made(tables: Any) -> tuple[dict[str, list], dict[str, np.ndarray]]:
    """Predictions on the map for all samples with a full future, and their errors, with no code of ours."""
    rng = np.random.default_rng(7)
    rows, errors = {}, {}
    for sample in tables.sample:
        before, later = chain(tables, sample)
        if len(later) < 6:
            continue
        truth = np.array([lidar_pose(tables, one)[0] for one in later])
        noise = rng.normal(0, 1.0, (6, 2)).cumsum(0)
        rows[sample["token"]] = (truth + noise).tolist()
        if before >= 2:
            errors[sample["token"]] = np.sqrt((noise**2).sum(1))
    return rows, errors


def written(folder: Path, rows: dict[str, list], **head: Any) -> str:
    path = folder / "world.json"
    facts = {"planner": "theirs", "frame": "world", "dt_s": 0.5, "command": "navigation"} | head
    path.write_text(json.dumps(facts | {"predictions": rows}))
    return str(path)


def bench(nuscenes_mini: Path, file: str, *more: str) -> int:
    return main(["bench", "nuscenes", "--dataroot", str(nuscenes_mini), "--predictions", file, *more])


def test_l2_equals_plain_numpy_on_devkit_calls(tables: Any, ours: Tables, made: Any, tmp_path: Path) -> None:
    rows, errors = made
    scenes = read_scenes(ours, sorted(scene["name"] for scene in tables.scene))
    cases, _ = choose(scenes, "stp3")
    predictions = read_predictions(Path(written(tmp_path, rows)))
    pose, coverage = match(predictions, cases, [sample["token"] for sample in tables.sample], False)
    truth = truths(cases, batch_of(cases), families=False)
    columns = columns_of(truth, pose, np.ones(len(cases), bool))
    expected = np.array([errors[token] for token in columns.token])
    assert len(expected) == 324 == len(errors) == coverage.covered
    assert np.abs(columns.l2_m - expected).max() <= 1e-9
    row = policy_row("theirs", "navigation", "file", columns, truth)
    assert np.abs(row.l2_m.at - expected[:, [1, 3, 5]].mean(0)).max() <= 1e-9
    assert np.abs(row.l2_m.up_to - [expected[:, :k].mean() for k in (2, 4, 6)]).max() <= 1e-9


def test_the_published_filter_is_the_stp3_rule(shared_data: Path, ours: Tables) -> None:
    path = shared_data / "nuscenes_val_meta" / "admlp_stp3_filter_token.json"
    if not path.is_file():
        pytest.skip("no nuscenes_val_meta in ../shared/data")
    val = read_scenes(ours, ["scene-0103", "scene-0553", "scene-0796", "scene-0916"])
    published, filtered = choose(val, str(path))
    assert (filtered.planned, len(published), filtered.absent) == (4819, 130, 4689)
    assert filtered.words.endswith(PUBLISHED[filtered.token_hash])
    assert {c.token for c in published} == {c.token for c in choose(val, "stp3")[0]}


def test_partial_coverage_is_printed_first_and_unrecorded_steps_are_masked(
    nuscenes_mini: Path, made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    argv = ["--samples", "every", "--json", str(out)]
    assert bench(nuscenes_mini, written(tmp_path, made[0]), *argv) == 3
    assert capsys.readouterr().out.startswith("PARTIAL: 69 of 79 samples have a prediction: 10 missing")
    data = json.loads(out.read_text(encoding="utf-8"))
    theirs, floor = data["rows"][0], data["rows"][1]
    assert (theirs["policy"], theirs["command"], theirs["images"]) == ("theirs", "navigation", "file")
    assert (theirs["planned"], theirs["failed"], data["coverage"]["missing"]) == (79, 10, 10)
    assert theirs["l2_m"]["n_at"] == {"1s": 77, "2s": 73, "3s": 69}
    assert floor["l2_m"]["n_at"] == {"1s": 75, "2s": 71, "3s": 67}  # no speed at the first key frame
    assert [r["policy"] for r in data["rows"]] == ["theirs", "constant_velocity", "go_straight", "ego_mlp"]
    assert len({g["name"] for g in data["groups"] if g["kind"] == "scene"}) == 2


def test_a_wrong_frame_is_one_line(
    nuscenes_mini: Path, made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(nuscenes_mini, written(tmp_path, made[0], frame="ego")) == 2
    error = capsys.readouterr().err
    assert "frame is declared 'ego'" in error
    assert "look like frame 'world'" in error
    assert error.count("\n") == 1
