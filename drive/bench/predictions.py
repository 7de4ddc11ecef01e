"""Predictions of anybody's planner: read, matched with samples, brought into the ego frame."""

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drive.bench.cases import Case
from drive.bench.inputs import FUTURE_STEPS
from drive.contracts import F64, Bool, UserError
from drive.geometry.se2 import resample_poses, wrap, yaw_from_path
from drive.score.openloop import KEY_DT_S

FRAMES = ("ego", "lidar", "world")
COMMANDS = ("oracle", "navigation", "none")
NAMED, LONGEST = 3, 80
UNREADABLE_NPZ = (
    OSError, ValueError, EOFError, KeyError, RuntimeError, MemoryError, OverflowError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip
FARTHEST_M = 1e6  # from the origin of any of the frames
WRONG_M, FITS = 3.0, 0.3
TURN_M, TURNS = 2.0, 5


@dataclass(frozen=True)
class Predictions:
    """The content of a file.

    Attributes:
        where: Path.
        planner: Name of who planned.
        frame: "ego" (x forward, y left, rear axle), "lidar" (x right, y forward, LIDAR_TOP) or "world" (the
            map's); the first two at the time of the sample.
        command: Where the driving command came from: "oracle" (the recorded future), "navigation", "none", or
            "not declared".
        dt_s: Spacing; row i is the place at (i + 1) * dt_s.
        tokens: B sample tokens.
        pose: float64 (B, T, 2 or 3), places [m], and where given the heading of the car [rad].
    """

    where: str
    planner: str
    frame: str
    command: str
    dt_s: float
    tokens: tuple[str, ...]
    pose: F64


@dataclass(frozen=True)
class Coverage:
    """How the tokens of a file and of a sample set go together.

    Attributes:
        planned: Samples in the set.
        covered: Those with a usable prediction.
        missing: Those without any.
        non_finite: Those whose prediction is not finite, or absurdly far away.
        outside: Predictions of samples that are known but not in the set; left out.
        foreign: Predictions for tokens that are not in the tables; left out.
    """

    planned: int
    covered: int
    missing: int
    non_finite: int
    outside: int
    foreign: int


def read_predictions(path: Path) -> Predictions:
    """Read a .json, .npz or .parquet file (docs/benchmarks.md says what has to be in it).

    Raises:
        UserError: Says what is missing or wrong, and where.
    """
    readers = {".json": _read_json, ".npz": _read_npz, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise UserError(f"--predictions {path}: must end in {', '.join(readers)}")
    if not path.is_file():
        raise UserError(
            f"--predictions {path}: {'is a folder; give a file' if path.is_dir() else 'no such file'}"
        )
    head, tokens, pose = readers[path.suffix](path)
    frame, dt_s = head.get("frame"), head.get("dt_s")
    if frame not in FRAMES:
        raise UserError(f"{path}: frame is {frame!r}; declare one of {', '.join(FRAMES)}")
    if isinstance(dt_s, bool) or not isinstance(dt_s, int | float) or not 0 < dt_s <= 3.0:
        raise UserError(f"{path}: dt_s is {dt_s!r}; declare the seconds between rows, e.g. 0.5")
    command = head.get("command", "not declared")
    if command not in (*COMMANDS, "not declared"):
        raise UserError(f"{path}: command is {command!r}; declare one of {', '.join(COMMANDS)}")
    repeated = len(tokens) - len(set(tokens))
    if repeated:
        raise UserError(
            f"{path}: {repeated} tokens are repeated ({_some(_repeated(tokens))}); keep one of each"
        )
    if pose.ndim != 3 or pose.shape[2] not in (2, 3) or len(pose) != len(tokens) or not len(pose):
        raise UserError(f"{path}: expected poses (samples, steps, 2 or 3), got {pose.shape}")
    horizon = FUTURE_STEPS * KEY_DT_S
    if pose.shape[1] * dt_s < horizon - 1e-6:
        raise UserError(f"{path}: reaches {pose.shape[1] * dt_s:g} s; {horizon:g} s are needed")
    planner = str(head.get("planner") or path.stem)
    return Predictions(str(path), planner, frame, command, float(dt_s), tuple(tokens), pose)


def match(
    predictions: Predictions, cases: Sequence[Case], known: Sequence[str], allow_partial: bool
) -> tuple[F64, Coverage]:
    """Rear-axle poses in the ego frame at the key frames, float64 (B, 6, 3), NaN where there is none.

    Args:
        predictions: From `read_predictions`.
        cases: Samples that are scored.
        known: All sample tokens of the tables.
        allow_partial: Leave foreign tokens out and let non-finite predictions fail, instead of refusing them.

    Raises:
        UserError: No prediction for any sample, foreign tokens, values that are not finite, or another frame
            fits far better than the declared one.
    """
    tables = set(known)
    foreign = [t for t in predictions.tokens if t not in tables]
    row = {token: i for i, token in enumerate(predictions.tokens)}
    index = np.array([row.get(case.token, -1) for case in cases])
    there = index >= 0
    if foreign and not allow_partial:
        raise UserError(
            f"{predictions.where}: {len(foreign)} of {len(predictions.tokens)} tokens are not in these "
            f"tables ({_some(foreign)}); is it the right --version? --allow-partial leaves them out"
        )
    if not there.any():
        raise UserError(f"{predictions.where}: has no prediction for any of the {len(cases)} samples")
    raw = np.where(there[:, None, None], predictions.pose[index], np.nan)
    finite = (np.abs(raw) < FARTHEST_M).all((1, 2))  # false for NaN
    broken = [cases[i].token for i in np.flatnonzero(there & ~finite)]
    if broken and not allow_partial:
        raise UserError(
            f"{predictions.where}: {len(broken)} predictions are not finite or beyond {FARTHEST_M:.0e} m "
            f"({_some(broken)}); with --allow-partial they count as failed"
        )
    _check_frame(predictions, cases, raw, finite)
    coverage = Coverage(
        planned=len(cases),
        covered=int(finite.sum()),
        missing=int((~there).sum()),
        non_finite=len(broken),
        outside=len(predictions.tokens) - len(foreign) - int(there.sum()),
        foreign=len(foreign),
    )
    return _key_poses(_axle_poses(raw, predictions.frame, cases, finite), predictions.dt_s), coverage


def _axle_poses(raw: F64, frame: str, cases: Sequence[Case], use: Bool) -> F64:
    """Poses (B, T, 3) of the rear axle in the ego frame; without headings they follow from the path."""
    out = np.full((*raw.shape[:2], 3), np.nan)
    if not use.any():
        return out
    given = raw[use]
    now = np.array([case.scene.pose_world[case.k] for case in cases])[use]
    mount = np.array([case.scene.lidar_ego for case in cases])[use]
    lever = mount[:, :2] if frame == "lidar" else np.zeros((len(given), 2))
    if frame == "world":
        xy, turn = _turned(given[..., :2] - now[:, None, :2], -now[:, 2]), -now[:, 2]
    elif frame == "lidar":
        xy, turn = _turned(given[..., :2], mount[:, 2]), mount[:, 2]
    else:
        xy, turn = given[..., :2], np.zeros(len(given))
    yaw = wrap(given[..., 2] + turn[:, None]) if given.shape[2] == 3 else yaw_from_path(xy)
    out[use, :, :2] = xy + lever[:, None] - _turned(np.broadcast_to(lever[:, None], xy.shape), yaw)
    out[use, :, 2] = yaw
    return out


def _turned(xy: F64, angle: F64) -> F64:
    """Points (B, T, 2) turned by angles (B,) or (B, T)."""
    angle = angle[:, None] if angle.ndim == 1 else angle
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * xy[..., 0] - s * xy[..., 1], s * xy[..., 0] + c * xy[..., 1]], -1)


