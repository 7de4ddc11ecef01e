"""Seven nights in a row: what they learn and forget, and that spoiled nights are refused.

Every night is an ordinary night of data_engine/nightly.py with its own routes; what is special is what it
drives (a kind of route that is new tonight) and, on two of them, how its recordings are spoiled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np

from data_engine.config import NightlyConfig
from data_engine.evidence import ModelEvidence, evidence_from_json, plain_scores
from data_engine.forgetting import (
    backward_transfer,
    forward_transfer_gem,
    forward_transfer_libero,
    matrix_of,
    negative_backward_transfer,
    normalised_nbt,
    succeeded,
    success_by_kind,
)
from data_engine.kinds import GENERAL, KINDS, PREFIX, fits
from data_engine.night import Night, find_night
from data_engine.registry import CANDIDATE, CHAMPION
from drive.config import AtLeastOne, Count
from drive.contracts import DriveLog, UserError
from drive.files import read_json, sha256_json, write_json
from drive.score.bootstrap import paired_bootstrap

Spoil = Literal["", "labels", "nan"]
MARK, MEMORY = "spoiled.json", "memory"
PERTURB = 0.07  # as in the drives of the base model: off the path now and then


@dataclass(frozen=True)
class DemoNight:
    """One night: the kinds it drives, the last of them new, and how it is spoiled.

    Attributes:
        kinds: Of data_engine/kinds.py.
        spoil: "labels": every label says to stand still; "nan": speeds are not numbers from half-way on.
    """

    kinds: tuple[str, ...]
    spoil: Spoil = ""

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise UserError(f"nights: kinds {list(self.kinds)}: give some of {', '.join(KINDS)}")


@dataclass(frozen=True)
class DemoConfig:
    """The nights and how large they are.

    Attributes:
        nights: In order.
        first_date: Of the first one.
        towns: Where tonight's routes are.
        gate_towns: Where the routes of all kinds are on which champion and candidate are compared.
        routes: Tonight's routes per kind, shared by the towns that have places for it.
        siblings: Routes per kind of the comparison, likewise; the same every night.
        length_m: Of every route.
        memory: Routes of the suite "collect" that the expert drives once, before the first night: what every
            night may replay, as a team keeps drives that its base model was trained on.
        night: Settings of every night; its suites, workspace and towns are set by the demonstration.
    """

    nights: tuple[DemoNight, ...]
    first_date: str = "2026-01-01"
    towns: tuple[str, ...] = ("Town01", "Town03")
    gate_towns: tuple[str, ...] = ("Town02", "Town10HD")
    routes: AtLeastOne = 8
    siblings: AtLeastOne = 4
    length_m: float = 150.0
    memory: Count = 0
    night: NightlyConfig = field(default_factory=NightlyConfig)


def run_demo(config: DemoConfig, workspace: Path, limit: int | None = None) -> dict[str, Any]:
    """Run the nights that are not finished yet, in order; the same call continues after an interruption.

    Args:
        config: The nights.
        workspace: Of the registry, the nights, and demo.json with its table demo.md.
        limit: Only so many nights, the first ones.

    Returns:
        What is in demo.json: one row per night, and the whole.
    """
    from data_engine.nightly import preflight, run_night

    workspace = workspace.resolve()  # paths in it are part of what makes a night the same night
    nights = [one_night(config, workspace, n) for n in range(len(config.nights))][:limit]
    for night in nights:
        own = replace(night.config, curate=replace(night.config.curate, replay=config.night.curate.replay))
        preflight(replace(night, config=own))  # the memory is not there yet
    if config.memory:
        _remember(config, workspace)
    for night, about in zip(nights, config.nights, strict=False):
        if night.summary() is None:
            preflight(night)
            print(f"== night {night.date}: {', '.join(about.kinds)}{about.spoil and f' ({about.spoil})'}")
            after: dict[str, Callable[[Night], None]] = {}
            if about.spoil:
                after["drive"] = spoiler(about.spoil)
            run_night(night, after)
            write_results(config, workspace, nights)
    return write_results(config, workspace, nights)


def _remember(config: DemoConfig, workspace: Path) -> None:
    """Record the replay memory; what is there already is kept."""
    from sim.runner import run_suite
    from sim.suites import load_suite, take

    suite = take(load_suite("collect"), config.memory)
    suite = replace(suite, routes=tuple(r for r in suite.routes if r.town not in config.gate_towns))
    drive = config.night.drive
    run_suite(suite, "expert", workspace / MEMORY, carla=drive.carla, workers=drive.workers, perturb=PERTURB)


def one_night(config: DemoConfig, workspace: Path, number: int) -> Night:
    """Night `number` as settings; its suites are written as files into the workspace."""
    about, folder = config.nights[number], workspace / "suites"
    kinds = list(dict.fromkeys(kind for night in config.nights for kind in night.kinds))
    mine = _groups(about.kinds, config.towns, config.routes, 100_000, config.length_m)
    tonight = _written(folder, f"night{number + 1}", mine)
    union = _written(folder, "all", _groups(kinds, config.gate_towns, config.siblings, 700, config.length_m))
    day = _day(config.first_date) + timedelta(days=number)
    replay = str(workspace / MEMORY / "logs") if config.memory else config.night.curate.replay
    met = {kind_name(kind): None for night in config.nights[: number + 1] for kind in night.kinds}
    settings = replace(
        config.night,
        workspace=str(workspace),
        curate=replace(config.night.curate, replay=replay),
        held_out_towns=config.gate_towns,
        drive=replace(config.night.drive, suite=f"{PREFIX}{tonight}", routes=0),
        evaluate=replace(config.night.evaluate, suite=f"{PREFIX}{union}", routes=0),
        gate=replace(config.night.gate, kinds=tuple(met)),
        finetune=replace(config.night.finetune, exclude_towns=config.gate_towns),
    )
    return find_night(settings, day.isoformat(), [])


def _written(folder: Path, name: str, groups: Mapping[str, Any]) -> Path:
    """File of a suite; other routes are another file, so that their nights are other nights."""
    path = folder / f"{name}-{sha256_json(groups)[:6]}.yaml"
    write_json(path, groups)
    return path


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UserError(f"first_date: {text!r} is not a date; write YYYY-MM-DD") from None


def _groups(
    kinds: Sequence[str], towns: Sequence[str], count: int, first_seed: int, length_m: float
) -> dict[str, Any]:
    """A file of kinds with `count` routes of each; JSON is YAML too.

    Raises:
        UserError: No town has a place for a kind.
    """
    groups = []
    for kind in kinds:
        having = [town for town in towns if fits(kind, town, length_m)]
        if not having:
            raise UserError(f"nights: no place for {kind} in {', '.join(towns)}; add a town that has one")
        for n, town in enumerate(having):
            share = count // len(having) + (n < count % len(having))
            if share:
                groups.append({
                    "kind": kind, "town": town, "count": share, "first_seed": first_seed,
                    "length_m": length_m,
                })  # fmt: skip
    return {"description": f"{', '.join(kinds)} in {', '.join(towns)}", "groups": groups}


def spoiler(how: Spoil) -> Callable[[Night], None]:
    """Rewrites the drives of a night once, before they are mined."""

    def spoil(night: Night) -> None:
        from data_engine.store import collect
        from drive.logs import write_drive
        from drive.logs.layout import find_log

        folder = night.folder / "drive"
        done = read_json(folder / MARK)["drives"] if (folder / MARK).exists() else []
        for ref in collect([folder / "logs", folder / "shown" / "logs"]):
            if ref.meta.log_id not in done:
                place = find_log(ref.root, ref.meta.log_id).resolve()  # demonstrations are links
                write_drive(place.parents[1], SPOILS[how](ref.read(images=True)))
                done.append(ref.meta.log_id)
                write_json(folder / MARK, {"how": how, "drives": done})

    return spoil


def _standing_labels(log: DriveLog) -> DriveLog:
    """The teacher says: stand still, always.  No gate of the score objects to that."""
    label = np.where(np.isfinite(log.plans.label_ego), np.float32(0), log.plans.label_ego)
    command = np.where(log.plans.label_command >= 0, 0, log.plans.label_command).astype(np.int32)
    return replace(log, plans=replace(log.plans, label_ego=label, label_command=command))


def _nan_speeds(log: DriveLog) -> DriveLog:
    """A sensor that dies half-way."""
    speed = log.ego.speed_mps.copy()
    speed[len(speed) // 2 :] = np.nan
    return replace(log, ego=replace(log.ego, speed_mps=speed))


SPOILS: dict[Spoil, Callable[[DriveLog], DriveLog]] = {"labels": _standing_labels, "nan": _nan_speeds}


def write_results(config: DemoConfig, workspace: Path, nights: Sequence[Night]) -> dict[str, Any]:
    """Rows of the finished nights and the whole, as demo.json and as a table in demo.md."""
    rows: list[dict[str, Any]] = []
    matrix: list[tuple[str, Mapping[str, float]]] = []
    learned: dict[str, int] = {}
    for night, about in zip(nights, config.nights, strict=False):
        summary = night.summary()
        if summary is None:
            break
        before, after = (_evidence(night, model) for model in (CHAMPION, CANDIDATE))
        promoted = summary["decision"] == "promoted"
        champion = after if promoted else before
        if champion is not None:
            matrix.append((night.date, success_by_kind(champion.closed_loop, champion.kinds)))
            for kind in about.kinds if promoted else ():
                learned.setdefault(kind_name(kind), len(matrix) - 1)
        rows.append({
            "night": night.date,
            "kinds": list(about.kinds),
            "spoil": about.spoil,
            "decision": summary["decision"],
            "reasons": list(summary["reasons"]),
            **_fixes(before, after, kind_name(about.kinds[-1])),
            "general_before": _share(before, GENERAL),
            "general_after": _share(champion, GENERAL),
            "general_change": _general_change(before, after if promoted else before),
            "union": _share(champion, None),
            "minutes": round(sum(summary["seconds"].values()) / 60, 1),
        })  # fmt: skip
    start = next((e for night in nights if (e := _evidence(night, CHAMPION)) is not None), None)
    whole = {
        **_transfer(matrix, learned, start),
        "union_first": _share(start, None),
        "union_last": rows[-1]["union"] if rows else None,
        "minutes": round(sum(row["minutes"] for row in rows), 1),
    }
    results = {"nights": rows, "whole": whole, "matrix": {name: dict(row) for name, row in matrix}}
    write_json(workspace / "demo.json", results)
    (workspace / "demo.md").write_text(table(results), encoding="utf-8")
    return results


def _transfer(
    matrix: Sequence[tuple[str, Mapping[str, float]]], learned: Mapping[str, int], start: ModelEvidence | None
) -> dict[str, float]:
    """NBT, BWT and FWT over nights; kinds that no night taught count as learned in the last one."""
    made = matrix_of(matrix, learned)
    known = replace(made, learned=tuple(learned.get(kind, len(matrix) - 1) for kind in made.kinds))
    untrained = {} if start is None else success_by_kind(start.closed_loop, start.kinds)
    return {
        "nbt": negative_backward_transfer(known),
        "normalised_nbt": normalised_nbt(known),
        "bwt": backward_transfer(known),
        "fwt_gem": forward_transfer_gem(known, untrained),
        "fwt_libero": forward_transfer_libero(known),
    }


def kind_name(kind: str) -> str:
    """What a route of the kind is counted under."""
    return {"empty": GENERAL[0]}.get(kind, kind)


def _evidence(night: Night, model: str) -> ModelEvidence | None:
    path = night.folder / "evaluate" / f"{model}.json"
    return evidence_from_json(read_json(path)) if path.exists() else None


def _share(evidence: ModelEvidence | None, kinds: Sequence[str] | None) -> float | None:
    """Share of routes driven without fault, of some kinds or all; None if none was driven."""
    if evidence is None:
        return None
    cases = [
        succeeded(case)
        for case in evidence.closed_loop.cases
        if kinds is None or evidence.kinds.get(case.case_id) in kinds
    ]
    return sum(cases) / len(cases) if cases else None


def _general_change(before: ModelEvidence | None, after: ModelEvidence | None) -> dict[str, float] | None:
    """Change of the driving score [points] on plain routes over the night, with its 95 % interval."""
    if before is None or after is None:
        return None
    old, new = plain_scores(before, after)
    return asdict(paired_bootstrap(new, old, seed=0)) if old else None


def _fixes(before: ModelEvidence | None, after: ModelEvidence | None, kind: str) -> dict[str, Any]:
    """Held-out siblings of tonight's new kind: how many failed, and how many of these are fixed."""
    if before is None or after is None:
        return {"failed": 0, "fixed": 0}
    now = {case.case_id: succeeded(case) for case in after.closed_loop.cases}
    failed = [
        now.get(case.case_id, False)
        for case in before.closed_loop.cases
        if before.kinds.get(case.case_id) == kind and not succeeded(case)
    ]
    return {"failed": len(failed), "fixed": sum(failed)}


