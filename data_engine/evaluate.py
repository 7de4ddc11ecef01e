"""Champion and candidate on the same held-out routes and seeds, and the same recorded steps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_engine.config import DriveConfig
from data_engine.curate import Window, label_passes
from data_engine.evidence import ModelEvidence
from data_engine.openloop import Unit, score_units
from data_engine.registry import CANDIDATE, CHAMPION, model_id_of
from data_engine.store import DriveRef, collect
from data_engine.suites import gate_suite
from drive.contracts import EvalResult, UserError
from drive.files import read_object, write_json

if TYPE_CHECKING:
    from data_engine.night import Night
    from drive.bench.report import PolicyRow
    from sim.suites import Suite

STAGE_OF = {CHAMPION: "champion", CANDIDATE: "finetune"}
LOGS = "logs"


def compare(night: "Night", out: Path) -> Mapping[str, Any]:
    """Evaluate both models into champion.json and candidate.json (gate.ModelEvidence).

    The champion's recorded held-out drives, labelled by the expert at every planning step, are the open-loop
    set of
    held-out drives; the mined windows on sibling routes (never trained on) are the other.
    """
    from drive.model import policy_factory

    suite = gate_suite(night.config)
    results = {
        model: drive_suite(night.config.drive, suite, night.folder / stage / "model", out / model)
        for model, stage in STAGE_OF.items()
    }
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
        policy = policy_factory(folder)()  # on one thread
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
    windows = read_object(folder / "curate" / "windows.json", "siblings")["siblings"]
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


def drive_suite(config: DriveConfig, suite: "Suite", folder: Path, out: Path) -> EvalResult:
    """Let a model drive a suite and record it; routes that `out` holds already are kept."""
    from drive.model import policy_factory
    from sim.runner import run_suite

    name = f"planner-{model_id_of(folder)}"
    return run_suite(
        suite, policy_factory(folder), out, carla=config.carla, workers=config.workers, policy_name=name
    )


def _real_logs(night: "Night", model_folder: Path) -> list[dict[str, Any]]:
    """Open-loop rows of the nuScenes sources (the model, then the blind floors), or why there are none."""
    from drive.bench.nuscenes import bench_nuscenes
    from drive.model import policy_factory

    rows: list[dict[str, Any]] = []
    for source in night.sources:
        if source.kind != "nuscenes":
            continue
        try:
            report = bench_nuscenes(
                source.folder,
                source.version,
                policy_factory(model_folder)(),
                images=night.config.evaluate.real_images,
            )
        except UserError as error:
            rows.append({"source": source.name, "floor": False, "skipped": str(error)})
            continue
        rows += [
            {"source": source.name, "split": report.split, "floor": n > 0, **_bench_row(row)}
            for n, row in enumerate(report.rows)
        ]
    return rows


def _bench_row(row: "PolicyRow") -> dict[str, Any]:
    return {
        "policy": row.policy,
        "command": row.command,
        "images": row.images,
        "planned": row.planned,
        "failed": row.failed,
        "l2_at_m": row.l2_m.at.tolist(),
        "l2_up_to_m": row.l2_m.up_to.tolist(),
        "collision_up_to": row.collision_clean.up_to.tolist(),
    }
