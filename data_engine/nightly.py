"""One night from start to finish: the list of stages, and what a run of them comes to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_engine import steps
from data_engine.consolidate import nights_to_consolidate
from data_engine.lock import nightly_lock
from data_engine.memory import PeakMemory
from data_engine.night import CONFIG, REPORT, SUMMARY, Night
from data_engine.outcome import record_cases, still_needed
from data_engine.retention import prune
from data_engine.stages import Done, finished, run_stage
from data_engine.summary import summarize
from drive.config import config_dict, dump_config
from drive.contracts import UserError
from drive.files import write_json

Work = Callable[[Night, Path], Mapping[str, Any]]
Settings = Callable[[Night], Any]


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        work: The stage function.
        settings: What its result depends on besides earlier stages.
        after: Earlier stages whose results it uses.
        resumes: It continues from what an interrupted run left in its folder.
        optional: Skipped when curation found nothing to train on.
    """

    work: Work
    settings: Settings
    after: tuple[str, ...] = ()
    resumes: bool = False
    optional: bool = False


def _replayed(night: Night) -> list[str]:
    """Earlier nights whose drives count as known, by name."""
    return [root.parent.parent.name for root in steps.replay_roots(night)]


STAGES: dict[str, Stage] = {
    "champion": Stage(steps.pin_champion, lambda n: [n.key, n.config.base_model]),
    "ingest": Stage(steps.ingest_logs, lambda n: n.key, resumes=True),
    "drive": Stage(steps.drive_routes, lambda n: [n.seed, n.config.drive], ("champion",), resumes=True),
    "mine": Stage(
        steps.mine_cases,
        lambda n: [n.config.mine, n.config.held_out_towns, _replayed(n)],
        ("champion", "ingest", "drive"),
    ),
    "curate": Stage(
        steps.curate_cases,
        lambda n: [n.seed, n.config.curate, _replayed(n)],
        ("champion", "mine"),
    ),
    "finetune": Stage(
        steps.finetune_champion,
        lambda n: [n.config.finetune, [folder.name for folder in nights_to_consolidate(n)]],
        ("champion", "curate"),
        resumes=True,
        optional=True,
    ),
    "evaluate": Stage(
        steps.evaluate_models,
        lambda n: [n.seed, n.config.evaluate, n.config.drive.carla],
        ("champion", "drive", "curate", "finetune"),
        resumes=True,
        optional=True,
    ),
    "gate": Stage(steps.gate_candidate, lambda n: [n.seed, n.config.gate], ("evaluate",), optional=True),
    "promote": Stage(
        steps.promote_candidate,
        lambda n: [n.key, n.config.registry],
        ("champion", "finetune", "gate"),
        optional=True,
    ),
}


def run_night(night: Night, after: Mapping[str, Callable[[Night], None]] | None = None) -> dict[str, Any]:
    """Run what is left of a night and return its summary.

    Args:
        night: Which.
        after: Stage name -> called with the night whenever that stage is finished, also when it was already;
            for demonstrations that spoil a night.

    Raises:
        UserError: Another nightly holds the workspace, or an input is wrong.
    """
    with nightly_lock(night.workspace):
        already = night.summary()
        if already is not None:  # by the run that we waited behind
            return already
        night.start()
        dump_config(night.config, night.folder / CONFIG)
        with PeakMemory() as memory:
            done = run_stages(night, after or {})
            cases = record_cases(night, done)
            summary = {**summarize(night, done, memory.peak_gb), "cases": cases.count()}
            write_report(night, summary)
        steps.log_run(night, summary)
        write_json(night.folder / SUMMARY, summary)  # last: its presence means finished
        prune(night.workspace, night.config.retention.nights, still_needed(night))
        return summary


def plan_night(night: Night) -> list[dict[str, str]]:
    """What a run would do now: each stage, and whether it is done, would resume, or would run. Makes nothing.

    A stage that is done for other settings is run again by the real run; that is not looked into here.
    """
    rows = []
    for name, stage in STAGES.items():
        state = "run"
        if finished(night.folder / name) is not None:
            state = "done"
        elif any(night.folder.glob(f".{name}.*")):
            state = "resume" if stage.resumes else "run again"
        rows.append({"stage": name, "state": state})
    return rows


def run_stages(night: Night, after: Mapping[str, Callable[[Night], None]]) -> dict[str, Done]:
    """Run every stage that is not finished yet, in order."""
    done: dict[str, Done] = {}
    for name, stage in STAGES.items():
        if stage.optional and done["curate"].report["nothing"]:
            continue
        inputs = {
            "settings": config_dict(stage.settings(night)),
            "after": {other: [done[other].key, done[other].report.get("id")] for other in stage.after},
        }
        done[name] = run_stage(night.folder, name, inputs, _bound(stage.work, night), resumes=stage.resumes)
        if name in after:
            after[name](night)
    return done


def write_report(night: Night, summary: Mapping[str, Any]) -> Path:
    """Write report.html of a night from its folder."""
    from data_engine.report import render_report

    print("[report] running", flush=True)
    roots = steps.log_roots(night)
    return render_report(night.folder, summary, night.config.report, night.folder / REPORT, roots)


def _bound(work: Work, night: Night) -> Callable[[Path], Mapping[str, Any]]:
    def run(out: Path) -> Mapping[str, Any]:
        return work(night, out)

    return run


def preflight(night: Night) -> None:
    """Check what a night needs before anything is made.

    Raises:
        UserError: A suite, town or model is missing, or the routes of training and evaluation overlap.
    """
    from data_engine.rules.sql import check_sql
    from data_engine.suites import gate_suite, tonight_suite
    from drive.model import model_folder
    from sim.runner import preflight as check_towns

    for suite in (tonight_suite(night.config, night.date), gate_suite(night.config)):
        check_towns(suite, night.config.drive.carla)
    model_folder(night.config.base_model)
    check_sql(night.config.mine.sql)
    replay = night.config.curate.replay
    if replay is not None and not Path(replay).is_dir():
        raise UserError(f"curate.replay: {replay} is not a folder; give a log folder or null")
