"""Open-loop benchmark on nuScenes: L2 and collisions in both protocols, blind floors beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drive.bench.batch import batch_of
from drive.bench.can_bus import EgoState, motion_at, with_can_bus
from drive.bench.cases import STANDARD, Case, SampleSet, cases_of, choose
from drive.bench.floors import FLOORS, EgoMLP
from drive.bench.inputs import FUTURE_STEPS, RouteSource, observation_at
from drive.bench.nuscenes_scenes import read_scenes
from drive.bench.nuscenes_tables import (
    CAMERA_CHANNEL,
    SPLITS,
    SceneTrack,
    check_request,
    missing_files,
    open_tables,
    split_scenes,
)
from drive.bench.off_road import DrivableArea
from drive.bench.predictions import Coverage, Predictions, match
from drive.bench.report import PROTOCOL, BenchReport, PolicyRow, SampleColumns
from drive.bench.scoring import Truths, columns_of, groups, policy_row, truths
from drive.contracts import DT_S, F64, U8, CameraModel, Observation, Plan, Policy, UserError
from drive.progress import Progress
from drive.score.openloop import KEY_DT_S

Images = Literal["none", "camera", "rendered"]
ImageSource = Callable[[SceneTrack, int], tuple[U8, CameraModel]]
BATCH = 8
FOLDS = 5
STRIDE = round(KEY_DT_S / DT_S)


@dataclass(frozen=True)
class _Setting:
    """What every policy of one benchmark is scored on."""

    scenes: tuple[SceneTrack, ...]
    cases: tuple[Case, ...]
    chosen: SampleSet
    truth: Truths
    training: Callable[[str], tuple[SceneTrack, ...]]
    missing: Mapping[str, tuple[int, int]]
    version: str
    split: str
    known: tuple[str, ...]


@dataclass(frozen=True)
class _Scored:
    """A row, and the columns behind it."""

    row: PolicyRow
    columns: SampleColumns


def bench_nuscenes(
    dataroot: str | Path,
    version: str,
    policy: Policy,
    split: str | None = None,
    images: Images | None = None,
    route: RouteSource = "oracle",
    announce: Callable[[Mapping[str, tuple[int, int]]], None] | None = None,
    samples: str = STANDARD,
    families: bool = False,
    off_road: bool = False,
    ego_state: EgoState = "auto",
) -> BenchReport:
    """Score a policy, and the floors beside it, against recorded driving.

    The ego-status MLP never trains on a scene of the evaluated split; for "all" it trains in five folds by
    scene. A sample without an earlier key frame tells no speed: no policy is asked there.

    Args:
        dataroot: Folder with the table folder, maps/ and samples/.
        version: "v1.0-mini" or "v1.0-trainval".
        policy: What to score.
        split: "mini_val", "mini_train", "all" (mini), "val", "train" (trainval); None = the validation split.
        images: "camera" = recorded CAM_FRONT, "rendered" = stand-in pictures drawn from boxes and the
            drivable area; None = "camera" for policies that need images, else "none".
        route: Route hint for the policy: "oracle" (from the recorded future) or "none"; floors use none.
        announce: Told the missing sensor files (channel -> missing, expected) before the work starts.
        samples: A rule of `drive.bench.cases`, or a JSON file with sample tokens.
        families: Also count collisions as the published metrics do.
        off_road: Also count steps off the drivable area; needs the map masks.
        ego_state: Where speed, acceleration and yaw rate of now come from: "auto" = the CAN bus in scenes
            that have it, key-frame poses elsewhere; "can" or "poses" = one of them everywhere.

    Raises:
        UserError: Wrong dataroot, version, split or samples; or the policy needs images and sensor files are
            missing.
    """
    setting = _setting(dataroot, version, split, samples, ego_state, families, off_road)
    if announce:
        announce(setting.missing)
    source_name: Images = (images or "camera") if policy.needs_images else "none"
    source = _remembered(_image_source(source_name, policy, setting.missing, dataroot, setting.scenes))
    scored = _score({policy.name: policy} | _floors(policy.name), setting, source, source_name, route)
    return _report(setting, scored)


def bench_predictions(
    dataroot: str | Path,
    version: str,
    predictions: Predictions,
    split: str | None = None,
    samples: str = STANDARD,
    allow_partial: bool = False,
    announce: Callable[[SampleSet, Coverage], None] | None = None,
    off_road: bool = False,
    ego_state: EgoState = "auto",
) -> BenchReport:
    """Score predictions from a file, of any planner, with the floors beside them; as `bench_nuscenes`.

    Args:
        dataroot: As for `bench_nuscenes`.
        version: As there.
        predictions: From `drive.bench.predictions.read_predictions`.
        split: As there.
        samples: As there.
        allow_partial: See `drive.bench.predictions.match`.
        announce: Told the sample set and what the file covers of it before anything is scored.
        off_road: As there.
        ego_state: As there, for the floors.

    Raises:
        UserError: As `bench_nuscenes` and `match`.
    """
    setting = _setting(
        dataroot, version, split, samples, ego_state, families=True, off_road=off_road, all_tokens=True
    )
    pose, coverage = match(predictions, setting.cases, setting.known, allow_partial)
    if announce:
        announce(setting.chosen, coverage)
    name = predictions.planner
    columns = columns_of(setting.truth, pose, np.ones(len(pose), bool))
    command = {"oracle": "oracle command", "none": "no command"}.get(predictions.command, predictions.command)
    own = _Scored(policy_row(name, command, "file", columns, setting.truth), columns)
    return _report(setting, {name: own} | _score(_floors(name), setting, None, "none", "none"), coverage)


def _setting(
    dataroot: str | Path,
    version: str,
    split: str | None,
    samples: str,
    ego_state: EgoState,
    families: bool,
    off_road: bool,
    all_tokens: bool = False,
) -> _Setting:
    chosen = check_request(dataroot, version, split)
    tables = open_tables(dataroot, version)
    names = split_scenes(tables, chosen)
    if not names:
        raise UserError(f"{dataroot}: none of the scenes of {chosen} are in the {version} tables")
    other = SPLITS[version][chosen]
    elsewhere = () if other == "folds" else split_scenes(tables, other)
    tracks = with_can_bus(read_scenes(tables, [*names, *elsewhere]), dataroot, ego_state)
    scenes = tracks[: len(names)]
    cases, sample_set = choose(scenes, samples)
    return _Setting(
        scenes=scenes,
        cases=cases,
        chosen=sample_set,
        truth=truths(cases, batch_of(cases), families, DrivableArea(dataroot, cases) if off_road else None),
        training=_training_scenes(scenes, tracks[len(names) :] if elsewhere else None),
        missing=missing_files(scenes, dataroot),
        version=version,
        split=chosen,
        known=tuple(tables.rows["sample"]) if all_tokens else (),
    )


def _floors(name: str) -> dict[str, Policy]:
    return {floor: make() for floor, make in FLOORS.items() if floor != name}


def _report(
    setting: _Setting, scored: Mapping[str, _Scored], coverage: Coverage | None = None
) -> BenchReport:
    truth, known = setting.truth, setting.truth.batch.known
    return BenchReport(
        dataset="nuScenes",
        version=setting.version,
        split=setting.split,
        protocol=f"{PROTOCOL}; samples with {setting.chosen.words}",
        samples=sum(len(s.tokens) for s in setting.scenes),
        without_history=setting.chosen.without_history,
        without_future=setting.chosen.without_future,
        evaluated=len(setting.cases),
        missing_files=setting.missing,
        truth_collision_steps=int(truth.hit[known].sum()),
        truth_steps=int(known.sum()),
        floor_training=_training_label(setting.version, setting.split),
        rows=tuple(one.row for one in scored.values()),
        columns={name: one.columns for name, one in scored.items()},
        truth_collided=truth.hit,
        sample_set=setting.chosen,
        commands=truth.commands,
        groups=groups(next(iter(scored.values())).columns, truth),
        coverage=coverage,
        truth_off_road=truth.left,
        measured=sum(motion_at(case.scene, case.k) is not None for case in setting.cases if case.k > 0),
    )


def _score(
    policies: Mapping[str, Policy],
    setting: _Setting,
    source: ImageSource | None,
    images: Images,
    route: RouteSource,
) -> dict[str, _Scored]:
    """Rows and per-sample columns of policies; floors see neither images nor a route."""
    asked = np.array([case.k > 0 for case in setting.cases])
    cases = [case for case in setting.cases if case.k > 0]
    out = {}
    with Progress("bench", len(policies) * len(cases), "plans") as bar:
        for name, one in policies.items():
            floor = name in FLOORS
            plans = _predict(
                one, cases, setting.training, None if floor else source, "none" if floor else route, bar
            )
            pose = np.full((len(asked), FUTURE_STEPS, 3), np.nan)
            found = [key_poses(plan) for plan in plans]
            pose[asked] = [np.full((FUTURE_STEPS, 3), np.nan) if p is None else p for p in found]
            columns = columns_of(setting.truth, pose, asked)
            command = "not used" if floor else {"oracle": "oracle command", "none": "no command"}[route]
            shown = images if one.needs_images else "none"
            out[name] = _Scored(policy_row(name, command, shown, columns, setting.truth), columns)
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


def _remembered(source: ImageSource | None) -> ImageSource | None:
    """The same source, which keeps the last two images: every key frame is asked for twice."""
    if source is None:
        return None
    last: dict[tuple[str, int], tuple[U8, CameraModel]] = {}

    def get(scene: SceneTrack, k: int) -> tuple[U8, CameraModel]:
        if (scene.name, k) not in last:
            while len(last) > 1:
                del last[next(iter(last))]
            last[scene.name, k] = source(scene, k)
        return last[scene.name, k]

    return get


def _camera_image(root: Path, scene: SceneTrack, k: int) -> tuple[U8, CameraModel]:
    from PIL import Image

    frame = scene.frames[k]
    with Image.open(root / frame.file) as picture:
        image = np.asarray(picture.convert("RGB"), np.uint8)
    return image, CameraModel(frame.intrinsics, frame.camera_from_ego, frame.size_px)


def _training_scenes(
    scenes: tuple[SceneTrack, ...], elsewhere: tuple[SceneTrack, ...] | None
) -> Callable[[str], tuple[SceneTrack, ...]]:
    """Evaluated scene name -> scenes on which a floor may train for it; they never include that scene.

    They are those of another split, or without one the other four of five folds.
    """
    if elsewhere is not None:
        return lambda name: elsewhere
    fold = {scene.name: i % FOLDS for i, scene in enumerate(scenes)}
    return lambda name: tuple(s for s in scenes if fold[s.name] != fold[name])


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
            _seen(
                c,
                route=route,
                image=source(c.scene, c.k) if source else None,
                earlier=source(c.scene, c.k - 1)[0] if source else None,
            )
            for c in batch
        ]
        got = policy.plan(seen, seed=0)
        plans += [*got, *[None] * (len(batch) - len(got))][: len(batch)]
        bar.advance(len(batch), policy.name)
    return plans


def _seen(case: Case, **more: Any) -> Observation:
    scene, k = case.scene, case.k
    return observation_at(scene.t_us, scene.pose_world, k, measured=motion_at(scene, k), **more)


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
            seen = [_seen(c) for c in train]
            fitted[key] = EgoMLP().fit(seen, np.array([c.truth_ego for c in train]))
        plans += fitted[key].plan([_seen(case)], seed=0)
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
