"""The shipped training configs load, and say what they mean."""

from pathlib import Path

import pytest

from drive.config import load_config
from drive.contracts import UserError
from drive.train import LoopConfig, TrainConfig
from drive.train.fit import learning_rate


@pytest.mark.parametrize("name", ["base", "quickstart", "debug"])
def test_shipped_configs_load(repo_root: Path, name: str) -> None:
    config = load_config(TrainConfig, repo_root / "configs" / "train" / f"{name}.yaml")
    assert config.loop.max_steps > 0
    assert set(config.exclude_towns) == {"Town02", "Town10HD"}


def test_an_unknown_key_is_named_with_the_nearest(repo_root: Path) -> None:
    with pytest.raises(UserError, match=r"loop\.max_steps"):
        load_config(TrainConfig, repo_root / "configs/train/debug.yaml", ["loop.max_step=3"])


def test_the_learning_rate_warms_up_and_falls() -> None:
    loop = LoopConfig(max_steps=100, warmup_steps=10, lr=1.0)
    rates = [learning_rate(loop, step) for step in range(100)]
    assert rates[0] < rates[5] < rates[9]
    assert rates[9] == pytest.approx(max(rates), rel=0.02)
    assert 0 < rates[99] < 0.02
