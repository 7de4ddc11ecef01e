"""Compare planners: train each, drive held-out suites with each, and put what came out in tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_engine.planner_config import PlannerEvalConfig
from data_engine.planner_jobs import (
    Driver,
    Member,
    Validation,
    change_member,
    check_models,
    drive_member,
    measurable,
    measure_member,
    members,
    train_member,
)
from data_engine.planner_questions import check_scenes, model_of, question_member
from data_engine.planner_summary import summarise
from data_engine.planner_table import write_tables
from drive.config import dump_config
from drive.contracts import UserError
from drive.files import alone_in, read_json, write_json
from sim.suites import Suite, load_suite, take

LOCK, SECONDS = ".lock", "seconds.json"


@dataclass(frozen=True)
class Job:
    """One step of the comparison in the round of one training seed; `suite` is set for drives."""

    round: int
    kind: str
    member: Member
    suite: Suite | None = None

    @property
    def key(self) -> str:
        """Its name among the measured times."""
        return "/".join([*self.kinship, str(self.member.path)])

    @property
    def kinship(self) -> tuple[str, ...]:
        """Jobs that are alike in this take about as long."""
        return (self.kind,) if self.suite is None else (self.kind, self.suite.name)


def check(config: PlannerEvalConfig) -> tuple[Suite, ...]:
    """Everything that can be refused before work starts; returns the suites.

    Raises:
        UserError: No data, a suite that is unknown or drives where training may, or models of other settings.
    """
    from sim.runner import preflight

    if not config.train.data:
        raise UserError("train.data: no log root; give --data LOGROOT")
    for root in config.train.data:
        if not root.is_dir():
            raise UserError(f"train.data: {root}: no such log folder; record drives first, or give --data")
    suites = planned_suites(config)
    for suite in suites:
        leaked = sorted(set(suite.towns) - set(config.train.exclude_towns))
        if leaked:
            raise UserError(
                f"suites: {suite.name} drives in {', '.join(leaked)}, which training may use; "
                "name a held-out suite, or add the town to train.exclude_towns"
            )
        preflight(suite, None)
    check_models(config)
    check_scenes(config)
    return suites


def planned_suites(config: PlannerEvalConfig) -> tuple[Suite, ...]:
    """The suites, cut to the asked number of routes."""
    suites = (load_suite(name) for name in config.suites)
    return tuple(take(suite, config.routes) if config.routes else suite for suite in suites)


def compare(config: PlannerEvalConfig, drivers: Mapping[str, Driver]) -> dict[str, Any]:
    """Do what is missing, job after job, and write the tables after each seed.

    Args:
        config: What to compare.
        drivers: Driver of every entry with a `policy`.

    Returns:
        The summary, as it is written to summary.json.

    Raises:
        UserError: As for `check`, or another run writes into the folder.
    """
    suites = check(config)
    refusal = f"{config.out}: another comparison writes there; wait for it, or choose another `out`"
    with alone_in(config.out, LOCK, refusal):
        dump_config(config, config.out / "config.yaml")
        jobs = _jobs(config, suites, drivers)
        times, validation = Times(config.out / SECONDS, jobs), Validation()
        for number, job in enumerate(jobs, 1):
            name = f" on {job.suite.name}" if job.suite else ""
            left = "done before" if job.key in times.seconds else times.left(number - 1)
            print(
                f"[{number}/{len(jobs)}] {job.kind} {job.member.label}{name}; {left}",
                flush=True,
            )
            with times.measured(job):
                _do(config, job, drivers.get(job.member.name), validation)
            if number == len(jobs) or jobs[number].round != job.round:
                summary = summarise(config, suites)
                write_tables(config, summary)
    return summary


def _jobs(config: PlannerEvalConfig, suites: Sequence[Suite], drivers: Mapping[str, Driver]) -> list[Job]:
    jobs: list[Job] = []
    everybody = members(config)
    for n, seed in enumerate(config.seeds):
        mine = [m for m in everybody if m.seed == seed]
        made = [m for m in everybody if m.seed is None]
        jobs += [Job(n, "train" if config.models[m.name].trained else "change", m) for m in mine]
        jobs += [
            Job(n, "measure", Member(m.name, seed)) for m in [*mine, *made] if measurable(drivers.get(m.name))
        ]
        driving = mine if n else [*mine, *made]
        jobs += [Job(n, "question", m) for m in driving if model_of(config, m, drivers.get(m.name))]
        jobs += [Job(n, "drive", m, suite) for suite in suites for m in driving]
    return jobs


def _do(config: PlannerEvalConfig, job: Job, driver: Driver | None, validation: Validation) -> None:
    member = job.member
    if job.suite is not None:
        drive_member(config, member, job.suite, driver)
    elif job.kind == "train":
        train_member(config, member, validation)
    elif job.kind == "change":
        change_member(config, member)
    elif job.kind == "question":
        folder = model_of(config, member, driver)
        assert folder is not None
        question_member(config, member, folder, validation)
    else:
        assert member.seed is not None
        measure_member(config, member.name, member.seed, driver, validation)


class Times:
    """How long jobs took, kept across runs, and what that says about those that are left."""

    def __init__(self, path: Path, jobs: Sequence[Job]) -> None:
        self._path, self._jobs = path, jobs
        self.seconds: dict[str, float] = read_json(path) if path.exists() else {}

    @contextmanager
    def measured(self, job: Job) -> Iterator[None]:
        """Time a job; the longest of several goes is kept, as a later one may only find it done."""
        start = time.monotonic()
        yield
        took = round(time.monotonic() - start, 1)
        self.seconds[job.key] = max(self.seconds.get(job.key, 0.0), took)
        write_json(self._path, self.seconds)

    def left(self, done: int) -> str:
        """Time left after the first `done` jobs; kinds that were never timed are named instead."""
        total, unknown = 0.0, []
        for job in self._jobs[done:]:
            if job.key in self.seconds:  # done by an earlier run
                continue
            known = [
                self.seconds[o.key] for o in self._jobs if o.kinship == job.kinship and o.key in self.seconds
            ]
            if known:
                total += sum(known) / len(known)
            elif " ".join(job.kinship) not in unknown:
                unknown.append(" ".join(job.kinship))
        more = f" and, not timed yet, {', '.join(unknown)}" if unknown else ""
        return f"ETA {_readable(total)}{more}"


def _readable(seconds: float) -> str:
    hours, minutes = int(seconds // 3600), int(seconds % 3600 // 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"
