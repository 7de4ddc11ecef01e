"""docs/cli.md names every key that a command writes with --json, and no key that none writes."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from data_engine import demo as demo_nights
from data_engine import evaluate, gate, planner_questions, planner_summary, sources, steps, summary, trend
from data_engine import nightly as nightly_stages
from drive.bench import closed_loop, pdm_run
from drive.bench.cases import SampleSet
from drive.bench.closed_loop import RouteRow
from drive.bench.compare import Difference, WorsePart
from drive.bench.predictions import Coverage
from drive.bench.report import GroupRow, PolicyRow, SampleColumns
from drive.cli import (
    bench_nuscenes,
    bench_pdm,
    bench_results,
    check,
    compare,
    demo,
    doctor,
    eval,
    ingest,
    nightly,
    rebuild,
    report,
    rollback,
    score,
    serve_sim,
    sim,
    train,
    view,
    vla,
)
from drive.cli.main import COMMANDS, main
from drive.logs import Fault
from drive.logs.check import LogCheck
from drive.logs.ingest import SceneReport
from drive.logs.smoothness import Smoothness
from drive.score.abilities import AbilityRow
from drive.score.bootstrap import Interval
from drive.score.closedloop import SuiteScore
from drive.score.openloop import HorizonValues
from drive.train import evaluate as validation
from drive.train import finetuning, training, vla_evaluate
from drive.train import vla as vla_training
from sim import results
from sim.route_files import Finding

CLI = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
Writer = Callable[..., Any] | type
WRITERS: dict[str, tuple[Writer, ...]] = {
    "nightly": (
        nightly.run, nightly._dry_run, nightly_stages.run_night, nightly_stages.plan_night,
        summary.summarize, sources.ingest, steps.drive_routes, steps.mine_cases,
        steps.curate_cases, steps.finetune_champion, finetuning.finetune, summary._closed_loop,
        summary._fixes,
        summary._suite_numbers, evaluate._real_logs, evaluate._bench_row, gate.Row, Interval,
    ),
    "sim": (sim.run, sim.payload, sim._row, results._case, results.failures, Finding),
    "score": (score.run, score.payload, SuiteScore, AbilityRow, Smoothness),
    "serve-sim": (serve_sim.run,),
    "ingest": (ingest.payload, SceneReport),
    "check": (check.payload, LogCheck, Fault),
    "train": (train.payload, training.train, validation._measure),
    "vla": (
        vla.payload, vla._ask, vla.asked, vla_training.train_vla, vla_evaluate.evaluate_vla,
        vla_evaluate._reasonings,
    ),
    "bench": (
        bench_nuscenes.payload, PolicyRow, SampleColumns, HorizonValues, SampleSet, Coverage, GroupRow,
        bench_pdm.payload, pdm_run._case, bench_results.payload, RouteRow, SuiteScore, AbilityRow, Smoothness,
        Interval,
    ),
    "compare": (compare.payload, Difference, WorsePart, Interval),
    "eval": (
        eval.payload, planner_summary.summarise, planner_summary._suite_row, planner_summary._row,
        planner_summary._pair, planner_summary._validation_row, planner_questions.question_row, Interval,
    ),
    "report": (report.run, report._trend, trend.night_row),
    "rebuild": (rebuild.run,),
    "rollback": (rollback.run, rollback._plain),
    "view": (view.run,),
    "demo": (demo.run, demo_nights.write_results, demo_nights._fixes),
    "doctor": (doctor.run, doctor.Check),
}  # fmt: skip
IN_THE_FOLDER = {
    "trained",
    "siblings",
    "held_out_routes",
    "settings",
    "after",
}  # of a night's windows.json, not of --json
BY_COMPREHENSION = {  # keys that no literal in the source spells out
    "nightly": {"version", "id", "champion", "candidate"},
    "bench": {"1s", "2s", "3s", "at_1s", "up_to_1s", "stp3", "vad", "uniad", "_all"}
    | set(closed_loop.SCORES)
    | {"success_rate", "excused_nc"}
    | set(pdm_run.TERMS),
    "eval": {
        "collisions_per_100",
        "off_road_per_100",
        "red_lights_per_100",
        "ade_m",
        "ade_intent_m",
        "ade_best_m",
        "gap_closed",
        "n",
        *planner_questions.SHARES,
        *planner_questions.BY_COUNT,
    },
    "train": set(validation._ERRORS),
}


def section(command: str) -> str:
    """The part of docs/cli.md about one command."""
    parts = re.split(r"^## (.*)$", CLI, flags=re.MULTILINE)
    named = [
        body for title, body in zip(parts[1::2], parts[2::2], strict=True) if f"drive {command}" in title
    ]
    assert len(named) == 1, f"docs/cli.md: not one section about drive {command}"
    return named[0]


def keys_of(writer: Writer) -> set[str]:
    """Field names of a dataclass, or the string keys of the dict literals in a function."""
    if is_dataclass(writer):
        return {field.name for field in fields(writer)}
    tree = ast.parse(textwrap.dedent(inspect.getsource(writer)))
    literals = [key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys]
    return {key.value for key in literals if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def written(command: str) -> set[str]:
    found = set().union(*map(keys_of, WRITERS[command])) - IN_THE_FOLDER
    return found | BY_COMPREHENSION.get(command, set())


def quoted(text: str) -> set[str]:
    """Words inside backticks."""
    return {word for code in re.findall(r"`([^`]*)`", text) for word in re.findall(r"\w+", code)}


def test_every_command_is_looked_at() -> None:
    assert WRITERS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_key_that_is_written_is_documented(command: str) -> None:
    missing = written(command) - quoted(section(command))
    assert not missing, f"docs/cli.md, drive {command}: {sorted(missing)}"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_documented_key_is_written(command: str) -> None:
    tables = [part.split("\n\n")[0] for part in section(command).split("| key | |\n|---|---|\n")[1:]]
    named = quoted(" ".join(re.findall(r"^\| (.*?) \|", "\n".join(tables), re.MULTILINE)))
    unknown = named - written(command)
    assert not unknown, f"docs/cli.md, drive {command}: {sorted(unknown)}"


def test_every_reason_of_the_gate_is_explained_in_its_words() -> None:
    rows = dict(
        re.findall(r"^\| `(\w+)` \| (.*) \|$", section("nightly").split("| reason code | |")[1], re.MULTILINE)
    )
    assert rows == gate.REASONS


def test_every_check_of_the_doctor_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    names = [line[6:].split("  ")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert f": {', '.join(names)}." in section("doctor")
