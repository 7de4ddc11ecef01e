"""The closed-loop routes of a night: training towns for mining, held-out towns for the gate."""

from data_engine.config import NightlyConfig
from data_engine.kinds import PREFIX, load_kinds
from drive.contracts import UserError
from sim.suites import Suite, load_suite, take


def load(name: str) -> Suite:
    """A suite by name or YAML file, or "kinds:FILE" (data_engine/kinds.py).

    Raises:
        UserError: Unknown suite, kind or town.
    """
    return load_kinds(name) if name.startswith(PREFIX) else load_suite(name)


def tonight_suite(config: NightlyConfig, date: str) -> Suite:
    """Tonight's routes; the date decides which.

    Raises:
        UserError: Unknown suite, or it drives in a held-out town.
    """
    suite = load(f"{config.drive.suite}@{date}")
    leaked = sorted(set(suite.towns) & set(config.held_out_towns))
    if leaked:
        raise UserError(
            f"drive.suite {config.drive.suite!r} has routes in held-out towns: {', '.join(leaked)}"
        )
    return take(suite, config.drive.routes) if config.drive.routes else suite


def gate_suite(config: NightlyConfig) -> Suite:
    """Routes on which champion and candidate are compared; the same every night.

    Raises:
        UserError: Unknown suite, or it has routes outside the held-out towns.
    """
    suite = load(config.evaluate.suite)
    leaked = sorted(set(suite.towns) - set(config.held_out_towns))
    if leaked:
        towns = ", ".join(leaked)
        raise UserError(f"evaluate.suite {config.evaluate.suite!r} has routes in training towns: {towns}")
    return take(suite, config.evaluate.routes) if config.evaluate.routes else suite
