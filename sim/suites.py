"""Named sets of routes, read from configs/sim/suites/*.yaml."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np

from drive.config import Bounds, Count, load_config
from drive.contracts import UserError
from sim.routes import RouteSpec

FOLDER = Path(__file__).resolve().parent.parent / "configs" / "sim" / "suites"
HELD_OUT_TOWNS = ("Town02", "Town10HD")
MOST_DRIVES = 20_000
T = TypeVar("T")
Number = TypeVar("Number", int, float)
Crowd = Annotated[int, Bounds(0, 500)]
LengthM = Annotated[float, Bounds(20, 20_000)]
SpeedMps = Annotated[float, Bounds(0, 60)]


@dataclass(frozen=True)
class Group:
    """Routes in one town; seeds count up, lengths are spread evenly, other lists are gone through in turn."""

    town: str
    count: Annotated[int, Bounds(1, 10_000)] = 1
    first_seed: Count = 0
    length_m: LengthM | tuple[LengthM, ...] = (120.0, 220.0)
    vehicles: Crowd | tuple[Crowd, ...] = 0
    walkers: Crowd | tuple[Crowd, ...] = 0
    start_speed_mps: SpeedMps | tuple[SpeedMps, ...] = (0.0, 5.0)

    def __post_init__(self) -> None:
        for name in ("length_m", "vehicles", "walkers", "start_speed_mps"):
            if getattr(self, name) == ():
                raise UserError(f"groups: {name} of {self.town}: the list is empty; give at least one number")


@dataclass(frozen=True)
class SuiteFile:
    """What a suite's YAML file says."""

    groups: tuple[Group, ...]
    description: str = ""


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

    @property
    def left_out(self) -> dict[str, int]:
        """Scenario types that routes ask for and that are not staged, with the number of routes."""
        return dict(sorted(Counter(kind for route in self.routes for kind in route.left_out).items()))

    @property
    def note(self) -> str:
        """What has to be said beside every score of the suite; empty for suites that are driven in full."""
        return "; ".join(sorted({route.note for route in self.routes if route.note}))


def suite_names() -> list[str]:
    """Suites that come with the project."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_suite(name_or_yaml: str) -> Suite:
    """Load a suite by name or from a YAML file.

    "NAME@TEXT" shifts all seeds by a hash of TEXT: "tonight@2026-11-30" is that night's own set of routes.

    Raises:
        UserError: Unknown name (the known ones are listed), unknown key, wrong type.
    """
    name, _, night = name_or_yaml.rpartition("@")
    if not name or Path(name_or_yaml).is_file():  # an @ in a folder's name is none of ours
        name, night = name_or_yaml, ""
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"unknown suite {name!r}; known: {', '.join(suite_names())}, or give a YAML file")
    made = load_config(SuiteFile, path)
    shift = zlib.crc32(night.encode()) % 1_000_000 * 1000 if night else 0
    label = path.stem + (f"-{night}" if night else "")
    routes: list[RouteSpec] = []
    for group in made.groups:
        routes += _routes(group, label, shift, len(routes))
    if not routes:
        raise UserError(f"{path}: groups: no routes; add at least one group")
    return Suite(name_or_yaml if night else path.stem, made.description, tuple(routes))


def take(suite: Suite, count: int) -> Suite:
    """The suite with only `count` routes, spread evenly over it so that every group stays represented."""
    return replace(suite, routes=spread(suite.routes, count))


def repeat(suite: Suite, count: int) -> Suite:
    """The suite `count` times over: all routes, then all of them again.

    Raises:
        UserError: Less than once, or more drives than one results file is made for.
    """
    if count < 1:
        raise UserError(f"--repetitions must be at least 1, got {count}")
    if count > 1 and count * len(suite.routes) > MOST_DRIVES:
        raise UserError(
            f"--repetitions {count}: {count * len(suite.routes)} drives; a run takes at most {MOST_DRIVES}"
        )
    return replace(suite, routes=tuple(r.repeated(k) for k in range(count) for r in suite.routes))


def spread(items: Sequence[T], count: int) -> tuple[T, ...]:
    """At most `count` items at even distances; UserError if that is less than one."""
    if count < 1:
        raise UserError(f"--limit must be at least 1, got {count}")
    if count >= len(items):
        return tuple(items)
    chosen = np.unique(np.floor(np.linspace(0, len(items), count, endpoint=False)).astype(int))
    return tuple(items[i] for i in chosen)


def _routes(group: Group, label: str, shift: int, already: int) -> list[RouteSpec]:
    lengths = _several(group.length_m)
    lengths_m = np.linspace(min(lengths), max(lengths), max(group.count, 2))
    vehicles, walkers = _several(group.vehicles), _several(group.walkers)
    speeds = _several(group.start_speed_mps)
    routes = []
    for k in range(group.count):
        seed = group.first_seed + k + shift
        routes.append(
            RouteSpec(
                route_id=f"{label}_{already + k:03d}_{group.town}_s{seed}",
                town=group.town,
                seed=seed,
                length_m=float(round(lengths_m[(k * 7) % len(lengths_m)])),
                vehicles=vehicles[k % len(vehicles)],
                walkers=walkers[k % len(walkers)],
                start_speed_mps=float(speeds[k % len(speeds)]),
            )
        )
    return routes


def _several(value: Number | tuple[Number, ...]) -> tuple[Number, ...]:
    return value if isinstance(value, tuple) else (value,)
