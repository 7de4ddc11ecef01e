"""A whole small night on the light simulator: it ends, and resumes after kill -9."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_engine.nightly import STAGES
from data_engine.registry import Registry

pytestmark = pytest.mark.slow

SMALL = (
    "drive.routes=3", "drive.workers=2", "evaluate.routes=2", "evaluate.open_loop_steps=20",
    "curate.min_cases=1", "curate.replay_steps=60",
    "finetune.loop.max_steps=12", "finetune.loop.batch_size=8", "finetune.loop.checkpoint_every=2",
    "finetune.loop.threads=1", "report.pictures=4",
)  # fmt: skip


def command(repo: Path, workspace: Path, *more: str) -> list[str]:
    config = repo / "configs" / "nightly" / "quickstart.yaml"
    return [
        sys.executable, "-m", "drive.cli.main", "nightly", "--config", str(config),
        "--workspace", str(workspace),
        "--date", "2026-11-30", "--json", str(workspace.with_suffix(".json")), *SMALL, *more,
    ]  # fmt: skip


def run(repo: Path, workspace: Path, *more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(repo, workspace, *more), cwd=repo, capture_output=True, text=True)
    assert done.returncode in (0, 20, 21), done.stderr[-3000:]
    return done


def candidate_weights(workspace: Path) -> bytes:
    return (workspace / "nightly" / "2026-11-30" / "finetune" / "model" / "model.safetensors").read_bytes()


def kill_when(repo: Path, workspace: Path, reached: Path, pattern: str) -> None:
    """Start a night and kill -9 it as soon as a file matching `pattern` appears below `reached`."""
    with subprocess.Popen(
        command(repo, workspace), cwd=repo, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and not any(reached.glob(pattern)):
            time.sleep(0.2)
        assert process.poll() is None, "the night ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Path:
    """Workspace of an uninterrupted night."""
    workspace = tmp_path_factory.mktemp("whole") / "runs"
    run(repo_root, workspace)
    return workspace


def test_a_night_ends_with_a_decision_and_a_report(whole: Path) -> None:
    summary = json.loads((whole / "nightly" / "2026-11-30" / "summary.json").read_text())
    assert summary["decision"] in ("promoted", "refused", "nothing to do")
    assert summary["reasons"] or summary["decision"] == "promoted"
    assert summary["drive"]["protocol"].startswith("light simulator")
    html = (whole / "nightly" / "2026-11-30" / "report.html").read_text(encoding="utf-8")
    assert summary["decision"] in html
    assert "light simulator" in html
    assert 'src="http' not in html
    assert 'href="http' not in html
    assert html.count("data:image/png;base64,") >= 2


def test_a_finished_night_answers_quickly(whole: Path, repo_root: Path) -> None:
    start = time.monotonic()
    done = run(repo_root, whole)
    assert "already done" in done.stdout
    assert time.monotonic() - start < 15
    assert json.loads(whole.with_suffix(".json").read_text())["already_done"] is True


def assert_same_night(one: Path, other: Path) -> None:
    """Equal weights, decision, gate, cases and training set, and one champion."""
    assert candidate_weights(one) == candidate_weights(other)
    first, second = (
        json.loads((w / "nightly" / "2026-11-30" / "summary.json").read_text()) for w in (one, other)
    )
    for key in ("decision", "mined", "curated", "candidate"):
        assert first[key] == second[key]
    # planning time is measured, not computed
    gates = [[row for row in s["gate"] if row["metric"] != "planning time"] for s in (first, second)]
    assert gates[0] == gates[1]
    kept = [Registry(w) for w in (one, other)]
    registered = [[(v.version, v.model_id) for v in registry.versions()] for registry in kept]
    assert registered[0] == registered[1]
    champions = [registry.get("champion") for registry in kept]
    assert champions[0] is not None
    assert champions[0] == champions[1]


def test_killed_while_driving_and_while_training_gives_the_same_weights(
    whole: Path, repo_root: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "other place" / "runs"
    night = workspace / "nightly" / "2026-11-30"
    kill_when(repo_root, workspace, night, ".drive.*/logs/*/*/sync.arrow")
    kill_when(repo_root, workspace, night, ".finetune.*/train/checkpoints/*")
    run(repo_root, workspace)
    assert_same_night(workspace, whole)


def test_killed_at_every_stage_boundary_the_night_ends_the_same(
    whole: Path, repo_root: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "runs"
    night = workspace / "nightly" / "2026-11-30"
    for name in STAGES:
        kill_when(repo_root, workspace, night, f"{name}/stage.json")
    kill_when(repo_root, workspace, night, "report*")
    run(repo_root, workspace)
    assert_same_night(workspace, whole)
