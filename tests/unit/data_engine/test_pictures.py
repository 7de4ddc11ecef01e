"""Evidence of bad cases: which are drawn, where the files lie, and that reports show these very files."""

import base64
from pathlib import Path

import pytest

from data_engine.config import ReportConfig
from data_engine.mine import Mined
from data_engine.pictures import moment_us, pick_cases, seen_from_above, with_pictures
from data_engine.report import render_report
from data_engine.store import collect
from drive.files import write_json
from drive.viz.bev import draw_bev
from tests.night_builders import mined_night, summary


@pytest.fixture
def night(tmp_path: Path) -> tuple[Path, Path, Mined]:
    """A night folder, its log folder and what was mined in it."""
    folder, logs = tmp_path / "night", tmp_path / "logs"
    return folder, logs, mined_night(folder, logs)


def test_every_kind_is_picked(night: tuple[Path, Path, Mined]) -> None:
    found = night[2]
    chosen = pick_cases(found.cases, ReportConfig(pictures_per_kind=1, pictures=10), {})
    assert sorted(c.kind for c in chosen) == sorted({c.kind for c in found.cases})
    assert len(pick_cases(found.cases, ReportConfig(pictures=1), {})) == 1


def test_cases_name_their_pictures(night: tuple[Path, Path, Mined]) -> None:
    folder, logs, found = night
    drives = {ref.meta.log_id: ref for ref in collect([logs])}
    drawn = with_pictures(found.cases, drives, ReportConfig(pictures_per_kind=1), folder / "mine")
    assert [c.case_id for c in drawn] == [c.case_id for c in found.cases]
    named = [case for case in drawn if case.pictures]
    assert sorted(c.kind for c in named) == sorted({c.kind for c in found.cases})
    for case in named:
        (name,) = case.pictures
        assert (folder / "mine" / name).read_bytes() == draw_bev(drives[case.log_id].read(), moment_us(case))
    assert with_pictures(found.cases, drives, ReportConfig(pictures=0), folder / "none") == list(found.cases)
    assert not (folder / "none").exists()


def test_a_report_shows_the_files_of_mining_and_draws_what_is_missing(
    night: tuple[Path, Path, Mined],
) -> None:
    folder, logs, found = night
    drives = {ref.meta.log_id: ref for ref in collect([logs])}
    drawn = with_pictures(found.cases, drives, ReportConfig(), folder / "mine")
    write_json(folder / "mine" / "cases.json", drawn)
    case = next(case for case in drawn if case.pictures)
    mark = b"the very file"
    (folder / "mine" / case.pictures[0]).write_bytes(mark)
    html = render_report(folder, summary(found), ReportConfig(), folder / "report.html", [logs]).read_text()
    assert base64.b64encode(mark).decode() in html
    (folder / "mine" / case.pictures[0]).unlink()
    again = seen_from_above(case, drives[case.log_id].read(), folder / "mine")
    assert again == draw_bev(drives[case.log_id].read(), moment_us(case))
