"""Results of a suite in the CARLA leaderboard's JSON schema, written after every route and resumable."""

import math
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drive.contracts import CaseScore, EvalResult, UserError
from drive.files import read_json, write_json
from drive.score.closedloop import (
    INFRACTIONS,
    TOLERATED,
    is_success,
    record_counts,
    record_score,
    suite_score,
)
from sim.criteria import KEYS
from sim.episode import DriveReport
from sim.latency import counts, percentiles
from sim.routes import RouteSpec
from sim.suites import Suite

STATUS = {
    "completed": "Completed",
    "deviation": "Failed - Agent deviated from the route",
    "blocked": "Failed - Agent got blocked",
    "timeout": "Failed - Agent timed out",
}
AGENT_CRASHED = "Failed - Agent crashed"
SIMULATION_CRASHED = "Failed - Simulation crashed"
PROTOCOL = "driving score 2.0"
_DAMAGE = (UserError, LookupError, TypeError, ValueError, AttributeError, RecursionError, IsADirectoryError)
LABELS = ("Avg. driving score", "Avg. route completion", "Avg. infraction penalty", "Success rate")


def record_of(report: DriveReport, index: int) -> dict[str, Any]:
    """Leaderboard record of one drive."""
    infractions: dict[str, list[str]] = {key: [] for key in KEYS}
    driven = max(report.driven_m, 1e-6)
    for event in report.events:
        if event.kind == "outside_route_lanes":
            continue
        infractions[event.kind].append(f"{event.detail} at t={event.t_us / 1e6:.1f} s")
    outside = [e for e in report.events if e.kind == "outside_route_lanes"]
    if outside:
        share = 100 * min(1.0, report.outside_m / driven)
        where = "; ".join(f"{e.detail} at t={e.t_us / 1e6:.1f} s" for e in outside)
        infractions["outside_route_lanes"].append(
            f"Agent went outside its route lanes for about {report.outside_m:.1f} meters "
            f"({share:.2f}% of the completed route): {where}"
        )
    status = STATUS[report.ended]
    if status == "Completed" and not any(m for key, m in infractions.items() if key not in TOLERATED):
        status = "Perfect"
    record = _record(report.spec, index, status, infractions, 100 * report.completion)
    record["meta"] |= {
        "route_length": round(report.route_length_m, 3),
        "duration_game": round(report.game_s, 3),
        "duration_system": round(report.wall_s, 3),
        "plans": report.plans,
        "split_brain": report.split_brain,
        "flags": dict(report.flags),
        "unusable_plans": report.unusable_plans,
        "late_images": report.late_images,
        "plan_ms": _percentiles(report.plan_ms),
        "plan_ms_counts": counts(report.plan_ms),
    }
    if report.scenarios:
        record["scenarios"] = [asdict(staged) for staged in report.scenarios]
    return record


def failure_record(spec: RouteSpec, index: int, status: str, reason: str) -> dict[str, Any]:
    """Record of a route without a result: the policy or the simulator failed."""
    record = _record(spec, index, status, {key: [] for key in KEYS}, 0.0)
    record["meta"]["reason"] = reason
    return record


