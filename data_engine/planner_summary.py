"""What a comparison of planners came to: numbers with intervals, from what its jobs have written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from data_engine.planner_config import PlannerEvalConfig
from data_engine.planner_jobs import ERRORS, Member, errors_path, members, read_errors, results_path
from data_engine.planner_questions import question_row
from drive.contracts import F64, CaseScore
from drive.files import read_json
from drive.score.bootstrap import Interval, crossed_interval, wilson
from sim.results import placed_cases
from sim.suites import Suite

ALL = "all"
COUNTED: Mapping[str, tuple[str, ...]] = {
    "collisions": ("collisions_vehicle", "collisions_pedestrian", "collisions_layout"),
    "off_road": ("outside_route_lanes",),
    "red_lights": ("red_light",),
}


@dataclass(frozen=True)
class Drives:
    """Drives of one model: rows are training seeds, columns are places (a town and a route's seed).

    Attributes:
        seeds: Training seeds of the rows; (None,) for a ready-made policy.
        places: Of the columns.
        sums: Name -> (S, K) sums over the drives of a cell: score, success, completion, and COUNTED.
        planned: (S, K) drives per cell.
        spoilt: (S, K) drives per cell that the simulator spoilt; they count 0 in every sum.
    """

    seeds: tuple[int | None, ...]
    places: tuple[str, ...]
    sums: Mapping[str, F64]
    planned: F64
    spoilt: F64


def summarise(config: PlannerEvalConfig, suites: Sequence[Suite]) -> dict[str, Any]:
    """Tables from everything that has been driven and measured so far; documented in docs/cli.md."""
    found = {(suite.name, name): _drives(config, suite, name) for suite in suites for name in config.models}
    driven = {key: value for key, value in found.items() if value is not None}
    if len(suites) > 1:
        for name in config.models:
            parts = [driven[suite.name, name] for suite in suites if (suite.name, name) in driven]
            if len(parts) == len(suites) and len({part.seeds for part in parts}) == 1:
                driven[ALL, name] = _together(parts)
    shown = [suite.name for suite in suites] + [ALL] * (len(suites) > 1)
    keys = [(suite, name) for suite in shown for name in config.models if (suite, name) in driven]
    against = [key for key in keys if key[1] != config.ours and (key[0], config.ours) in driven]
    pairs = [_pair(key, driven[key[0], config.ours], driven[key], config) for key in against]
    everybody = {name: [m for m in members(config) if m.name == name] for name in config.models}
    return {
        "out": str(config.out),
        "ours": config.ours,
        "gap_from": config.gap_from,
        "training_seeds": list(config.seeds),
        "bootstrap": config.bootstrap,
        "suites": [_suite_row(suite) for suite in suites],
        "closed_loop": [_row(key, driven[key], config) for key in keys],
        "paired": [pair for pair in pairs if pair is not None],
        "validation": [row for name in config.models if (row := _validation_row(config, name))],
        "questions": [row for name in config.models if (row := question_row(config, name, everybody[name]))],
        "missing": _missing(config, suites),
        "versions": {"nightdrive": version("nightdrive")},
    }


def _suite_row(suite: Suite) -> dict[str, Any]:
    return {
        "suite": suite.name,
        "routes": len(suite.routes),
        "towns": list(suite.towns),
        "route_seeds": sorted({route.seed for route in suite.routes}),
    }


def _finished(config: PlannerEvalConfig, suite: Suite, member: Member) -> bool:
    path = results_path(config.out, suite.name, member)
    if not path.exists():
        return False
    planned = {route.route_id for route in suite.routes}
    return planned == {record["route_id"] for record in read_json(path)["_checkpoint"]["records"]}


def _missing(config: PlannerEvalConfig, suites: Sequence[Suite]) -> list[str]:
    """Who has not driven what yet, in words."""
    return [
        f"{member.label} on {suite.name}"
        for suite in suites
        for member in members(config)
        if not _finished(config, suite, member)
    ]


def _drives(config: PlannerEvalConfig, suite: Suite, name: str) -> Drives | None:
    """Complete drives of one model on one suite; None if no seed has them."""
    mine = [m for m in members(config) if m.name == name and _finished(config, suite, m)]
    if not mine:
        return None
    places = tuple(dict.fromkeys(f"{route.town}/{route.seed}" for route in suite.routes))
    shape = (len(mine), len(places))
    sums = {key: np.zeros(shape) for key in ("score", "success", "completion", *COUNTED)}
    planned, spoilt = np.zeros(shape), np.zeros(shape)
    for row, member in enumerate(mine):
        for place, case in placed_cases(results_path(config.out, suite.name, member)):
            cell = row, places.index(place)
            planned[cell] += 1
            spoilt[cell] += case.status == "infrastructure"
            for key, value in _numbers(case).items():
                sums[key][cell] += value
    return Drives(tuple(m.seed for m in mine), places, sums, planned, spoilt)


def _numbers(case: CaseScore) -> dict[str, float]:
    if case.status == "infrastructure":
        return {}
    numbers = {"score": case.score, "success": case.terms["success"], "completion": case.terms["completion"]}
    return numbers | {key: sum(case.terms[term] for term in terms) for key, terms in COUNTED.items()}


def _together(parts: Sequence[Drives]) -> Drives:
    """Several suites as one; drives at the same place share a cell, as they are not independent."""
    places = tuple(dict.fromkeys(place for part in parts for place in part.places))

    def added(tables: Iterable[F64]) -> F64:
        total = np.zeros((len(parts[0].seeds), len(places)))
        for part, table in zip(parts, tables, strict=True):
            total[:, [places.index(place) for place in part.places]] += table
        return total

    sums = {key: added(part.sums[key] for part in parts) for key in parts[0].sums}
    planned, spoilt = added(part.planned for part in parts), added(part.spoilt for part in parts)
    return Drives(parts[0].seeds, places, sums, planned, spoilt)


def _row(key: tuple[str, str], drives: Drives, config: PlannerEvalConfig) -> dict[str, Any]:
    count = float(drives.planned.sum())
    share = {name: float(table.sum()) / count for name, table in drives.sums.items()}
    places = len(drives.places)
    by_seed = drives.sums["score"].sum(1) / drives.planned.sum(1)
    return {
        "suite": key[0],
        "model": key[1],
        "trained_with": [seed for seed in drives.seeds if seed is not None],
        "places": places,
        "drives": int(count),
        "simulator_failed": int(drives.spoilt.sum()),
        "success": asdict(wilson(share["success"] * places, places)),
        "driving_score": asdict(crossed_interval(drives.sums["score"], drives.planned, 0, config.bootstrap)),
        "driving_score_by_seed": by_seed.tolist(),
        "completion": share["completion"],
        **{f"{name}_per_100": 100 * share[name] for name in COUNTED},
    }


def _pair(
    key: tuple[str, str], ours: Drives, other: Drives, config: PlannerEvalConfig
) -> dict[str, Any] | None:
    """Ours minus another at the same places, with the same training seed where both have one."""
    ready = (None,)
    both = ours.seeds if other.seeds == ready else other.seeds
    seeds = [seed for seed in both if ready in (ours.seeds, other.seeds) or seed in ours.seeds]
    if not seeds or ours.places != other.places:
        return None
    mine = [0 if ours.seeds == ready else ours.seeds.index(seed) for seed in seeds]
    theirs = [0 if other.seeds == ready else other.seeds.index(seed) for seed in seeds]
    usable = (ours.spoilt[mine] == 0) & (other.spoilt[theirs] == 0)
    count = np.where(usable, ours.planned[mine], 0.0)
    if not count.sum():
        return None
    change = {
        name: crossed_interval(
            np.where(usable, scale * (ours.sums[name][mine] - other.sums[name][theirs]), 0.0),
            count, 0, config.bootstrap,
        )
        for name, scale in (("score", 1.0), ("success", 100.0))
    }  # fmt: skip
    return {
        "suite": key[0],
        "baseline": key[1],
        "trained_with": [seed for seed in seeds if seed is not None],
        "places": len(ours.places),
        "pairs": int(count.sum()),
        "driving_score_change": asdict(change["score"]),
        "success_change": asdict(change["success"]),
        "verdict": verdict(change["score"]),
    }


def verdict(change: Interval) -> str:
    """Does the interval of a change leave out zero?"""
    return "better" if change.low > 0 else "worse" if change.high < 0 else "within noise"


def _validation_row(config: PlannerEvalConfig, name: str) -> dict[str, Any] | None:
    """Errors of one model over (seed, route), or None if it was not measured."""
    found = {seed: read_errors(errors_path(config.out, name, seed)) for seed in config.seeds}
    units = [(seed, route) for seed, routes in found.items() for route in routes]
    if not units:
        return None
    samples = _column(found, units, "samples")
    row: dict[str, Any] = {"model": name, "routes": len(units), "samples": int(samples.sum())}
    for key in ERRORS:
        there = key in found[units[0][0]][units[0][1]]
        row[key] = _ratio(_column(found, units, key), samples, config) if there else None
    row["gap_closed"] = _gap(config, found, units) if row["ade_best_m"] else None
    return row


Found = Mapping[int, Mapping[str, Mapping[str, float]]]


def _gap(
    config: PlannerEvalConfig, found: Found, units: Sequence[tuple[int, str]]
) -> dict[str, float] | None:
    """Share of the way from where the gap begins to the best proposal that the chosen one has come."""
    begins, key = found, "ade_intent_m"
    if config.gap_from is not None:
        begins = {s: read_errors(errors_path(config.out, config.gap_from, s)) for s in config.seeds}
        key = "ade_m"
    if any(key not in begins[seed].get(route, {}) for seed, route in units):
        return None
    start = _column(begins, units, key)
    chosen, best = _column(found, units, "ade_m"), _column(found, units, "ade_best_m")
    return _ratio(start - chosen, start - best, config)


def _column(found: Found, units: Sequence[tuple[int, str]], key: str) -> F64:
    return np.array([found[seed][route].get(key, 0.0) for seed, route in units])


def _ratio(total: F64, count: F64, config: PlannerEvalConfig) -> dict[str, float] | None:
    return (
        asdict(crossed_interval(total[None], count[None], 0, config.bootstrap)) if count.sum() > 0 else None
    )
