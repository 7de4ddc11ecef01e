"""The stages of a night as plain functions: each fills a folder from the folders of earlier stages.

`work(night, out) -> report`: `out` is empty or holds what an interrupted run left; the report is small and
JSON-able.
Results of earlier stages lie in `night.folder / <stage name>`.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from data_engine.causes import by_cause
from data_engine.consolidate import training_of
from data_engine.curate import curate
from data_engine.evaluate import compare, demonstrate, drive_suite
from data_engine.evidence import evidence_from_json
from data_engine.forgetting import success_by_kind
from data_engine.gate import decide
from data_engine.hygiene import screen
from data_engine.mine import kinds_by_source, load_cases, mine
from data_engine.night import SUMMARY, Night, earlier_nights
from data_engine.openloop import done_otherwise, with_shadow
from data_engine.pictures import with_pictures
from data_engine.pool import teaches
from data_engine.registry import CANDIDATE, CHAMPION, Registry, model_id_of
from data_engine.sources import ingest
from data_engine.store import DriveRef, collect, link
from data_engine.suites import tonight_suite
from data_engine.tables import read_tables
from data_engine.versions import code_version
from drive.config import config_sha
from drive.contracts import F32, Manifest, ManifestEntry, Policy
from drive.files import read_json, read_object, write_json

LOGS, COLUMNS, RESULT, SHOWN = "logs", "columns", "result.json", "shown"
UNTAUGHT = "demonstration whose labels are not what it then did"
KNOWN_SCENES, HISTORY_NIGHTS = 20_000, 30


def registry_of(night: Night) -> Registry:
    """Registry of the night's workspace."""
    return Registry(night.workspace, night.config.registry.tracking_uri, night.config.registry.model)


def model_folder(night: Night, stage: str) -> Path:
    """Model folder pinned by the champion stage or made by the finetune stage."""
    return night.folder / stage / "model"


def pin_champion(night: Night, out: Path) -> Mapping[str, Any]:
    """Copy the champion here: the whole night has one parent. An empty registry gets the base model."""
    from drive.model import model_folder as folder_of

    registry = registry_of(night)
    champion = registry.ensure_champion(folder_of(night.config.base_model))
    shutil.copytree(registry.folder(str(champion.version)), out / "model", dirs_exist_ok=True)
    meta = read_json(out / "model" / "meta.json")
    return {"id": champion.model_id, "version": champion.version, "manifest_id": meta.get("manifest_id")}


def ingest_logs(night: Night, out: Path) -> Mapping[str, Any]:
    """Make tonight's log sources readable."""
    roots, reports = [], []
    for number, source in enumerate(night.sources):
        root, report = ingest(source, out / f"{number}")
        inside = root.is_relative_to(out)
        roots.append({"number": number, "root": None if inside else str(root)})
        reports.append(report)
    write_json(out / "roots.json", roots)
    return {"sources": reports}


def ingested(night: Night) -> list[Path]:
    """Log folders of the ingest stage."""
    folder = night.folder / "ingest"
    return [
        Path(r["root"]) if r["root"] else folder / str(r["number"]) for r in read_json(folder / "roots.json")
    ]


def drive_routes(night: Night, out: Path) -> Mapping[str, Any]:
    """Let the champion drive tonight's routes and record them; finished routes are kept on a rerun."""
    suite = tonight_suite(night.config, night.date)
    result = drive_suite(night.config.drive, suite, model_folder(night, "champion"), out)
    write_json(out / RESULT, result)
    shown = demonstrate(night.config.drive, suite, result, out / SHOWN)
    infrastructure = [c.case_id for c in result.cases if c.status == "infrastructure"]
    return {
        "suite": result.suite,
        "protocol": result.protocol,
        "planned": result.planned,
        "run": len(result.cases) - len(infrastructure),
        "infrastructure": infrastructure,
        "mean_score": result.mean,
        "demonstrations": shown,
        "versions": dict(result.versions),
    }


def tonight_drives(night: Night) -> list[DriveRef]:
    """Recorded and ingested drives of tonight; demonstrations are not among them: nobody mines the expert."""
    return collect([night.folder / "drive" / LOGS, *ingested(night)])


