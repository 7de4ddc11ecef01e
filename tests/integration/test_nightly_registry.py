"""The registry on a real MLflow sqlite store: one champion at all times, promotion survives crashes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from data_engine.registry import ARTIFACTS, CHAMPION, DATABASE, PREVIOUS, Registry, resolve
from drive.contracts import UserError


def model(folder: Path, weights: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text("{}")
    (folder / "meta.json").write_text(json.dumps({"sha256": hashlib.sha256(weights).hexdigest()}))
    return folder


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "runs with space #%é")


def test_first_night_registers_the_base_as_champion_once(registry: Registry, tmp_path: Path) -> None:
    base = model(tmp_path / "base", b"base")
    first, again = registry.ensure_champion(base), registry.ensure_champion(base)
    assert first == again
    assert (first.version, len(registry.versions())) == (1, 1)


def test_promotion_rollback_and_names(registry: Registry, tmp_path: Path) -> None:
    registry.ensure_champion(model(tmp_path / "base", b"base"))
    made = registry.register(model(tmp_path / "new", b"new"), tags={"night": "2026-11-30"})
    registry.promote(made.version)
    registry.promote(made.version)
    assert [registry.get(a).version for a in (CHAMPION, PREVIOUS)] == [2, 1]  # type: ignore[union-attr]
    for name in ("champion", "models:/nightdrive@champion", "models:/nightdrive/2"):
        folder = resolve(name, registry.workspace)
        assert (folder / "model.safetensors").read_bytes() == b"new"
    old, back = registry.rollback()
    assert (old.version, back.version) == (2, 1)
    assert registry.get(CHAMPION).version == 1  # type: ignore[union-attr]
    with pytest.raises(UserError, match="no previous champion"):
        registry.rollback()


def test_a_crash_between_the_two_aliases_leaves_one_champion(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.ensure_champion(model(tmp_path / "base", b"base"))
    made = registry.register(model(tmp_path / "new", b"new"), tags={})
    really = registry.set_alias

    def dies_at_champion(alias: str, version: int) -> None:
        if alias == CHAMPION:
            raise KeyboardInterrupt
        really(alias, version)

    monkeypatch.setattr(registry, "set_alias", dies_at_champion)
    with pytest.raises(KeyboardInterrupt):
        registry.promote(made.version)
    monkeypatch.undo()
    assert registry.get(CHAMPION).version == 1  # type: ignore[union-attr]
    registry.promote(made.version)
    assert [registry.get(a).version for a in (CHAMPION, PREVIOUS)] == [2, 1]  # type: ignore[union-attr]


def test_plain_mlflow_resolves_the_champion(registry: Registry, tmp_path: Path) -> None:
    registry.ensure_champion(model(tmp_path / "base", b"base"))
    code = "import mlflow; print(mlflow.artifacts.download_artifacts('models:/nightdrive@champion'))"
    environment = {**os.environ, "MLFLOW_TRACKING_URI": registry.uri}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert (Path(done.stdout.strip()) / "model.safetensors").read_bytes() == b"base"


def test_damaged_or_foreign_folders_are_refused(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a model folder"):
        registry.register(tmp_path, tags={})
    damaged = model(tmp_path / "damaged", b"weights")
    (damaged / "model.safetensors").write_bytes(b"other")
    with pytest.raises(UserError, match="does not match the checksum"):
        registry.register(damaged, tags={})


def test_unknown_names_say_what_to_do(tmp_path: Path, registry: Registry) -> None:
    with pytest.raises(UserError, match="run `drive nightly` first"):
        resolve("champion", tmp_path / "empty")
    with pytest.raises(UserError, match="not in the registry"):
        resolve("best", tmp_path)
    registry.ensure_champion(model(tmp_path / "base", b"base"))
    with pytest.raises(UserError, match="no version or alias"):
        resolve("models:/nightdrive/9", registry.workspace)


def test_a_version_whose_files_are_gone_is_named(registry: Registry, tmp_path: Path) -> None:
    registry.ensure_champion(model(tmp_path / "base", b"base"))
    shutil.rmtree(registry.workspace / ARTIFACTS)
    for name in ("champion", "models:/nightdrive@champion", "models:/nightdrive/1"):
        with pytest.raises(UserError, match=r"its files cannot be read; restore them") as caught:
            resolve(name, registry.workspace)
        assert str(caught.value).startswith("models:/nightdrive")
        assert "\n" not in str(caught.value)


def test_a_store_is_looked_into_without_making_one(registry: Registry, tmp_path: Path) -> None:
    assert registry.peek(CHAMPION) is None
    assert not registry.workspace.exists()
    registry.ensure_champion(model(tmp_path / "base", b"base"))
    folder = registry.peek(CHAMPION)
    assert folder is not None
    assert (folder / "model.safetensors").read_bytes() == b"base"
    assert registry.peek(PREVIOUS) is None
    assert Registry(registry.workspace, model="other").peek(CHAMPION) is None


def test_a_store_that_was_cut_short_is_refused_and_left_as_it_is(registry: Registry, tmp_path: Path) -> None:
    registry.ensure_champion(model(tmp_path / "base", b"base"))
    path = registry.workspace / DATABASE
    whole = path.read_bytes()
    for keep in (0, 10, 50, 90):
        path.write_bytes(whole[: len(whole) * keep // 100])
        before, again = path.read_bytes(), Registry(registry.workspace)
        for act in (
            lambda: again.get(CHAMPION),  # noqa: B023
            lambda: again.rollback(),  # noqa: B023
            lambda: again.ensure_champion(tmp_path / "base"),  # noqa: B023
            lambda: resolve(CHAMPION, registry.workspace),
        ):
            with pytest.raises(UserError, match=DATABASE):
                act()
        assert path.read_bytes() == before


def test_a_night_is_logged_once(registry: Registry) -> None:
    first = registry.log_night("2026-11-30", {"a": 1}, {"score": 2.0}, {"decision": "refused"})
    assert registry.log_night("2026-11-30", {"a": 1}, {"score": 2.0}, {"decision": "refused"}) == first


def test_a_night_that_registered_a_model_is_logged_too(registry: Registry, tmp_path: Path) -> None:
    """Found by reading: the run that holds the model's files was taken for the night's."""
    registry.register(model(tmp_path / "new", b"new"), tags={"night": "2026-11-30"})
    run = registry.log_night("2026-11-30", {"a": 1}, {"score": 2.0}, {"decision": "refused"})
    assert registry.client.get_run(run).data.metrics == {"score": 2.0}
