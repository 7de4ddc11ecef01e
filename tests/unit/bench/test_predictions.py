"""Predictions of other planners: three formats, three frames, and what can be wrong with a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.bench.cases import cases_of, choose
from drive.bench.predictions import Predictions, match, read_predictions
from drive.contracts import UserError
from drive.geometry.se2 import to_world
from tests.bench_builders import scene

SCENES = (scene("a", 14, seed=1), scene("b", 12, yaw_rate_radps=-0.2, seed=2))
CASES = choose(SCENES)[0]
TOKENS = tuple(case.token for case in CASES)
KNOWN = [token for one in SCENES for token in one.tokens]
TRUTH = np.stack([case.truth_ego for case in CASES])


def given_in(frame: str, pose_ego: np.ndarray, cases: Any = CASES) -> np.ndarray:
    """Rear-axle poses (B, T, 3) as a planner of another frame would write them."""
    out = []
    for case, one in zip(cases, pose_ego, strict=True):
        world = to_world(one, case.scene.pose_world[case.k])
        if frame == "world":
            out.append(world)
        elif frame == "lidar":
            x, y, yaw = case.scene.lidar_ego
            lidar = one[:, :2] + np.stack([np.cos(one[:, 2]), np.sin(one[:, 2])], -1) * x - [x, y]
            right = np.stack([-lidar[:, 1], lidar[:, 0]], -1)  # x right, y forward
            out.append(np.concatenate([right, one[:, 2:] - yaw], -1))
        else:
            out.append(one)
    return np.stack(out)


def predictions(pose: np.ndarray, frame: str = "ego", dt_s: float = 0.5, tokens: Any = TOKENS) -> Predictions:
    return Predictions("mine.json", "mine", frame, "oracle", dt_s, tuple(tokens), np.asarray(pose))


@settings(max_examples=15)
@given(st.sampled_from(["ego", "lidar", "world"]), st.integers(0, 2**32 - 1))
def test_a_frame_changes_nothing_but_the_numbers_in_the_file(frame: str, seed: int) -> None:
    noisy = TRUTH + np.random.default_rng(seed).normal(0, [0.5, 0.5, 0.05], TRUTH.shape)
    got, coverage = match(predictions(given_in(frame, noisy), frame), CASES, KNOWN, False)
    assert np.abs(got[..., :2] - noisy[..., :2]).max() < 1e-9
    assert np.abs(np.exp(1j * got[..., 2]) - np.exp(1j * noisy[..., 2])).max() < 1e-9
    assert (coverage.planned, coverage.covered, coverage.missing) == (len(CASES), len(CASES), 0)


@pytest.mark.parametrize("frame", ["ego", "lidar", "world"])
def test_headings_follow_from_the_path(frame: str) -> None:
    got, _ = match(predictions(given_in(frame, TRUTH)[..., :2], frame), CASES, KNOWN, False)
    assert np.abs(got[..., :2] - TRUTH[..., :2]).max() < 0.1  # the lever of the lidar turns with the heading
    assert np.abs(got[..., 2] - TRUTH[..., 2]).max() < 0.06


@pytest.mark.parametrize("dt_s", [0.1, 0.25, 0.3])
def test_other_spacings(dt_s: float) -> None:
    count = int(np.ceil(3.0 / dt_s - 1e-9))
    t = dt_s * np.arange(1, count + 1)
    line = np.stack([5.0 * t, 0.0 * t, 0.0 * t], -1)
    straight = (scene("a", 14, speed_mps=5.0, yaw_rate_radps=0.0),)
    cases = choose(straight)[0]
    one = predictions(np.repeat(line[None], len(cases), 0), dt_s=dt_s, tokens=[c.token for c in cases])
    got, _ = match(one, cases, straight[0].tokens, False)
    assert np.abs(got[..., 0] - 2.5 * np.arange(1, 7)).max() < 1e-9


@pytest.mark.parametrize(
    ("pose", "declared", "hint"),
    [
        (given_in("lidar", TRUTH), "ego", "frame 'lidar'"),
        (given_in("world", TRUTH), "ego", "frame 'world'"),
        (TRUTH, "lidar", "frame 'ego'"),
        (TRUTH, "world", "frame 'ego'"),
        (TRUTH * [1, -1, -1], "ego", "y to the right"),
        (np.diff(TRUTH, axis=1, prepend=0.0), "ego", "steps from row to row"),
    ],
)
def test_a_wrong_frame_is_found(pose: np.ndarray, declared: str, hint: str) -> None:
    with pytest.raises(UserError, match=f"frame is declared '{declared}' .* look like {hint}"):
        match(predictions(pose, declared), CASES, KNOWN, False)


def test_a_bad_planner_is_no_wrong_frame() -> None:
    for pose in (np.zeros_like(TRUTH), TRUTH * 1.8):
        got, coverage = match(predictions(pose), CASES, KNOWN, False)
        np.testing.assert_allclose(got, pose)
        assert coverage.covered == coverage.planned == len(CASES)


def test_missing_foreign_outside_and_non_finite_are_told_apart() -> None:
    pose = np.concatenate([TRUTH[1:], TRUTH[:2]])
    pose[3, 2, 0] = np.nan
    tokens = (*TOKENS[1:], "elsewhere", SCENES[0].tokens[-1])
    one = predictions(pose, tokens=tokens)
    with pytest.raises(UserError, match=r"1 of \d+ tokens are not in these tables \(elsewhere\)"):
        match(one, CASES, KNOWN, False)
    got, coverage = match(one, CASES, KNOWN, True)
    n = len(CASES)
    assert coverage.planned == n == coverage.covered + coverage.missing + coverage.non_finite
    assert (coverage.missing, coverage.non_finite, coverage.outside, coverage.foreign) == (1, 1, 1, 1)
    assert np.isnan(got[[0, 4]]).all()
    assert np.isfinite(got[[1, 2, 3, 5]]).all()
    with pytest.raises(UserError, match=f"1 predictions are not finite or beyond .*{TOKENS[4]}"):
        match(one, CASES, [*KNOWN, "elsewhere"], False)
    with pytest.raises(UserError, match="no prediction for any"):
        match(predictions(TRUTH[:1], tokens=["elsewhere"]), CASES, KNOWN, True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e7])
def test_values_that_no_place_has_are_refused_or_fail(value: float) -> None:
    pose = TRUTH.copy()
    pose[2, 3, 0] = value
    one = predictions(pose)
    with pytest.raises(UserError, match=f"1 predictions are not finite or beyond .*{TOKENS[2]}"):
        match(one, CASES, KNOWN, False)
    got, coverage = match(one, CASES, KNOWN, True)
    assert coverage.non_finite == 1
    assert np.isnan(got[2]).all()


def write(folder: Path, suffix: str, pose: np.ndarray, **head: Any) -> Path:
    path = folder / f"mine.{suffix}"
    facts = {"frame": "ego", "dt_s": 0.5, "planner": "p", "command": "none"} | head
    if suffix == "json":
        path.write_text(json.dumps(facts | {"predictions": dict(zip(TOKENS, pose.tolist(), strict=True))}))
    elif suffix == "npz":
        np.savez(path, token=np.array(TOKENS), pose=pose, **facts)
    else:
        steps = pose.shape[1]
        table = {"token": np.repeat(TOKENS, steps), "step": np.tile(np.arange(1, steps + 1), len(pose))}
        table |= {name: pose[..., i].ravel() for i, name in enumerate(("x", "y", "yaw")[: pose.shape[2]])}
        pd.DataFrame(table | facts).sample(frac=1.0, random_state=0).to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", ["json", "npz", "parquet"])
@pytest.mark.parametrize("width", [2, 3])
def test_three_formats_say_the_same(tmp_path: Path, suffix: str, width: int) -> None:
    got = read_predictions(write(tmp_path, suffix, TRUTH[..., :width]))
    order = [got.tokens.index(token) for token in TOKENS]
    assert np.array_equal(got.pose[order], TRUTH[..., :width])
    assert (got.planner, got.frame, got.command, got.dt_s) == ("p", "ego", "none", 0.5)


@pytest.mark.parametrize("suffix", ["json", "npz", "parquet"])
@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"frame": "camera"}, "frame is 'camera'"),
        ({"dt_s": 0.0}, "dt_s is 0.0"),
        ({"dt_s": 0.4}, "reaches 2.4 s; 3 s are needed"),
        ({"command": "guess"}, "command is 'guess'"),
    ],
)
def test_wrong_declarations(tmp_path: Path, suffix: str, head: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_predictions(write(tmp_path, suffix, TRUTH, **head))


@pytest.mark.parametrize("suffix", ["json", "npz", "parquet"])
@pytest.mark.parametrize("keep", [0, 10, 300])
def test_cut_files_are_one_line(tmp_path: Path, suffix: str, keep: int) -> None:
    path = write(tmp_path, suffix, TRUTH)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=f"mine.{suffix}: not") as caught:
        read_predictions(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"frame": "ego", "dt_s": 1, "predictions": {"a": [[0, 0]], "a": [[1, 1]]}}', "1 keys are repeated"),
        (
            '{"frame": "ego", "dt_s": 1, "predictions": {"a": [[0, 0]], "b": [[0, 0], [1, 1]]}}',
            "b: has shape",
        ),
        ('{"frame": "ego", "dt_s": 1, "predictions": {"a": "x"}}', "a: rows of 2 or 3 numbers"),
        ('{"frame": "ego", "dt_s": 1, "predictions": {"a": [[0, 0, 0, 0]]}}', "expected poses"),
        ('{"frame": "ego", "dt_s": 1, "predictions": {}}', "expected poses"),
        ('{"frame": "ego", "dt_s": 1}', "expected"),
        ("[]", "expected"),
    ],
)
def test_odd_json(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_predictions(path)


def test_odd_parquet_and_npz(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet", TRUTH)
    table = pd.read_parquet(path)
    for broken, message in (
        (table.drop(columns="frame"), "lacks the columns frame"),
        (table.iloc[:-1], "rows, but"),
        (pd.concat([table, table.iloc[:1]]), "1 rows repeat a token"),
        (table.assign(step=table.step + 1), "step must count"),
        (table.assign(dt_s=np.arange(len(table)) + 1.0), "dt_s differs between rows"),
    ):
        broken.to_parquet(path)
        with pytest.raises(UserError, match=message):
            read_predictions(path)
    np.savez(
        tmp_path / "mine.npz", token=np.array(["a", "a"]), pose=np.zeros((2, 6, 2)), frame="ego", dt_s=0.5
    )
    with pytest.raises(UserError, match="1 tokens are repeated"):
        read_predictions(tmp_path / "mine.npz")
    np.savez(tmp_path / "mine.npz", pose=np.zeros((2, 6, 2)))
    with pytest.raises(UserError, match="lacks the array 'token'"):
        read_predictions(tmp_path / "mine.npz")
    with pytest.raises(UserError, match="no such file"):
        read_predictions(tmp_path / "absent.json")
    with pytest.raises(UserError, match="must end in"):
        read_predictions(tmp_path / "mine.pkl")


def test_builder_and_cases_agree() -> None:
    assert np.allclose(cases_of(SCENES[0])[0].truth_ego[-1, 2], 0.3)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("token", 3, "token holds values that are no texts"),
        ("token", b"\xff", "token holds values that are no texts"),
        ("frame", [1.0], "frame holds values that are no texts"),
        ("dt_s", {"a": 1}, "dt_s holds no numbers"),
        ("x", b"\xff", "x holds no numbers"),
        ("y", True, "y holds no numbers"),
        ("step", 0.5, "step holds no numbers|no whole numbers"),
        ("step", float("nan"), "no whole numbers"),
    ],
)
def test_parquet_columns_of_another_kind(tmp_path: Path, column: str, value: Any, words: str) -> None:
    path = write(tmp_path, "parquet", TRUTH)
    table = pd.read_parquet(path)
    table[column] = [value] * len(table)
    table.to_parquet(path)
    with pytest.raises(UserError, match=words):
        read_predictions(path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("pose", np.zeros((2, 6, 2), complex), "pose holds no numbers"),
        ("pose", np.zeros((2, 6, 2), bool), "pose holds no numbers"),
        ("pose", np.full((2, 6, 2), "1.0"), "pose holds no numbers"),
        ("token", np.array([1, 2]), "token holds no texts"),
    ],
)
def test_npz_arrays_of_another_kind(tmp_path: Path, name: str, value: Any, words: str) -> None:
    sound = {"token": np.array(["a", "b"]), "pose": np.zeros((2, 6, 2)), "frame": "ego", "dt_s": 0.5}
    np.savez(tmp_path / "mine.npz", **(sound | {name: value}))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=words):
        read_predictions(tmp_path / "mine.npz")


def test_numbers_that_no_float_holds_and_tokens_that_no_line_holds(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    for pose, token in ((10**400, "a"), (0.0, "a\nb")):
        rows = {token: [[pose, 0]] * 6}
        path.write_text(json.dumps({"frame": "ego", "dt_s": 0.5, "predictions": rows}), encoding="utf-8")
        with pytest.raises(UserError) as caught:
            match(read_predictions(path), CASES, KNOWN, False)
        assert "\n" not in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(UserError, match=r"a\.json: is a folder"):
        read_predictions(tmp_path / "a.json")