def demonstrations(folder: Path) -> Path:
    """Log folder of a night's demonstrations; it may not exist."""
    return folder / "drive" / SHOWN / LOGS


def mine_cases(night: Night, out: Path) -> Mapping[str, Any]:
    """Check tonight's drives and logs, then find bad cases in those that can be trusted."""
    screened = screen([night.folder / "drive" / LOGS, demonstrations(night.folder), *ingested(night)])
    drives = [ref for ref in tonight_drives(night) if ref.meta.log_id not in screened.left_out]
    champion = partial(champion_policy, night)
    found = mine(
        with_shadow(drives, champion if night.config.mine.shadow else None, night.seed),
        night.config.mine,
        night.config.held_out_towns,
        screened,
        known_scenes(night),
        out / COLUMNS,
    )
    refs = {ref.meta.log_id: ref for ref in drives}
    cases = with_pictures(found.cases, refs, night.config.report, out)
    write_json(out / "cases.json", [asdict(case) for case in cases])
    write_json(out / "faults.json", list(found.faults))
    write_json(out / "left_out.json", dict(screened.left_out))
    return {
        "drives": len(found.starts_us),
        "starts_us": dict(found.starts_us),
        "cases": len(found.cases),
        "kinds": kinds_by_source(found.cases),
        "causes": by_cause(found.cases),
        "faults": sum(fault["level"] == "fault" for fault in found.faults),
        "notes": sum(fault["level"] == "note" for fault in found.faults),
        "left_out": dict(screened.left_out),
        "skipped": dict(found.skipped),
    }


