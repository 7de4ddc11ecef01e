"""A damaged model folder is one line that names the file, whatever the damage."""

from pathlib import Path

import pytest

from drive.contracts import UserError
from drive.model.config import ModelConfig
from drive.model.folder import load_model, read_config, save_model
from tests.unit.model.damage import DAMAGES
from tests.unit.model.networks import TINY, tiny_network


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_refused_and_named(tmp_path: Path, name: str) -> None:
    spoil, words = DAMAGES[name]
    save_model(tmp_path / "model", tiny_network())
    spoil(tmp_path / "model")
    with pytest.raises(UserError, match=words) as caught:
        load_model(tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "model") in str(caught.value)


def test_what_was_saved_is_read_back(tmp_path: Path) -> None:
    save_model(tmp_path / "model", tiny_network())
    assert read_config(tmp_path / "model") == TINY


def test_the_config_knows_the_levels_of_the_sampler() -> None:
    assert ModelConfig(noise_levels=31).sampling_steps == 2
    with pytest.raises(UserError, match="start at noise level 30"):
        ModelConfig(noise_levels=30)
