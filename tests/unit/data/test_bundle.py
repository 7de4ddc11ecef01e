"""From drives to batches: selection, cache, split, order, leakage."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_engine.store import collect, link
from drive.contracts import UserError
from drive.data.augment import AugmentConfig
from drive.data.batches import Batches
from drive.data.bundle import bundle_key, find_drives, load_bundle, split_rows
from drive.data.camera import CameraSpec
from drive.data.observations import observation_at
from drive.data.samples import loss_weights, samples_of, thin_standing
from drive.logs import write_drive
from tests import builders
from tests.unit.train.drives import picture_drive, write_drives

SPEC = CameraSpec()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drives(tmp_path_factory.mktemp("logs"), 6)


@pytest.fixture(scope="module")
def bundle(root: Path, tmp_path_factory: pytest.TempPathFactory):
    return load_bundle(find_drives([root]), SPEC, tmp_path_factory.mktemp("cache"))


def test_only_steps_with_a_label_become_samples(bundle) -> None:
    log = picture_drive(0)
    labelled = int(np.isfinite(log.plans.label_ego).all((1, 2)).sum())
    assert 0 < labelled < len(log.plans.step)
    assert len(bundle.samples) == 6 * labelled
    assert bundle.samples.image.shape[1:] == (144, 256, 4)
    assert np.isfinite(bundle.samples.label_ego).all()


def test_the_cache_is_used_and_gives_the_same(root: Path, tmp_path: Path, bundle) -> None:
    first = load_bundle(find_drives([root]), SPEC, tmp_path)
    stamp = (tmp_path / first.key / "images.u8").stat().st_mtime_ns
    second = load_bundle(find_drives([root]), SPEC, tmp_path)
    assert (tmp_path / first.key / "images.u8").stat().st_mtime_ns == stamp
    assert first.key == second.key == bundle.key
    np.testing.assert_array_equal(second.samples.image, bundle.samples.image)


def test_the_key_follows_the_content(root: Path, tmp_path: Path) -> None:
    before = bundle_key(find_drives([root]), SPEC)
    other = write_drives(tmp_path, 6)
    assert bundle_key(find_drives([other]), SPEC) == before
    log = picture_drive(2)
    write_drive(other, replace(log, plans=replace(log.plans, speed_limit_mps=log.plans.speed_limit_mps + 1)))
    assert bundle_key(find_drives([other]), SPEC) != before


def test_a_selection_takes_exactly_those_steps(root: Path, tmp_path: Path) -> None:
    picked = load_bundle(find_drives([root]), SPEC, tmp_path, {"drive-001": [3, 1, 3], "drive-004": [0]})
    got = {
        (picked.drives[d].log_id, int(p))
        for d, p in zip(picked.samples.drive, picked.samples.plan_index, strict=True)
    }
    assert got == {("drive-001", 1), ("drive-001", 3), ("drive-004", 0)}
    with pytest.raises(UserError, match="planning step 999"):
        load_bundle(find_drives([root]), SPEC, tmp_path, {"drive-001": [999]})


def test_the_split_is_by_route_and_covers_everything(bundle) -> None:
    train, held = split_rows(bundle, 0.3, 0)
    assert sorted([*train, *held]) == list(range(len(bundle.samples)))
    assert not set(bundle.samples.drive[train]) & set(bundle.samples.drive[held])
    assert len(held)
    again = split_rows(bundle, 0.3, 0)
    np.testing.assert_array_equal(held, again[1])


def test_held_out_towns_and_blind_drives_are_skipped_with_the_reason(tmp_path: Path) -> None:
    write_drive(tmp_path, picture_drive(0, town="Town02"))
    write_drive(tmp_path, builders.cruise())
    with pytest.raises(UserError, match="1 with held-out town, 1 with no images"):
        find_drives([tmp_path], ["Town02"])


def test_batches_are_a_function_of_the_step_and_an_epoch_sees_everything_once(bundle) -> None:
    rows = np.arange(len(bundle.samples))
    batches = Batches(bundle.samples, rows, 5, 0, SPEC, AugmentConfig())
    count = len(rows)
    seen = np.concatenate([batches.order(step) for step in range(-(-count // 5))])[:count]
    assert sorted(seen) == list(range(count))
    a, b = batches[7], batches[7]
    assert all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)
    assert not np.array_equal(batches[8]["image"], a["image"])


def test_probabilities_rule_the_draw(bundle) -> None:
    rows = np.arange(4)
    batches = Batches(
        bundle.samples, rows, 200, 0, SPEC, None, np.array([0.0, 0.5, 0.5, 0.0]), np.array([0, 0, 1, 0], bool)
    )
    drawn = batches[3]
    assert set(batches.order(3)) == {1, 2}
    np.testing.assert_array_equal(drawn["replay"], batches.order(3) == 2)


def test_augmentation_hides_some_speeds_and_keeps_labels(bundle) -> None:
    rows = np.arange(len(bundle.samples))
    batch = Batches(bundle.samples, rows, 200, 0, SPEC, AugmentConfig(speed_drop=0.5))[0]
    hidden = np.isnan(batch["speed_mps"]).mean()
    assert 0.3 < hidden < 0.7
    assert np.isfinite(batch["true_speed_mps"]).all()
    assert np.isfinite(batch["label_ego"]).all()
    assert batch["image"].min() >= 0
    assert batch["image"].max() <= 255


def test_setting_off_and_stopping_weigh_more() -> None:
    t = (np.arange(40) + 1) * 0.1
    flat = np.zeros((40, 3), np.float32)
    off, stop = flat.copy(), flat.copy()
    off[:, 0], stop[:, 0] = t**2 / 2, np.minimum(5 * t, 8)
    assert loss_weights([0.0, 0.0, 5.0], np.stack([flat, off, stop])).tolist() == pytest.approx(
        [1.0, 3.0, 3.0]
    )


def test_standing_samples_are_thinned(bundle) -> None:
    count = len(bundle.samples)
    standing = replace(
        bundle.samples,
        speed_mps=np.where(np.arange(count) % 2, 0, 5).astype(np.float32),
        label_ego=np.where((np.arange(count) % 2)[:, None, None], 0, bundle.samples.label_ego),
    )
    kept = thin_standing(standing, np.arange(count), 0.3, 0)
    assert (kept % 2 == 0).sum() == (count + 1) // 2
    assert 0.1 < (kept % 2 == 1).sum() / (count // 2) < 0.5


def test_an_observation_knows_nothing_of_the_future() -> None:
    log = picture_drive(1)
    before = observation_at(log, 10)
    row = int(log.plans.step[10])
    pose = log.ego.pose_world.copy()
    pose[row + 1 :] += 100.0
    later = np.arange(len(log.plans.step)) > 10
    images = np.where(later[:, None, None, None], 0, log.plans.images["front"]).astype(np.uint8)
    label = log.plans.label_ego + 5
    changed = replace(
        log,
        ego=replace(log.ego, pose_world=pose),
        plans=replace(log.plans, images={"front": images}, label_ego=label),
    )
    after = observation_at(changed, 10)
    np.testing.assert_array_equal(before.history_ego, after.history_ego)
    np.testing.assert_array_equal(before.images["front"], after.images["front"])
    assert before.speed_mps == after.speed_mps
    np.testing.assert_allclose(
        before.history_ego[:, 0], -before.speed_mps * np.array([2, 1.5, 1, 0.5, 0]), atol=1e-4
    )


def test_a_drive_without_this_camera_is_named() -> None:
    with pytest.raises(ValueError, match="no images of camera 'front'"):
        samples_of(builders.cruise(), 0, SPEC)


def test_links_to_one_drive_are_one_drive_and_two_drives_are_refused(root: Path, tmp_path: Path) -> None:
    """Found by reading: nights that replay the same drives could not be consolidated."""
    views = [tmp_path / name for name in ("a", "b")]
    for view in views:
        link(collect([root]), view)
    assert [d.log_id for d in find_drives(views)] == [d.log_id for d in find_drives([root])]
    write_drives(tmp_path / "copy", 1)
    with pytest.raises(UserError, match="is also in"):
        find_drives([*views, tmp_path / "copy"])
