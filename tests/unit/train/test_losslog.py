"""losses.csv has every step exactly once, also after an interruption."""

from pathlib import Path

from drive.train.losslog import FILE, LossLog


def steps(folder: Path) -> list[str]:
    return [line.split(",")[0] for line in (folder / FILE).read_text().splitlines()]


def test_rows_of_a_run_that_was_cut_off_are_replaced(tmp_path: Path) -> None:
    log = LossLog(tmp_path, 0)
    for step in (1, 2, 3):
        log.add(step, {"intent": 0.5, "distill": 0.1})
    with (tmp_path / FILE).open("a") as file:
        file.write("4,0.")  # killed in the middle of a row
    again = LossLog(tmp_path, 2)
    again.add(3, {"intent": 0.4, "distill": 0.1})
    assert steps(tmp_path) == ["step", "1", "2", "3"]
    assert (tmp_path / FILE).read_text().splitlines()[-1] == "3,0.4,0.1"


def test_a_fresh_run_starts_an_empty_file(tmp_path: Path) -> None:
    LossLog(tmp_path, 0).add(1, {"intent": 0.5})
    LossLog(tmp_path, 0)
    assert (tmp_path / FILE).read_text() == ""
