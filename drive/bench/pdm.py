"""PDMS and EPDMS: proposals driven by a tracked bicycle for 4 s and judged; the scene does not react."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import shapely

from drive.bench.pdm_scene import PdmScene
from drive.contracts import DT_S, F64, Bool
from drive.geometry.boxes import centre_pose, corners
from drive.score import motion
from drive.score.collision import STOPPED_MPS, at_fault, collisions
from drive.score.road import (
    AGAINST_FULL_M,
    AGAINST_HALF_M,
    AGAINST_S,
    OFF_CENTRE_M,
    OFF_CENTRE_S,
    along,
    crossed,
)
from drive.score.terms import PROGRESS_FLOOR_M, TTC_S
from drive.score.tracking import Driven, track

EC_LIMITS = {"accel_mps2": 0.7, "jerk_mps3": 0.5, "yaw_rate_radps": 0.1, "yaw_accel_radps2": 0.1}
GATES_V1, GATES_V2 = ("nc", "dac"), ("nc", "dac", "ddc", "tlc")
WEIGHTS_V1 = {"ep": 5.0, "ttc": 5.0, "hc": 2.0}
WEIGHTS_V2 = {"ep": 5.0, "ttc": 5.0, "lk": 2.0, "hc": 2.0, "ec": 2.0}


@dataclass(frozen=True)
class PdmTerms:
    """One number in [0, 1] per proposal and term, float64 (P,).

    Attributes:
        nc: No at-fault collision; 1/2 if only a static thing is hit.
        dac: Drivable area compliance.
        ddc: Driving direction compliance: 1, 1/2, 0 below 2 m, below 6 m, more against the lane in 1 s.
        tlc: Traffic light compliance.
        ttc: Time to collision: never an at-fault contact within 1 s of going on as now.
        ep: Ego progress along the route against the best proposal that passes the gates (or the human).
        lk: Lane keeping: never more than 0.5 m off a centre line for 2 s, junctions excepted.
        hc: History comfort: within nuPlan's bounds.
        ec: Extended comfort against the plan before; NaN where there is none.
        progress_m: Progress [m] behind `ep`.
    """

    nc: F64
    dac: F64
    ddc: F64
    tlc: F64
    ttc: F64
    ep: F64
    lk: F64
    hc: F64
    ec: F64
    progress_m: F64


def drive_proposals(scenes: Sequence[PdmScene], proposals: Sequence[F64], dt_s: float = DT_S) -> list[Driven]:
    """Drive the proposals (P, T, 3) of all scenes in one go."""
    counts = [len(one) for one in proposals]
    facts = {
        name: np.repeat([float(getattr(scene, name)) for scene in scenes], counts)
        for name in ("speed_mps", "accel_mps2", "yaw_rate_radps", "wheelbase_m")
    }
    driven = track(np.concatenate(list(proposals)).astype(np.float64), dt_s=dt_s, **facts)
    ends = np.cumsum(counts)
    return [
        Driven(*(getattr(driven, f.name)[end - n : end] for f in fields(Driven)))
        for n, end in zip(counts, ends, strict=True)
    ]


def score_scenes(
    scenes: Sequence[PdmScene],
    proposals: Sequence[F64],
    previous: Sequence[Driven | None] | None = None,
    shift: int = 0,
    dt_s: float = DT_S,
) -> list[PdmTerms]:
    """Terms of proposals, scene by scene; proposals that are not finite get 0 in every term.

    Args:
        scenes: Where.
        proposals: Per scene (P, T, 3) rear-axle poses in its ego frame, row i at (i + 1) * dt_s.
        previous: Per scene what the plan before looked like when driven (one row), or None.
        shift: Steps between the plan before and this one.
        dt_s: Step.
    """
    finite = [np.isfinite(np.asarray(one)).all((1, 2)) for one in proposals]
    given = [np.where(ok[:, None, None], one, 0.0) for ok, one in zip(finite, proposals, strict=True)]
    with_human = [
        one if scene.human is None else np.concatenate([one, scene.human[None]])
        for scene, one in zip(scenes, given, strict=True)
    ]
    driven = drive_proposals(scenes, with_human, dt_s)
    before = previous or [None] * len(scenes)
    return [
        _terms(scene, one, ok, last, shift, dt_s)
        for scene, one, ok, last in zip(scenes, driven, finite, before, strict=True)
    ]


def pdms(terms: PdmTerms) -> F64:
    """NAVSIM v1: NC x DAC x (5 TTC + 5 EP + 2 C) / 12, float64 (P,)."""
    return _total(terms, GATES_V1, WEIGHTS_V1)


def epdms(terms: PdmTerms) -> F64:
    """NAVSIM v2: NC x DAC x DDC x TLC x (5 EP + 5 TTC + 2 LK + 2 HC + 2 EC) / 16; without EC over 14."""
    return _total(terms, GATES_V2, WEIGHTS_V2)


def excuse(terms: PdmTerms, human: PdmTerms) -> PdmTerms:
    """EPDMS's filter: a term in which the recorded driver (one row) gets 0 too is 1 for everybody."""
    out = {}
    for field in fields(PdmTerms):
        value = getattr(terms, field.name)
        fails = field.name != "progress_m" and float(getattr(human, field.name)[0]) == 0.0
        out[field.name] = np.ones_like(value) if fails else value
    return PdmTerms(**out)


