"""Drives of several log folders as one collection, and a linked view of some of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from data_engine.store import collect, link
from drive.logs import list_drives, read_drive, write_drive
from tests import builders


def write(root: Path, log_id: str, speed_mps: float) -> None:
    log = builders.cruise(speed_mps)
    write_drive(root, replace(log, meta=replace(log.meta, log_id=log_id)))


def test_the_first_folder_wins_and_absent_ones_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "new", "b", 5.0)
    write(tmp_path / "old", "a", 6.0)
    write(tmp_path / "old", "b", 7.0)
    refs = collect([tmp_path / "new", tmp_path / "old", tmp_path / "absent"])
    assert [ref.meta.log_id for ref in refs] == ["a", "b"]
    np.testing.assert_allclose(refs[1].read().ego.speed_mps, 5.0, rtol=1e-5)
    assert refs[0].route == "HandMade/cruise"


def test_a_linked_view_survives_the_rename_of_its_stage(tmp_path: Path) -> None:
    write(tmp_path / "night" / "drive" / "logs", "a", 5.0)
    write(tmp_path / "night" / "drive" / "logs", "b", 5.0)
    refs = collect([tmp_path / "night" / "drive" / "logs"])
    link(refs[:1], tmp_path / "night" / ".curate.123" / "logs")
    (tmp_path / "night" / ".curate.123").rename(tmp_path / "night" / "curate")
    (tmp_path / "night").rename(tmp_path / "moved night")
    view = tmp_path / "moved night" / "curate" / "logs"
    assert [meta.log_id for meta in list_drives(view)] == ["a"]
    assert len(read_drive(view, "a").ego.t_us) == 81
