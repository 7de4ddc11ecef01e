"""Finished stages are kept, interrupted ones continue or start over, changed inputs run again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from data_engine.stages import finished, run_stage


class Work:
    """Counts its runs and can die half-way."""

    def __init__(self, dies: bool = False) -> None:
        self.runs, self.dies, self.found = 0, dies, ""

    def __call__(self, out: Path) -> Mapping[str, Any]:
        self.runs += 1
        self.found = (out / "half").read_text() if (out / "half").exists() else ""
        (out / "half").write_text("written before the crash")
        if self.dies:
            raise KeyboardInterrupt
        (out / "result").write_text("done")
        return {"id": "x"}


def test_a_finished_stage_is_not_run_again(tmp_path: Path) -> None:
    work = Work()
    first = run_stage(tmp_path, "mine", {"a": 1}, work, resumes=False)
    again = run_stage(tmp_path, "mine", {"a": 1}, work, resumes=False)
    assert work.runs == 1
    assert first == again
    assert (tmp_path / "mine" / "result").read_text() == "done"


def test_other_inputs_run_again_and_replace_the_result(tmp_path: Path) -> None:
    work = Work()
    run_stage(tmp_path, "mine", {"a": 1}, work, resumes=False)
    done = run_stage(tmp_path, "mine", {"a": 2}, work, resumes=False)
    assert work.runs == 2
    assert finished(tmp_path / "mine", done.key) == done


@pytest.mark.parametrize(("resumes", "found"), [(True, "written before the crash"), (False, "")])
def test_an_interrupted_stage_continues_or_starts_over(tmp_path: Path, resumes: bool, found: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_stage(tmp_path, "drive", {}, Work(dies=True), resumes=resumes)
    assert finished(tmp_path / "drive") is None
    work = Work()
    run_stage(tmp_path, "drive", {}, work, resumes=resumes)
    assert work.found == found
    assert sorted(p.name for p in tmp_path.iterdir()) == ["drive"]


def test_leftovers_of_other_inputs_are_cleared(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_stage(tmp_path, "drive", {"a": 1}, Work(dies=True), resumes=True)
    work = Work()
    run_stage(tmp_path, "drive", {"a": 2}, work, resumes=True)
    assert work.found == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["drive"]


def test_a_kill_between_the_last_write_and_the_rename_costs_nothing(tmp_path: Path) -> None:
    work = Work()
    done = run_stage(tmp_path, "gate", {}, work, resumes=False)
    (tmp_path / "gate").rename(tmp_path / f".gate.{done.key[:12]}")
    run_stage(tmp_path, "gate", {}, work, resumes=False)
    assert work.runs == 1