def _total(terms: PdmTerms, gates: Sequence[str], weights: dict[str, float]) -> F64:
    gate = np.prod([getattr(terms, name) for name in gates], axis=0)
    values = np.stack([getattr(terms, name) for name in weights])
    known = np.isfinite(values)
    share = np.array(list(weights.values()))[:, None] * known
    return np.asarray(gate * (np.where(known, values, 0.0) * share).sum(0) / share.sum(0))


def _terms(
    scene: PdmScene, driven: Driven, finite: Bool, previous: Driven | None, shift: int, dt_s: float
) -> PdmTerms:
    count = len(finite)
    pose, speed = driven.pose, driven.speed_mps
    nc, ttc = _contacts(scene, pose, speed, dt_s)
    tlc = 1.0 - crossed(pose[:, : max(1, scene.red_steps)], scene.ego_size, scene.red_line)[:, -1]
    dac, ddc, lk = _on_map(scene, pose, dt_s)
    gained = np.maximum(along(pose[:, -1, :2], scene.route), 0.0)
    limit = scene.speed_limit_mps * dt_s * pose.shape[1]
    gained = np.minimum(gained, limit)
    passes = (nc * dac * ddc * tlc > 0) & np.append(finite, np.ones(len(pose) - count, bool))
    best = float(gained[passes].max()) if passes.any() else 0.0
    ep = np.clip(gained / best, 0.0, 1.0) if best > PROGRESS_FLOOR_M else np.ones(len(pose))
    values = {
        "nc": nc,
        "dac": dac,
        "ddc": ddc,
        "tlc": tlc,
        "ttc": ttc,
        "ep": ep,
        "lk": lk,
        "hc": comfortable(scene, driven, dt_s).astype(np.float64),
        "ec": _extended_comfort(driven, previous, shift, dt_s),
        "progress_m": gained,
    }
    return PdmTerms(**{name: np.where(finite, value[:count], 0.0) for name, value in values.items()})


def _contacts(scene: PdmScene, pose: F64, speed: F64, dt_s: float) -> tuple[F64, F64]:
    """NC and TTC (P,): now and 0.3, 0.6, 0.9 s on; beyond the record agents keep their velocity."""
    count, steps = pose.shape[:2]
    if not len(scene.agent_pose):
        return np.ones(count), np.ones(count)
    egos, agents, valid = [pose], [scene.agent_pose], [scene.agent_valid]
    heading = np.stack([np.cos(pose[..., 2]), np.sin(pose[..., 2])], -1)
    for ahead_s in TTC_S:
        ego = pose.copy()
        ego[..., :2] += (speed * ahead_s)[..., None] * heading
        egos.append(ego)
        later, there = _later(scene, round(ahead_s / dt_s))
        agents.append(later)
        valid.append(there)
    hit = collisions(
        np.concatenate(egos, 1), np.concatenate(agents, 1), scene.agent_size_m, np.concatenate(valid, 1),
        scene.ego_size,
    )  # fmt: skip
    now = at_fault(hit[..., :steps], pose, speed, scene.agent_pose, scene.ego_size).any(-1)
    hard = (now & ~scene.static).any(1)
    nc = np.where(hard, 0.0, np.where(now.any(1), 0.5, 1.0))
    soon = np.zeros(count, bool)
    met = np.logical_or.accumulate(hit[..., :steps], -1)  # once touched, the replayed agent drives through us
    for k in range(1, len(egos)):
        contact = hit[..., k * steps : (k + 1) * steps]
        p, a, t = np.nonzero(contact & ~met)
        gap = agents[k][a, t, :2] - egos[k][p, t, :2]
        bad = ((gap * heading[p, t]).sum(-1) > 0.0) & (speed[p, t] > STOPPED_MPS)
        soon[p[bad]] = True
        met = met | contact
    return nc, 1.0 - soon


