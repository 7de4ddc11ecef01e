"""Champion and candidate on the same held-out routes and seeds, and on the same recorded planning steps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_engine.curate import Window, label_passes
from data_engine.gate import ModelEvidence
from data_engine.openloop import Unit, score_units
from data_engine.registry import CANDIDATE, CHAMPION, model_id_of
from data_engine.store import DriveRef, collect
from data_engine.suites import gate_suite
from drive.contracts import EvalResult, UserError
from drive.files import read_json, write_json

if TYPE_CHECKING:
    from data_engine.night import Night

STAGE_OF = {CHAMPION: "champion", CANDIDATE: "finetune"}
LOGS = "logs"


def compare(night: "Night", out: Path) -> Mapping[str, Any]:
    """Evaluate both models into champion.json and candidate.json (gate.ModelEvidence).

    The champion's recorded held-out drives, labelled by the expert at every planning step, are the open-loop set of
    held-out drives; the mined windows on sibling routes (never trained on) are the other.
    """
    from drive.model import load_policy

    results = {model: _closed_loop(night, model, out / model) for model in STAGE_OF}
    held_out = collect([out / CHAMPION / LOGS])
    held_units = held_out_units(held_out, night.config.evaluate.open_loop_steps)
    sibling_units = [
        Unit(window.case_id, window.log_id, window.plan_indices) for window in sibling_windows(night.folder)
    ]
    drives = {ref.meta.log_id: ref for ref in collect([night.folder / "drive" / LOGS])}
    drives |= {ref.meta.log_id: ref for ref in held_out}
    report: dict[str, Any] = {"held_out_units": len(held_units), "sibling_units": len(sibling_units)}
    for model, stage in STAGE_OF.items():
        folder = night.folder / stage / "model"
        policy = load_policy(folder)
        evidence = ModelEvidence(
            model_id=model_id_of(folder),
            closed_loop=results[model],
            siblings=score_units(policy, sibling_units, drives, night.seed, "mined cases"),
            held_out=score_units(policy, held_units, drives, night.seed, "open loop"),
        )
        write_json(out / f"{model}.json", evidence)
        report[model] = {
            "model_id": evidence.model_id,
            "score": results[model].mean,
            "planned": results[model].planned,
        }
        report[model]["real_logs"] = _real_logs(night, folder)
    return report


def sibling_windows(folder: Path) -> tuple[Window, ...]:
    """Windows of mined cases on held-out sibling routes, from a night's folder."""
    windows = read_json(folder / "curate" / "windows.json")["siblings"]
    return tuple(Window(**{**w, "plan_indices": tuple(w["plan_indices"])}) for w in windows)


def held_out_units(refs: Sequence[DriveRef], steps: int) -> list[Unit]:
    """One unit per held-out drive: planning steps spread evenly over it whose label passes the gates."""
    share = max(1, steps // max(1, len(refs)))
    units = []
    for ref in refs:
        log = ref.read()
        count = len(log.plans.step)
        spread = sorted({int(i) for i in np.linspace(0, count - 1, min(share, count))}) if count else []
        good = tuple(i for i in spread if label_passes(log, i))
        if good:
            units.append(Unit(ref.meta.log_id, ref.meta.log_id, good))
    return units


def _closed_loop(night: "Night", model: str, out: Path) -> EvalResult:
    from drive.model import policy_factory
    from sim.runner import run_suite

    suite = gate_suite(night.config)
    print(f"{model}: {len(suite.routes)} held-out routes", flush=True)
    factory = policy_factory(night.folder / STAGE_OF[model] / "model")
    return run_suite(suite, factory, out, carla=night.config.drive.carla, workers=night.config.drive.workers)


def _real_logs(night: "Night", model_folder: Path) -> list[dict[str, Any]]:
    """Open-loop rows of the nuScenes sources, or why there are none."""
    from drive.bench.nuscenes import bench_nuscenes
    from drive.model import load_policy

    images = night.config.evaluate.nuscenes_images
    rows: list[dict[str, Any]] = []
    for source in night.sources:
        if source.kind != "nuscenes":
            continue
        try:
            report = bench_nuscenes(
                source.folder,
                source.version,
                load_policy(model_folder),
                images=None if images == "none" else images,
            )
        except UserError as error:
            rows.append({"source": source.name, "skipped": str(error)})
            continue
        row = report.rows[0]
        rows.append({"source": source.name, "split": report.split, "evaluated": report.evaluated, "row": row})
    return rows
