"""Closed-loop statistics of merged result files: both rules side by side, intervals, a row per route."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.score.abilities import scenario_type
from drive.score.bootstrap import Interval, interval, wilson
from drive.score.closedloop import is_success, record_counts, record_score
from drive.score.leaderboard import RunScore, score_run
from drive.score.merge import Merged

SEED = 0
SCORES = ("driving_score", "ds_2_0", "ds_2_1", "ds_2_0_min_speed", "ds_2_1_min_speed", "completion")


@dataclass(frozen=True)
class RouteRow:
    """One planned route; one without a record has status "missing" and scores of 0.

    Attributes:
        route_id, scenario, town, status: As recorded.
        driving_score: As recorded [0, 100].
        ds_2_0, ds_2_1: Recomputed by leaderboard version from completion and messages.
        ds_2_0_min_speed, ds_2_1_min_speed: The same with slow driving counted.
        completion: Share of the route [%].
        success: Bench2Drive's.
        infractions: How many messages, minimum speed left out.
    """

    route_id: str
    scenario: str
    town: str
    status: str
    driving_score: float
    ds_2_0: float
    ds_2_1: float
    ds_2_0_min_speed: float
    ds_2_1_min_speed: float
    completion: float
    success: bool
    infractions: int


@dataclass(frozen=True)
class ClosedLoop:
    """A run over its planned routes.

    Attributes:
        score: Everything that `drive score` prints.
        failed: Recorded routes that were not completed.
        means: Score (see `RouteRow`) -> mean over planned routes with its 95 % interval; success by Wilson.
        rules_differ: Recorded routes that the 2.0 and the 2.1 rule score differently.
        not_numbers: Recorded routes whose recorded score is NaN, as the leaderboard writes it: they count 0.
        rows: Planned routes, sorted by id; where only their number is known, those with a record.
    """

    score: RunScore
    failed: int
    means: Mapping[str, Interval]
    rules_differ: int
    not_numbers: int
    rows: tuple[RouteRow, ...]


def closed_loop(
    merged: Merged, planned: int | Mapping[str, str], junction_share: Mapping[str, float] | None = None
) -> ClosedLoop:
    """Score a run; every mean is a sum over planned routes divided by their number.

    Args:
        merged: From `drive.score.merge.merge`.
        planned: Number of planned routes, or every planned route's id and scenario type.
        junction_share: See `drive.score.abilities.ability_table`.

    Raises:
        UserError: More routes were recorded than planned.
    """
    records = merged.results.records
    score = score_run(records, planned, junction_share=junction_share)
    kinds = {} if isinstance(planned, int) else dict(planned)
    known = [r for r in records if not kinds or str(r["route_id"]) in kinds]
    rows = {str(r["route_id"]): _row(r, kinds.get(str(r["route_id"]))) for r in known}
    for route in sorted(set(kinds) - set(rows)):
        rows[route] = RouteRow(route, kinds[route], "", "missing", 0, 0, 0, 0, 0, 0, False, 0)
    ordered = tuple(rows[route] for route in sorted(rows))
    silent = score.suite.planned - len(ordered)
    means = {  # sorted: resamples do not depend on where a missing route stands
        name: interval(sorted([*(float(getattr(row, name)) for row in ordered), *[0.0] * silent]), SEED)
        for name in SCORES
    }
    means["success_rate"] = wilson(score.suite.succeeded, score.suite.planned)
    recorded = [row for row in ordered if row.status != "missing"]
    return ClosedLoop(
        score=score,
        failed=sum(row.status not in ("Completed", "Perfect") for row in recorded),
        means=means,
        rules_differ=sum(not np.isclose(row.ds_2_0, row.ds_2_1, atol=1e-9) for row in recorded),
        not_numbers=sum(not np.isfinite(float(r["scores"]["score_composed"])) for r in known),
        rows=ordered,
    )


def _row(record: Mapping[str, Any], kind: str | None) -> RouteRow:
    composed, counts = float(record["scores"]["score_composed"]), record_counts(record)
    return RouteRow(
        route_id=str(record["route_id"]),
        scenario=kind or scenario_type(record),
        town=str(record.get("town_name", "")),
        status=str(record["status"]),
        driving_score=composed if np.isfinite(composed) else 0.0,
        ds_2_0=record_score(record),
        ds_2_1=record_score(record, "2.1"),
        ds_2_0_min_speed=record_score(record, min_speed=True),
        ds_2_1_min_speed=record_score(record, "2.1", min_speed=True),
        completion=float(record["scores"]["score_route"]),
        success=is_success(str(record["status"]), counts),
        infractions=sum(n for key, n in counts.items() if key != "min_speed_infractions"),
    )
