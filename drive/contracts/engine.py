"""Records of the nightly loop; all are small and go to JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Source = Literal["log", "closed_loop", "shadow", "split_brain", "benchmark"]
Status = Literal["open", "training", "fixed", "retired", "quarantined"]
Cause = Literal["perception", "prediction", "command", "trajectory", "control", "simulator", "unknown"]


@dataclass(frozen=True)
class BadCase:
    """A moment that went wrong, and enough to find it again.

    Attributes:
        case_id: Stable hash of log, kind and start.
        log_id: Drive it comes from; `route` is the scene name for real logs.
        kind: Mining rule, e.g. "hard_brake", "near_miss", "collision", "disagreement".
        start_us, end_us: Span in the log's clock.
        severity: In [0, 1], 1 is worst.
        source: Where it was mined.
        terms: Numbers behind it, e.g. {"decel_mps2": 6.1}.
        tags: Free labels: town, simulator, images, driver.
        cause: Which part most likely failed, by the rules of data_engine/causes.py.
        pictures: Evidence, as paths below the folder of the stage that mined it.
        embedding: Scene descriptor used for deduplication; may be empty.
        status: Life cycle across nights.
    """

    case_id: str
    log_id: str
    route: str
    kind: str
    start_us: int
    end_us: int
    severity: float
    source: Source
    terms: Mapping[str, float] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    embedding: tuple[float, ...] = ()
    status: Status = "open"
    cause: Cause = "unknown"
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True)
class ManifestEntry:
    """One training sample: planning step `plan_index` of a log, its weight, and why it is here."""

    log_id: str
    plan_index: int
    weight: float
    reason: Literal["bad_case", "demonstration", "neighbour", "replay"]


@dataclass(frozen=True)
class Manifest:
    """Exactly what one training run saw; manifest_id is the hash of the entries."""

    manifest_id: str
    parent_id: str | None
    entries: tuple[ManifestEntry, ...]


@dataclass(frozen=True)
class ModelVersion:
    """One trained model and where it comes from; model_id is the weights' sha256[:12]."""

    model_id: str
    parent_id: str | None
    manifest_id: str | None
    config_sha: str
    stage: Literal["candidate", "champion", "previous", "rejected"]
    scores: Mapping[str, float] = field(default_factory=dict)
