"""Leaving the drivable area of a made map: by hand, in counts, and in the saved result."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from drive.bench.batch import batch_of
from drive.bench.cases import Case, choose
from drive.bench.off_road import DrivableArea
from drive.bench.scoring import columns_of, policy_row, truths
from drive.contracts import UserError
from tests.bench_builders import scene

MAP_M = 400


@pytest.fixture
def dataroot(tmp_path: Path) -> Path:
    """A map with one road along y = 200 m, 6 m wide."""
    mask = np.zeros((MAP_M * 10, MAP_M * 10), np.uint8)
    mask[(MAP_M - 203) * 10 : (MAP_M - 197) * 10] = 255
    Image.fromarray(mask).save(tmp_path / "road.png")
    return tmp_path


def cases() -> tuple[Case, ...]:
    """Drives east along the road at 8 m/s, from x = 150 m."""
    one = scene(frames=10, yaw_rate_radps=0.0)
    pose = np.stack([150 + 4.0 * np.arange(10), np.full(10, 200.0), np.zeros(10)], -1)
    return choose([replace(one, pose_world=pose, map_file="road.png")])[0]


@pytest.mark.parametrize(
    ("y", "left"), [(0.0, False), (2.0, False), (2.15, True), (-2.15, True), (-2.0, False)]
)
def test_a_corner_decides(dataroot: Path, y: float, left: bool) -> None:
    some = cases()
    pose = np.stack([case.truth_ego for case in some]) + np.array([0.0, y, 0.0])  # half the ego is 0.925 m
    assert (DrivableArea(dataroot, some).left_by(pose) == left).all()


def test_turning_brings_a_corner_off_and_nan_never_does(dataroot: Path) -> None:
    some = cases()
    area = DrivableArea(dataroot, some)
    pose = np.stack([case.truth_ego for case in some]) + np.array([0.0, 1.8, 0.0])
    assert not area.left_by(pose).any()
    pose[:, 3, 2] = 0.5
    pose[0, 1, 0] = np.nan
    got = area.left_by(pose)
    assert got[:, 3].all()
    assert got.sum() == len(pose)
    far = pose + np.array([1e4, 0.0, 0.0])
    assert area.left_by(far)[1:].all()


def test_counts_keep_failed_predictions_and_drop_the_recorded_egos_own_steps(dataroot: Path) -> None:
    some = cases()
    truth = truths(some, batch_of(some), False, DrivableArea(dataroot, some))
    assert truth.left is not None
    assert not truth.left.any()
    truth.left[:, 5] = True
    pose = np.stack([case.truth_ego for case in some])
    pose[0] = np.nan
    pose[:, 5, 1] = 9.0
    row = policy_row("p", "none", "file", columns_of(truth, pose, np.ones(len(some), bool)), truth)
    assert row.off_road is not None
    assert row.off_road_clean is not None
    assert row.off_road.at.tolist() == [1 / len(some), 1 / len(some), 1.0]
    assert row.off_road_clean.n_at.tolist() == [len(some), len(some), 0]
    assert row.off_road_clean.up_to[2] == pytest.approx(1 / len(some))


def test_a_missing_map_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--off-road needs the map masks, missing under .*: road\.png"):
        DrivableArea(tmp_path, cases())
