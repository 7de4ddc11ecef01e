"""Named sets of routes, read from configs/sim/suites/*.yaml."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drive.contracts import UserError
from sim.routes import RouteSpec

FOLDER = Path(__file__).resolve().parent.parent / "configs" / "sim" / "suites"
HELD_OUT_TOWNS = ("Town02", "Town10HD")
GROUP_KEYS = {"town", "count", "first_seed", "length_m", "vehicles", "walkers", "start_speed_mps"}
SUITE_KEYS = {"description", "groups"}


@dataclass(frozen=True)
class Suite:
    """A set of routes with a name.

    Attributes:
        name: As given, e.g. "quickstart" or "tonight@2026-11-30".
        description: One line for people.
        routes: What is driven; its length is the denominator of every score.
    """

    name: str
    description: str
    routes: tuple[RouteSpec, ...]

    @property
    def towns(self) -> tuple[str, ...]:
        """Towns in order of first use."""
        return tuple(dict.fromkeys(route.town for route in self.routes))


def suite_names() -> list[str]:
    """Suites that come with the project."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_suite(name_or_yaml: str) -> Suite:
    """Load a suite by name or from a YAML file.

    "NAME@TEXT" shifts all seeds by a hash of TEXT: "tonight@2026-11-30" is that night's own set of routes.

    Raises:
        UserError: Unknown name (the known ones are listed), unknown key, wrong type.
    """
    import yaml

    name, _, night = name_or_yaml.partition("@")
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"unknown suite {name!r}; known: {', '.join(suite_names())}, or give a YAML file")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML ({error}); mend the file") from None
    _check_keys(path, "", data, SUITE_KEYS)
    shift = zlib.crc32(night.encode()) % 1_000_000 * 1000 if night else 0
    label = path.stem + (f"-{night}" if night else "")
    routes: list[RouteSpec] = []
    for number, group in enumerate(data.get("groups") or []):
        _check_keys(path, f"groups[{number}].", group, GROUP_KEYS)
        routes += _routes(path, number, group, label, shift, len(routes))
    if not routes:
        raise UserError(f"{path}: groups: no routes; add at least one group with count >= 1")
    return Suite(name_or_yaml if night else path.stem, str(data.get("description", "")), tuple(routes))


def take(suite: Suite, count: int) -> Suite:
    """The suite with only `count` routes, spread evenly over it so that every group stays represented."""
    if count < 1:
        raise UserError(f"--routes must be at least 1, got {count}")
    if count >= len(suite.routes):
        return suite
    chosen = np.unique(np.floor(np.linspace(0, len(suite.routes), count, endpoint=False)).astype(int))
    return Suite(suite.name, suite.description, tuple(suite.routes[i] for i in chosen))


def _check_keys(path: Path, prefix: str, data: Any, known: set[str]) -> None:
    if not isinstance(data, Mapping):
        raise UserError(
            f"{path}: {prefix or 'file'}: expected keys {sorted(known)}, got {type(data).__name__}"
        )
    for key in data:
        if key not in known:
            raise UserError(f"{path}: {prefix}{key}: unknown key; known: {', '.join(sorted(known))}")


def _routes(
    path: Path, number: int, group: Mapping[str, Any], label: str, shift: int, already: int
) -> list[RouteSpec]:
    """Routes of one group: seeds count up, lengths are spread evenly, list values alternate."""

    def value(key: str, default: Any, kind: type) -> list[Any]:
        given = group.get(key, default)
        items = given if isinstance(given, list) else [given]
        if not items or any(isinstance(v, bool) or not isinstance(v, (int, kind)) for v in items):
            raise UserError(
                f"{path}: groups[{number}].{key}: expected {kind.__name__} or a list, got {given!r}"
            )
        return items

    town = group.get("town")
    if not isinstance(town, str):
        raise UserError(f"{path}: groups[{number}].town: expected a town name, got {town!r}")
    count, first = value("count", 1, int)[0], value("first_seed", 0, int)[0]
    lengths = [float(v) for v in value("length_m", [120.0, 220.0], float)]
    spread = np.linspace(min(lengths), max(lengths), max(count, 2))
    vehicles, walkers = value("vehicles", 0, int), value("walkers", 0, int)
    speeds = value("start_speed_mps", [0.0, 5.0], float)
    routes = []
    for k in range(count):
        seed = first + k + shift
        routes.append(
            RouteSpec(
                route_id=f"{label}_{already + k:03d}_{town}_s{seed}",
                town=town,
                seed=seed,
                length_m=float(round(spread[(k * 7) % len(spread)])),
                vehicles=vehicles[k % len(vehicles)],
                walkers=walkers[k % len(walkers)],
                start_speed_mps=float(speeds[k % len(speeds)]),
            )
        )
    return routes
