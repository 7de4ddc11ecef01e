"""A registered model is trained again from its lineage alone, bit for bit on the CPU; a rollback is quick."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from data_engine.config import NightlyConfig
from data_engine.night import NIGHTS
from data_engine.registry import CHAMPION, Registry
from data_engine.steps import load_manifest
from drive.cli.main import main
from drive.config import config_sha, dump_config, load_config
from drive.files import read_json, write_json
from drive.train import TrainConfig, finetune, train
from tests.integration.test_train_finetune import CONFIG, manifest
from tests.unit.train.drives import write_drives

NIGHT = "2026-11-30"


@pytest.fixture(scope="module")
def workspace(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry in which version 2 was fine-tuned from version 1 as a night does it."""
    runs = tmp_path_factory.mktemp("rebuild") / "runs"
    night = runs / NIGHTS / NIGHT
    logs = write_drives(night / "drive" / "logs", 5)
    config = load_config(TrainConfig, repo_root / "configs/train/debug.yaml", ["loop.max_steps=4"])
    parent = train(replace(config, data=(logs,)), runs / "base")
    settings = replace(CONFIG, loop=replace(CONFIG.loop, max_steps=4, checkpoint_every=2))
    dump_config(NightlyConfig(finetune=settings), night / "config.yaml")
    write_json(night / "curate" / "manifest.json", manifest())
    os.symlink("../drive/logs", night / "curate" / "logs")
    write_json(night / "verdict.json", {"promote": True})
    loaded = load_manifest(night / "curate" / "manifest.json")
    child = finetune(settings, parent, loaded, night / "curate" / "logs", night / "finetune")
    registry = Registry(runs)
    base = registry.ensure_champion(parent)
    made = registry.register(
        child,
        tags={"night": NIGHT, "parent_id": base.model_id, "config_sha": config_sha(settings)},
        lineage=(night / "curate" / "manifest.json", night / "config.yaml", night / "verdict.json"),
    )
    registry.promote(made.version)
    return runs


def test_the_weights_come_out_again_bit_for_bit(workspace: Path, tmp_path: Path) -> None:
    out = tmp_path / "rebuilt.json"
    arguments = ["rebuild", "2", "--workspace", str(workspace), "--out", str(tmp_path / "again")]
    assert main([*arguments, "--json", str(out)]) == 0
    numbers = read_json(out)
    assert numbers["same"] is True
    assert numbers["registered"] == numbers["rebuilt"]


def test_other_settings_are_told_from_the_registered_ones(workspace: Path, tmp_path: Path) -> None:
    (config,) = workspace.rglob("lineage/config.yaml")
    text = config.read_text(encoding="utf-8")
    try:
        config.write_text(text.replace("max_steps: 4", "max_steps: 3"), encoding="utf-8")
        code = main(["rebuild", "2", "--workspace", str(workspace), "--out", str(tmp_path / "other")])
        assert code == 1
    finally:
        config.write_text(text, encoding="utf-8")


def test_drives_that_are_gone_are_named(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = workspace / NIGHTS / NIGHT / "curate" / "logs"
    link.rename(tmp_path / "away")
    try:
        assert main(["rebuild", "2", "--workspace", str(workspace)]) == 2
    finally:
        (tmp_path / "away").rename(link)
    assert "the drives of version 2 are gone" in capsys.readouterr().err


def test_a_rollback_takes_less_than_a_minute(workspace: Path) -> None:
    start = time.monotonic()
    assert main(["rollback", "--workspace", str(workspace)]) == 0
    assert time.monotonic() - start < 60
    champion = Registry(workspace).get(CHAMPION)
    assert champion is not None
    assert champion.version == 1
