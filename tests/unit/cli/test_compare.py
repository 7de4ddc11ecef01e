"""`drive bench --out` and `drive compare`: from results files to a verdict and an MLflow run."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from drive.cli.main import main
from tests.unit.score.test_merge import record, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two saved results; a new MLflow store takes seconds, so they are made once."""
    place = tmp_path_factory.mktemp("compare")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name, score in (("a", 80.0), ("b", 60.0)):
            file = written(place, f"{name}.json", *(record(n, score + n) for n in range(6)))
            assert main(["bench", "results", str(file), "--planned", "6", "--out", name]) == 0
    return place


@pytest.fixture
def saved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.chdir(folder)
    return "a", "b"


def test_a_comparison(saved: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["compare", *saved, "--plot", "p.png", "--json", str(out), "--fail-if-worse"]) == 1
    printed, numbers = capsys.readouterr().out, json.loads(out.read_text())
    first = numbers["metrics"][0]
    assert (first["metric"], first["verdict"]) == ("driving_score", "worse")
    assert first["change"]["mean"] == pytest.approx(-20.0)
    assert "cases where B is worse by driving_score" in printed
    picture = np.asarray(Image.open("p.png").convert("RGB"))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    assert main(["compare", *saved]) == 0
    assert main(["compare", saved[0], saved[0], "--fail-if-worse"]) == 0


def test_results_are_logged_once(saved: tuple[str, str]) -> None:
    from data_engine.registry import Registry

    assert main(["bench", "results", "a.json", "--planned", "6", "--out", "a"]) == 0
    store = Registry(Path("runs"), None, "nightdrive-bench")
    runs = store.client.search_runs([store.experiment_id()])
    assert len([run for run in runs if run.data.params["suite"] == "6 planned routes"]) == 2
    one = next(run for run in runs if run.data.params["model"] == "a")
    assert one.data.metrics["driving_score"] == pytest.approx(82.5)
    assert (one.data.params["planned"], one.data.params["run"], one.data.params["failed"]) == ("6", "6", "0")
    head = json.loads(Path("a/result.json").read_text())
    assert one.data.params["protocol_id"] == head["protocol_id"]


def test_bad_input(saved: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "results", "a.json", "--planned", "7", "--out", "c", "--allow-partial"]) == 0
    capsys.readouterr()
    for argv, message in (
        (["a", "c"], "suite is '6 planned routes' in A and '7 planned routes' in B"),
        (["a", "absent"], "no result.json there"),
        (["a", "b", "--plot", "p.jpg"], "must end in .png"),
    ):
        assert main(["compare", *argv]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert main(["bench", "results", "a.json", "--planned", "6", "--out", "a.json"]) == 2
    assert "--out a.json: is a file" in capsys.readouterr().err
