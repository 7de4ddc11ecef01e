"""Settings of one night."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Literal

from data_engine.rules.sql import SqlRule
from drive.config import AtLeastOne, Bounds, Count, NotNegative, Positive, Share
from drive.contracts import UserError
from drive.train.config import FinetuneConfig


@dataclass(frozen=True)
class DriveConfig:
    """Tonight's closed-loop drives of the champion.

    Attributes:
        suite: Suite name; its seeds are shifted by the night's date.
        routes: Number of routes, 0 = all.
        workers: Simulator processes.
        carla: "host:port" of a CARLA server, None = the light simulator.
        demonstrations: So many of the routes that the champion failed, worst first, are driven again by the
            expert, which shows what the champion's own drives never come to: the way out.
        variations: The expert also drives so many further routes like each of these: other places of the
            same town, same length, traffic and scenario. Routes that the expert fails are not kept.
    """

    suite: str = "tonight"
    routes: Count = 10
    workers: Annotated[int, Bounds(1, 256)] = 1
    carla: str | None = None
    demonstrations: Count = 0
    variations: Annotated[int, Bounds(0, 100)] = 0


@dataclass(frozen=True)
class MineConfig:
    """What counts as a bad case.

    Attributes:
        rules: Rule name -> its parameters ({} = defaults); a rule that is not listed is off.
        sql: Rule name -> a query of one's own over the night's columns (see data_engine/rules/sql.py).
        shadow: Let the champion plan on real logs as well (skipped, with the reason, where it cannot).
    """

    rules: Mapping[str, dict[str, Positive]] = field(default_factory=dict)
    sql: Mapping[str, SqlRule] = field(default_factory=dict)
    shadow: bool = True

    def __post_init__(self) -> None:
        from data_engine.rules import RULES

        for name, params in self.rules.items():
            if name not in RULES:
                raise UserError(f"mine.rules.{name}: unknown rule{_nearest(name, RULES)}")
            known = list(inspect.signature(RULES[name]).parameters)[1:]
            for key in params:
                if key not in known:
                    raise UserError(f"mine.rules.{name}.{key}: unknown parameter{_nearest(key, known)}")
        for name in self.sql:
            if name in RULES:
                raise UserError(f"mine.sql.{name}: is a rule already; give the query another name")


@dataclass(frozen=True)
class CurateConfig:
    """What the training set is made of.

    Attributes:
        bad_share, demonstration_share, neighbour_share, replay_share: Shares of the training weight; they
            must add up to 1. Where there is nothing of one kind the others grow.
        before_s, after_s: Planning steps this long before the start and after the end of a case belong to it.
        same_cosine: Cases of one kind whose descriptors are more similar than this are one case.
        per_kind: At most this many cases of a kind.
        cluster_cosine: Cases of one kind that are more similar than this are one cluster, named after its
            worst case.
        per_cluster: At most this many cases of a cluster.
        sibling_share: Share of the routes with cases that are held out to measure whether cases were fixed.
        min_cases: With fewer usable cases there is nothing to do tonight.
        neighbours_per_step: Near neighbours per bad-case step, at most.
        replay_steps: Replay steps, at most.
        replay_nights: Drives of this many earlier nights join the replay.
        replay: Further log folder whose drives join the replay, None = only the workspace's nights.
    """

    bad_share: Share = 0.5
    demonstration_share: Share = 0.0
    neighbour_share: Share = 0.2
    replay_share: Share = 0.3
    before_s: NotNegative = 2.0
    after_s: NotNegative = 0.5
    same_cosine: Annotated[float, Bounds(-1, 2)] = 0.95
    per_kind: AtLeastOne = 30
    cluster_cosine: Annotated[float, Bounds(-1, 2)] = 0.8
    per_cluster: AtLeastOne = 12
    sibling_share: Share = 0.3
    min_cases: Count = 3
    neighbours_per_step: NotNegative = 0.4
    replay_steps: Count = 1500
    replay_nights: Count = 7
    replay: str | None = None

    def __post_init__(self) -> None:
        total = self.bad_share + self.demonstration_share + self.neighbour_share + self.replay_share
        if abs(total - 1) > 1e-6:
            raise UserError(
                "curate: bad_share + demonstration_share + neighbour_share + replay_share must be 1, "
                f"got {total:g}"
            )


@dataclass(frozen=True)
class EvaluateConfig:
    """How champion and candidate are compared.

    Attributes:
        suite: Held-out suite driven by both models with the same routes and seeds.
        routes: Number of routes, 0 = all.
        open_loop_steps: Planning steps of the held-out drives that are scored open loop, at most.
        real_images: What a camera planner sees of nuScenes logs: "camera", or "rendered" stand-ins.
        retest: Windows of stored cases that are tested again, at most.
        fixed_m: A case counts as fixed where the plan errs less than this on its window.
        sibling_routes: Routes kept apart on which the candidate is driven to measure fixes, at most.
    """

    suite: str = "gate"
    routes: Count = 16
    open_loop_steps: Count = 400
    real_images: Literal["camera", "rendered"] = "camera"
    retest: Count = 40
    fixed_m: Positive = 1.5
    sibling_routes: Count = 12


@dataclass(frozen=True)
class GateConfig:
    """Bounds of the promotion gate; see docs for the reason code each of them can raise.

    Attributes:
        kinds: Kinds of held-out routes that are judged, as docs/fleet.md names them: those that the fleet has
            met. What else the held-out suite has is driven and shown. None = all.
        new_safety_failures: Routes on which only the candidate hits something, runs a red light or leaves
            the road.
        max_score_drop: Driving-score points (0-100) that the mean may fall.
        general_margin: Driving-score points by which the 95 % interval of the change on plain routes (nothing
            staged) may reach below 0; None = not asked, as few routes make the interval wide.
        max_ade_increase: Relative increase of the open-loop error that is tolerated on held-out drives; a
            larger one is refused where it is beyond noise.
        max_agreement_drop: Drop of the command agreement (share of steps) that is tolerated, likewise.
        min_case_gain: Relative reduction of the mined cases' error (held-out siblings) that promotion needs.
        max_latency_ratio: Candidate / champion planning time above this is a warning.
        latency_limit: Candidate / champion planning time above this is refused: no noise explains it.
        min_coverage: Share of planned routes that must have a result for both models.
        min_fix_rate: Share of the routes kept apart on which the champion failed that the candidate must
            drive without fault; refused if even the upper end of the 95 % interval is lower.
        max_forgetting: Bound of NBT (docs/fleet.md) over the kinds of route of the held-out suite.
        advisory: The gate warns only: candidates are promoted in spite of its reasons, unless their weights
            are the champion's or a metric is missing or not finite. For experiments on what a gate is worth.
    """

    kinds: tuple[str, ...] | None = None
    new_safety_failures: Count = 0
    max_score_drop: Annotated[float, Bounds(0, 100)] = 3.0
    general_margin: Annotated[float, Bounds(0, 100)] | None = None
    max_ade_increase: NotNegative = 0.03
    max_agreement_drop: Share = 0.05
    min_case_gain: Share = 0.0
    max_latency_ratio: Positive = 1.05
    latency_limit: Positive = 2.0
    min_coverage: Share = 1.0
    min_fix_rate: Share = 0.6
    max_forgetting: Share = 0.03
    advisory: bool = False


@dataclass(frozen=True)
class RegistryConfig:
    """Where models are kept: an MLflow tracking URI, None = sqlite in the workspace."""

    tracking_uri: str | None = None
    model: str = "nightdrive"


@dataclass(frozen=True)
class ReportConfig:
    """Pictures per mined kind, and in total; short clips of the worst cases."""

    pictures_per_kind: Count = 4
    pictures: Count = 24
    clips: Count = 6


@dataclass(frozen=True)
class RetentionConfig:
    """How many finished nights keep their drives and checkpoints; 0 = all."""

    nights: Count = 14


@dataclass(frozen=True)
class NightlyConfig:
    """One night; `base_model` is registered as version 1 if the registry is empty.

    With `consolidate_every` n > 0 every n-th promotion is trained from the base model on what the nights
    since the last consolidation were trained on (data_engine/consolidate.py).
    """

    workspace: str = "runs"
    base_model: str = "base"
    held_out_towns: tuple[str, ...] = ("Town02", "Town10HD")
    logs: tuple[str, ...] = ()
    drive: DriveConfig = DriveConfig()
    mine: MineConfig = MineConfig()
    curate: CurateConfig = CurateConfig()
    finetune: FinetuneConfig = field(default_factory=FinetuneConfig)
    consolidate_every: Count = 0
    evaluate: EvaluateConfig = EvaluateConfig()
    gate: GateConfig = GateConfig()
    registry: RegistryConfig = RegistryConfig()
    report: ReportConfig = ReportConfig()
    retention: RetentionConfig = RetentionConfig()

    def __post_init__(self) -> None:
        if self.drive.demonstrations and not self.curate.demonstration_share:
            raise UserError(
                "drive.demonstrations: they would weigh nothing in training; set curate.demonstration_share "
                "above 0 as well"
            )


def _nearest(name: str, known: object) -> str:
    names = [str(k) for k in known]  # type: ignore[attr-defined]
    near = get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(names)}"
