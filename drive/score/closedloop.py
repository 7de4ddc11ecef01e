"""Closed-loop scores of leaderboard records: driving score 2.0 and 2.1, success, efficiency."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from drive.contracts import UserError

Rule = Literal["2.0", "2.1"]

INFRACTIONS = (
    "collisions_pedestrian",
    "collisions_vehicle",
    "collisions_layout",
    "red_light",
    "stop_infraction",
    "scenario_timeouts",
    "yield_emergency_vehicle_infractions",
    "outside_route_lanes",
    "min_speed_infractions",
    "route_dev",
    "vehicle_blocked",
    "route_timeout",
)
FACTOR_20 = {
    "collisions_pedestrian": 0.50,
    "collisions_vehicle": 0.60,
    "collisions_layout": 0.65,
    "red_light": 0.70,
    "stop_infraction": 0.80,
    "scenario_timeouts": 0.70,
    "yield_emergency_vehicle_infractions": 0.70,
}
COST_21 = {
    "collisions_pedestrian": 1.00,
    "collisions_vehicle": 0.70,
    "collisions_layout": 0.60,
    "red_light": 0.40,
    "scenario_timeouts": 0.40,
    "yield_emergency_vehicle_infractions": 0.40,
    "stop_infraction": 0.25,
}
MIN_SPEED_FACTOR_20 = 0.7
MIN_SPEED_COST_21 = 0.4
EFFICIENCY_CAP_PCT = 1000.0
SUCCESS_STATUS = ("Completed", "Perfect")
TOLERATED = ("min_speed_infractions",)


def driving_score(
    route_completion: float,
    infractions: Mapping[str, int],
    rule: Rule = "2.0",
    *,
    outside_lanes_pct: float = 0.0,
    min_speed_pcts: Sequence[float] = (),
) -> float:
    """Driving score of one route.

    2.0: completion x product of factor^count; 2.1: completion / (1 + sum of cost x count). Keys without a
    factor (route_dev, vehicle_blocked, route_timeout) end the route, so they cost completion and nothing
    more.

    Args:
        route_completion: Share of the route that was driven, in percent.
        infractions: Leaderboard infraction key (see INFRACTIONS) -> count.
        rule: Leaderboard version.
        outside_lanes_pct: Share of the driven route outside the route's lanes, removed from the score.
        min_speed_pcts: Speed against the traffic around, one percentage per minimum-speed infraction, capped
            at 100; none means "not penalised", as Bench2Drive does.

    Returns:
        Score in [0, 100].

    Raises:
        ValueError: Unknown infraction key or rule, negative count, or a completion outside [0, 100].
    """
    unknown = sorted(set(infractions) - set(INFRACTIONS))
    if unknown or any(n < 0 for n in infractions.values()):
        raise ValueError(f"infractions must be counts >= 0 of {INFRACTIONS}, got {dict(infractions)}")
    if not 0 <= route_completion <= 100 + 1e-6:  # NaN fails too
        raise ValueError(f"route_completion must be a percentage, got {route_completion}")
    lanes = 1 - min(100.0, max(0.0, outside_lanes_pct)) / 100
    slow = [1 - min(100.0, max(0.0, percent)) / 100 for percent in min_speed_pcts]
    if rule == "2.0":
        factor = math.prod(FACTOR_20.get(key, 1.0) ** count for key, count in infractions.items())
        factor *= math.prod(1 - (1 - MIN_SPEED_FACTOR_20) * share for share in slow)
    elif rule == "2.1":
        cost = sum(COST_21.get(key, 0.0) * count for key, count in infractions.items())
        factor = 1 / (1 + cost + MIN_SPEED_COST_21 * sum(slow))
    else:
        raise ValueError(f'rule must be "2.0" or "2.1", got {rule!r}')
    return min(100.0, route_completion) * lanes * factor


def is_success(status: str, infractions: Mapping[str, int]) -> bool:
    """Bench2Drive success: the route was completed and nothing but the minimum speed was violated."""
    return status in SUCCESS_STATUS and not any(n for key, n in infractions.items() if key not in TOLERATED)


@dataclass(frozen=True)
class SuiteScore:
    """Scores over a suite of planned routes; a route without a record counts as 0.

    Attributes:
        driving_score: Mean over planned routes, in [0, 100].
        success_rate: Share of planned routes with success.
        planned, recorded, missing, duplicate, succeeded: Route counts; a duplicate is a second record of a
            route id.
    """

    driving_score: float
    success_rate: float
    planned: int
    recorded: int
    missing: int
    duplicate: int
    succeeded: int


def record_counts(record: Mapping[str, Any]) -> dict[str, int]:
    """Infraction counts of one leaderboard record (its messages, counted per key)."""
    return {key: len(messages) for key, messages in record["infractions"].items()}


def record_score(record: Mapping[str, Any], rule: Rule = "2.0", *, min_speed: bool = False) -> float:
    """Driving score of one leaderboard record, recomputed from its completion and infraction messages.

    With `min_speed` driving slower than the traffic costs points too, as in the leaderboard; Bench2Drive left
    that out.
    """
    outside = sum(_percent(message) for message in record["infractions"].get("outside_route_lanes", ()))
    return driving_score(
        record["scores"]["score_route"],
        record_counts(record),
        rule,
        outside_lanes_pct=min(100.0, outside),
        min_speed_pcts=_speed_pcts(record) if min_speed else (),
    )


def efficiency(records: Sequence[Mapping[str, Any]]) -> float | None:
    """Bench2Drive's driving efficiency: speed against the traffic around [%], mean over routes.

    A route's number is the mean of its minimum-speed messages up to 1000 %; routes without one do not count.
    None if there are none at all.
    """
    routes = [[p for p in _speed_pcts(record) if p <= EFFICIENCY_CAP_PCT] for record in records]
    means = [sum(percents) / len(percents) for percents in routes if percents]
    return sum(means) / len(means) if means else None


def suite_score(records: Sequence[Mapping[str, Any]], planned: int) -> SuiteScore:
    """Driving score and success rate over ALL planned routes from leaderboard records.

    Scores are the records' own `score_composed`; `record_score` recomputes them. Of several records of one
    route the first counts, so neither a missing nor a repeated record can raise the score.

    Raises:
        UserError: More distinct routes were recorded than planned.
    """
    first: dict[str, Mapping[str, Any]] = {}
    for record in records:
        first.setdefault(str(record["route_id"]), record)
    if planned < max(1, len(first)):
        raise UserError(f"results hold {len(first)} routes but {planned} were planned; give the right suite")
    scores = [float(r["scores"]["score_composed"]) for r in first.values()]
    good = sum(is_success(str(r["status"]), record_counts(r)) for r in first.values())
    return SuiteScore(
        driving_score=sum(s for s in scores if math.isfinite(s)) / planned,
        success_rate=good / planned,
        planned=planned,
        recorded=len(first),
        missing=planned - len(first),
        duplicate=len(records) - len(first),
        succeeded=good,
    )


def _speed_pcts(record: Mapping[str, Any]) -> list[float]:
    return [_percent(message) for message in record["infractions"].get("min_speed_infractions", ())]


def _percent(message: str) -> float:
    """Number before "%" in a leaderboard message, 0 if there is none."""
    found = re.search(r"\(?([\d.]+)\s*%", message)
    return float(found.group(1)) if found else 0.0
