"""A comparison as a picture: differences, scores, groups, error over the horizon."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from drive.bench.compare import Comparison
from drive.bench.result import EvalTable
from drive.score.bootstrap import Interval

SHOWN = 20
COLOURS = {"better": "tab:green", "worse": "tab:red", "within noise": "tab:grey"}
HORIZON = re.compile(r"l2_(at|up_to)_(\d+)s")


def draw(found: Comparison, a: EvalTable, b: EvalTable, path: Path) -> None:
    """Write a PNG.

    Differences in units of the smallest detectable change; the means of both with 95 % intervals, or for open
    loop the error over the horizon in both protocols; the primary metric of both per group (scenario type,
    command, turn); and the groups in which B is worse.
    """
    from matplotlib.figure import Figure

    groups = len(_groups(a, b))
    figure = Figure(figsize=(14, 4 + 0.3 * max(len(found.metrics), min(groups, SHOWN))), layout="constrained")
    (one, two), (three, four) = figure.subplots(2, 2)
    _differences(one, found, a.model, b.model)
    curves = [m.name for m in a.metrics if HORIZON.fullmatch(m.name)]
    if curves:
        _over_horizon(two, a, b)
    else:
        _scores(two, a, b)
    _per_group(three, a, b)
    _worse(four, found)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def _differences(axes: Any, found: Comparison, a: str, b: str) -> None:
    for y, one in enumerate(reversed(found.metrics)):
        unit = one.detectable if one.detectable > 0 else 1.0
        good = 1.0 if one.better == "higher" else -1.0
        low, high = sorted(good * v / unit for v in (one.change.low, one.change.high))
        axes.plot([low, high], [y, y], color=COLOURS[one.verdict])
        axes.plot(good * one.change.mean / unit, y, "o", color=COLOURS[one.verdict])
    axes.set_yticks(range(len(found.metrics)), [one.metric for one in reversed(found.metrics)])
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_xlabel("to the right: B is better; unit: smallest detectable change")
    axes.set_title(f"B {b} against A {a}")


def _scores(axes: Any, a: EvalTable, b: EvalTable) -> None:
    """Means with intervals, each metric in shares of its larger mean."""
    for side, (table, colour) in enumerate(((a, "tab:blue"), (b, "tab:orange"))):
        for y, metric in enumerate(table.metrics):
            top = max(abs(t.metrics[y].interval.mean) for t in (a, b)) or 1.0
            value = metric.interval
            axes.barh(
                y + 0.4 * side, value.mean / top, 0.38, color=colour, label=f"{'AB'[side]} {table.model}"
            )
            axes.plot([value.low / top, value.high / top], [y + 0.4 * side] * 2, color="black", linewidth=1)
            axes.text(0.02, y + 0.4 * side, f"{value.mean:.3g}", va="center", fontsize=7)
    axes.set_yticks([y + 0.2 for y in range(len(a.metrics))], [m.name for m in a.metrics])
    axes.invert_yaxis()
    axes.set_xlabel("share of the larger mean, 95 %; numbers: the means")
    _legend(axes, "lower right")


def _over_horizon(axes: Any, a: EvalTable, b: EvalTable) -> None:
    for table, colour, side in ((a, "tab:blue", "A"), (b, "tab:orange", "B")):
        for reading, style in (("at", "-"), ("up_to", "--")):
            points = sorted(
                (int(m[2]), metric.interval)
                for metric in table.metrics
                if (m := HORIZON.fullmatch(metric.name)) and m[1] == reading
            )
            values: list[Interval] = [value for _, value in points]
            seconds = [s for s, _ in points]
            label = f"{side} {table.model}, {reading.replace('_', ' ')} the horizon"
            axes.plot(seconds, [v.mean for v in values], style, marker="o", color=colour, label=label)
            axes.fill_between(
                seconds, [v.low for v in values], [v.high for v in values], color=colour, alpha=0.1
            )
    axes.set_xlabel("horizon [s]")
    axes.set_ylabel("L2 [m], 95 % intervals")
    axes.set_title("error over the horizon")
    _legend(axes)


def _groups(a: EvalTable, b: EvalTable) -> list[str]:
    return sorted({str(g) for table in (a, b) for g in table.columns["group"]})


def _per_group(axes: Any, a: EvalTable, b: EvalTable) -> None:
    names, metric = _groups(a, b)[:SHOWN], a.metrics[0]
    for side, (table, colour) in enumerate(((a, "tab:blue"), (b, "tab:orange"))):
        values = np.asarray(table.columns[metric.name], np.float64)
        labels = np.asarray(table.columns["group"], str)
        means = [
            float(np.nanmean(values[labels == n])) if _any(values[labels == n]) else math.nan for n in names
        ]
        places = np.arange(len(names)) + 0.4 * side
        axes.barh(places, means, 0.38, color=colour, label=f"{'AB'[side]} {table.model}")
    counts = {n: sum(str(g) == n for g in a.columns["group"]) for n in names}
    axes.set_yticks(np.arange(len(names)) + 0.2, [f"{n} ({counts[n]})" for n in names])
    axes.invert_yaxis()
    more = len(_groups(a, b)) - len(names)
    axes.set_title(f"{metric.name} by group" + (f", {more} more not shown" if more else ""))
    _legend(axes)


def _any(values: Any) -> bool:
    return bool(np.isfinite(values).any())


def _worse(axes: Any, found: Comparison) -> None:
    worst = list(reversed(found.worse_groups[:SHOWN]))
    axes.barh(range(len(worst)), [part.change for part in worst], color="tab:red")
    axes.set_yticks(range(len(worst)), [f"{part.name} ({part.pairs})" for part in worst])
    axes.set_xlabel(f"B - A, {found.metrics[0].metric}")
    axes.set_title("groups where B is worse" if worst else "no group where B is worse")


def _legend(axes: Any, place: str = "best") -> None:
    """Each label once."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(once.values(), once.keys(), fontsize=7, loc=place)
