"""`drive nightly` refuses bad settings in one line with the key path, before it makes anything."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_engine.config import NightlyConfig
from drive.cli.main import main
from drive.config import load_config

CONFIG = "configs/nightly/quickstart.yaml"


def refused(
    repo_root: Path,
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    *arguments: str,
    config: str = CONFIG,
) -> str:
    code = main(["nightly", "--config", str(repo_root / config), "--workspace", str(workspace), *arguments])
    assert code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not workspace.exists()
    return error


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("held_out_towns=Town02", "held_out_towns: expected a list, got Town02"),
        ("held_out_towns=[2]", "held_out_towns[0]: expected str"),
        ("logs=nuscenes:data", "logs: expected a list"),
        ("workspace=[runs]", "workspace: expected str"),
        ("drive=tonight", "drive: expected 'key: value' pairs"),
        ("drive.suite=tonite", "drive.suite: unknown suite 'tonite'; known: "),
        ("drive.suite=3", "drive.suite: expected str"),
        ("drive.suite=gate", "drive.suite 'gate' has routes in held-out towns"),
        ("drive.routes=-3", "drive.routes: must be at least 0"),
        ("drive.routes=1.5", "drive.routes: expected int"),
        ("drive.workers=0", "drive.workers: must be at least 1"),
        ("drive.workers=-1", "drive.workers: must be at least 1"),
        ("drive.carla=somewhere", "expected HOST:PORT"),
        ("drive.carla=7", "drive.carla: expected str"),
        ("mine.rules.near_miss.ttc_s=fast", "mine.rules.near_miss.ttc_s: expected float, got fast"),
        ("mine.rules.near_miss.ttc_s=[1]", "mine.rules.near_miss.ttc_s: expected float"),
        ("mine.rules.near_miss.ttc_s=.nan", "mine.rules.near_miss.ttc_s: must be a finite number"),
        ("mine.rules.near_miss.ttc_s=-1", "mine.rules.near_miss.ttc_s: must be above 0"),
        ("mine.rules.stuck.min_s=0", "mine.rules.stuck.min_s: must be above 0"),
        ("mine.rules.near_miss=3", "mine.rules.near_miss: expected 'key: value' pairs"),
        ("mine.rules=[near_miss]", "mine.rules: expected 'key: value' pairs"),
        ("mine.rules.near_mis={}", "mine.rules.near_mis: unknown rule; did you mean 'near_miss'?"),
        ("mine.rules.near_miss.ttc=1", "mine.rules.near_miss.ttc: unknown parameter; did you mean 'ttc_s'?"),
        ("mine.shadow=3", "mine.shadow: expected bool"),
        ("curate.bad_share=-0.5", "curate.bad_share: must be at least 0"),
        ("curate.bad_share=0.9", "bad_share + demonstration_share + neighbour_share + replay_share must be"),
        ("curate.per_kind=0", "curate.per_kind: must be at least 1"),
        ("curate.min_cases=-1", "curate.min_cases: must be at least 0"),
        ("curate.before_s=.inf", "curate.before_s: must be a finite number"),
        ("curate.replay=nowhere", "curate.replay: nowhere is not a folder"),
        ("finetune.loop.batch_size=0", "finetune.loop.batch_size: must be at least 1"),
        ("finetune.loop.max_steps=0", "finetune.loop.max_steps: must be at least 1"),
        ("finetune.loop.lr=.nan", "finetune.loop.lr: must be a finite number"),
        ("finetune.loop.lr=.inf", "finetune.loop.lr: must be a finite number"),
        ("finetune.loop.lr=-1e-4", "finetune.loop.lr: must be above 0"),
        ("finetune.loop.lr=0", "finetune.loop.lr: must be above 0"),
        ("finetune.loop.seed=-1", "finetune.loop.seed: must be at least 0"),
        ("finetune.loop.warmup_steps=-1", "finetune.loop.warmup_steps: must be at least 0"),
        ("finetune.loop.precision=fp8", "finetune.loop.precision: expected one of fp32, bf16"),
        ("finetune.rank=0", "finetune.rank: must be at least 1"),
        ("finetune.augment.speed_drop=2", "finetune.augment.speed_drop: must be at most 1"),
        ("finetune.augment.gain=-1", "finetune.augment.gain: must be at least 0"),
        ("finetune.loss.score_scale_m=0", "finetune.loss.score_scale_m: must be above 0"),
        ("finetune.loss.intent=-1", "finetune.loss.intent: must be at least 0"),
        ("evaluate.suite=gates", "evaluate.suite: unknown suite 'gates'"),
        ("evaluate.suite=tonight", "evaluate.suite 'tonight' has routes in training towns"),
        ("evaluate.real_images=painted", "evaluate.real_images: expected one of camera, rendered"),
        ("gate.min_coverage=2", "gate.min_coverage: must be at most 1"),
        ("gate.max_score_drop=.nan", "gate.max_score_drop: must be a finite number"),
        ("gate.max_scor_drop=1", "unknown key 'gate.max_scor_drop'; did you mean 'gate.max_score_drop'?"),
        ("registry=null", "registry: null is not allowed here"),
        ("registry.model=a/b", "registered model 'a/b'"),
        ("registry.tracking_uri=nonsense", "tracking URI 'nonsense': no such folder"),
        ("registry.tracking_uri=http://127.0.0.1:1", "no answer from 127.0.0.1:1"),
        ("report.pictures=-1", "report.pictures: must be at least 0"),
        ("base_model=nowhere", "nowhere: not a model folder"),
    ],
)
def test_bad_settings(
    repo_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], override: str, words: str
) -> None:
    assert words in refused(repo_root, tmp_path / "runs", capsys, override)


@pytest.mark.parametrize(
    "text", ["- a\n- b\n", "just text\n", "3\n", "a: [\n", "drive: {a: 2026-13-45}\n", "\xff"]
)
def test_files_that_are_no_settings(
    repo_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "night.yaml"
    path.write_bytes(text.encode("latin-1"))
    assert str(path) in refused(repo_root, tmp_path / "runs", capsys, config=str(path))


@pytest.mark.parametrize("name", ["quickstart", "base"])
def test_the_shipped_settings_are_within_all_bounds(repo_root: Path, name: str) -> None:
    config = load_config(NightlyConfig, repo_root / "configs" / "nightly" / f"{name}.yaml")
    assert config.finetune.loop.max_steps > 0


def test_a_workspace_that_is_a_file(
    repo_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs"
    file.write_text("kept")
    arguments = ["nightly", "--config", str(repo_root / CONFIG), "--workspace", str(file)]
    assert main(arguments) == 2
    assert "is a file" in capsys.readouterr().err
    assert file.read_text() == "kept"


def test_a_refusal_takes_a_moment(repo_root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "drive.cli.main", "nightly", "--config", str(repo_root / CONFIG)]
    start = time.monotonic()
    done = subprocess.run(
        [*command, "drive.workers=0"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "drive.workers: must be at least 1" in done.stderr
    assert time.monotonic() - start < 5  # below 1 s on an idle machine
    assert not list(tmp_path.iterdir())
