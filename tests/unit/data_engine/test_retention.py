"""Old nights lose their bulk, never what says what happened, and never what is still needed."""

from pathlib import Path

from data_engine.night import NIGHTS, SUMMARY
from data_engine.retention import NOTE, prune
from drive.files import read_json, write_json


def nights(workspace: Path, *names: str) -> None:
    for name in names:
        folder = workspace / NIGHTS / name
        for part in ("drive/logs/split/log", "finetune/train/checkpoints", "curate/logs"):
            (folder / part).mkdir(parents=True)
        write_json(folder / "curate" / "manifest.json", {})
        write_json(folder / SUMMARY, {"decision": "refused"})


def whole(workspace: Path) -> list[str]:
    return sorted(p.name for p in (workspace / NIGHTS).iterdir() if (p / "drive" / "logs").exists())


def test_only_nights_older_than_the_newest_few_are_pruned(tmp_path: Path) -> None:
    names = [f"2026-11-{day:02d}" for day in (1, 2, 3, 4)]
    nights(tmp_path, *names)
    (tmp_path / NIGHTS / "2026-11-02" / SUMMARY).unlink()  # not finished: left alone
    assert prune(tmp_path, 2) == ["2026-11-01"]
    assert whole(tmp_path) == names[1:]
    old = tmp_path / NIGHTS / "2026-11-01"
    assert read_json(old / NOTE)["removed"] == ["drive/logs", "finetune/train"]
    assert (old / "curate" / "manifest.json").exists()
    assert prune(tmp_path, 2) == []


def test_protected_nights_and_zero_keep_everything(tmp_path: Path) -> None:
    nights(tmp_path, "2026-11-01", "2026-11-02")
    assert prune(tmp_path, 0) == []
    assert prune(tmp_path, 1, {"2026-11-01"}) == []
    assert prune(tmp_path / "none", 1) == []
    assert len(whole(tmp_path)) == 2


def test_the_second_night_of_a_date_is_younger_than_the_first(tmp_path: Path) -> None:
    nights(tmp_path, "2026-11-01", "2026-11-01-2", "2026-11-01-10")
    assert prune(tmp_path, 1) == ["2026-11-01", "2026-11-01-2"]
