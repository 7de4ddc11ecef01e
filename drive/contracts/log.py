"""One drive in memory: what simulation hands to mining, curation and training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from drive.contracts.arrays import F32, F64, I32, U8, Bool, expect
from drive.contracts.observation import CameraModel, Provenance
from drive.contracts.plan import STEPS
from drive.contracts.scene import AgentTracks, EgoSize, EgoTrack, RoadPatch

ImageKind = Literal["none", "rendered", "camera"]
Simulator = Literal["light simulator", "CARLA", "real world"]


@dataclass(frozen=True)
class LogMeta:
    """Identity of a drive; in the light simulator (route, seed, model) re-creates it.

    Attributes:
        log_id: Unique and file-name safe.
        dataset: "nuscenes", "nightdrive", or a py123d dataset name.
        town: Map or location name.
        route: Route id, scenario or scene name.
        seed: Seed of traffic and scenario; -1 for real logs.
        driver: Policy name and version that drove ("human" for real logs).
        simulator: Where it happened, printed beside every number.
        image_kind: What the images are, printed beside every number.
        outcome: "completed", "collision", "off_road", "blocked", "timeout", "deviation", "recorded".
    """

    log_id: str
    dataset: str
    town: str
    route: str
    seed: int
    driver: str
    simulator: Simulator
    image_kind: ImageKind
    outcome: str


@dataclass(frozen=True)
class Event:
    """Something the criteria saw: kind as in the leaderboard's infraction keys, time, and readable detail."""

    kind: str
    t_us: int
    detail: str = ""


@dataclass(frozen=True)
class PlanSteps:
    """The D planning steps of a drive. Rows of NaN mean "none recorded".

    Attributes:
        step: int32 (D,), index into the drive's T steps at which each plan was made.
        images: Camera name -> uint8 (D, H, W, 3) RGB; may be empty.
        cameras: Camera name -> model.
        turn: int32 (D,), observation.Turn.
        target_points_ego: float32 (D, 2, 2).
        speed_limit_mps: float32 (D,).
        provenance: Where turn and target points come from.
        label_ego: float32 (D, 40, 3), expert (or recorded human) trajectory from this state.
        plan_ego: float32 (D, 40, 3), trajectory the driver chose.
        command: int32 (D, 2), emitted (lateral, longitudinal), -1 = none.
        label_command: int32 (D, 2), the same for the expert; -1 = none.
        aux: float32 (D, 3), [light 0 red 1 yellow 2 green 3 none, distance to stop line m, gap to lead m];
            distances are capped at 60; NaN = unknown.
        split_brain: bool (D,), command and trajectory disagreed.
        confidence: float32 (D,), probability that the planner gave its command; NaN = none recorded (logs of
            before have none).
    """

    step: I32
    images: Mapping[str, U8]
    cameras: Mapping[str, CameraModel]
    turn: I32
    target_points_ego: F32
    speed_limit_mps: F32
    provenance: Provenance
    label_ego: F32
    plan_ego: F32
    command: I32
    label_command: I32
    aux: F32
    split_brain: Bool
    confidence: F32 = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self) -> None:
        d = len(self.step)
        expect("step", self.step, (d,), np.int32)
        expect("turn", self.turn, (d,), np.int32)
        expect("target_points_ego", self.target_points_ego, (d, 2, 2), np.float32)
        expect("speed_limit_mps", self.speed_limit_mps, (d,), np.float32)
        expect("label_ego", self.label_ego, (d, STEPS, 3), np.float32)
        expect("plan_ego", self.plan_ego, (d, STEPS, 3), np.float32)
        expect("command", self.command, (d, 2), np.int32)
        expect("label_command", self.label_command, (d, 2), np.int32)
        expect("aux", self.aux, (d, 3), np.float32)
        expect("split_brain", self.split_brain, (d,), np.bool_)
        if not len(self.confidence):
            object.__setattr__(self, "confidence", np.full(d, np.nan, np.float32))
        expect("confidence", self.confidence, (d,), np.float32)
        for name, images in self.images.items():
            expect(f"images[{name}]", images, (d, None, None, 3), np.uint8)


@dataclass(frozen=True)
class DriveLog:
    """One drive.

    Attributes:
        meta: Identity and outcome.
        ego, agents: T steps (10 Hz for recorded drives, 2 Hz for nuScenes key frames).
        ego_size: Ego box.
        plans: Planning steps.
        route_world: float64 (R, 2), intended path; may be empty.
        road: Lanes around the drive, None when no map is known.
        events: Infractions in time order.
    """

    meta: LogMeta
    ego: EgoTrack
    agents: AgentTracks
    ego_size: EgoSize
    plans: PlanSteps
    route_world: F64
    road: RoadPatch | None
    events: tuple[Event, ...] = ()
