"""Policy names become picklable recipes, or one clear line."""

import pickle
from pathlib import Path

import pytest

from drive.bench.floors import FLOORS
from drive.cli.main import build_parser, main
from drive.cli.policies import EXPERT, driver, policy_factory
from drive.contracts import UserError
from drive.model import BASE
from drive.model.folder import save_model
from tests.unit.model.networks import tiny_network


def test_floors_and_folders_are_found_and_pickle(tmp_path: Path) -> None:
    save_model(tmp_path / "model", tiny_network())
    for spec in ("constant_velocity", "go_straight", str(tmp_path / "model")):
        factory = pickle.loads(pickle.dumps(policy_factory(spec)))
        assert factory().name


def test_the_expert_is_only_a_name() -> None:
    assert driver("expert") == "expert"


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'constant_velocity'"):
        policy_factory("constant_velocty")


def test_the_expert_is_for_the_simulator_only() -> None:
    with pytest.raises(UserError, match="only `drive sim` has"):
        policy_factory("expert")


@pytest.mark.parametrize(("command", "absent"), [("sim", {"ego_mlp"}), ("bench", {"expert"})])
def test_the_help_names_every_policy_that_the_command_takes(command: str, absent: set[str]) -> None:
    option = next(a for a in build_parser(command)._actions if a.dest == "policy")
    named = {*FLOORS, EXPERT, BASE, "models:/nightdrive@champion"} - absent
    assert option.help is not None
    assert {name for name in (*FLOORS, EXPERT, *named) if name in option.help} == named


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("models:/nightdrive@champion", "no registry here yet; run `drive nightly` first"),
        ("models:/nightdrive", "write models:/NAME@ALIAS or models:/NAME/VERSION"),
        ("models:/@", "write models:/NAME@ALIAS"),
        ("absent", "absent"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ("sim", "--suite", "quickstart", "--limit", "1", "--policy"),
        ("train", "--config", "config.yaml", "--data", ".", "--init-from"),
        ("train", "--config", "config.yaml", "--data", ".", "init_from={}"),
    ],
    ids=["sim", "train", "train config"],
)
def test_a_model_that_is_not_there_is_refused_before_any_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    name: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("loop: {max_steps: 2}\n")
    last = command[-1].format(name)
    assert main([*command[:-1], last, *([name] if last == command[-1] else [])]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]
