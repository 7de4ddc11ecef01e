"""`drive eval planner` refuses what cannot be compared in one line and before anything is made."""

from pathlib import Path

import pytest

from data_engine.planner_table import BEGIN, END
from drive.cli.main import main

CONFIG = "configs/eval/planner.yaml"


def refused(tmp_path: Path, repo_root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    out = tmp_path / "out"
    assert main(["eval", "planner", "--config", str(repo_root / CONFIG), "--out", str(out), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not out.exists()
    return error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "absent"], "absent: no such log folder"),
        (["train.data=[]"], "train.data: no log root; give --data LOGROOT"),
        (["--data", ".", "suites=[heldot]"], "unknown suite 'heldot'"),
        (["--data", ".", "suites=[tonight]"], "suites: tonight drives in Town01"),
        (["--data", ".", "models.expert.policy=exprt"], "did you mean 'expert'"),
        (
            ["models.regression.change=[model.hed=regression]"],
            "models.regression.change: unknown key 'model.hed'",
        ),
        (["models.ours.change=[loop.lr=fast]"], "models.ours.change: loop.lr: expected float, got fast"),
        (["--data", ".", "models.a.policy=ego_mlp"], "models.a.policy: ego_mlp is fitted to nuScenes; train"),
        (["--into", "absent.md"], "--into absent.md: cannot be read"),
        (
            ["--data", ".", "models.wide={weights_of: ours, change: [model.width=64]}"],
            "models.wide.change: model.width=64: asks for other weights than those of 'ours'",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_line_and_no_folder(
    tmp_path: Path, repo_root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refused(tmp_path, repo_root, capsys, *arguments)


def test_tables_of_nothing_say_that_everything_is_missing(
    tmp_path: Path, repo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    arguments = ["--config", str(repo_root / CONFIG), "--out", str(tmp_path / "out"), "--into", str(page)]
    assert main(["eval", "planner", *arguments, "--tables-only", "seeds=[0]"]) == 1
    assert "ours, seed 0 on heldout" in page.read_text()
    assert "(nothing yet)" in capsys.readouterr().out