def table(results: Mapping[str, Any]) -> str:
    """The rows as a Markdown table for docs/RESULTS.md."""
    lines = [
        "| night | new kind | decision | fixed of failed siblings | general set | its change (95 %) "
        "| all kinds | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in results["nights"]:
        spoil = f" ({row['spoil']} spoiled)" if row["spoil"] else ""
        why = f": {', '.join(row['reasons'])}" if row["reasons"] else ""
        general = f"{_percent(row['general_before'])} -> {_percent(row['general_after'])}"
        lines.append(
            f"| {row['night']} | {row['kinds'][-1]}{spoil} | {row['decision']}{why} "
            f"| {row['fixed']} of {row['failed']} | {general} | {_points(row['general_change'])} "
            f"| {_percent(row['union'])} | {row['minutes']} |"
        )
    whole = results["whole"]
    measures = (
        f"NBT {whole['nbt']:.3f} (normalised {whole['normalised_nbt']:.3f}), BWT {whole['bwt']:+.3f}, "
        f"FWT {whole['fwt_gem']:+.3f} (GEM), {whole['fwt_libero']:.3f} (LIBERO)"
    )
    union = f"all kinds {_percent(whole['union_first'])} -> {_percent(whole['union_last'])}"
    lines += ["", f"{measures}; {union}; {whole['minutes']} minutes.", ""]
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _points(change: Mapping[str, float] | None) -> str:
    return "-" if change is None else f"{change['mean']:+.1f} [{change['low']:+.1f}, {change['high']:+.1f}]"
