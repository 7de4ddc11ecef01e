"""The questions of drive.train.questions put to the models of a comparison, and what they came to."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_engine.planner_config import PlannerEvalConfig, training
from data_engine.planner_jobs import Driver, Member, Validation, model_path
from drive.config import config_sha
from drive.contracts import UserError
from drive.files import read_json, sha256_json, write_json
from drive.score.bootstrap import crossed_interval

if TYPE_CHECKING:
    from drive.data.bundle import DriveSource

SHARES = (
    "agrees", "obeys", "wrong_safe", "wrong_flagged", "safe", "modes", "covered", "no_way_out",
)  # fmt: skip
BY_WORD = ("agrees", "obeys", "wrong_safe", "wrong_flagged")
BY_COUNT = ("ade_m", "best_ade_m", "reward", "reflected")
Answers = dict[str, dict[str, list[float]]]  # route -> question -> [sum, number of answers]


def answers_path(out: Path, member: Member) -> Path:
    """What one model has answered."""
    return out / "questions" / member.path.parent / f"{member.path.name}.json"


def model_of(config: PlannerEvalConfig, member: Member, driver: Driver | None) -> Path | None:
    """Model folder to ask; None if it has none, or may have been trained on the drives in question."""
    if not config.scene_count:
        return None
    if driver is None:
        return model_path(config.out, member)
    folder = getattr(driver, "folder", None)
    return Path(folder) if folder is not None and config.scenes else None


def check_scenes(config: PlannerEvalConfig) -> list["DriveSource"]:
    """Drives of `scenes` in held-out towns.

    Raises:
        UserError: A root that is missing, without drives with images, or without one in a held-out town.
    """
    from drive.data.bundle import find_drives
    from drive.logs.reader import read_meta

    for root in config.scenes:
        if not root.is_dir():
            raise UserError(f"scenes: {root}: no such log folder; record drives first")
    if not config.scenes:
        return []
    found = find_drives(config.scenes)
    towns = {drive.log_id: read_meta(drive.folder).town for drive in found}
    held = [drive for drive in found if towns[drive.log_id] in config.train.exclude_towns]
    if not held:
        raise UserError(
            f"scenes: {', '.join(map(str, config.scenes))}: only drives in "
            f"{', '.join(sorted(set(towns.values())))}, where training may be; "
            f"record some in {', '.join(config.train.exclude_towns)}"
        )
    return held


def question_member(config: PlannerEvalConfig, member: Member, folder: Path, validation: Validation) -> None:
    """Ask one model about `scene_count` planning steps and write the answers as sums per route."""
    from drive.logs import read_drive
    from drive.model import load_policy
    from drive.model.folder import read_config, read_meta
    from drive.model.policy import PlannerPolicy
    from drive.progress import track
    from drive.train.questions import ask, situations, usable_steps

    drives = _drives(config, member, validation)
    asked = sha256_json(
        [read_meta(folder).model_id, config_sha(read_config(folder)), config.scene_count]
        + [[drive.log_id, drive.group] for drive in drives]
    )[:16]
    path = answers_path(config.out, member)
    if path.exists() and read_json(path).get("asked") == asked:
        return
    policy = load_policy(folder)
    assert isinstance(policy, PlannerPolicy)
    routes: Answers = {}
    quota = _spread(config.scene_count, len(drives))
    for drive, count in track(list(zip(drives, quota, strict=True)), "ask", len(drives)):
        if not count:
            continue
        log = read_drive(drive.folder.parents[1], drive.log_id, images=policy.needs_images)
        steps = usable_steps(log)
        mine = routes.setdefault(drive.group, {})
        for at in situations(log, steps[_spaced(len(steps), count)]):
            for name, (total, number) in ask(policy, at).items():
                have = mine.setdefault(name, [0.0, 0])
                have[0], have[1] = have[0] + total, have[1] + number
    write_json(path, {"name": member.name, "seed": member.seed, "asked": asked, "routes": routes})


def _drives(config: PlannerEvalConfig, member: Member, validation: Validation) -> list["DriveSource"]:
    if config.scenes:
        return check_scenes(config)
    assert member.seed is not None
    wanted = training(config, member.name, member.seed)
    bundle = validation.bundle(wanted)
    return [bundle.drives[row] for row in np.unique(bundle.samples.drive[validation.rows(wanted)])]


def _spread(total: int, parts: int) -> list[int]:
    """`total` shared out over `parts`, as even as can be and spread over all of them."""
    edges = [total * n // parts for n in range(parts + 1)] if parts else [0]
    return [b - a for a, b in pairwise(edges)]


def _spaced(have: int, count: int) -> Any:
    """`count` of `have` rows, evenly spaced, each once."""
    return np.unique(np.linspace(0, have - 1, min(have, count)).round().astype(np.int64))


def question_row(config: PlannerEvalConfig, name: str, asked: Sequence[Member]) -> dict[str, Any] | None:
    """Shares of one model over its training seeds, or None if it was asked nothing."""
    paths = [answers_path(config.out, member) for member in asked]
    read: list[Answers] = [read_json(path)["routes"] for path in paths if path.exists()]
    if not any(read):
        return None

    def share(question: str) -> dict[str, float] | None:
        return _interval(read, question, config.bootstrap)

    every = sorted({question for one in read for route in one.values() for question in route})
    words = sorted({q.partition("/")[2] for q in every if q.partition("/")[0] in BY_WORD} - {""})
    counts = sorted({int(q.partition("/")[2]) for q in every if q.partition("/")[0] in BY_COUNT})
    return {
        "model": name,
        "routes": sum(len(one) for one in read),
        "scenes": int(sum(route.get("no_way_out", [0, 0])[1] for one in read for route in one.values())),
        **{question: share(question) for question in SHARES},
        "words": [{"word": word, **{q: share(f"{q}/{word}") for q in BY_WORD}} for word in words],
        "proposals": [{"count": n, **{q: share(f"{q}/{n}") for q in BY_COUNT}} for n in counts],
    }


def _interval(read: Sequence[Answers], question: str, bootstrap: int) -> dict[str, float] | None:
    """Mean, 95 % interval by resampling seeds and routes, and number of answers n."""
    routes = sorted({route for one in read for route in one})
    cells = np.array([[one.get(r, {}).get(question, [0.0, 0]) for r in routes] for one in read])
    number = int(cells[..., 1].sum())
    if not number:
        return None
    return asdict(crossed_interval(cells[..., 0], cells[..., 1], 0, bootstrap)) | {"n": number}
