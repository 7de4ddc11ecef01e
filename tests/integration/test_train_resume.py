"""Training through Lightning: exact resume, damaged checkpoints, SIGTERM, and refusals."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from drive.config import load_config
from drive.contracts import UserError
from drive.model import load_policy
from drive.train import TrainConfig, train
from drive.train.checkpoint import FOLDER
from drive.train.features import EYES
from tests import builders
from tests.unit.train.drives import write_drives


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drives(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def config(logs: Path, repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    debug = load_config(TrainConfig, repo_root / "configs/train/debug.yaml", ["loop.max_steps=8"])
    return replace(debug, data=(logs,), cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def straight(config: TrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(config, tmp_path_factory.mktemp("straight"))


def weights(model: Path) -> dict[str, torch.Tensor]:
    return load_file(str(model / "model.safetensors"))


def assert_equal(a: Path, b: Path) -> None:
    left, right = weights(a), weights(b)
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_allclose(left[name].numpy(), right[name].numpy(), atol=1e-6, rtol=0, err_msg=name)


class KilledError(Exception):
    pass


def killed_at(config: TrainConfig, out: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run and die when batch `step` is fetched."""
    from drive.data.batches import Batches

    fetch = Batches.__getitem__

    def dying(self: Batches, at: int) -> object:
        if at == step:
            raise KilledError
        return fetch(self, at)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "__getitem__", dying)
        with pytest.raises(KilledError):
            train(config, out)


