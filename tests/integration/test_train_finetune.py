"""Fine-tuning with LoRA: exact resume after kill -9, frozen statistics, adapter integrity, and refusals."""

import json
import os
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
from drive.contracts import Manifest, ManifestEntry, UserError
from drive.model.folder import load_model, read_meta
from drive.train import FinetuneConfig, TrainConfig, finetune, train
from drive.train.adapters import adapter_tensors, attach, load_adapter, merge
from drive.train.checkpoint import FOLDER
from tests.unit.train.drives import write_drives

RUN = """
import sys
from pathlib import Path
from tests.integration.test_train_finetune import CONFIG, manifest
from drive.train import finetune
finetune(CONFIG, Path(sys.argv[1]), manifest(), Path(sys.argv[2]), Path(sys.argv[3]))
"""
LOOP = FinetuneConfig().loop
CONFIG = FinetuneConfig(
    loop=replace(LOOP, max_steps=12, batch_size=8, lr=1e-3, checkpoint_every=4, threads=1)
)


def manifest() -> Manifest:
    bad = [ManifestEntry(f"drive-{i:03d}", k, 2.0, "bad_case") for i in (0, 1) for k in range(6)]
    old = [ManifestEntry(f"drive-{i:03d}", k, 1.0, "replay") for i in (2, 3) for k in range(6)]
    unlabelled = [ManifestEntry("drive-000", 35, 1.0, "bad_case")]
    return Manifest("manifest-1", None, (*bad, *old, *unlabelled))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drives(tmp_path_factory.mktemp("logs"), 5)


@pytest.fixture(scope="module")
def champion(logs: Path, repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = load_config(TrainConfig, repo_root / "configs/train/debug.yaml", ["loop.max_steps=8"])
    return train(replace(config, data=(logs,)), tmp_path_factory.mktemp("champion"))


@pytest.fixture(scope="module")
def candidate(logs: Path, champion: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finetune(CONFIG, champion, manifest(), logs, tmp_path_factory.mktemp("candidate"))


def weights(model: Path) -> dict[str, torch.Tensor]:
    return load_file(str(model / "model.safetensors"))


def test_only_adapted_layers_change_and_statistics_stay_frozen(champion: Path, candidate: Path) -> None:
    old, new = weights(champion), weights(candidate)
    assert old.keys() == new.keys()
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    assert changed
    heads = ("fuse.", "command.", "intent.", "decode", "score_", "judge.")
    assert [name for name in changed if not name.startswith(heads)] == []


def test_the_candidate_names_parent_manifest_and_dropped_samples(champion: Path, candidate: Path) -> None:
    meta = read_meta(candidate)
    assert meta.parent_id == read_meta(champion).model_id
    assert meta.manifest_id == "manifest-1"
    assert meta.provenance["dropped"] == 1
    assert 0.3 < meta.provenance["replay_share"] < 0.4
    assert not (candidate.parent / "cache").exists()


def test_a_finished_fine_tune_returns_at_once(logs: Path, champion: Path, candidate: Path) -> None:
    before = (candidate / "model.safetensors").stat().st_mtime_ns
    assert finetune(CONFIG, champion, manifest(), [logs], candidate.parent) == candidate
    assert (candidate / "model.safetensors").stat().st_mtime_ns == before


def test_kill_9_and_run_again_gives_the_same_weights(
    logs: Path, champion: Path, candidate: Path, repo_root: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", RUN, str(champion), str(logs), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(repo_root), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (tmp_path / FOLDER / "step-00000004").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "model").exists()
    again = finetune(CONFIG, champion, manifest(), logs, tmp_path)
    left, right = weights(again), weights(candidate)
    for name in right:
        np.testing.assert_allclose(left[name].numpy(), right[name].numpy(), atol=1e-6, rtol=0, err_msg=name)


def test_the_saved_adapter_gives_the_merged_model(champion: Path, candidate: Path) -> None:
    network, meta = load_model(champion)
    merged = merge(load_adapter(candidate.parent / "adapter", network, meta))
    for name, value in weights(candidate).items():
        torch.testing.assert_close(merged.state_dict()[name], value, atol=1e-5, rtol=0)


def test_merging_changes_no_output(champion: Path, candidate: Path) -> None:
    network, meta = load_model(champion)
    lora = load_adapter(candidate.parent / "adapter", network, meta)
    features = torch.randn(4, network.config.width)
    adapted = network.command(features)
    plain = merge(lora).command(features)
    torch.testing.assert_close(adapted, plain, atol=1e-5, rtol=0)
    assert not torch.allclose(plain, load_model(champion)[0].command(features), atol=1e-5)


def test_an_adapter_of_another_base_is_refused(candidate: Path) -> None:
    network, meta = load_model(candidate)
    with pytest.raises(UserError, match="was trained on base"):
        load_adapter(candidate.parent / "adapter", network, meta)


def test_a_damaged_adapter_is_refused(champion: Path, candidate: Path, tmp_path: Path) -> None:
    for name in ("adapter.json", "adapter.safetensors"):
        (tmp_path / name).write_bytes((candidate.parent / "adapter" / name).read_bytes())
    network, meta = load_model(champion)
    (tmp_path / "adapter.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match="missing or damaged"):
        load_adapter(tmp_path, network, meta)


def test_fresh_adapters_change_nothing(champion: Path) -> None:
    network, _ = load_model(champion)
    features = torch.randn(4, network.config.width)
    before = network.command(features)
    attach(network, 4, 8)
    torch.testing.assert_close(network.command(features), before, rtol=0, atol=0)
    assert all("lora_" in name for name, p in network.named_parameters() if p.requires_grad)
    assert adapter_tensors(network)


def test_manifests_that_cannot_be_trained_on_are_refused(logs: Path, champion: Path, tmp_path: Path) -> None:
    empty = Manifest("empty", None, ())
    with pytest.raises(UserError, match="no entries"):
        finetune(CONFIG, champion, empty, logs, tmp_path / "a")
    foreign = Manifest("foreign", None, (ManifestEntry("elsewhere", 0, 1.0, "bad_case"),))
    with pytest.raises(UserError, match="elsewhere"):
        finetune(CONFIG, champion, foreign, logs, tmp_path / "b")
    with pytest.raises(UserError, match="held-out town"):
        finetune(replace(CONFIG, exclude_towns=("Town01",)), champion, manifest(), logs, tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_the_adapter_says_what_it_belongs_to(champion: Path, candidate: Path) -> None:
    about = json.loads((candidate.parent / "adapter" / "adapter.json").read_text())
    assert about["base_sha256"] == read_meta(champion).sha256
    assert about["rank"] == 16
