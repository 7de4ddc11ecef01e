"""Rules about planning steps: what was planned, against driver, command, scene and what is known."""

import numpy as np

from data_engine.rules.moments import Finding, moments
from data_engine.tables import Tables
from drive.contracts import DT_S, F64
from drive.geometry.commands import agree

KNOWN_ROWS = 4096


def stuck(
    tables: Tables, min_s: float = 4.0, max_speed_mps: float = 0.2, label_moves_m: float = 4.0
) -> list[Finding]:
    """The car stands although the expert, from the same state, would drive on."""
    clock, row = tables.clock_s(), tables.steps["row"]
    reach_m = np.linalg.norm(tables.steps["label"][:, -1, :2], axis=-1)  # NaN = no label: compares false
    stands = (tables.ego["speed_mps"][row] < max_speed_mps) & (reach_m > label_moves_m)
    found = moments(tables, clock, stands, 0.0, row, min_s)
    return [_standing(one, min_s) for one in found]


def _standing(one: Finding, min_s: float) -> Finding:
    span_s = (one.end_us - one.start_us) * 1e-6
    severity = float(np.clip(span_s / (4 * min_s), 0, 1))
    return Finding(one.drive, one.start_us, one.end_us, severity, {"standing_s": span_s})


def disagreement(
    tables: Tables, distance_m: float = 2.0, horizon_s: float = 3.0, final_m: float = 6.0
) -> list[Finding]:
    """Plan and expert (or human) trajectory are apart: on average over `horizon_s`, or at its end."""
    mean_m, last_m = plan_error(tables, horizon_s)
    mask = (mean_m > distance_m) | (last_m > final_m)
    severity = np.fmax(mean_m / (4 * distance_m), last_m / (4 * final_m))
    terms = {"ade_m": mean_m, "fde_m": last_m}
    return moments(tables, tables.clock_s(), mask, severity, tables.steps["row"], highest=terms)


def intent(tables: Tables, min_s: float = 0.4) -> list[Finding]:
    """The emitted command leads elsewhere than the driver's: another turn or lane, for some time."""
    said, wanted = tables.steps["command"], tables.steps["label_command"]
    mask = (said >= 0).all(1) & (wanted >= 0).all(1) & (said[:, 0] != wanted[:, 0])
    return moments(tables, tables.clock_s(), mask, 0.5, tables.steps["row"], min_s)


def split_brain(tables: Tables) -> list[Finding]:
    """The emitted driving command and the chosen trajectory contradict each other."""
    steps = tables.steps
    row, command = steps["row"], steps["command"]
    told = (command >= 0).all(-1) & np.isfinite(steps["plan"]).all((-2, -1))
    mask = np.array(steps["split_brain"], bool)
    if told.any():
        mask[told] |= ~agree(command[told], steps["plan"][told], tables.ego["speed_mps"][row[told]])
    return moments(tables, tables.clock_s(), mask, 0.5, row)


def low_reward(tables: Tables, reward: float = 0.3) -> list[Finding]:
    """The driven plan earns little on the recorded scene (terms of drive.score): unsafe, slow or harsh."""
    earned = tables.steps["reward"]
    lost = 1 - earned / reward
    terms = {"reward": earned}
    return moments(tables, tables.clock_s(), earned < reward, lost, tables.steps["row"], lowest=terms)


def low_confidence(tables: Tables, confidence: float = 0.35, min_s: float = 0.4) -> list[Finding]:
    """The planner gives its own command little probability, for some time."""
    sure = tables.steps["confidence"]
    terms = {"confidence": sure}
    mask = sure < confidence
    return moments(tables, tables.clock_s(), mask, 1 - sure, tables.steps["row"], min_s, lowest=terms)


def novelty(tables: Tables, distance: float = 1.5, min_s: float = 0.4) -> list[Finding]:
    """The scene is far from everything that earlier nights drove through (distance of descriptors)."""
    if not len(tables.known) or not len(tables.steps["row"]):
        return []
    far = distance_to_known(tables)
    mask, terms = far > distance, {"distance": far}
    return moments(
        tables, tables.clock_s(), mask, far / (4 * distance), tables.steps["row"], min_s, highest=terms
    )


def distance_to_known(tables: Tables) -> F64:
    """Euclidean distance of each step's descriptor to the nearest known one, float64 (D,)."""
    rows = tables.steps["descriptor"].astype(np.float64)
    known = tables.known.astype(np.float64)
    norms, out = (known**2).sum(1), np.empty(len(rows))
    for k in range(0, len(rows), KNOWN_ROWS):
        part = rows[k : k + KNOWN_ROWS]
        square = (part**2).sum(1)[:, None] + norms[None] - 2 * part @ known.T
        out[k : k + KNOWN_ROWS] = np.sqrt(np.maximum(square.min(1), 0.0))
    return out


def plan_error(tables: Tables, horizon_s: float) -> tuple[F64, F64]:
    """Mean and last distance [m] of plan and label over the horizon, float64 (D,) each; NaN = unknown."""
    rows = max(1, round(horizon_s / DT_S))
    plan, label = tables.steps["plan"][:, :rows, :2], tables.steps["label"][:, :rows, :2]
    gap = np.linalg.norm(plan.astype(np.float64) - label, axis=-1)
    return np.asarray(gap.mean(-1)), np.asarray(gap[:, -1])