def test_a_resumed_run_ends_with_the_same_weights(
    config: TrainConfig, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at(config, tmp_path, 5, monkeypatch)
    assert [p.name for p in sorted((tmp_path / FOLDER).iterdir())] == ["step-00000002", "step-00000004"]
    assert_equal(train(config, tmp_path), straight)


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(
    config: TrainConfig,
    straight: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    killed_at(config, tmp_path, 5, monkeypatch)
    file = tmp_path / FOLDER / "step-00000004" / "tensors.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert_equal(train(config, tmp_path), straight)
    assert "damaged" in capsys.readouterr().err


def test_a_finished_run_is_not_trained_again(config: TrainConfig, straight: Path) -> None:
    before = (straight / "model.safetensors").read_bytes()
    assert train(config, straight.parent) == straight
    assert (straight / "model.safetensors").read_bytes() == before


def test_a_folder_with_another_run_is_refused(config: TrainConfig, straight: Path) -> None:
    other = replace(config, loop=replace(config.loop, seed=1))
    with pytest.raises(UserError, match="another config"):
        train(other, straight.parent)


def test_zero_steps_no_data_and_unknown_roots_are_refused_without_a_folder(
    config: TrainConfig, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="0 training steps"):
        train(replace(config, loop=replace(config.loop, max_steps=0)), tmp_path / "a")
    with pytest.raises(UserError, match="no log root"):
        train(replace(config, data=()), tmp_path / "b")
    with pytest.raises(UserError, match="no such log folder"):
        train(replace(config, data=(tmp_path / "none",)), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_held_out_towns_are_never_trained_on(config: TrainConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="held-out town"):
        train(replace(config, exclude_towns=("Town01",)), tmp_path / "out")


def test_a_loss_that_is_not_finite_stops_with_its_name(config: TrainConfig, tmp_path: Path) -> None:
    broken = replace(config, loss=replace(config.loss, intent=float("inf")))
    with pytest.raises(UserError, match="intent inf"):
        train(broken, tmp_path)


def test_init_from_keeps_the_frozen_statistics(config: TrainConfig, straight: Path, tmp_path: Path) -> None:
    second = train(replace(config, init_from=straight), tmp_path)
    for name in ("mean", "std", "anchors"):
        torch.testing.assert_close(weights(second)[name], weights(straight)[name], rtol=0, atol=0)
    meta = json.loads((second / "meta.json").read_text())
    assert meta["parent_id"] == json.loads((straight / "meta.json").read_text())["model_id"]


def test_the_trained_model_plans(straight: Path) -> None:
    plan = load_policy(straight).plan([builders.observation(6.0, image_size=64)], seed=3)[0]
    assert plan.best.pose_ego.shape == (40, 3)
    assert np.isfinite(plan.best.pose_ego).all()
    assert plan.command is not None


def test_sigterm_saves_at_a_step_boundary_and_exits_with_its_own_code(
    config: TrainConfig, straight: Path, logs: Path, repo_root: Path, tmp_path: Path
) -> None:
    command = [
        sys.executable, "-m", "drive.cli.main", "train",
        "--config", str(repo_root / "configs/train/debug.yaml"),
        "--data", str(logs), "--out", str(tmp_path), "loop.max_steps=100000", "loop.checkpoint_every=100000",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "steps" in line and " 0/" not in line:
                break
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(timeout=60) == 75
    assert len(list((tmp_path / FOLDER).iterdir())) == 1


def test_given_eyes_stay_as_they_are_and_are_looked_through_once(
    config: TrainConfig, straight: Path, tmp_path: Path
) -> None:
    seeing = replace(config, eyes_from=straight, loop=replace(config.loop, seed=5), cache=tmp_path / "cache")
    model = train(seeing, tmp_path / "one")
    old, new = weights(straight), weights(model)
    eyes = [name for name in old if name.split(".")[0] in EYES]
    assert len(eyes) > 20
    for name in eyes:
        np.testing.assert_array_equal(old[name].numpy(), new[name].numpy(), err_msg=name)
    assert not torch.equal(old["decode_condition.weight"], new["decode_condition.weight"])
    assert json.loads((model / "meta.json").read_text())["provenance"]["eyes"] is not None
    (folder,) = (tmp_path / "cache").glob("features-*")
    stamp = (folder / "ground.f16").stat().st_mtime_ns
    again = train(seeing, tmp_path / "two")
    assert (folder / "ground.f16").stat().st_mtime_ns == stamp
    assert_equal(model, again)


def test_eyes_that_do_not_fit_are_one_line(config: TrainConfig, straight: Path, tmp_path: Path) -> None:
    other = replace(config, eyes_from=straight, model=replace(config.model, ground_channels=16))
    with pytest.raises(UserError, match=r"its ground_channels is 48, model.ground_channels is 16"):
        train(other, tmp_path / "one")
    turning = replace(config, eyes_from=straight, augment=replace(config.augment, yaw_rad=0.1))
    with pytest.raises(UserError, match=r"augment\.yaw_rad"):
        train(turning, tmp_path / "two")


def test_a_critic_alone_is_trained_for_a_planner_that_stays_as_it_is(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = replace(config, model=replace(config.model, critic_width=0))
    planner = train(blind, tmp_path / "planner")
    job = replace(config, part="critic", init_from=planner, loop=replace(config.loop, ema_decay=0.0))
    killed_at(job, tmp_path / "one", 5, monkeypatch)
    model = train(job, tmp_path / "one")
    old, new = weights(planner), weights(model)
    for name in old:
        assert torch.equal(old[name], new[name]), name
    added = new.keys() - old.keys()
    assert added
    assert all(name.startswith("critic.") for name in added)
    assert_equal(train(job, tmp_path / "two"), model)
    meta = json.loads((model / "meta.json").read_text())
    assert meta["parent_id"] == json.loads((planner / "meta.json").read_text())["model_id"]
    assert {"critic_missed", "critic_false"} & meta["provenance"]["validation"].keys()


def test_a_critic_that_cannot_be_trained_is_one_line(config: TrainConfig, tmp_path: Path) -> None:
    planner = train(replace(config, model=replace(config.model, critic_width=0)), tmp_path / "planner")
    job = replace(config, part="critic", init_from=planner)
    for said, wrong in (
        ("give --init-from MODEL", replace(job, init_from=None)),
        ("set it to 0", replace(job, augment=replace(job.augment, yaw_rad=0.1))),
        ("keeps its own image part", replace(job, eyes_from=planner)),
        ("has no critic to train", replace(job, model=replace(job.model, critic_width=0))),
    ):
        with pytest.raises(UserError, match=said):
            train(wrong, tmp_path / "critic")
