"""Per-sample columns, and the rows, intervals and groups that are computed from them alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drive.bench.batch import CaseBatch, box_hits
from drive.bench.cases import Case
from drive.bench.inputs import oracle_route
from drive.bench.occupancy import FAMILIES, grid_hits
from drive.bench.off_road import DrivableArea
from drive.bench.report import GroupRow, PolicyRow, SampleColumns
from drive.contracts import F64, Bool, Turn
from drive.score.bootstrap import Interval, crossed_interval
from drive.score.openloop import (
    FAILED_L2_M,
    HORIZONS_S,
    KEY_DT_S,
    HorizonValues,
    by_horizon,
    displacement,
    strict,
)

SEED, RESAMPLES = 0, 2000


@dataclass(frozen=True)
class Truths:
    """Everything about the samples that does not depend on a policy.

    Attributes:
        tokens, scenes, commands: Per sample; the command is derived from the recorded future.
        hit: bool (B, 6), steps in which the recorded ego itself overlaps a box.
        grid_hit: The same by family of published metrics; empty if families are not asked for.
        area: Drivable area, if leaving it is counted.
        left: bool (B, 6), steps in which the recorded ego itself leaves it; None if it is not counted.
    """

    tokens: tuple[str, ...]
    scenes: tuple[str, ...]
    commands: tuple[str, ...]
    batch: CaseBatch
    hit: Bool
    grid_hit: Mapping[str, Bool]
    area: DrivableArea | None = None
    left: Bool | None = None


def truths(
    cases: Sequence[Case], batch: CaseBatch, families: bool, area: DrivableArea | None = None
) -> Truths:
    """Describe samples; `families` also counts collisions as published metrics do, `area` leaving it."""
    named = FAMILIES if families else {}
    grid = {name: grid_hits(batch, batch.truth_ego, family) for name, family in named.items()}
    return Truths(
        tokens=tuple(case.token for case in cases),
        scenes=tuple(case.scene.name for case in cases),
        commands=tuple(Turn(oracle_route(c.scene.pose_world, c.k).turn).name.lower() for c in cases),
        batch=batch,
        hit=box_hits(batch, batch.truth_ego),
        grid_hit=grid,
        area=area,
        left=None if area is None else area.left_by(batch.truth_ego),
    )


def columns_of(truth: Truths, pose_ego: F64, asked: Bool) -> SampleColumns:
    """Columns of one policy.

    Args:
        truth: The samples.
        pose_ego: float64 (B, 6, 3), rear-axle poses at the key frames; not finite = no usable prediction.
        asked: bool (B,), samples on which the policy could be asked at all.
    """
    batch = truth.batch
    failed = ~np.isfinite(pose_ego).all((1, 2))
    counted = batch.known & asked[:, None]
    pose = np.where(failed[:, None, None], np.nan, pose_ego)
    grid = {n: grid_hits(batch, pose, FAMILIES[n]) | failed[:, None] for n in truth.grid_hit}
    return SampleColumns(
        token=truth.tokens,
        scene=truth.scenes,
        failed=failed & asked,
        counted=counted,
        l2_m=displacement(pose[..., :2], batch.truth_ego[..., :2]),
        collided=box_hits(batch, pose) | failed[:, None],
        grid_collided=grid,
        off_road=None if truth.area is None else truth.area.left_by(pose) | failed[:, None],
    )


def policy_row(name: str, command: str, images: str, columns: SampleColumns, truth: Truths) -> PolicyRow:
    """Means of one policy; masked steps change neither a sum nor a count."""
    everything, failed = columns.counted, columns.failed
    valid = everything & ~failed[:, None]
    hit = columns.collided.astype(np.float64)
    l2 = np.where(everything, strict(columns.l2_m, failed, FAILED_L2_M), 0.0)
    return PolicyRow(
        policy=name,
        command=command,
        images=images,
        planned=int(everything.any(1).sum()),
        failed=int(failed.sum()),
        l2_m=by_horizon(l2, everything),
        l2_valid_m=by_horizon(np.where(valid, columns.l2_m, 0.0), valid),
        collision=by_horizon(hit, everything),
        collision_valid=by_horizon(hit, valid),
        collision_clean=by_horizon(hit, everything & ~truth.hit),
        families=_families(columns, truth),
        off_road=_off_road(columns, everything),
        off_road_clean=_off_road(columns, everything if truth.left is None else everything & ~truth.left),
        l2_interval=by_scene(l2, everything, truth.scenes),
        collision_interval=by_scene(hit, everything & ~truth.hit, truth.scenes),
    )


def _families(columns: SampleColumns, truth: Truths) -> dict[str, HorizonValues]:
    """As published: steps in which the recorded ego collides count as no collision and stay in n."""
    out = {}
    for name, hits in columns.grid_collided.items():
        out[name] = by_horizon((hits & ~truth.grid_hit[name]).astype(np.float64), columns.counted)
        out[f"{name}_all"] = by_horizon(hits.astype(np.float64), columns.counted)
    return out


def _off_road(columns: SampleColumns, mask: Bool) -> HorizonValues | None:
    return None if columns.off_road is None else by_horizon(columns.off_road.astype(np.float64), mask)


def by_scene(values: F64, mask: Bool, scenes: Sequence[str]) -> dict[str, Interval]:
    """95 % intervals "at_1s", "up_to_1s", ...: scenes are resampled, as samples of one scene are alike."""
    names, index = np.unique(np.asarray(scenes), return_inverse=True)
    data, out = np.where(mask, values, 0.0), {}
    for horizon in HORIZONS_S:
        k = round(horizon / KEY_DT_S)
        for label, steps in (("at", slice(k - 1, k)), ("up_to", slice(0, k))):
            total, count = np.zeros((1, len(names))), np.zeros((1, len(names)))
            np.add.at(total[0], index, data[:, steps].sum(1))
            np.add.at(count[0], index, mask[:, steps].sum(1))
            key = f"{label}_{horizon:.0f}s"
            missing = Interval(float("nan"), float("nan"), float("nan"))
            out[key] = crossed_interval(total, count, SEED, RESAMPLES) if count.sum() else missing
    return out


def groups(columns: SampleColumns, truth: Truths) -> tuple[GroupRow, ...]:
    """One policy by command (from the recorded future) and by scene."""
    rows = []
    for kind, labels in (("oracle command", truth.commands), ("scene", truth.scenes)):
        for label in sorted(set(labels)):
            mine = np.array([one == label for one in labels])
            mask = columns.counted & mine[:, None]
            l2 = np.where(mask, strict(columns.l2_m, columns.failed, FAILED_L2_M), 0.0)
            hit: Any = columns.collided.astype(np.float64)
            rows.append(
                GroupRow(
                    kind,
                    label,
                    int(mask.any(1).sum()),
                    by_horizon(l2, mask),
                    by_horizon(hit, mask & ~truth.hit),
                )
            )
    return tuple(rows)
