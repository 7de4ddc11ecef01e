"""The report is one file that opens offline, escapes what it shows, and has pictures of every kind."""

import re
from pathlib import Path
from typing import Any

import pytest

from data_engine.config import ReportConfig
from data_engine.mine import Mined
from data_engine.report import loss_curve, render_report
from tests.night_builders import mined_night, summary


@pytest.fixture
def night(tmp_path: Path) -> tuple[Path, Path, Mined]:
    """A night folder, its log folder and what was mined in it."""
    folder, logs = tmp_path / "night", tmp_path / "logs"
    return folder, logs, mined_night(folder, logs)


def html_of(night: tuple[Path, Path, Mined], **changes: Any) -> str:
    folder, logs, found = night
    out = render_report(folder, summary(found, **changes), ReportConfig(), folder / "report.html", [logs])
    return out.read_text(encoding="utf-8")


def test_it_is_self_contained_and_escaped(night: tuple[Path, Path, Mined]) -> None:
    html = html_of(night)
    assert not re.search(r'(?:src|href)="(?!data:image/(?:png|gif);base64,)', html)
    assert "<script" not in html
    assert "town &amp; &lt;country&gt;" in html
    assert "hit &lt;car&gt;" in html


def test_it_says_what_happened(night: tuple[Path, Path, Mined]) -> None:
    html = html_of(night)
    for text in (
        "refused",
        "no_improvement",
        "light simulator",
        "collision",
        "hard brake",
        "18,532 boxes",
        "gate_000",
    ):
        assert text in html, text
    assert html.count("data:image/png;base64,") >= 2 + 3


def test_a_night_with_nothing_to_do_has_a_report_too(night: tuple[Path, Path, Mined]) -> None:
    changes = {
        "decision": "nothing to do",
        "gate": [],
        "closed_loop": None,
        "candidate": None,
        "real_logs": None,
    }
    assert "nothing to do" in html_of(night, **changes)


def test_it_says_what_got_fixed_and_shows_clips_of_the_worst(night: tuple[Path, Path, Mined]) -> None:
    html = html_of(night)
    assert "fixed (1)" in html
    assert "a &amp; b" in html
    assert "got worse (1)" in html
    assert html.count("data:image/gif;base64,") >= 1
    folder, logs, found = night
    plain = render_report(
        folder, summary(found, fixes=None), ReportConfig(clips=0), folder / "r.html", [logs]
    )
    text = plain.read_text(encoding="utf-8")
    assert "image/gif" not in text
    assert "What got fixed" not in text


def test_the_training_curve_is_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").write_text("step,intent,distill\n1,0.5,0.1\n2,0.4,0.2\n")
    assert loss_curve(tmp_path / "losses.csv") == {
        "intent": [(1, 0.5), (2, 0.4)],
        "distill": [(1, 0.1), (2, 0.2)],
    }
    assert loss_curve(tmp_path / "absent.csv") == {}
