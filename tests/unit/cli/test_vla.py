"""`drive vla` and `--policy vla:...`: bad input is one line; a moment of a drive is asked about."""

import json
from pathlib import Path

import pytest

from drive.cli.main import main
from drive.cli.policies import policy_factory
from drive.cli.sim import _policy_name
from drive.contracts import UserError
from drive.model.folder import save_model
from drive.model.vla.folder import load_vla, save_vla
from tests.unit.model.networks import tiny_network
from tests.unit.model.vla.speakers import taught_speaker
from tests.unit.train.drives import write_drives


@pytest.fixture(scope="module")
def vla(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vla") / "model"
    save_vla(folder, taught_speaker())
    return folder


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drives(tmp_path_factory.mktemp("logs"), 1)


def test_a_moment_is_asked_about(
    vla: Path, logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answer.json"
    command = [
        "vla",
        "ask",
        str(logs),
        "--log",
        "drive-000",
        "--step",
        "2",
        "--vla",
        str(vla),
        "--json",
        str(out),
    ]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "command:   keep/stop (" in printed
    assert "reasoning: malformed: " in printed  # it was taught commands only
    answer = json.loads(out.read_text())
    assert answer["said"]["longitudinal"] == "stop"
    assert 2 <= answer["passes"] <= 5
    assert answer["reasoning"] is None
    assert answer["agree"] is None
    assert answer["vla_id"] == load_vla(vla)[1].vla_id


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask"], "needs --vla"),
        (["ask", "--vla", "DIR", "LOGS", "--config", "x.yaml"], "--config is not an option of it"),
        (["ask", "--vla", "DIR"], "needs one folder of drives"),
        (["ask", "--vla", "nowhere", "LOGS"], "nowhere: not a VLA folder"),
        (["ask", "--vla", "DIR", "LOGS", "--log", "none"], "--log none: not below"),
        (["ask", "--vla", "DIR", "LOGS", "--step", "9999"], "--step 9999: drive-000 has"),
        (["ask", "--vla", "DIR", "LOGS", "--step", "-1"], "--step -1: drive-000 has"),
        (["train"], "needs --config"),
        (["train", "--config", "TINY"], "no training data"),
        (["train", "--config", "TINY", "--data", "nowhere"], "--data nowhere: no such log folder"),
        (
            ["train", "--config", "TINY", "--data", "LOGS", "vla.vlm.shape.family=gpt"],
            "vla.vlm.shape.family: expected one of",
        ),
        (
            ["train", "--config", "TINY", "--data", "LOGS", "vla.vlm.source=nowhere"],
            "vlm.source nowhere: no such folder",
        ),
        (["train", "--config", "TINY", "--data", "LOGS", "lora.rank=-1"], "lora.rank: must be at least 0"),
        (
            ["train", "--config", "TINY", "--data", "LOGS", "--init-from", "nowhere"],
            "nowhere: not a VLA folder",
        ),
    ],
)
def test_bad_input_is_one_line(
    vla: Path, logs: Path, repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    places = {"DIR": str(vla), "LOGS": str(logs), "TINY": str(repo_root / "configs" / "vla" / "tiny.yaml")}
    assert main(["vla", *(places.get(argument, argument) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_planner_under_a_vla_is_a_policy_with_both_ids_in_its_name(vla: Path, tmp_path: Path) -> None:
    meta = save_model(tmp_path / "planner", tiny_network())
    spec = f"vla:{tmp_path / 'planner'}+{vla}"
    factory = policy_factory(spec)
    assert _policy_name(spec, factory) == f"vla-{load_vla(vla)[1].vla_id}-planner-{meta.model_id}"


@pytest.mark.parametrize("spec", ["vla:", "vla:base", "vla:+", "vla:base+", "vla:+runs"])
def test_half_a_name_says_how_to_write_it(spec: str) -> None:
    with pytest.raises(UserError, match=r"write vla:PLANNER\+FOLDER"):
        policy_factory(spec)


def test_a_vla_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match="nowhere: not a VLA folder"):
        policy_factory("vla:base+nowhere")
