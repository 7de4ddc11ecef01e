"""Result files of leaderboard, Bench2Drive and `drive sim`, checked and scored over planned routes."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drive.contracts import UserError
from drive.score.abilities import AbilityRow, ability_table, scenario_type
from drive.score.closedloop import (
    INFRACTIONS,
    Rule,
    SuiteScore,
    efficiency,
    is_success,
    record_counts,
    record_score,
    suite_score,
)

BENCH2DRIVE_ROUTES = 220  # its merge tool divides by this, whatever was run
REPETITION = re.compile(r"(RouteScenario_.+)_rep(\d+)")
MISFIT = 0.05  # recorded and recomputed scores may differ by what the messages' two digits leave open


@dataclass(frozen=True)
class Results:
    """A result file.

    Attributes:
        records: Leaderboard records, one per route; of several of one route the first counts.
        planned: Number of planned routes that the file states; None if it states none.
        protocol: What was measured, as far as the file says.
        stated: Scores the file states itself: "driving_score" [0, 100], "success_rate" [0, 1].
    """

    records: tuple[Mapping[str, Any], ...]
    planned: int | None
    protocol: str
    stated: Mapping[str, float]


@dataclass(frozen=True)
class RunScore:
    """Everything about a run; rates are over PLANNED routes.

    Attributes:
        suite: Driving score as recorded, success rate, counts of routes.
        unplanned: Records of routes that were not planned; left out.
        completion: Mean route completion [0, 100].
        recomputed: Leaderboard version -> driving score from completion and infraction messages.
        misfits: Routes whose recorded score is not the 2.0 one recomputed.
        efficiency: Bench2Drive's, [%]; None if no speed was compared.
        abilities: Table; its mean is `ability_mean`.
        scenarios: Scenario type -> (planned or None, recorded, succeeded).
        statuses, infractions: How often.
    """

    suite: SuiteScore
    unplanned: int
    completion: float
    recomputed: Mapping[str, float]
    misfits: tuple[str, ...]
    efficiency: float | None
    abilities: tuple[AbilityRow, ...]
    scenarios: Mapping[str, tuple[int | None, int, int]]
    statuses: Mapping[str, int]
    infractions: Mapping[str, int]


def parse_results(data: Any, where: str) -> Results:
    """Check the content of a result file.

    Args:
        data: Parsed JSON.
        where: Name of the file, for messages.

    Raises:
        UserError: It is no result file, or a record is damaged; the message names the record.
    """
    checkpoint = data.get("_checkpoint") if isinstance(data, dict) else None
    records = checkpoint.get("records") if isinstance(checkpoint, dict) else None
    if not isinstance(records, list):
        raise UserError(
            f"{where}: no leaderboard results (expected _checkpoint.records); give a results file"
        )
    for number, record in enumerate(records):
        wrong = _damage(record)
        if wrong:
            raise UserError(f"{where}: record {number}: {wrong}; restore the file or remove the record")
    assert isinstance(checkpoint, dict)
    ours = data.get("nightdrive") if isinstance(data.get("nightdrive"), dict) else {}
    progress = checkpoint.get("progress")
    merged = {"driving score", "success rate", "eval num"} <= set(data)
    means = (
        (checkpoint.get("global_record") or {}).get("scores_mean")
        if checkpoint.get("global_record")
        else None
    )
    planned = ours.get("planned") or (
        progress[1] if isinstance(progress, list) and len(progress) == 2 else None
    )
    stated = {
        "driving_score": data.get(
            "driving score", means.get("score_composed") if isinstance(means, dict) else None
        ),
        "success_rate": data.get("success rate"),
    }
    return Results(
        tuple(records),
        planned if isinstance(planned, int) else BENCH2DRIVE_ROUTES if merged else None,
        str(ours.get("protocol", "Bench2Drive, merged" if merged else "CARLA leaderboard")),
        {key: float(value) for key, value in stated.items() if isinstance(value, int | float)},
    )


def _damage(record: Any) -> str | None:
    """What is wrong with a record, or None."""
    if not isinstance(record, dict):
        return f"expected keys and values, got {type(record).__name__}"
    for key in ("route_id", "status"):
        if not isinstance(record.get(key), str):
            return f"{key} is {record.get(key)!r}, expected text"
    infractions, scores = record.get("infractions"), record.get("scores")
    if not isinstance(infractions, dict) or not all(
        isinstance(messages, list) and all(isinstance(m, str) for m in messages)
        for messages in infractions.values()
    ):
        return "infractions is no mapping of lists of messages"
    unknown = sorted(set(infractions) - set(INFRACTIONS))
    if unknown:
        return f"unknown infractions {', '.join(unknown)}"
    if not isinstance(scores, dict):
        return "scores is missing"
    completion, composed = scores.get("score_route"), scores.get("score_composed")
    if not isinstance(completion, int | float) or not 0 <= completion <= 100 + 1e-6:
        return f"score_route is {completion!r}, expected 0 to 100"
    nan = isinstance(composed, float) and math.isnan(composed)  # the leaderboard writes it; counts as 0
    if not nan and (not isinstance(composed, int | float) or not 0 <= composed <= 100 + 1e-6):
        return f"score_composed is {composed!r}, expected 0 to 100"
    return None


def score_run(
    records: Sequence[Mapping[str, Any]],
    planned: int | Mapping[str, str],
    *,
    junction_share: Mapping[str, float] | None = None,
    min_speed: bool = False,
) -> RunScore:
    """Score a run.

    Args:
        records: From `parse_results`.
        planned: Number of planned routes, or every planned route's id (as in the records) and scenario type.
        junction_share: See `ability_table`.
        min_speed: Let driving slower than the traffic cost points in `recomputed`, as in the leaderboard.

    Raises:
        UserError: More routes were recorded than planned.
    """
    kinds = None if isinstance(planned, int) else planned
    known = [r for r in records if kinds is None or str(r["route_id"]) in kinds]
    count = planned if isinstance(planned, int) else len(planned)
    suite = suite_score(known, count)
    first = list({str(r["route_id"]): r for r in reversed(known)}.values())[::-1]
    rules: tuple[Rule, ...] = ("2.0", "2.1")
    again = {rule: [record_score(r, rule, min_speed=min_speed) for r in first] for rule in rules}
    return RunScore(
        suite=suite,
        unplanned=len(records) - len(known),
        completion=sum(float(r["scores"]["score_route"]) for r in first) / count,
        recomputed={rule: sum(values) / count for rule, values in again.items()},
        misfits=tuple(
            str(r["route_id"])
            for r, value in zip(first, again["2.0"], strict=True)
            if not abs(value - r["scores"]["score_composed"]) < MISFIT
        ),
        efficiency=efficiency(first),
        abilities=tuple(ability_table(first, kinds, junction_share)),
        scenarios=_scenarios(first, kinds),
        statuses=Counter(str(r["status"]) for r in first),
        infractions={key: sum(record_counts(r).get(key, 0) for r in first) for key in INFRACTIONS},
    )


def _scenarios(
    records: Sequence[Mapping[str, Any]], planned: Mapping[str, str] | None
) -> dict[str, tuple[int | None, int, int]]:
    kinds = {str(r["route_id"]): scenario_type(r) for r in records} if planned is None else planned
    asked = Counter(kinds.values())
    run = Counter(kinds[str(r["route_id"])] for r in records)
    good = Counter(
        kinds[str(r["route_id"])] for r in records if is_success(str(r["status"]), record_counts(r))
    )
    return {kind: (None if planned is None else asked[kind], run[kind], good[kind]) for kind in sorted(asked)}


def ability_mean(rows: Sequence[AbilityRow], of_recorded: bool = False) -> float | None:
    """Mean over the abilities of their rates; None if one of them cannot be told."""
    rates = [row.rate_of_recorded if of_recorded else row.rate for row in rows]
    known = [rate for rate in rates if rate is not None]
    return sum(known) / len(known) if known and len(known) == len(rates) else None


def repetitions(records: Sequence[Mapping[str, Any]]) -> int:
    """How often each route was driven, by the records' ids ("RouteScenario_17_rep0")."""
    found = [REPETITION.fullmatch(str(record["route_id"])) for record in records]
    return 1 + max((int(match[2]) for match in found if match), default=0)