def known_scenes(night: Night) -> F32 | None:
    """Descriptors of what earlier nights drove through, about KNOWN_SCENES; None if there are none."""
    rows = [
        read_tables(part).steps["descriptor"]
        for folder in earlier_nights(night, night.config.curate.replay_nights)
        for part in sorted((folder / "mine" / COLUMNS).glob("*"))
    ]
    if not rows:
        return None
    known = np.concatenate(rows)
    return np.asarray(known[:: max(1, len(known) // KNOWN_SCENES)], np.float32)


def champion_policy(night: Night) -> Policy:
    """The pinned champion, loaded."""
    from drive.model import policy_factory

    return policy_factory(model_folder(night, "champion"))()


def replayed(night: Night) -> list[Path]:
    """Folders of the earlier nights whose drives are used again."""
    return earlier_nights(night, night.config.curate.replay_nights)


def replay_roots(night: Night) -> list[Path]:
    """Log folders that older drives are replayed from."""
    config = night.config.curate
    roots = [root for folder in replayed(night) for root in (folder / "drive" / LOGS, demonstrations(folder))]
    return [*roots, *([Path(config.replay)] if config.replay else [])]


def measured_routes(night: Night) -> set[str]:
    """Routes that earlier nights kept apart to measure fixes: they are never trained on later either."""
    found: set[str] = set()
    key = "held_out_routes"
    for folder in earlier_nights(night, night.config.curate.replay_nights):
        found |= set(read_object(folder / "curate" / "windows.json", key)[key])
    return found


def known_faults(night: Night) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Faults and left-out recordings of tonight and of the nights whose drives are replayed."""
    faults: list[Mapping[str, Any]] = []
    left_out: dict[str, str] = {}
    for folder in [*earlier_nights(night, night.config.curate.replay_nights), night.folder]:
        faults += read_json(folder / "mine" / "faults.json")
        if (folder / "mine" / "left_out.json").exists():
            left_out |= read_json(folder / "mine" / "left_out.json")
    return faults, left_out


def log_roots(night: Night) -> list[Path]:
    """Log folders of tonight's drives and of the replay, tonight's first."""
    roots = [
        night.folder / "drive" / LOGS, demonstrations(night.folder), *ingested(night), *replay_roots(night)
    ]  # fmt: skip
    return [root for root in roots if root.is_dir()]


def curate_cases(night: Night, out: Path) -> Mapping[str, Any]:
    """Turn the cases into a manifest, and show the drives it refers to as one log folder."""
    champion = read_json(model_folder(night, "champion") / "meta.json")
    policy = champion_policy(night)
    tonight, replay = tonight_drives(night), collect(replay_roots(night))
    known, measured = {ref.meta.log_id for ref in tonight}, measured_routes(night)
    faults, left_out = known_faults(night)
    offered = [
        ref
        for ref in collect([demonstrations(night.folder), *(demonstrations(f) for f in replayed(night))])
        if ref.meta.log_id not in left_out and ref.route not in measured
    ]
    shown = [ref for ref in offered if teaches(ref.read())]
    share = night.config.curate.demonstration_share
    made = curate(
        load_cases(night.folder / "mine" / "cases.json"),
        [ref for ref in (*tonight, *shown) if ref.meta.log_id not in left_out],
        [
            ref
            for ref in replay
            if ref.meta.log_id not in known | left_out.keys() and ref.route not in measured
        ],
        done_otherwise(policy, shown, night.seed) if share and shown else {},
        faults,
        night.config.curate,
        held_out_towns=night.config.held_out_towns,
        needs_images=policy.needs_images,
        parent_id=champion.get("manifest_id"),
        seed=night.seed,
    )
    write_json(out / "manifest.json", made.manifest)
    write_json(out / "poisoned.json", dict(made.poisoned))
    windows = {"trained": made.trained, "siblings": made.siblings, "held_out_routes": made.held_out_routes}
    write_json(out / "windows.json", windows)
    used = {entry.log_id for entry in made.manifest.entries}
    link([ref for ref in collect(log_roots(night)) if ref.meta.log_id in used], out / LOGS)
    return {
        "id": made.manifest.manifest_id,
        "nothing": made.nothing,
        "trained_cases": len(made.trained),
        "sibling_cases": len(made.siblings),
        "entries": dict(made.counts),
        "dropped": {**made.dropped, **({UNTAUGHT: untrue} if (untrue := len(offered) - len(shown)) else {})},
        "clusters": {name: list(counts) for name, counts in made.clusters.items()},
        "before": dict(made.before),
        "after": dict(made.after),
    }


def load_manifest(path: Path) -> Manifest:
    """Read a manifest back."""
    value = read_object(path, "manifest_id", "parent_id", "entries")
    return Manifest(
        value["manifest_id"], value["parent_id"], tuple(ManifestEntry(**e) for e in value["entries"])
    )


def finetune_champion(night: Night, out: Path) -> Mapping[str, Any]:
    """Fine-tune the champion on the manifest; continues from its own checkpoints."""
    from drive.train import finetune

    training = training_of(night, model_folder(night, "champion"), registered_base(night))
    if training.consolidates:
        print(f"[finetune] consolidates {len(training.nights)} nights from the base model")
    folder = finetune(
        night.config.finetune, training.parent, training.manifest, training.roots, out / "train"
    )
    write_json(out / "manifest.json", training.manifest)
    shutil.copytree(folder, out / "model", dirs_exist_ok=True)  # whole also after a kill in the middle of it
    meta = read_json(out / "model" / "meta.json")
    return {
        "id": model_id_of(out / "model"),
        "parent_id": meta.get("parent_id"),
        "provenance": meta.get("provenance"),
        "nights": list(training.nights),
    }


def registered_base(night: Night) -> Path | None:
    """Model folder of the base model in the registry; looked up only where consolidation is on."""
    registry = registry_of(night)
    if not night.config.consolidate_every:
        return None
    found = [v for v in registry.versions() if v.tags.get("origin") == "base"]
    return registry.folder(str(found[0].version)) if found else None


def evaluate_models(night: Night, out: Path) -> Mapping[str, Any]:
    """Champion and candidate on the same held-out routes, seeds and recorded steps."""
    return compare(night, out)


def gate_candidate(night: Night, out: Path) -> Mapping[str, Any]:
    """Decide whether the candidate may replace the champion."""
    evidence = [
        evidence_from_json(read_json(night.folder / "evaluate" / f"{m}.json")) for m in (CHAMPION, CANDIDATE)
    ]
    verdict = decide(evidence[0], evidence[1], night.config.gate, night.seed, success_history(night))
    write_json(out / "verdict.json", verdict)
    return {"promote": verdict.promote, "reasons": dict(verdict.reasons), "warnings": list(verdict.warnings)}


def success_history(night: Night) -> list[tuple[str, Mapping[str, float]]]:
    """Success by kind of route of the champions of earlier nights, as far as they drove the same suite."""
    rows: list[tuple[str, Mapping[str, float]]] = []
    here = evidence_from_json(read_json(night.folder / "evaluate" / f"{CHAMPION}.json"))
    for folder in earlier_nights(night, HISTORY_NIGHTS):
        decision = read_object(folder / SUMMARY, "decision")["decision"]
        path = folder / "evaluate" / f"{CANDIDATE if decision == 'promoted' else CHAMPION}.json"
        if not path.exists():
            continue
        then = evidence_from_json(read_json(path))
        same = {c.case_id for c in then.closed_loop.cases} == {c.case_id for c in here.closed_loop.cases}
        if then.kinds and same:
            rows.append((folder.name, success_by_kind(then.closed_loop, then.kinds)))
    return rows


def promote_candidate(night: Night, out: Path) -> Mapping[str, Any]:
    """Register the candidate and, if the gate let it pass, make it the champion; safe to repeat."""
    registry = registry_of(night)
    verdict = read_object(night.folder / "gate" / "verdict.json", "promote", "reasons")
    reasons = dict(verdict["reasons"])
    pinned = read_object(night.folder / "champion" / "stage.json", "report")["report"]
    champion = registry.get(CHAMPION)
    candidate = model_folder(night, "finetune")
    trained = read_object(night.folder / "finetune" / "stage.json", "report")["report"]
    manifest = read_object(night.folder / "finetune" / "manifest.json", "manifest_id")["manifest_id"]
    made = registry.register(
        candidate,
        tags={
            "night": night.folder.name,
            "parent_id": trained["parent_id"],
            "manifest_id": manifest,
            "trained_on": ",".join(trained["nights"]),
            "origin": "nightly",
            "config_sha": config_sha(night.config.finetune),
            "code": code_version() or "",
        },
        lineage=lineage_files(night),
    )
    registry.set_alias(CANDIDATE, made.version)
    now = champion.version if champion else None
    if verdict["promote"] and now not in (pinned["version"], made.version):
        reasons["champion_changed"] = (
            f"version {now} became champion while the night compared with {pinned['version']}"
        )
    if not reasons:
        registry.promote(made.version)
    decision = "refused" if reasons else "promoted"
    registry.tag(made.version, decision=decision, reasons=", ".join(reasons))
    return {"id": made.model_id, "version": made.version, "decision": decision, "reasons": reasons}


def lineage_files(night: Night) -> tuple[Path, ...]:
    """What is kept beside a registered model: enough to train it again, and why it was let through."""
    return (
        night.folder / "finetune" / "manifest.json",
        night.folder / "config.yaml",
        night.folder / "gate" / "verdict.json",
    )


def log_run(night: Night, summary: Mapping[str, Any]) -> None:
    """Log the night's numbers and labels as an MLflow run, once."""
    gate = {row["metric"]: row for row in summary["gate"]}
    metrics: dict[str, float] = {
        "mined_cases": summary["mined"]["cases"],
        "faults": summary["mined"]["faults"],
    }
    metrics |= {f"seconds/{stage}": value for stage, value in summary["seconds"].items()}
    for name, row in gate.items():
        slug = "".join(c if c.isalnum() else "_" for c in name).strip("_")
        for model in (CHAMPION, CANDIDATE):
            if row[model] is not None:
                metrics[f"{slug}/{model}"] = row[model]
    tags = {"decision": summary["decision"], "reasons": ", ".join(summary["reasons"]), "date": night.date}
    registry_of(night).log_night(night.folder.name, summary["lineage"], metrics, tags)
