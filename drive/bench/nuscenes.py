"""Open-loop benchmark on nuScenes: L2 and collisions in both protocols, blind floors beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from drive.bench.floors import FLOORS, EgoMLP
from drive.bench.inputs import FUTURE_STEPS, RouteSource, future_ego, observation_at
from drive.bench.nuscenes_tables import (
    CAMERA_CHANNEL,
    SPLITS,
    SceneTrack,
    check_request,
    missing_files,
    open_tables,
    read_scenes,
    split_scenes,
)
from drive.bench.report import PROTOCOL, BenchReport, PolicyRow, SampleColumns
from drive.contracts import DT_S, EGO_NUSCENES, F64, U8, AgentKind, Bool, CameraModel, Plan, Policy, UserError
from drive.geometry.se2 import to_local
from drive.progress import Progress
from drive.score.collision import collisions
from drive.score.openloop import FAILED_L2_M, KEY_DT_S, HorizonValues, by_horizon, displacement, strict

if TYPE_CHECKING:
    from nuscenes import NuScenes

Images = Literal["none", "camera", "rendered"]
ImageSource = Callable[[SceneTrack, int], tuple[U8, CameraModel]]
BATCH = 8
FOLDS = 5
STRIDE = round(KEY_DT_S / DT_S)


@dataclass(frozen=True)
class Case:
    """One evaluated sample: key frame `k` of a scene, the recorded future and the road users in it.

    Attributes:
        truth_ego: float64 (6, 3), recorded rear-axle poses at the next key frames.
        agents_ego: float64 (N, 6, 3), box centres.
        size_m: float32 (N, 2).
        valid: bool (N, 6).
    """

    scene: SceneTrack
    k: int
    truth_ego: F64
    agents_ego: F64
    size_m: Any
    valid: Bool


def bench_nuscenes(
    dataroot: str | Path,
    version: str,
    policy: Policy,
    split: str | None = None,
    images: Images | None = None,
    route: RouteSource = "oracle",
    announce: Callable[[Mapping[str, tuple[int, int]]], None] | None = None,
) -> BenchReport:
    """Score a policy, and the floors beside it, against recorded driving.

    Evaluated are the samples with an earlier key frame (for the speed) and a full 3 s future. The ego-status
    MLP never trains on a scene of the evaluated split; for "all" it trains in five folds by scene.

    Args:
        dataroot: Folder with the table folder, maps/ and samples/.
        version: "v1.0-mini" or "v1.0-trainval".
        policy: What to score.
        split: "mini_val", "mini_train", "all" (mini), "val", "train" (trainval); None = the validation split.
        images: "camera" = recorded CAM_FRONT, "rendered" = stand-in pictures drawn from boxes and the
            drivable area; None = "camera" for policies that need images, else "none".
        route: Route hint for the policy: "oracle" (from the recorded future) or "none"; floors use none.
        announce: Told the missing sensor files (channel -> missing, expected) before the work starts.

    Raises:
        UserError: Wrong dataroot, version or split; no scene of the split in the tables; or the policy needs
            images and sensor files are missing.
    """
    chosen = check_request(dataroot, version, split)
    nusc = open_tables(dataroot, version)
    scenes, cases = _scenes_and_cases(nusc, dataroot, version, chosen)
    missing = missing_files(scenes, dataroot)
    if announce:
        announce(missing)
    source_name: Images = (images or "camera") if policy.needs_images else "none"
    source = _image_source(source_name, policy, missing, dataroot, scenes)
    training = _training_scenes(nusc, version, chosen, scenes)
    truth_hit = np.stack([_collided(c, c.truth_ego) for c in cases])
    rows, columns = _score(policy, cases, training, source, source_name, route, truth_hit)
    total, first = sum(len(s.tokens) for s in scenes), sum(min(1, len(s.tokens)) for s in scenes)
    return BenchReport(
        dataset="nuScenes",
        version=version,
        split=chosen,
        protocol=PROTOCOL,
        samples=total,
        without_history=first,
        without_future=total - first - len(cases),
        evaluated=len(cases),
        missing_files=missing,
        truth_collision_steps=int(truth_hit.sum()),
        truth_steps=int(truth_hit.size),
        floor_training=_training_label(version, chosen),
        rows=rows,
        columns=columns,
        truth_collided=truth_hit,
    )


def _scenes_and_cases(
    nusc: "NuScenes", dataroot: str | Path, version: str, split: str
) -> tuple[tuple[SceneTrack, ...], tuple[Case, ...]]:
    scenes = read_scenes(nusc, split_scenes(nusc, split))
    if not scenes:
        raise UserError(f"{dataroot}: none of the scenes of {split} are in the {version} tables")
    cases = tuple(case for scene in scenes for case in cases_of(scene))
    if not cases:
        raise UserError(f"{dataroot}: no sample of {split} has an earlier key frame and a full 3 s future")
    return scenes, cases


def _score(
    policy: Policy,
    cases: Sequence[Case],
    training: Callable[[str], tuple[SceneTrack, ...]],
    source: ImageSource | None,
    images: Images,
    route: RouteSource,
    truth_hit: Bool,
) -> tuple[tuple[PolicyRow, ...], dict[str, SampleColumns]]:
    """Rows and per-sample columns of the policy and the floors."""
    floors = {name: make() for name, make in FLOORS.items() if name != policy.name}
    policies: dict[str, Policy] = {policy.name: policy} | floors
    rows, columns = [], {}
    with Progress("bench", len(policies) * len(cases), "plans") as bar:
        for name, one in policies.items():
            floor = name in FLOORS
            plans = _predict(one, cases, training, None if floor else source, "none" if floor else route, bar)
            columns[name] = _columns(cases, plans)
            command = "not used" if floor else {"oracle": "oracle command", "none": "no command"}[route]
            rows.append(_row(name, command, images if one.needs_images else "none", columns[name], truth_hit))
    return tuple(rows), columns


def cases_of(scene: SceneTrack) -> list[Case]:
    """Key frames of a scene with an earlier key frame and a full 3 s future."""
    out = []
    for k in range(1, len(scene.tokens) - FUTURE_STEPS):
        ahead = slice(k + 1, k + 1 + FUTURE_STEPS)
        seen = scene.agents.valid[:, ahead].any(1) & (scene.agents.kind != AgentKind.OBSTACLE)
        out.append(
            Case(
                scene=scene,
                k=k,
                truth_ego=future_ego(scene.pose_world, k),
                agents_ego=to_local(scene.agents.pose_world[seen, ahead], scene.pose_world[k]),
                size_m=scene.agents.size_m[seen],
                valid=scene.agents.valid[seen, ahead],
            )
        )
    return out


def _image_source(
    images: Images,
    policy: Policy,
    missing: Mapping[str, tuple[int, int]],
    dataroot: str | Path,
    scenes: Sequence[SceneTrack],
) -> ImageSource | None:
    if images == "none":
        return None
    if images == "rendered":
        from drive.bench.stand_in import StandIn

        return StandIn(dataroot, scenes)
    absent, expected = missing.get(CAMERA_CHANNEL, (0, 0))
    if absent:
        raise UserError(
            f"{policy.name} needs images, but {absent} of {expected} {CAMERA_CHANNEL} files are missing "
            f"under {dataroot}; download them, or use --images rendered for stand-in pictures"
        )
    return lambda scene, k: _camera_image(Path(dataroot), scene, k)


def _camera_image(root: Path, scene: SceneTrack, k: int) -> tuple[U8, CameraModel]:
    from PIL import Image

    frame = scene.frames[k]
    with Image.open(root / frame.file) as picture:
        image = np.asarray(picture.convert("RGB"), np.uint8)
    return image, CameraModel(frame.intrinsics, frame.camera_from_ego, frame.size_px)


def _training_scenes(
    nusc: "NuScenes", version: str, split: str, scenes: tuple[SceneTrack, ...]
) -> Callable[[str], tuple[SceneTrack, ...]]:
    """Evaluated scene name -> scenes on which a floor may train for it; they never include that scene."""
    other = SPLITS[version][split]
    if other == "folds":
        fold = {scene.name: i % FOLDS for i, scene in enumerate(scenes)}
        return lambda name: tuple(s for s in scenes if fold[s.name] != fold[name])
    elsewhere = read_scenes(nusc, split_scenes(nusc, other))
    return lambda name: elsewhere


def _training_label(version: str, split: str) -> str:
    other = SPLITS[version][split]
    return f"{FOLDS} folds by scene" if other == "folds" else other


def _predict(
    policy: Policy,
    cases: Sequence[Case],
    training: Callable[[str], tuple[SceneTrack, ...]],
    source: ImageSource | None,
    route: RouteSource,
    bar: Progress,
) -> list[Plan | None]:
    """One plan per case; None where the policy gave none."""
    if isinstance(policy, EgoMLP):
        return _predict_folds(cases, training, bar)
    plans: list[Plan | None] = []
    for i in range(0, len(cases), BATCH):
        batch = cases[i : i + BATCH]
        seen = [
            observation_at(
                c.scene.t_us,
                c.scene.pose_world,
                c.k,
                route=route,
                image=source(c.scene, c.k) if source else None,
            )
            for c in batch
        ]
        got = policy.plan(seen, seed=0)
        plans += [*got, *[None] * (len(batch) - len(got))][: len(batch)]
        bar.advance(len(batch), policy.name)
    return plans


def _predict_folds(
    cases: Sequence[Case], training: Callable[[str], tuple[SceneTrack, ...]], bar: Progress
) -> list[Plan | None]:
    """Ego-status MLP: fitted once per set of training scenes, never on the scene it is asked about."""
    fitted: dict[tuple[str, ...], EgoMLP] = {}
    plans: list[Plan | None] = []
    for case in cases:
        scenes = training(case.scene.name)
        key = tuple(s.name for s in scenes)
        if key not in fitted:
            train = [c for s in scenes for c in cases_of(s)]
            seen = [observation_at(c.scene.t_us, c.scene.pose_world, c.k) for c in train]
            fitted[key] = EgoMLP().fit(seen, np.array([c.truth_ego for c in train]))
        plans += fitted[key].plan([observation_at(case.scene.t_us, case.scene.pose_world, case.k)], seed=0)
        bar.advance(1, EgoMLP.name)
    return plans


def key_poses(plan: Plan | None) -> F64 | None:
    """The plan's poses at the six key frames, float64 (6, 3); None if the prediction failed.

    Failed: no plan, a plan the policy itself replaced ("fallback"), too short, another spacing, or not
        finite.
    """
    if plan is None or "fallback" in plan.flags or abs(plan.best.dt_s - DT_S) > 1e-9:
        return None
    if not np.isfinite(plan.best.pose_ego).all():
        return None
    pose = plan.best.pose_ego[STRIDE - 1 : STRIDE * FUTURE_STEPS : STRIDE].astype(np.float64)
    return pose if len(pose) == FUTURE_STEPS else None


def _columns(cases: Sequence[Case], plans: Sequence[Plan | None]) -> SampleColumns:
    poses = [key_poses(plan) for plan in plans]
    failed = np.array([p is None for p in poses])
    nothing = np.full(FUTURE_STEPS, np.nan)
    l2 = [
        nothing if p is None else displacement(p[:, :2], c.truth_ego[:, :2])
        for c, p in zip(cases, poses, strict=True)
    ]
    hit = [
        np.ones(FUTURE_STEPS, bool) if p is None else _collided(c, p)
        for c, p in zip(cases, poses, strict=True)
    ]
    return SampleColumns(
        token=tuple(c.scene.tokens[c.k] for c in cases),
        scene=tuple(c.scene.name for c in cases),
        failed=failed,
        l2_m=np.stack(l2),
        collided=np.stack(hit),
    )


def _collided(case: Case, pose_ego: F64) -> Bool:
    """Does the ego box at poses (6, 3) touch any road user at the same key frame?  bool (6,)."""
    hit = collisions(pose_ego[None], case.agents_ego, case.size_m, case.valid, EGO_NUSCENES)
    return np.asarray(hit[0].any(0))


def _row(name: str, command: str, images: str, columns: SampleColumns, truth_hit: Bool) -> PolicyRow:
    everything = np.ones(truth_hit.shape, bool)
    valid = everything & ~columns.failed[:, None]
    hit = columns.collided.astype(np.float64)

    def rate(mask: Bool) -> HorizonValues:
        return by_horizon(hit, mask)

    return PolicyRow(
        policy=name,
        command=command,
        images=images,
        planned=len(columns.token),
        failed=int(columns.failed.sum()),
        l2_m=by_horizon(strict(columns.l2_m, columns.failed, FAILED_L2_M), everything),
        l2_valid_m=by_horizon(np.where(valid, columns.l2_m, 0.0), valid),
        collision=rate(everything),
        collision_valid=rate(valid),
        collision_clean=rate(~truth_hit),
    )
