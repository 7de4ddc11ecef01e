"""Turn bad cases into a training set: cases, near neighbours and stratified replay, split by route."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from data_engine.config import CurateConfig
from data_engine.descriptor import cosine, count, scenario
from data_engine.kinds import family
from data_engine.pool import LabelCheck, Pool, Step, by_similarity, label_passes, moments, stratified, take
from data_engine.rules import VIOLATION_EVENTS
from data_engine.store import DriveRef, route_name
from drive.contracts import F64, BadCase, DriveLog, Manifest, ManifestEntry
from drive.files import sha256_json

Reason = str
POISON = ("already in violation at t = 0", "label missing or fails the safety gates")
ALREADY_US = 1_000_000
SAME_PLACE_M = 5.0


@dataclass(frozen=True)
class Window:
    """The planning steps that belong to a bad case."""

    case_id: str
    kind: str
    log_id: str
    route: str
    plan_indices: tuple[int, ...]
    cluster: str = ""


@dataclass(frozen=True)
class Curated:
    """Result of curation.

    Attributes:
        manifest: What to train on; empty entries when there is nothing to do.
        trained, siblings: Windows trained on, and windows on held-out routes that measure whether cases are
            fixed.
        held_out_routes: Routes that the siblings lie on.
        dropped: Reason -> number of cases left out.
        poisoned: case_id -> why the case must never be trained on.
        clusters: Name -> (cases found, cases kept).
        before, after: Scenario -> share of the training weight, in the drives as recorded and in the
            manifest.
        counts: Reason of an entry -> number of entries.
        nothing: Why there is nothing to do; "" if there is something.
    """

    manifest: Manifest
    trained: tuple[Window, ...]
    siblings: tuple[Window, ...]
    held_out_routes: tuple[str, ...]
    dropped: Mapping[str, int]
    poisoned: Mapping[str, str]
    clusters: Mapping[str, tuple[int, int]]
    before: Mapping[str, float]
    after: Mapping[str, float]
    counts: Mapping[str, int]
    nothing: str


def held_out_routes(windows: Sequence[Window], share: float) -> set[str]:
    """Routes with cases that are kept apart to measure fixes: `share` of them, at least one of two or more.

    The choice depends on the route names only; whole routes are kept apart, never single moments of one.
    """
    routes = sorted({w.route for w in windows}, key=lambda r: hashlib.sha256(r.encode()).hexdigest())
    if len(routes) < 2 or share <= 0:
        return set()
    return set(routes[: min(len(routes) - 1, max(1, round(share * len(routes))))])


def curate(
    cases: Sequence[BadCase],
    tonight: Sequence[DriveRef],
    replay: Sequence[DriveRef],
    shown: Mapping[Step, float],
    faults: Sequence[Mapping[str, Any]],
    config: CurateConfig,
    *,
    held_out_towns: Sequence[str],
    needs_images: bool,
    parent_id: str | None,
    seed: int,
) -> Curated:
    """Select, deduplicate and mix; deterministic for its arguments.

    Args:
        cases: Mined cases of tonight's drives.
        tonight: Drives of tonight, demonstrations included.
        replay: Older drives.
        shown: Moments of demonstrations that the champion would do otherwise -> how far off [m]: trained on
            with that weight, every failed route (with its variations) alike. The rest may be replayed.
        faults: Recording faults found while mining {log_id, start_us, end_us, level, ...}: never trained on.
        config: Shares and limits.
        held_out_towns: Never trained on.
        needs_images: The planner cannot be trained on drives without images.
        parent_id: Manifest that the champion was trained with.
        seed: Of the replay draw.
    """
    drives = {ref.meta.log_id: ref for ref in (*replay, *tonight)}
    windows, sorted_out = _windows(cases, drives, config, held_out_towns, needs_images)
    held = held_out_routes(windows, config.sibling_share)
    trained = tuple(w for w in windows if w.route not in held)
    siblings = tuple(w for w in windows if w.route in held)
    usable = [
        ref
        for _, ref in sorted(drives.items())
        if ref.route not in held and not _untrainable(ref, held_out_towns, needs_images)
    ]
    pool = _pool(usable, [_start(ref.read()) for ref in tonight if ref.route in held], faults)
    trained = tuple(w for w in trained if any((w.log_id, i) in pool.index for i in w.plan_indices))
    nothing = _nothing(cases, trained, config)
    entries = () if nothing else _entries(trained, pool, usable, shown, config, seed)
    nothing = nothing or ("" if entries else "no planning step may be trained on")
    rows = [[e.log_id, e.plan_index, e.weight, e.reason] for e in entries]
    manifest = Manifest(sha256_json(rows)[:12], parent_id, entries)
    names = [pool.scenarios[pool.index[e.log_id, e.plan_index]] for e in entries]
    return Curated(
        manifest=manifest,
        trained=trained,
        siblings=siblings,
        held_out_routes=tuple(sorted(held)),
        dropped=dict(sorted(sorted_out.dropped.items())),
        poisoned=dict(sorted(sorted_out.poisoned.items())),
        clusters=sorted_out.clusters,
        before=count(pool.scenarios, [1.0] * len(pool.scenarios)),
        after=count(names, [e.weight for e in entries]),
        counts=dict(sorted(Counter(e.reason for e in entries).items())),
        nothing=nothing,
    )


def _pool(
    refs: Sequence[DriveRef], held: Sequence[tuple[str, F64]], faults: Sequence[Mapping[str, Any]]
) -> Pool:
    """Steps of the drives that do not start where a route begins that is kept apart."""
    pool = Pool()
    for ref in refs:
        log = ref.read()
        if not _same_place(_start(log), held):
            pool.add(log, [f for f in faults if f["log_id"] == ref.meta.log_id])
    return pool


def _start(log: DriveLog) -> tuple[str, F64]:
    """Town of a drive, and where it starts [m]: float64 (2,), NaN for a drive without a row."""
    pose = log.ego.pose_world
    return log.meta.town, pose[0, :2] if len(pose) else np.full(2, np.nan)


def _same_place(start: tuple[str, F64], held: Sequence[tuple[str, F64]]) -> bool:
    """Does a drive start where a route begins that is kept apart?  Variations and older nights may."""
    town, at = start
    return any(town == other and math.dist(at, there) < SAME_PLACE_M for other, there in held)


def _nothing(cases: Sequence[BadCase], trained: Sequence[Window], config: CurateConfig) -> str:
    if len(trained) >= config.min_cases:
        return ""
    return (
        f"{len(trained)} usable bad cases on routes that may be trained on, fewer than curate.min_cases = "
        f"{config.min_cases} ({len(cases)} were mined)"
    )


def _untrainable(ref: DriveRef, held_out_towns: Sequence[str], needs_images: bool) -> str:
    """Why a drive cannot be trained on; "" if it can."""
    if ref.meta.town in held_out_towns:
        return "held-out town"
    if needs_images and ref.meta.image_kind == "none":
        return "drive has no images for a camera planner"
    return ""


@dataclass
class _SortedOut:
    """What became of the cases that are not used."""

    dropped: Counter[str] = field(default_factory=Counter)
    poisoned: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, tuple[int, int]] = field(default_factory=dict)


def _windows(
    cases: Sequence[BadCase],
    drives: Mapping[str, DriveRef],
    config: CurateConfig,
    held_out_towns: Sequence[str],
    needs_images: bool,
) -> tuple[list[Window], _SortedOut]:
    """Windows of the cases that survive hygiene, deduplication and the caps, worst first."""
    out = _SortedOut()
    dropped = out.dropped
    clean: list[tuple[BadCase, Window]] = []
    for log_id in sorted({c.log_id for c in cases}):
        ref = drives[log_id]
        own = [c for c in cases if c.log_id == log_id]
        why = _untrainable(ref, held_out_towns, needs_images)
        if why:
            dropped[why] += len(own)
            continue
        log = ref.read()
        for case in own:
            window, why = _window(case, log, config)
            if window is None:
                dropped[why] += 1
                if why in POISON:
                    out.poisoned[case.case_id] = why
            else:
                clean.append((case, window))
    clean.sort(key=lambda pair: (-pair[0].severity, pair[0].case_id))
    kept = _deduplicate(_clustered(clean, config), config, out)
    return [window for _, window in kept], out


def _clustered(clean: Sequence[tuple[BadCase, Window]], config: CurateConfig) -> list[tuple[BadCase, Window]]:
    """The same with each window's cluster: that of the worst case of its kind that it is similar to.

    A cluster is named after its kind, the scenario of its worst case, and a number where that is not enough.
    """
    leaders: list[tuple[BadCase, str]] = []
    out = []
    for case, window in clean:  # worst first
        alike = [
            (float(cosine([case.embedding], [leader.embedding])[0, 0]), name)
            for leader, name in leaders
            if leader.kind == case.kind and case.embedding and leader.embedding
        ]
        best, name = max(alike, default=(-1.0, ""))
        if not alike or best <= config.cluster_cosine:
            name = f"{case.kind}: {window.cluster or 'no plan'}"
            same = sum(other == name or other.startswith(f"{name} #") for _, other in leaders)
            name = f"{name} #{same + 1}" if same else name
            leaders.append((case, name))
        out.append((case, replace(window, cluster=name)))
    return out


def _window(case: BadCase, log: DriveLog, config: CurateConfig) -> tuple[Window | None, Reason]:
    t_us = log.ego.t_us[log.plans.step]
    start, end = case.start_us - config.before_s * 1e6, case.end_us + config.after_s * 1e6
    contact = min((e.t_us for e in log.events if e.kind.startswith("collision")), default=np.inf)
    inside = np.flatnonzero((t_us >= start) & (t_us <= end) & ((t_us <= contact) | (start >= contact)))
    if not len(inside):
        return None, "no planning step in the window"
    if _already_violating(log, int(t_us[inside[0]])):
        return None, "already in violation at t = 0"
    inside = inside[moments(log)[inside]]
    if not len(inside):
        return None, "only moments like others"
    good = tuple(int(i) for i in inside if label_passes(log, int(i)))
    if len(good) * 2 < len(inside):
        return None, "label missing or fails the safety gates"
    name = scenario(log)[int(inside[0])]
    return Window(case.case_id, case.kind, case.log_id, route_name(log.meta), good, name), ""


def _already_violating(log: DriveLog, t_us: int) -> bool:
    """Had the drive collided, or was it in another violation, when the window begins?"""
    before = [e for e in log.events if e.t_us <= t_us and e.kind.startswith(VIOLATION_EVENTS)]
    return any(e.kind.startswith("collision") or t_us - e.t_us <= ALREADY_US for e in before)


def _deduplicate(
    clean: Sequence[tuple[BadCase, Window]], config: CurateConfig, out: _SortedOut
) -> list[tuple[BadCase, Window]]:
    """Cases that say something new, within the caps per kind and per cluster."""
    kept: list[tuple[BadCase, Window]] = []
    dropped = out.dropped
    found = Counter(window.cluster for _, window in clean)
    for case, window in clean:
        same_kind = [c for c, _ in kept if c.kind == case.kind]
        if len(same_kind) >= config.per_kind:
            dropped["more than curate.per_kind of its kind"] += 1
        elif (
            same_kind
            and cosine([case.embedding], [c.embedding for c in same_kind]).max() > config.same_cosine
        ):
            dropped["near-duplicate of a worse case"] += 1
        elif sum(w.cluster == window.cluster for _, w in kept) >= config.per_cluster:
            dropped["more than curate.per_cluster of its cluster"] += 1
        else:
            kept.append((case, window))
    used = Counter(window.cluster for _, window in kept)
    out.clusters = {name: (n, used[name]) for name, n in sorted(found.items(), key=lambda x: (-x[1], x[0]))}
    return kept


def _entries(
    trained: Sequence[Window],
    pool: Pool,
    refs: Sequence[DriveRef],
    shown: Mapping[Step, float],
    config: CurateConfig,
    seed: int,
) -> tuple[ManifestEntry, ...]:
    bad = sorted({(w.log_id, i) for w in trained for i in w.plan_indices} & pool.index.keys())
    taken = {pool.index[step] for step in bad}
    passes = LabelCheck({ref.meta.log_id: ref for ref in refs})
    demonstrated = [step for step in pool.steps if step in shown and passes(step)]
    taken |= {pool.index[step] for step in demonstrated}
    wanted = round(len(bad) * config.neighbours_per_step)
    neighbours = take(by_similarity(pool, taken), pool, taken, passes, wanted)
    replay = take(stratified(pool, seed), pool, taken, passes.well, config.replay_steps)
    groups: list[tuple[Any, list[Step], float]] = [
        ("bad_case", bad, config.bad_share),
        ("demonstration", demonstrated, config.demonstration_share),
        ("neighbour", neighbours, config.neighbour_share),
        ("replay", replay, config.replay_share),
    ]
    present = sum(share for _, steps, share in groups if steps)
    entries = []
    routes = {ref.meta.log_id: family(ref.meta.route) for ref in refs}
    for reason, steps, share in groups:
        weight = _by_family(steps, shown, routes) if reason == "demonstration" else [1.0] * len(steps)
        entries += [
            ManifestEntry(log_id, i, share / present * w / sum(weight), reason)
            for (log_id, i), w in zip(steps, weight, strict=True)
        ]
    return tuple(sorted(entries, key=lambda e: (e.log_id, e.plan_index)))


def _by_family(steps: Sequence[Step], shown: Mapping[Step, float], routes: Mapping[str, str]) -> list[float]:
    """Weights of demonstrated steps: by how far off the champion is, each failed route with the same sum.

    Otherwise the kind of route with the longest drives would be learned, not the one that is failed.
    """
    sums: dict[str, float] = defaultdict(float)
    for step in steps:
        sums[routes[step[0]]] += shown[step]
    return [shown[step] / sums[routes[step[0]]] for step in steps]
