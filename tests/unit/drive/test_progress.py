"""Progress goes to stderr, as plain lines when it is not a terminal."""

import pytest

from drive.progress import Progress, track


def test_plain_lines_show_begin_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("driving", 2, "routes") as bar:
        bar.advance()
        bar.advance(note="route 2")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0].startswith("driving")
    assert "0/2 routes ETA --" in lines[0]
    assert "[########################] 2/2 routes 0 s" in lines[-1]


def test_a_failure_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="x"), Progress("driving", 2):
        raise ValueError("x")
    assert capsys.readouterr().err.rstrip().endswith("stopped")


def test_track_passes_items_through(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(iter("abc"), "letters", 3)) == ["a", "b", "c"]
    assert "3/3" in capsys.readouterr().err


def test_nothing_to_do_is_a_full_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("empty", 0):
        pass
    assert "0/0" in capsys.readouterr().err