def _later(scene: PdmScene, k: int) -> tuple[F64, Bool]:
    pose, valid = scene.agent_pose, scene.agent_valid
    steps = pose.shape[1]
    index = np.minimum(np.arange(steps) + k, steps - 1)
    beyond = (np.arange(steps) + k - index)[None, :, None]
    step = np.where((valid[:, -1] & valid[:, -2])[:, None, None], pose[:, -1:] - pose[:, -2:-1], 0.0)
    step[..., 2] = 0.0
    return pose[:, index] + beyond * step, valid[:, index]


def _on_map(scene: PdmScene, pose: F64, dt_s: float) -> tuple[F64, F64, F64]:
    """DAC, DDC and LK (P,); 1 where no map is known."""
    ones = np.ones(len(pose))
    areas = scene.areas
    if areas is None:
        return ones, ones, ones
    size = scene.ego_size
    centre = centre_pose(pose, size.centre_from_axle_m)
    box = corners(centre, [size.length_m, size.width_m])
    dac = shapely.contains_xy(areas.drivable, box[..., 0], box[..., 1]).all((1, 2)).astype(np.float64)
    ddc = ones
    if areas.against is not None and not areas.against.is_empty:
        wrong = shapely.contains_xy(areas.against, centre[..., 0], centre[..., 1])
        step = np.diff(pose[..., :2], axis=1, prepend=0.0)
        worst = _window_sum(np.hypot(step[..., 0], step[..., 1]) * wrong, round(AGAINST_S / dt_s)).max(1)
        ddc = np.where(worst < AGAINST_HALF_M, 1.0, np.where(worst < AGAINST_FULL_M, 0.5, 0.0))
    if areas.centre.is_empty:
        return dac, ddc, ones
    points = shapely.points(pose[..., 0], pose[..., 1])
    fine = shapely.dwithin(areas.centre, points, OFF_CENTRE_M)
    fine |= shapely.contains_xy(areas.junction, pose[..., 0], pose[..., 1])
    window = round(OFF_CENTRE_S / dt_s)
    lk = 1.0 - (_window_sum((~fine).astype(np.float64), window) >= window - 0.5).any(1)
    return dac, ddc, lk


def comfortable(scene: PdmScene, driven: Driven, dt_s: float) -> Bool:
    """Is every step within nuPlan's bounds?  bool (P,); the state of now is the step before the first."""
    lon, lat, lon_jerk, lat_jerk, rate, yaw_accel = _motions(scene, driven, dt_s)
    good = (lon >= motion.LON_ACCEL_MPS2[0]) & (lon <= motion.LON_ACCEL_MPS2[1])
    good &= np.abs(lat) <= motion.LAT_ACCEL_MPS2
    good &= np.hypot(lon_jerk, lat_jerk) <= motion.JERK_MPS3
    good &= np.abs(lon_jerk) <= motion.LON_JERK_MPS3
    good &= (np.abs(yaw_accel) <= motion.YAW_ACCEL_RADPS2) & (np.abs(rate) <= motion.YAW_RATE_RADPS)
    return np.asarray(good.all(1))


def _motions(scene: PdmScene, driven: Driven, dt_s: float) -> tuple[F64, F64, F64, F64, F64, F64]:
    count = len(driven.pose)
    first = np.full((count, 1), scene.accel_mps2), np.full((count, 1), scene.yaw_rate_radps)
    accel = np.concatenate([first[0], driven.accel_mps2], 1)
    rate = np.concatenate([first[1], driven.yaw_rate_radps], 1)
    speed = np.concatenate([np.full((count, 1), scene.speed_mps), driven.speed_mps], 1)
    side = speed * rate
    smooth = motion.smooth
    return (
        smooth(accel, 0, dt_s), smooth(side, 0, dt_s), smooth(accel, 1, dt_s), smooth(side, 1, dt_s),
        smooth(rate, 0, dt_s), smooth(rate, 1, dt_s),
    )  # fmt: skip


def _extended_comfort(driven: Driven, previous: Driven | None, shift: int, dt_s: float) -> F64:
    """1 if driven like the plan before where both overlap: root mean square differences within EC_LIMITS."""
    count, steps = driven.speed_mps.shape
    if previous is None or shift >= steps:
        return np.full(count, np.nan)
    good = np.ones(count, bool)
    for name, derived in (("accel_mps2", "jerk_mps3"), ("yaw_rate_radps", "yaw_accel_radps2")):
        new, old = getattr(driven, name), getattr(previous, name)
        for limit, order in ((EC_LIMITS[name], 0), (EC_LIMITS[derived], 1)):
            here = motion.smooth(new, order, dt_s)[:, : steps - shift]
            there = motion.smooth(old, order, dt_s)[:, shift:]
            good &= np.sqrt(((here - there) ** 2).mean(1)) <= limit
    return good.astype(np.float64)


def _window_sum(values: F64, window: int) -> F64:
    total = np.cumsum(values, 1)
    total[:, window:] -= total[:, :-window].copy()
    return total
