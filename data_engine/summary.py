"""What a night came to, in one JSON-able mapping with stable keys (documented in docs/cli.md)."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from data_engine.evidence import evidence_from_json, paired_cases, safety_failures
from data_engine.forgetting import succeeded
from data_engine.gate import REASONS
from data_engine.night import Night
from data_engine.registry import CANDIDATE, CHAMPION
from data_engine.stages import Done
from data_engine.versions import code_version
from drive.config import config_sha
from drive.contracts import EvalResult
from drive.files import json_safe, read_json, read_object

PROMOTED, REFUSED, NOTHING = "promoted", "refused", "nothing to do"


def summarize(night: Night, done: Mapping[str, Done], peak_memory_gb: float) -> dict[str, Any]:
    """Summary of a night whose stages are done; the memory peak is that of this run."""
    curated, promoted = done["curate"].report, done.get("promote")
    decision = str(promoted.report["decision"]) if promoted else NOTHING
    reasons = dict(promoted.report["reasons"]) if promoted else {"nothing_to_do": curated["nothing"]}
    champion = {k: done["champion"].report[k] for k in ("version", "id")}
    candidate = {k: promoted.report[k] for k in ("version", "id")} if promoted else None
    summary: dict[str, Any] = json_safe(
        {
            "night": night.folder.name,
            "date": night.date,
            "decision": decision,
            "headline": headline(decision, reasons),
            "reasons": reasons,
            "warnings": done["gate"].report["warnings"] if "gate" in done else [],
            "champion_before": champion,
            "champion_after": candidate if decision == PROMOTED else champion,
            "candidate": candidate,
            "ingest": done["ingest"].report["sources"],
            "drive": done["drive"].report,
            "mined": done["mine"].report,
            "curated": curated,
            "training": done["finetune"].report if "finetune" in done else None,
            "closed_loop": _closed_loop(night.folder) if "evaluate" in done else None,
            "fixes": _fixes(night.folder) if "evaluate" in done else None,
            "real_logs": _real_logs(done["evaluate"].report) if "evaluate" in done else None,
            "gate": read_object(night.folder / "gate" / "verdict.json", "rows")["rows"]
            if "gate" in done
            else [],
            "lineage": {
                "parent_id": champion["id"],
                "manifest_id": curated["id"],
                "config_sha": config_sha(night.config),
                "night_key": night.key,
                "version": version("nightdrive"),
                "code": code_version(),
            },
            "seconds": {name: stage.seconds for name, stage in done.items()},
            "peak_memory_gb": round(peak_memory_gb, 2),
        }
    )
    return summary


def headline(decision: str, reasons: Mapping[str, str]) -> str:
    """One sentence for people."""
    if decision == PROMOTED:
        return "Promoted: the candidate passed every gate and is the new champion."
    if decision == REFUSED:
        return "Refused: " + "; ".join(REASONS.get(code, detail) for code, detail in reasons.items()) + "."
    return f"Nothing to do: {reasons.get('nothing_to_do', '')}."


def _closed_loop(folder: Path) -> dict[str, Any]:
    evidence = {
        m: evidence_from_json(read_json(folder / "evaluate" / f"{m}.json")) for m in (CHAMPION, CANDIDATE)
    }
    before, after = evidence[CHAMPION].closed_loop, evidence[CANDIDATE].closed_loop
    routes = [
        {
            "route": x.case_id,
            "champion": x.score if x.status == "ok" else 0.0,
            "candidate": y.score if y.status == "ok" else 0.0,
            "champion_failures": list(safety_failures(x)),
            "candidate_failures": list(safety_failures(y)),
        }
        for x, y in paired_cases(before, after)
    ]
    return {
        "suite": before.suite,
        "protocol": before.protocol,
        CHAMPION: _suite_numbers(before),
        CANDIDATE: _suite_numbers(after),
        "routes": routes,
    }


def _fixes(folder: Path) -> dict[str, list[str]] | None:
    """Tonight's routes that were kept apart, by what became of them; None if there were none."""
    before, after = (
        evidence_from_json(read_json(folder / "evaluate" / f"{m}.json")).fixes for m in (CHAMPION, CANDIDATE)
    )
    if before is None or after is None:
        return None
    pairs = [(x.case_id, succeeded(x), succeeded(y)) for x, y in paired_cases(before, after)]
    return {
        "fixed": [name for name, was, now in pairs if now and not was],
        "still_failing": [name for name, was, now in pairs if not now and not was],
        "spoilt": [name for name, was, now in pairs if was and not now],
        "still_fine": [name for name, was, now in pairs if was and now],
    }


def _suite_numbers(result: EvalResult) -> dict[str, Any]:
    ran = [c for c in result.cases if c.status != "infrastructure"]
    return {
        "model": result.model,
        "planned": result.planned,
        "run": len(ran),
        "failed": sum(c.status == "failed" for c in ran),
        "driving_score": result.mean,
        "success_rate": sum(bool(c.terms.get("success", 0.0)) for c in ran) / result.planned
        if result.planned
        else None,
        "safety_failures": sum(bool(safety_failures(c)) for c in ran),
    }


def _real_logs(report: Mapping[str, Any]) -> dict[str, Any]:
    return {model: report[model]["real_logs"] for model in (CHAMPION, CANDIDATE)}
