"""Policy names become picklable recipes, or one clear line."""

import pickle
from pathlib import Path

import pytest

from drive.cli.policies import driver, policy_factory
from drive.contracts import UserError
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
