"""Names of policies: the shipped model, a model folder, or a floor."""

from collections.abc import Callable
from pathlib import Path

from drive.contracts import Policy, UserError

PolicyFactory = Callable[[], Policy]


def policy_factory(spec: str) -> PolicyFactory:
    """Picklable recipe of a policy for worker processes; cheap, loads nothing yet.

    Args:
        spec: "base" (the shipped model), a model folder, or a floor's name.

    Raises:
        UserError: nothing by that name.
    """
    from drive.bench.floors import FLOORS
    from drive.model import BASE
    from drive.model import policy_factory as model_factory

    if spec in FLOORS:
        return FLOORS[spec]
    if spec != BASE and not Path(spec).exists():
        raise UserError(f"policy {spec!r}: give {BASE!r}, a model folder, or one of {', '.join(sorted(FLOORS))}")
    return model_factory(spec)
