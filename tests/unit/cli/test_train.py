"""`drive train` refuses bad data folders before anything heavy is imported or made."""

from pathlib import Path

import pytest

from drive.cli.main import main


@pytest.mark.parametrize(
    ("data", "said"), [(["--data", "absent"], "absent: no such log folder"), ([], "no training data")]
)
def test_missing_data_is_one_line_and_no_folder(
    tmp_path: Path, repo_root: Path, capsys: pytest.CaptureFixture[str], data: list[str], said: str
) -> None:
    config = repo_root / "configs" / "train" / "quickstart.yaml"
    out = tmp_path / "out"
    code = main(["train", "--config", str(config), "--out", str(out), *data])
    assert code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not out.exists()
