"""The runner before any simulator starts: policies that cannot be built."""

import pickle
from collections.abc import Callable

import pytest

from drive.bench.floors import ConstantVelocity
from drive.contracts import UserError
from sim.runner import _Built


def raises(error: Exception) -> Callable[[], ConstantVelocity]:
    def build() -> ConstantVelocity:
        raise error

    return build


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (raises(ValueError("no weights")), r"the policy cannot be built \(ValueError: no weights\)"),
        (raises(MemoryError()), r"the policy cannot be built \(MemoryError"),
        (raises(UserError("model.safetensors: damaged")), "^model.safetensors: damaged"),
        (dict, "dict is no policy: it has no name, needs_images, plan"),
        (int, "int is no policy"),
    ],
)
def test_a_policy_that_cannot_be_built_is_bad_input(
    factory: Callable[[], ConstantVelocity], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        _Built(factory)()


def test_a_sound_factory_is_passed_through_and_pickles() -> None:
    assert pickle.loads(pickle.dumps(_Built(ConstantVelocity)))().name == "constant_velocity"