def _key_poses(pose: F64, dt_s: float) -> F64:
    """Poses at 0.5, 1, ..., 3 s, float64 (B, 6, 3); between rows they are interpolated."""
    wanted = KEY_DT_S * np.arange(1, FUTURE_STEPS + 1)
    rows = wanted / dt_s
    if np.abs(rows - np.round(rows)).max() < 1e-6:
        return pose[:, np.round(rows).astype(np.int64) - 1]
    times = dt_s * np.arange(pose.shape[1] + 1)
    start = np.zeros((1, 3))
    return np.stack([resample_poses(np.concatenate([start, one]), times, wanted) for one in pose])


def _check_frame(predictions: Predictions, cases: Sequence[Case], raw: F64, use: Bool) -> None:
    """Refuse a declared frame if another one fits the recorded drives far better."""
    truth = np.stack([case.truth_ego for case in cases])
    use = use & np.isfinite(truth[:, -1]).all(-1)
    if not use.any():
        return

    def errors(pose: F64, frame: str) -> F64:
        placed = _key_poses(_axle_poses(pose, frame, cases, use), predictions.dt_s)[use, -1]
        return np.asarray(np.hypot(*(placed[:, :2] - truth[use, -1, :2]).T))

    declared = errors(raw, predictions.frame)
    median = float(np.median(declared))
    others = {f"frame {f!r}": errors(raw, f) for f in FRAMES if f != predictions.frame}
    others["steps from row to row instead of places"] = errors(np.cumsum(raw, 1), predictions.frame)
    best = min(others, key=lambda name: float(np.median(others[name])))
    found = float(np.median(others[best]))
    if median > WRONG_M and found < FITS * median:
        raise UserError(_misfit(predictions, best, found, median))
    turning = np.abs(truth[use, -1, 1]) > TURN_M
    if turning.sum() >= TURNS and predictions.frame == "ego":
        mirrored = float(np.median(errors(raw * ([1, -1, -1][: raw.shape[2]]), "ego")[turning]))
        here = float(np.median(declared[turning]))
        if here > WRONG_M and mirrored < FITS * here:
            raise UserError(_misfit(predictions, "y to the right, where left is meant", mirrored, here))


def _misfit(predictions: Predictions, what: str, found: float, declared: float) -> str:
    return (
        f"{predictions.where}: frame is declared {predictions.frame!r} (median error after 3 s "
        f"{declared:.1f} m), but the predictions look like {what} ({found:.1f} m); declare what they are"
    )