def _record(
    spec: RouteSpec, index: int, status: str, infractions: dict[str, list[str]], completion_pct: float
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "index": index,
        "route_id": spec.route_id,
        "scenario_name": spec.scenario_name,
        "weather_id": "0",
        "save_name": spec.route_id,
        "town_name": spec.town,
        "seed": spec.seed,
        "vehicles": spec.vehicles,
        "walkers": spec.walkers,
        "status": status,
        "num_infractions": sum(len(v) for v in infractions.values()),
        "infractions": infractions,
        "scores": {"score_route": round(completion_pct, 6), "score_penalty": 1.0, "score_composed": 0.0},
        "meta": {"route_length": spec.length_m, "duration_game": 0.0, "duration_system": 0.0},
    }
    if spec.left_out:
        record["scenarios_left_out"] = list(spec.left_out)
    composed = record_score(record)
    record["scores"]["score_composed"] = round(composed, 6)
    record["scores"]["score_penalty"] = round(composed / completion_pct, 6) if completion_pct > 0 else 1.0
    return record


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    ranked = sorted(values)
    return {f"p{p}": round(ranked[min(len(ranked) - 1, len(ranked) * p // 100)], 2) for p in (50, 95, 99)}


class ResultsFile:
    """results.json of one run: rewritten whole and atomically after every route.

    Args:
        path: The file.
        suite: What is planned.
        run: What was run: policy, simulator, options; a file of another run is refused.
    """

    def __init__(self, path: Path, suite: Suite, run: Mapping[str, Any]) -> None:
        self.path = path
        self._suite = suite
        self._run = dict(run)
        self._records: dict[str, dict[str, Any]] = {}
        self.damaged: Path | None = None
        if path.exists():
            self._load()

    def _load(self) -> None:
        try:
            data = read_json(self.path)
            identity = {**data["nightdrive"]["run"]}
            records = {r["route_id"]: r for r in data["_checkpoint"]["records"]}
            for record in records.values():
                _check_record(record)
        except _DAMAGE as error:
            self._set_aside(error)
            return
        if identity != self._run:
            differs = sorted(k for k in {*identity, *self._run} if identity.get(k) != self._run.get(k))
            raise UserError(
                f"{self.path}: holds another run ({', '.join(differs)} differ: "
                f"{[identity.get(k) for k in differs]} there, {[self._run.get(k) for k in differs]} now); "
                "choose another --out or delete it"
            )
        planned = {route.route_id for route in self._suite.routes}
        self._records = {
            k: r for k, r in records.items() if k in planned and r["status"] != SIMULATION_CRASHED
        }

    def _set_aside(self, error: BaseException) -> None:
        number = 0
        while (kept := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        os.replace(self.path, kept)
        self.damaged = kept
        print(
            f"warning: {self.path} was damaged ({error}); kept as {kept}, its routes run again",
            file=sys.stderr,
        )

    @property
    def finished(self) -> set[str]:
        """Route ids that need not run again."""
        return set(self._records)

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep a record and write the file."""
        self._records[record["route_id"]] = dict(record)
        self.write()

    @property
    def records(self) -> list[dict[str, Any]]:
        """Records in the order of the suite."""
        order = {route.route_id: n for n, route in enumerate(self._suite.routes)}
        return sorted(self._records.values(), key=lambda r: order[r["route_id"]])

    def write(self) -> None:
        """Write the file as it stands."""
        records, planned = self.records, len(self._suite.routes)
        overall = global_record(records, planned)
        write_json(
            self.path,
            {
                "_checkpoint": {
                    "global_record": overall,
                    "progress": [len(records), planned],
                    "records": records,
                },
                "entry_status": "Finished" if len(records) == planned else "Started",
                "eligible": False,
                "labels": list(LABELS),
                "values": [
                    overall["scores_mean"][k] for k in ("score_composed", "score_route", "score_penalty")
                ]
                + [overall["success_rate"]],
                "sensors": ["carla_camera"],
                "nightdrive": {
                    "suite": self._suite.name,
                    "planned": planned,
                    "protocol": self.protocol,
                    "plan_ms": percentiles(r["meta"].get("plan_ms_counts", {}) for r in records),
                    **({"scenarios": staged} if (staged := staged_counts(records)) else {}),
                    **({"scenarios_left_out": self._suite.left_out} if self._suite.left_out else {}),
                    "run": self._run,
                },
            },
        )

    @property
    def protocol(self) -> str:
        """What was measured, with what was left out of it."""
        return ", ".join(filter(None, (str(self._run["simulator"]), PROTOCOL, self._suite.note)))

    def result(self, versions: Mapping[str, Any]) -> EvalResult:
        """The run as an EvalResult; score = driving score in [0, 100]."""
        return EvalResult(
            suite=self._suite.name,
            protocol=self.protocol,
            model=str(self._run["policy"]),
            planned=len(self._suite.routes),
            cases=tuple(_case(record) for record in self.records),
            versions=versions,
        )


def _check_record(record: Mapping[str, Any]) -> None:
    """Raise one of _DAMAGE unless everything is there that resuming and reporting need of a record."""
    overall, case = global_record([record], 1), _case(record)
    numbers = [case.score, *case.terms.values(), *record["scores"].values(), record["meta"]["route_length"]]
    if not all(math.isfinite(number) for number in numbers) or not 0 <= case.score <= 100:
        raise ValueError(f"scores of {case.case_id}: {record['scores']}")
    if not all(isinstance(messages, list) for messages in record["infractions"].values()):
        raise TypeError(f"infractions of {case.case_id}: {record['infractions']}")
    if not all(isinstance(text, str) for text in (case.case_id, *overall["status"])):
        raise TypeError(f"names of {case.case_id}")


def placed_cases(path: Path) -> list[tuple[str, CaseScore]]:
    """Cases of a results file with the place that each was driven at, "TOWN/SEED"."""
    return [(f"{r['town_name']}/{r['seed']}", _case(r)) for r in read_json(path)["_checkpoint"]["records"]]


def failures(path: Path) -> list[dict[str, str]]:
    """Routes of a results file on which policy or simulator failed: `route_id`, `status`, `reason`."""
    return [
        {"route_id": r["route_id"], "status": r["status"], "reason": str(r["meta"].get("reason", ""))}
        for r in read_json(path)["_checkpoint"]["records"]
        if r["status"] in (AGENT_CRASHED, SIMULATION_CRASHED)
    ]


def _case(record: Mapping[str, Any]) -> CaseScore:
    counts = record_counts(record)
    failed = {SIMULATION_CRASHED: "infrastructure", AGENT_CRASHED: "failed"}.get(record["status"], "ok")
    terms = {
        "success": float(is_success(record["status"], counts)),
        "completion": record["scores"]["score_route"] / 100,
        "traffic": float(record["scenario_name"] == "traffic"),
        "seed": float(record["seed"]),
        **{key: float(counts.get(key, 0)) for key in INFRACTIONS},
    }
    status: Any = failed
    return CaseScore(record["route_id"], status, float(record["scores"]["score_composed"]), terms)


def staged_counts(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Scenario type -> what became of it ("passed", "timed out", "not staged", ...) -> how often."""
    counts: dict[str, Counter[str]] = {}
    for record in records:
        for staged in record.get("scenarios", ()):
            counts.setdefault(str(staged["type"]), Counter())[str(staged["state"])] += 1
    return {kind: dict(sorted(states.items())) for kind, states in sorted(counts.items())}


def global_record(records: Sequence[Mapping[str, Any]], planned: int) -> dict[str, Any]:
    """Means over PLANNED routes (a missing route counts as 0) and infractions per kilometre driven."""
    score = suite_score(records, planned)
    km = sum(r["meta"]["route_length"] * r["scores"]["score_route"] / 100 for r in records) / 1000
    counts = {key: sum(len(r["infractions"][key]) for r in records) for key in KEYS}

    def mean(key: str) -> float:
        return float(round(sum(r["scores"][key] for r in records) / planned, 6))

    return {
        "planned": planned,
        "recorded": score.recorded,
        "missing": score.missing,
        "success_rate": score.success_rate,
        "scores_mean": {key: mean(key) for key in ("score_route", "score_penalty", "score_composed")},
        "infractions": counts,
        "infractions_per_km": {key: round(n / km, 3) if km > 0 else 0.0 for key, n in counts.items()},
        "status": {s: sum(r["status"] == s for r in records) for s in sorted({r["status"] for r in records})},
    }
