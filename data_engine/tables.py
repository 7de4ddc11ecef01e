"""Drives as columns: what mining scans, in memory or memory-mapped from Arrow files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from data_engine.descriptor import describe
from drive.contracts import EGO_MKZ, F32, F64, STEPS, DriveLog, EgoTrack, LogMeta, UserError
from drive.contracts.log import Simulator
from drive.logs.recorded import no_agents, no_plans
from drive.score.scene import freeze_log
from drive.score.terms import reward_terms, total

REAL_WORLD: Simulator = "real world"
APART_S = 1e6  # between two drives on the common clock
CHUNK = 256
COLUMNS = ("ego", "agents", "steps", "events")
WIDE = {"plan": (STEPS, 3), "label": (STEPS, 3), "command": (2,), "label_command": (2,), "descriptor": (-1,)}


@dataclass(frozen=True)
class DriveRow:
    """One drive of a set of tables: identity and ego box."""

    log_id: str
    town: str
    route: str
    simulator: str
    driver: str
    image_kind: str
    length_m: float
    width_m: float
    centre_m: float


@dataclass(frozen=True)
class Tables:
    """Columns of many drives, one after another; numbers only, so that one scan serves all drives.

    Attributes:
        drives: What the column `drive` refers to.
        ego: drive, t_us, x_m, y_m, yaw_rad (world), speed_mps, accel_mps2, yaw_rate_radps, off_route_m.
        agents: row (of `ego`), x_m, y_m, yaw_rad (world), speed_mps, length_m, width_m, kind; seen ones only.
        steps: Planning steps: drive, row (of `ego`), plan and label (40, 3) in the ego frame, command and
            label_command (2,), split_brain, confidence, reward, descriptor.
        events: drive, t_us, kind, detail.
        known: float32 (K, F), descriptors of earlier nights; empty = novelty cannot be told.
    """

    drives: tuple[DriveRow, ...]
    ego: Mapping[str, Any]
    agents: Mapping[str, Any]
    steps: Mapping[str, Any]
    events: Mapping[str, Any]
    known: F32 = field(default_factory=lambda: np.zeros((0, 1), np.float32))

    def clock_s(self) -> F64:
        """Seconds of every ego row on one rising clock, drives far apart; a stamp that runs back stands."""
        drive, t_us = self.ego["drive"], self.ego["t_us"]
        if not len(drive):
            return np.zeros(0)
        first = np.flatnonzero(np.diff(drive, prepend=drive[0] - 1))
        start_us = np.repeat(t_us[first], np.diff(np.append(first, len(drive))))
        clock: F64 = np.maximum.accumulate((t_us - start_us) * 1e-6 + drive.astype(np.float64) * APART_S)
        return clock

    def first_hit_s(self) -> F64:
        """Per drive, when it first touched something on the clock of `clock_s`; inf = never."""
        hit = np.full(len(self.drives), np.inf)
        drive = self.ego["drive"]
        for d, t_us, kind in zip(self.events["drive"], self.events["t_us"], self.events["kind"], strict=True):
            if kind.startswith("collision"):
                start_us = self.ego["t_us"][np.searchsorted(drive, d)]
                hit[d] = min(hit[d], (int(t_us) - int(start_us)) * 1e-6 + d * APART_S)
        return hit


def tables_of(logs: Sequence[DriveLog], known: F32 | None = None, rewards: bool = False) -> Tables:
    """Columns of some drives.

    Args:
        logs: With finite numbers (`hygiene.sane`); images are not used.
        known: Descriptors of earlier nights.
        rewards: Judge every plan on the recorded scene, which takes some milliseconds a step.
    """
    parts: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
    rows = 0
    for number, log in enumerate(logs):
        parts["ego"].append(_ego(log, number))
        parts["agents"].append(_agents(log, rows))
        parts["steps"].append(_steps(log, number, rows, rewards))
        parts["events"].append(_events(log, number))
        rows += len(log.ego.t_us)
    joined = {
        name: {key: _joined([part[key] for part in some]) for key in some[0]} if some else {}
        for name, some in parts.items()
    }
    drives = tuple(_drive(log) for log in logs)
    known = np.zeros((0, 1), np.float32) if known is None else known
    return Tables(drives, joined["ego"], joined["agents"], joined["steps"], joined["events"], known)


def empty_tables() -> Tables:
    """Tables of no drive, with all their columns."""
    none = np.zeros(0, np.float32)
    ego = EgoTrack(np.zeros(0, np.int64), np.zeros((0, 3)), none, none, none)
    meta = LogMeta("none", "none", "none", "none", -1, "nobody", REAL_WORLD, "none", "recorded")
    log = DriveLog(meta, ego, no_agents(0), EGO_MKZ, no_plans(), np.zeros((0, 2)), None)
    return replace(tables_of([log]), drives=())


def _joined(parts: list[Any]) -> Any:
    return list(chain.from_iterable(parts)) if isinstance(parts[0], list) else np.concatenate(parts)


def _drive(log: DriveLog) -> DriveRow:
    meta, size = log.meta, log.ego_size
    return DriveRow(
        meta.log_id, meta.town, meta.route, meta.simulator, meta.driver, meta.image_kind,
        size.length_m, size.width_m, size.centre_from_axle_m,
    )  # fmt: skip


def _ego(log: DriveLog, number: int) -> dict[str, Any]:
    ego = log.ego
    return {
        "drive": np.full(len(ego.t_us), number, np.int32),
        "t_us": ego.t_us,
        "x_m": ego.pose_world[:, 0],
        "y_m": ego.pose_world[:, 1],
        "yaw_rad": ego.pose_world[:, 2].astype(np.float32),
        "speed_mps": ego.speed_mps,
        "accel_mps2": ego.accel_mps2,
        "yaw_rate_radps": ego.yaw_rate_radps,
        "off_route_m": _off_route(log),
    }


def _off_route(log: DriveLog) -> F32:
    """Distance of each row to the nearest route point, float32 (T,); NaN without a route."""
    place, route = log.ego.pose_world[:, :2], log.route_world
    out = np.full(len(place), np.nan, np.float32)
    for k in range(0, len(place), CHUNK) if len(route) > 1 else ():
        gap = place[k : k + CHUNK, None] - route[None]
        out[k : k + CHUNK] = np.hypot(gap[..., 0], gap[..., 1]).min(1)
    return out


def _agents(log: DriveLog, first_row: int) -> dict[str, Any]:
    agents = log.agents
    step, who = np.nonzero(agents.valid.T)
    pose = agents.pose_world[who, step]
    return {
        "row": (first_row + step).astype(np.int32),
        "x_m": pose[:, 0],
        "y_m": pose[:, 1],
        "yaw_rad": pose[:, 2].astype(np.float32),
        "speed_mps": agents.speed_mps[who, step],
        "length_m": agents.size_m[who, 0],
        "width_m": agents.size_m[who, 1],
        "kind": agents.kind[who].astype(np.int8),
    }


def _steps(log: DriveLog, number: int, first_row: int, rewards: bool) -> dict[str, Any]:
    plans = log.plans
    return {
        "drive": np.full(len(plans.step), number, np.int32),
        "row": (first_row + plans.step).astype(np.int32),
        "plan": plans.plan_ego,
        "label": plans.label_ego,
        "command": plans.command,
        "label_command": plans.label_command,
        "split_brain": plans.split_brain,
        "confidence": plans.confidence,
        "reward": plan_rewards(log) if rewards else np.full(len(plans.step), np.nan, np.float32),
        "descriptor": describe(log),
    }


def plan_rewards(log: DriveLog) -> F32:
    """Total reward in [0, 1] of each driven plan on the recorded scene, float32 (D,); NaN without a plan."""
    out = np.full(len(log.plans.step), np.nan, np.float32)
    for i in np.flatnonzero(np.isfinite(log.plans.plan_ego).all((1, 2))):
        out[i] = total(reward_terms(log.plans.plan_ego[i : i + 1], freeze_log(log, int(i))))[0]
    return out


def _events(log: DriveLog, number: int) -> dict[str, Any]:
    return {
        "drive": np.full(len(log.events), number, np.int32),
        "t_us": np.array([event.t_us for event in log.events], np.int64),
        "kind": [event.kind for event in log.events],
        "detail": [event.detail for event in log.events],
    }


def arrow_table(columns: Mapping[str, Any]) -> Any:
    """Columns as a pyarrow table; wide columns become fixed-size lists, numbers are not copied."""
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if isinstance(values, list) or values.ndim == 1:
            arrays[name] = pa.array(values, pa.string()) if isinstance(values, list) else pa.array(values)
        else:
            flat = pa.array(np.ascontiguousarray(values).reshape(-1))
            arrays[name] = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(values.shape[1:])))
    return pa.table(arrays)


def write_tables(tables: Tables, folder: Path) -> None:
    """Write the columns as Arrow files, one per table; `drives` go into the metadata of ego.arrow."""
    import json

    import pyarrow as pa

    folder.mkdir(parents=True, exist_ok=True)
    for name in COLUMNS:
        table = arrow_table(getattr(tables, name))
        if name == "ego":
            about = json.dumps([asdict(row) for row in tables.drives])
            table = table.replace_schema_metadata({"drives": about})
        path = str(folder / f"{name}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)


def read_tables(folder: Path) -> Tables:
    """Columns written by `write_tables`; memory-mapped, so only what a rule reads is loaded.

    Raises:
        UserError: A file is missing or damaged.
    """
    import json

    import pyarrow as pa

    columns: dict[str, dict[str, Any]] = {}
    about = "[]"
    for name in COLUMNS:
        path = folder / f"{name}.arrow"
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise UserError(f"{path}: not readable ({error}); run the mine stage again") from None
        if name == "ego":
            about = (table.schema.metadata or {}).get(b"drives", b"[]").decode()
        columns[name] = {key: _column(key, table[key]) for key in table.column_names}
    drives = tuple(DriveRow(**row) for row in json.loads(about))
    return Tables(drives, columns["ego"], columns["agents"], columns["steps"], columns["events"])


def _column(name: str, values: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_string(values.type):
        return values.to_pylist()
    values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if not pa.types.is_fixed_size_list(values.type):
        return values.to_numpy(zero_copy_only=False)
    shape = WIDE[name]
    flat = values.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(values), *(shape if shape != (-1,) else (values.type.list_size,)))
