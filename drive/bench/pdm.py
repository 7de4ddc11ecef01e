"""PDMS and EPDMS: proposals driven by a tracked bicycle for 4 s and judged; the scene does not react."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from drive.bench.pdm_comfort import alike, comfortable
from drive.bench.pdm_contacts import contacts
from drive.bench.pdm_scene import Areas, PdmScene, inside
from drive.contracts import DT_S, F64, Bool
from drive.geometry.boxes import centre_pose, corners
from drive.score.road import (
    AGAINST_FULL_M,
    AGAINST_HALF_M,
    AGAINST_S,
    OFF_CENTRE_S,
    along,
    crossed,
)
from drive.score.terms import PROGRESS_FLOOR_M
from drive.score.tracking import Driven, track

GATES_V1, GATES_V2 = ("nc", "dac"), ("nc", "dac", "ddc", "tlc")
FAR = 1e6  # metres, radians
EXCUSED = ("nc", "dac", "ddc", "tlc", "ttc", "ep", "lk")
WEIGHTS_V1 = {"ep": 5.0, "ttc": 5.0, "hc": 2.0}
WEIGHTS_V2 = {"ep": 5.0, "ttc": 5.0, "lk": 2.0, "hc": 2.0, "ec": 2.0}


@dataclass(frozen=True)
class PdmTerms:
    """One number in [0, 1] per proposal and term, float64 (P,).

    Attributes:
        nc: No at-fault collision; 1/2 if only a static thing is hit.
        dac: Drivable area compliance.
        ddc: Driving direction compliance: 1, 1/2, 0 below 2 m, below 6 m, more in 1 s outside the lanes that
            lead along the route, junctions excepted.
        tlc: Traffic light compliance.
        ttc: Time to collision, see `drive.bench.pdm_contacts`.
        ep: Ego progress along the route against the best product of progress and gates (or the human's).
        lk: Lane keeping: never more than 0.5 m off the route for 2 s, junctions not counted; without a route
            off every centre line.
        hc: History comfort: within nuPlan's bounds, see `drive.bench.pdm_comfort`.
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
    columns = driven.pose, driven.speed_mps, driven.accel_mps2, driven.yaw_rate_radps
    return [
        Driven(*(one[end - n : end] for one in columns)) for n, end in zip(counts, ends.tolist(), strict=True)
    ]


def drivable(proposals: F64) -> Bool:
    """Which proposals (P, T, 3) are finite, and not so far away that driving them overflows?  bool (P,)."""
    pose = np.asarray(proposals, np.float64)
    return np.asarray((np.abs(pose) < FAR).all((1, 2)))  # not so for NaN


def score_scenes(
    scenes: Sequence[PdmScene],
    proposals: Sequence[F64],
    previous: Sequence[Driven | None] | None = None,
    shift: int = 0,
    dt_s: float = DT_S,
) -> list[PdmTerms]:
    """Terms of proposals, scene by scene; those that are not `drivable` get 0 in every term.

    Args:
        scenes: Where.
        proposals: Per scene (P, T, 3) rear-axle poses in its ego frame, row i at (i + 1) * dt_s.
        previous: Per scene what the plan before looked like when driven (one row), or None.
        shift: Steps between the plan before and this one.
        dt_s: Step.
    """
    finite = [drivable(one) for one in proposals]
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
    """EPDMS's filter: a term of EXCUSED in which the recorded driver (one row) gets 0 too is 1 for everybody.

    NAVSIM's code scores the recorded driver without a past and without a plan before, so comfort (HC, EC) is
    never excused there; its published scores come from that.
    """
    return replace(terms, **{name: np.ones_like(getattr(terms, name)) for name in failed_too(human)})


def failed_too(human: PdmTerms) -> tuple[str, ...]:
    """Terms of EXCUSED in which the recorded driver (one row) gets 0."""
    return tuple(name for name in EXCUSED if float(getattr(human, name)[0]) == 0.0)


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
    pose = np.concatenate([np.zeros((len(driven.pose), 1, 3)), driven.pose], 1)  # from now on
    speed = np.concatenate([np.full((len(pose), 1), scene.speed_mps), driven.speed_mps], 1)
    nc, ttc = contacts(scene, pose, speed, dt_s)
    tlc = _lights(scene, driven)
    centre = centre_pose(pose, scene.ego_size.centre_from_axle_m)
    dac, ddc, lk = _on_map(scene, centre, dt_s)
    ends = along(centre[:, [0, -1], :2], scene.route)
    gained = np.maximum(ends[:, 1] - ends[:, 0], 0.0)
    gates = nc * dac * ddc * tlc * np.append(finite, np.ones(len(pose) - count))
    best = float((gained * gates).max())
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
        "ec": alike(scene, driven, previous, shift, dt_s),
        "progress_m": gained,
    }
    return PdmTerms(**{name: np.where(finite, value[:count], 0.0) for name, value in values.items()})


def _lights(scene: PdmScene, driven: Driven) -> F64:
    if not len(scene.red_line):
        return np.ones(len(driven.pose))
    return 1.0 - crossed(driven.pose[:, : max(1, scene.red_steps)], scene.ego_size, scene.red_line)[:, -1]


def _on_map(scene: PdmScene, centre: F64, dt_s: float) -> tuple[F64, F64, F64]:
    """DAC, DDC and LK (P,) of box centres (P, T + 1, 3); 1 where no map is known."""
    ones = np.ones(len(centre))
    areas = scene.areas
    if areas is None:
        return ones, ones, ones
    box = corners(centre, [scene.ego_size.length_m, scene.ego_size.width_m])
    dac = inside(areas.drivable, box).all((1, 2)).astype(np.float64)
    place = centre[..., :2]
    crossing = inside(areas.junction, place)
    ddc = ones
    if areas.with_route is not None:
        wrong = ~inside(areas.with_route, place) & ~crossing
        moved = np.zeros(place.shape[:2])
        moved[:, 1:] = np.hypot(*np.diff(place, axis=1).transpose(2, 0, 1)) * wrong[:, 1:]
        worst = _window_sum(moved, round(AGAINST_S / dt_s) + 1).max(1)
        ddc = np.where(worst < AGAINST_HALF_M, 1.0, np.where(worst < AGAINST_FULL_M, 0.5, 0.0))
    if areas.middle.is_empty:
        return dac, ddc, ones
    return dac, ddc, 1.0 - _strays(areas, place, crossing, round(OFF_CENTRE_S / dt_s))


def _strays(areas: Areas, place: F64, crossing: Bool, limit: int) -> Bool:
    """Is anybody off the middle for `limit` steps on end, (P,)?  Steps in a junction are passed over."""
    some = slice(limit - 1, None, limit)  # so long a run has one of these steps
    out = (~inside(areas.middle, place[:, some]) | crossing[:, some]).any(1)
    rows = np.flatnonzero(out)
    if not len(rows):
        return np.asarray(out)
    off, passed = ~inside(areas.middle, place[rows]), crossing[rows]
    count = np.cumsum(off & ~passed, 1)
    before = np.maximum.accumulate(np.where(off | passed, 0, count), axis=1)
    out[rows] = (count - before).max(1) >= limit
    return np.asarray(out)


def _window_sum(values: F64, window: int) -> F64:
    total = np.cumsum(values, 1)
    total[:, window:] -= total[:, :-window].copy()
    return total