def _some(tokens: Sequence[str]) -> str:
    more = f" and {len(tokens) - NAMED} more" if len(tokens) > NAMED else ""
    shown = ["".join(c if c.isprintable() else "?" for c in token[:LONGEST]) for token in tokens[:NAMED]]
    return ", ".join(shown) + more


def _repeated(tokens: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    return [t for t in tokens if t in seen or seen.add(t)]  # type: ignore[func-returns-value]


def _read_json(path: Path) -> tuple[Mapping[str, Any], list[str], F64]:
    doubled: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        doubled.extend(_repeated([key for key, _ in items]))
        return dict(items)

    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}); write it again") from None
    if not isinstance(data, dict) or not isinstance(data.get("predictions"), dict):
        raise UserError(f'{path}: expected {{"frame": ..., "dt_s": ..., "predictions": {{token: rows}}}}')
    if doubled:
        raise UserError(f"{path}: {len(doubled)} keys are repeated ({_some(doubled)}); keep one of each")
    table = data["predictions"]
    shape: tuple[int, ...] | None = None
    rows = []
    for token, value in table.items():
        try:
            row = np.array(value, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"{path}: {token}: rows of 2 or 3 numbers are expected") from None
        shape = shape or row.shape
        if row.ndim != 2:
            raise UserError(f"{path}: {token}: rows of 2 or 3 numbers are expected")
        if row.shape != shape:
            raise UserError(
                f"{path}: {token}: has shape {row.shape}, others {shape}; give all the same steps"
            )
        rows.append(row)
    return data, list(table), np.array(rows, np.float64)


def _read_npz(path: Path) -> tuple[Mapping[str, Any], list[str], F64]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
    except UNREADABLE_NPZ as error:
        raise UserError(f"{path}: not a readable npz file ({error}); write it again") from None
    for name in ("token", "pose", "frame", "dt_s"):
        if name not in arrays:
            raise UserError(f"{path}: lacks the array {name!r} (has {', '.join(sorted(arrays))})")
    head = {k: v.item() for k, v in arrays.items() if v.ndim == 0}
    for name, kinds, words in (("token", "U", "texts"), ("pose", "fiu", "numbers")):
        if arrays[name].dtype.kind not in kinds:
            raise UserError(f"{path}: {name} holds no {words} but {arrays[name].dtype}")
    return head, [str(t) for t in arrays["token"].ravel()], arrays["pose"].astype(np.float64)


def _read_parquet(path: Path) -> tuple[Mapping[str, Any], list[str], F64]:
    import pandas as pd
    from pyarrow import ArrowException

    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError, ArrowException) as error:
        raise UserError(f"{path}: not a readable parquet file ({str(error).splitlines()[0]})") from None
    absent = [c for c in ("token", "step", "x", "y", "frame", "dt_s") if c not in table]
    if absent:
        raise UserError(f"{path}: lacks the columns {', '.join(absent)} (has {', '.join(map(str, table))})")
    _check_columns(path, table)
    head: dict[str, Any] = {}
    for name in ("frame", "dt_s", "planner", "command"):
        values = table[name].unique().tolist() if name in table else []
        if len(values) > 1:
            raise UserError(f"{path}: {name} differs between rows ({_some([str(v) for v in values])})")
        head |= {name: values[0]} if values else {}
    steps = sorted(int(s) for s in table["step"].unique())
    if steps != list(range(1, len(steps) + 1)):
        raise UserError(f"{path}: step must count 1, 2, ..., got {steps[:5]}")
    twice = table.duplicated(["token", "step"])
    if twice.any():
        raise UserError(
            f"{path}: {int(twice.sum())} rows repeat a token and step ({_some(list(table['token'][twice]))})"
        )
    tokens = list(dict.fromkeys(table["token"]))
    if len(table) != len(tokens) * len(steps):
        raise UserError(f"{path}: {len(table)} rows, but {len(tokens)} tokens of {len(steps)} steps")
    names = ["x", "y", "yaw"] if "yaw" in table else ["x", "y"]
    order = table.set_index(["token", "step"]).loc[[(t, s) for t in tokens for s in steps], names]
    return head, [str(t) for t in tokens], order.to_numpy(np.float64).reshape(len(tokens), len(steps), -1)


def _check_columns(path: Path, table: Any) -> None:
    """Refuse columns of texts that are no texts, and of numbers that are no numbers."""
    for name in ("token", "frame", "planner", "command"):
        if name in table and not table[name].map(lambda value: isinstance(value, str)).all():
            raise UserError(f"{path}: {name} holds values that are no texts ({table[name].dtype})")
    for name in ("step", "x", "y", "yaw", "dt_s"):
        if name in table and table[name].dtype.kind not in "fiu":
            raise UserError(f"{path}: {name} holds no numbers but {table[name].dtype}")
    if not (table["step"] % 1 == 0).all():
        raise UserError(f"{path}: step must count 1, 2, ..., and holds values that are no whole numbers")
