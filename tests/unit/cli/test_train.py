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


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("loop.max_steps=0", "loop.max_steps: must be at least 1, got 0"),
        ("loop.batch_size=0", "loop.batch_size: must be at least 1"),
        ("loop.lr=.nan", "loop.lr: must be a finite number"),
        ("loop.lr=.inf", "loop.lr: must be a finite number"),
        ("loop.lr=-1", "loop.lr: must be above 0"),
        ("loop.lr=1e3", "loop.lr: must be at most 10"),
        ("loop.ema_decay=1.5", "loop.ema_decay: must be at most 1"),
        ("loop.clip_norm=0", "loop.clip_norm: must be above 0"),
        ("loop.threads=0", "loop.threads: must be at least 1"),
        ("loop.threads=many", "loop.threads: expected int, got many"),
        ("loop.precision=fp8", "loop.precision: expected one of fp32, bf16"),
        ("validation_share=-0.1", "validation_share: must be at least 0"),
        ("validation_share=1", "validation_share: must be at most 0.9"),
        ("standing_share=2", "standing_share: must be at most 1"),
        ("exclude_towns=Town02", "exclude_towns: expected a list"),
        ("augment.speed_drop=2", "augment.speed_drop: must be at most 1"),
        ("loss.command=-1", "loss.command: must be at least 0"),
        ("model.width=-1", "model.width: must be at least 1"),
        ("model.channels=[1, 2]", "model.channels: expected 4 items, got 2"),
        ("model.channels=[1, 2, 3, 0]", "model.channels[3]: must be at least 1"),
        ("model.crop_rows=[0, 10]", "model.crop_rows: must be a multiple of 16"),
        ("model.camera.width_px=100", "model.camera.width_px: must be a multiple of 16"),
        ("model.camera.fov_deg=180", "model.camera.fov_deg: must be at most 170"),
        ("model.sampling_steps=5", "model.sampling_steps: 5 steps start at noise level 90"),
        ("init_from=nowhere", "nowhere: not a model folder"),
        ("data=logs", "data: expected a list"),
    ],
)
def test_settings_out_of_bounds_are_one_line_and_no_folder(
    tmp_path: Path, repo_root: Path, capsys: pytest.CaptureFixture[str], override: str, said: str
) -> None:
    config = repo_root / "configs" / "train" / "quickstart.yaml"
    out = tmp_path / "out"
    assert main(["train", "--config", str(config), "--data", str(tmp_path), "--out", str(out), override]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not out.exists()
