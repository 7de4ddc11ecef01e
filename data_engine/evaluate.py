"""Champion and candidate on the same held-out routes and seeds, and the same recorded steps."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_engine.cases import load_store
from data_engine.config import DriveConfig
from data_engine.curate import Window
from data_engine.evidence import ModelEvidence, result_from_json
from data_engine.forgetting import succeeded
from data_engine.kinds import kind_of, variation
from data_engine.openloop import Unit, score_units
from data_engine.pool import label_passes
from data_engine.registry import CANDIDATE, CHAMPION, model_id_of
from data_engine.reuse import offer_drives, withdraw
from data_engine.store import DriveRef, collect, link
from data_engine.suites import gate_suite, tonight_suite
from drive.contracts import EvalResult, UserError
from drive.files import read_json, read_object, write_json

if TYPE_CHECKING:
    from data_engine.night import Night
    from drive.bench.report import PolicyRow
    from sim.suites import Suite

STAGE_OF = {CHAMPION: "champion", CANDIDATE: "finetune"}
LOGS, TRIED = "logs", "tried"


def compare(night: "Night", out: Path) -> Mapping[str, Any]:
    """Evaluate both models into champion.json and candidate.json (gate.ModelEvidence).

    The champion's recorded held-out drives, labelled by the expert at every planning step, are the open-loop
    set of
    held-out drives; the mined windows on sibling routes (never trained on) are the other.
    """
    from drive.model import policy_factory

    suite = gate_suite(night.config)
    results = {
        model: _drive_or_reuse(night, suite, night.folder / stage / "model", out / model)
        for model, stage in STAGE_OF.items()
    }
    held_out = collect([out / CHAMPION / LOGS])
    held_units = held_out_units(held_out, night.config.evaluate.open_loop_steps)
    fixes = compare_siblings(night, out)
    sibling_units = [
        Unit(window.case_id, window.log_id, window.plan_indices) for window in sibling_windows(night.folder)
    ]
    drives = {ref.meta.log_id: ref for ref in collect(recorded(night))}
    drives |= {ref.meta.log_id: ref for ref in held_out}
    retest_units, retest_drives = to_retest(night)
    drives = retest_drives | drives
    kinds = {route.route_id: kind_of(route) for route in suite.routes}
    unit_kinds = {r.meta.log_id: kinds[r.meta.route] for r in held_out if r.meta.route in kinds}
    report: dict[str, Any] = {"held_out_units": len(held_units), "sibling_units": len(sibling_units)}
    for model, stage in STAGE_OF.items():
        folder = night.folder / stage / "model"
        policy = policy_factory(folder)()  # on one thread
        evidence = ModelEvidence(
            model_id=model_id_of(folder),
            closed_loop=results[model],
            siblings=score_units(policy, sibling_units, drives, night.seed, "mined cases"),
            held_out=score_units(policy, held_units, drives, night.seed, "open loop"),
            fixes=fixes.get(model),
            kinds=kinds,
            unit_kinds=unit_kinds,
            retest={
                item.unit: item.ade_m
                for item in score_units(policy, retest_units, drives, night.seed, "known cases")
            },
        )
        write_json(out / f"{model}.json", evidence)
        report[model] = {
            "model_id": evidence.model_id,
            "score": results[model].mean,
            "planned": results[model].planned,
        }
        report[model]["real_logs"] = _real_logs(night, folder)
    return report


def compare_siblings(night: "Night", out: Path) -> dict[str, EvalResult]:
    """Both models on tonight's routes that were kept apart; the champion drove them in the drive stage."""
    held = read_object(night.folder / "curate" / "windows.json", "held_out_routes")["held_out_routes"]
    suite = tonight_suite(night.config, night.date)
    routes = [route for route in suite.routes if f"{route.town}/{route.route_id}" in held]
    routes = routes[: night.config.evaluate.sibling_routes]
    if not routes:
        return {}
    before = result_from_json(read_json(night.folder / "drive" / "result.json"))
    wanted = {route.route_id for route in routes}
    cases = tuple(case for case in before.cases if case.case_id in wanted)
    apart = replace(suite, name=f"{suite.name} kept apart", routes=tuple(routes))
    model = night.folder / STAGE_OF[CANDIDATE] / "model"
    after = drive_suite(night.config.drive, apart, model, out / "siblings")
    champion = replace(before, suite=apart.name, planned=len(routes), cases=cases)
    return {CHAMPION: champion, CANDIDATE: after}


def recorded(night: "Night") -> list[Path]:
    """Log folders that tonight's cases lie in: drives and ingested logs."""
    from data_engine.steps import ingested

    return [night.folder / "drive" / LOGS, *ingested(night)]


def to_retest(night: "Night") -> tuple[list[Unit], dict[str, DriveRef]]:
    """Windows of tonight's trained cases and of stored cases to test again, and their drives."""
    from data_engine.steps import replay_roots

    known = load_store(night.workspace).to_test(night.config.evaluate.retest)
    units = [Unit(s.case.case_id, s.case.log_id, s.plan_indices) for s in known]
    taken = {unit.unit for unit in units}
    windows = read_object(night.folder / "curate" / "windows.json", "trained")["trained"]
    trained = [Unit(w["case_id"], w["log_id"], tuple(w["plan_indices"])) for w in windows]
    units += [u for u in trained if u.unit not in taken][: night.config.evaluate.retest]
    drives = {ref.meta.log_id: ref for ref in collect([*recorded(night), *replay_roots(night)])}
    return [unit for unit in units if unit.log_id in drives], drives


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


def demonstrate(config: DriveConfig, suite: "Suite", result: EvalResult, out: Path) -> list[str]:
    """Let the expert drive the routes that were failed, worst first, and routes like them; kept on a rerun.

    Drives that the expert fails itself stay in `out`/tried; the others are shown in `out`/logs.

    Returns:
        Names of the routes that were driven without fault.
    """
    from sim.runner import run_suite

    failed = [case for case in result.cases if case.status != "infrastructure" and not succeeded(case)]
    worst = sorted(failed, key=lambda case: (case.score, case.case_id))[: config.demonstrations]
    names = {case.case_id for case in worst}
    if not names:
        return []
    again = [route for route in suite.routes if route.route_id in names]
    more = [variation(route, n + 1) for route in again for n in range(config.variations)]
    shown = replace(
        suite, name=f"{suite.name} shown", routes=(*again, *(route for route in more if route is not None))
    )
    # undisturbed: beside its lane the expert joins slowly, which is not what a way around should look like
    tried = run_suite(shown, "expert", out / TRIED, carla=config.carla, workers=config.workers)
    good = sorted(case.case_id for case in tried.cases if succeeded(case))
    shutil.rmtree(out / LOGS, ignore_errors=True)
    link([ref for ref in collect([out / TRIED / LOGS]) if ref.meta.route in good], out / LOGS)
    return good


def _drive_or_reuse(night: "Night", suite: "Suite", folder: Path, out: Path) -> EvalResult:
    """Drive the held-out suite, or take the drives of an earlier night with the same model."""
    policy = f"planner-{model_id_of(folder)}"
    if offer_drives(night, policy, suite.name, out):
        try:
            return drive_suite(night.config.drive, suite, folder, out)
        except UserError:  # other routes under the same name
            withdraw(out)
    return drive_suite(night.config.drive, suite, folder, out)


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
