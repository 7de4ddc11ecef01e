"""The registry when the disk is full or the process is killed: one champion, no half model, repeatable."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_engine.registry import CHAMPION, Registry, model_id_of

PROMOTE = """
import resource, signal, sys
from pathlib import Path
from data_engine.registry import Registry
from drive.contracts import UserError
workspace, folder, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
registry = Registry(workspace)
print("ready", registry.get("champion").version, flush=True)
if limit:  # no file may grow beyond this: the same error path as a full disk, for this process alone
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    registry.promote(registry.register(folder, tags={"night": "n"}).version)
except (UserError, OSError) as error:
    print("refused", error)
    sys.exit(3)
"""


def model(folder: Path, weights: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text("{}")
    (folder / "meta.json").write_text(json.dumps({"sha256": hashlib.sha256(weights).hexdigest()}))
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    Registry(tmp_path / "runs").ensure_champion(model(tmp_path / "base", b"base"))
    return tmp_path / "runs"


def start(repo_root: Path, workspace: Path, folder: Path, limit: int = 0) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROMOTE, str(workspace), str(folder), str(limit)],
        cwd=repo_root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(repo_root)},
    )  # fmt: skip


def champion_is_whole(workspace: Path) -> str:
    """The one champion's id, after its files were checked against their checksum."""
    champion = Registry(workspace).get(CHAMPION)
    assert champion is not None
    assert model_id_of(Registry(workspace).folder(str(champion.version))) == champion.model_id
    return champion.model_id


def test_a_full_disk_leaves_the_champion_and_the_same_command_goes_on(
    workspace: Path, tmp_path: Path, repo_root: Path
) -> None:
    new = model(tmp_path / "new", os.urandom(4_000_000))
    before = champion_is_whole(workspace)
    with start(repo_root, workspace, new, limit=3_000_000) as process:
        out, _ = process.communicate(timeout=240)
    assert process.returncode == 3, out
    assert champion_is_whole(workspace) == before
    assert [v.model_id for v in Registry(workspace).versions()] == [before]
    with start(repo_root, workspace, new) as process:
        process.communicate(timeout=240)
    assert process.returncode == 0
    assert champion_is_whole(workspace) == model_id_of(new)


@pytest.mark.slow
def test_killed_at_many_moments_there_is_one_champion_and_the_end_is_reached(
    workspace: Path, tmp_path: Path, repo_root: Path
) -> None:
    new = model(tmp_path / "new", os.urandom(20_000_000))
    allowed = {champion_is_whole(workspace), model_id_of(new)}
    for delay_s in (0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4):
        with start(repo_root, workspace, new) as process:
            assert process.stdout is not None
            process.stdout.readline()  # ready
            time.sleep(delay_s)
            process.send_signal(signal.SIGKILL)
        assert champion_is_whole(workspace) in allowed
    with start(repo_root, workspace, new) as process:
        process.communicate(timeout=240)
    assert champion_is_whole(workspace) == model_id_of(new)
    assert sum(v.model_id == model_id_of(new) for v in Registry(workspace).versions()) == 1
