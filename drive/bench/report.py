"""What an open-loop benchmark returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drive.bench.cases import SampleSet
from drive.bench.predictions import Coverage
from drive.score.bootstrap import Interval
from drive.score.openloop import HorizonValues

PROTOCOL = (
    "open loop, nuScenes key frames by index (0.5 s nominal); L2 of the rear axle, at the horizon (UniAD) "
    "and averaged up to it (ST-P3, VAD); oriented boxes of vehicles, cyclists and pedestrians, ego "
    "4.084 x 1.85 m; strict: a failed prediction costs 100 m and a collision"
)


@dataclass(frozen=True)
class PolicyRow:
    """One policy's numbers; every HorizonValues has the horizons 1, 2 and 3 s.

    Attributes:
        policy: Name.
        command: Where its route hint comes from: "oracle command", "no command" or "not used" (floors).
        images: "none", "camera" or "rendered".
        planned, failed: Samples in the denominator, and those without a usable prediction.
        l2_m: Strict displacement [m], failed predictions included.
        l2_valid_m: Displacement of valid predictions only [m].
        collision: Strict collision rate over all steps, in [0, 1].
        collision_valid: Collision rate of valid predictions.
        collision_clean: Strict rate without the steps in which the recorded ego itself collides.
        families: Strict rate as published metrics count: "stp3", "vad", "uniad" without the recorded ego's
            own collisions (they count as none, as published), and each with "_all" with them.
        off_road: Strict share of steps in which a corner of the ego box is off the drivable area; None if
            that was not asked for.
        off_road_clean: The same without the steps in which the recorded ego itself is.
        l2_interval, collision_interval: 95 % intervals of `l2_m` and `collision_clean`, resampling scenes:
            "at_1s", "up_to_1s", ...
    """

    policy: str
    command: str
    images: str
    planned: int
    failed: int
    l2_m: HorizonValues
    l2_valid_m: HorizonValues
    collision: HorizonValues
    collision_valid: HorizonValues
    collision_clean: HorizonValues
    families: Mapping[str, HorizonValues] = field(default_factory=dict)
    off_road: HorizonValues | None = None
    off_road_clean: HorizonValues | None = None
    l2_interval: Mapping[str, Interval] = field(default_factory=dict)
    collision_interval: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupRow:
    """The scored policy on a part of the samples.

    Attributes:
        kind: "oracle command" (from the recorded future) or "scene".
        name: Of the part.
        n: Its samples.
        l2_m: Strict displacement [m].
        collision_clean: As in PolicyRow.
    """

    kind: str
    name: str
    n: int
    l2_m: HorizonValues
    collision_clean: HorizonValues


@dataclass(frozen=True)
class SampleColumns:
    """Per-sample numbers of one policy from which its row can be recomputed.

    Attributes:
        token: Sample tokens.
        scene: Scene names.
        failed: Whether there is no usable prediction.
        counted: Six flags per sample: the step was recorded, and the policy could be asked.
        l2_m: Six displacements per sample at 0.5 s steps; NaN where failed or not recorded.
        collided: Six flags per sample.
        grid_collided: The same by family of published metrics.
        off_road: Six flags per sample, or None.
    """

    token: tuple[str, ...]
    scene: tuple[str, ...]
    failed: Any
    counted: Any
    l2_m: Any
    collided: Any
    grid_collided: Mapping[str, Any]
    off_road: Any = None


@dataclass(frozen=True)
class BenchReport:
    """One policy and the floors on one split.

    Attributes:
        dataset, version, split, protocol: What was measured.
        samples: All samples of the split.
        without_history, without_future: Samples left out (no earlier key frame; no full 3 s future).
        evaluated: Samples in every row, = samples - without_history - without_future.
        missing_files: Sensor channel -> (missing, expected) key-frame files.
        truth_collision_steps: Steps in which the recorded ego itself overlaps a box, by sample and step:
            their count.
        truth_steps: All evaluated steps.
        floor_training: How the ego-status MLP was trained.
        rows: The policy first, then the floors.
        columns: Per-sample columns, policy name -> columns.
        truth_collided: Six flags per sample for the recorded ego.
        sample_set: Which samples, and their token hash.
        groups: The first row's policy by command and by scene.
        commands: Per sample, from the recorded future (oracle).
        coverage: What a file of predictions holds; None for a policy.
        truth_off_road: Six flags per sample for the recorded ego, or None.
        measured: Evaluated samples at which the CAN bus gave the ego state.
    """

    dataset: str
    version: str
    split: str
    protocol: str
    samples: int
    without_history: int
    without_future: int
    evaluated: int
    missing_files: Mapping[str, tuple[int, int]]
    truth_collision_steps: int
    truth_steps: int
    floor_training: str
    rows: tuple[PolicyRow, ...]
    columns: Mapping[str, SampleColumns]
    truth_collided: Any
    sample_set: SampleSet
    groups: tuple[GroupRow, ...]
    commands: tuple[str, ...]
    coverage: Coverage | None = None
    truth_off_road: Any = None
    measured: int = 0

    @property
    def ego_state(self) -> str:
        """Where speed, acceleration and yaw rate that policies and floors are given come from, in words."""
        if self.measured == 0:
            return "key-frame poses"
        rest = "" if self.measured == self.evaluated else ", key-frame poses at the others"
        return f"CAN bus at {self.measured} of {self.evaluated} samples{rest}"
