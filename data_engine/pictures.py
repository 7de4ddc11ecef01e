"""Evidence of bad cases: the moment from above, as a file beside the cases of a night."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from data_engine.config import ReportConfig
from data_engine.store import DriveRef
from drive.contracts import BadCase, DriveLog
from drive.files import write_atomic
from drive.progress import Progress
from drive.viz.bev import draw_bev

FOLDER = "pictures"


def pick_cases(cases: Iterable[BadCase], config: ReportConfig, use: Mapping[str, str]) -> list[BadCase]:
    """Cases to show: the worst of every source and kind, used ones and different drives first.

    Args:
        cases: Mined cases.
        config: How many.
        use: case_id -> what it was used for; empty where that is not known yet.
    """
    groups: dict[tuple[str, str], list[BadCase]] = {}
    for case in sorted(cases, key=lambda c: (c.case_id not in use, -c.severity, c.case_id)):
        groups.setdefault((case.source, case.kind), []).append(case)
    chosen: list[BadCase] = []
    for key in sorted(groups):
        fresh: list[BadCase] = []
        for case in groups[key]:
            if all(case.log_id != other.log_id for other in fresh):
                fresh.append(case)
        rest = [case for case in groups[key] if case not in fresh]
        chosen += [*fresh, *rest][: config.pictures_per_kind]
    rank = {case.case_id: n for n, case in enumerate(chosen)}
    worst = sorted(chosen, key=lambda c: (-c.severity, c.case_id))[: config.pictures]
    return sorted(worst, key=lambda c: rank[c.case_id])


def with_pictures(
    cases: Sequence[BadCase], drives: Mapping[str, DriveRef], config: ReportConfig, folder: Path
) -> list[BadCase]:
    """Draw the worst cases of every kind into `folder`/pictures; the same cases, which now name their files.

    Args:
        cases: Mined cases.
        drives: log_id -> drive.
        config: How many pictures.
        folder: Of the stage that mined them.
    """
    chosen = {case.case_id: case for case in pick_cases(cases, config, {})}
    drawn = {case_id: f"{FOLDER}/{case_id}.png" for case_id in chosen}
    with Progress("pictures", len(chosen), "cases") as bar:
        for log_id in sorted({case.log_id for case in chosen.values()}):
            log = drives[log_id].read()
            for case in (c for c in chosen.values() if c.log_id == log_id):
                write_atomic(folder / drawn[case.case_id], draw_bev(log, moment_us(case)))
                bar.advance(1, case.kind)
    return [replace(c, pictures=(drawn[c.case_id],)) if c.case_id in drawn else c for c in cases]


def seen_from_above(case: BadCase, log: DriveLog, folder: Path) -> bytes:
    """PNG of a case: the file that mining left in `folder`, or drawn now."""
    known = [folder / name for name in case.pictures if (folder / name).is_file()]
    return known[0].read_bytes() if known else draw_bev(log, moment_us(case))


def moment_us(case: BadCase) -> int:
    """When a case is best looked at: as it begins, or in the middle of a stand."""
    return (case.start_us + case.end_us) // 2 if case.kind == "stuck" else case.start_us
