"""Charts of the reports: training curve, shares before and after, intervals, paired scores per route."""

import io
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

INK, FAINT, GRID = "#27313d", "#6b7683", "#e4e7eb"
BEFORE, AFTER = "#9aa5b1", "#1f6feb"
GOOD, BAD, NEUTRAL = "#128a4b", "#c92a2a", "#6b7683"
DPI = 130


def training_curve(series: Mapping[str, Sequence[tuple[int, float]]], width_in: float = 5.4) -> bytes:
    """Loss curves: name -> [(step, value), ...]; thin raw line and a running mean.  PNG."""
    with _figure(width_in, 2.6) as (figure, axes, done):
        palette = (AFTER, "#e8590c", "#128a4b", "#8a3fa8", "#9aa5b1")
        for (name, points), colour in zip(
            series.items(), palette * (1 + len(series) // len(palette)), strict=False
        ):
            steps, values = (np.array(column, np.float64) for column in zip(*points, strict=True))
            axes.plot(steps, values, color=colour, lw=0.7, alpha=0.3)
            axes.plot(steps, _running_mean(values), color=colour, lw=1.8, label=name)
        axes.set_xlabel("training step", color=FAINT)
        axes.grid(axis="y", color=GRID)
        axes.legend(frameon=False, loc="upper right", ncols=min(3, max(1, len(series))))
        figure.tight_layout()
    return bytes(done())


def nights(rows: Sequence[tuple[str, float, float]], width_in: float = 7.6) -> bytes:
    """Scores of champion and candidate by night: (name, champion, candidate), oldest first.  PNG."""
    with _figure(width_in, 2.8) as (figure, axes, done):
        x = np.arange(len(rows))
        axes.plot(x, [row[1] for row in rows], color=BEFORE, lw=1.8, marker="o", label="champion")
        axes.plot(x, [row[2] for row in rows], color=AFTER, lw=1.2, marker="s", ls="--", label="candidate")
        axes.set_xticks(x, [row[0] for row in rows], rotation=20, ha="right")
        axes.set_ylabel("driving score", color=FAINT)
        axes.grid(axis="y", color=GRID)
        axes.legend(frameon=False, loc="best")
        figure.tight_layout()
    return bytes(done())


def before_after(before: Mapping[str, float], after: Mapping[str, float], top: int = 12) -> bytes:
    """Shares per name as paired horizontal bars, largest first; the rest is summed as "other".  PNG."""
    names = sorted({*before, *after}, key=lambda k: -(before.get(k, 0.0) + after.get(k, 0.0)))
    rows = [(k, before.get(k, 0.0), after.get(k, 0.0)) for k in names[:top]]
    rest = names[top:]
    if rest:
        rows.append(
            (
                f"other ({len(rest)})",
                sum(before.get(k, 0.0) for k in rest),
                sum(after.get(k, 0.0) for k in rest),
            )
        )
    with _figure(5.4, 0.7 + 0.32 * max(1, len(rows))) as (figure, axes, done):
        y = np.arange(len(rows))[::-1]
        axes.barh(y + 0.19, [100 * r[1] for r in rows], 0.34, color=BEFORE, label="drives as recorded")
        axes.barh(y - 0.19, [100 * r[2] for r in rows], 0.34, color=AFTER, label="training mix")
        axes.set_yticks(y, [r[0] for r in rows])
        axes.set_xlabel("share of planning steps [%]", color=FAINT)
        axes.grid(axis="x", color=GRID)
        axes.legend(frameon=False, loc="lower right")
        figure.tight_layout()
    return bytes(done())


def interval_chart(rows: Sequence[tuple[str, float, float, float, str, str]]) -> bytes:
    """Relative changes with intervals around zero.

    Args:
        rows: (name, mean %, low %, high %, better "higher" or "lower", verdict), drawn top to bottom.

    Returns:
        PNG; green is better beyond noise, red worse beyond noise, grey within noise.
    """
    with _figure(5.4, 0.8 + 0.36 * max(1, len(rows))) as (figure, axes, done):
        axes.axvline(0, color=INK, lw=1)
        for y, (_name, mean, low, high, better, _verdict) in zip(range(len(rows))[::-1], rows, strict=True):
            sign = 1 if better == "higher" else -1
            gained, lost = min(sign * low, sign * high) > 0, max(sign * low, sign * high) < 0
            colour = GOOD if gained else BAD if lost else NEUTRAL
            axes.plot([low, high], [y, y], color=colour, lw=3, solid_capstyle="round", alpha=0.55)
            axes.plot([mean], [y], "o", color=colour, ms=7, mec="white", mew=1)
        axes.set_yticks(range(len(rows))[::-1], [r[0] for r in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel("change against the champion [%]", color=FAINT)
        axes.grid(axis="x", color=GRID)
        figure.tight_layout()
    return bytes(done())


def paired_scores(rows: Sequence[tuple[str, float, float]], limit: float = 100.0) -> bytes:
    """One line per route from the champion's score (grey) to the candidate's (green up, red down).  PNG."""
    with _figure(5.4, 0.8 + 0.24 * max(1, len(rows))) as (figure, axes, done):
        for y, (_name, before, after) in zip(range(len(rows))[::-1], rows, strict=True):
            colour = GOOD if after > before + 1e-9 else BAD if after < before - 1e-9 else NEUTRAL
            axes.plot([before, after], [y, y], color=colour, lw=2.4, alpha=0.6)
            axes.plot([before], [y], "o", color=BEFORE, ms=6, mec="white")
            axes.plot([after], [y], "o", color=colour, ms=6, mec="white")
        axes.set_yticks(range(len(rows))[::-1], [r[0] for r in rows])
        axes.set_xlim(-0.03 * limit, 1.03 * limit)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel("driving score: champion (grey) and candidate", color=FAINT)
        axes.grid(axis="x", color=GRID)
        figure.tight_layout()
    return bytes(done())


def score_chart(rows: Mapping[str, Mapping[str, tuple[float, float, float]]], label: str) -> bytes:
    """Means with intervals, one row per name and one colour per series.

    Args:
        rows: series -> name -> (mean, low, high), names drawn top to bottom as they first appear.
        label: Of the axis.

    Returns:
        PNG.
    """
    names = list(dict.fromkeys(name for series in rows.values() for name in series))
    palette = (AFTER, "#e8590c", GOOD, "#8a3fa8", BEFORE)
    with _figure(7.0, 0.9 + (0.2 + 0.2 * len(rows)) * max(1, len(names))) as (figure, axes, done):
        for k, (series, values) in enumerate(rows.items()):
            colour, shift = palette[k % len(palette)], 0.3 - 0.6 * (k + 0.5) / len(rows)
            for name, (mean, low, high) in values.items():
                y = len(names) - 1 - names.index(name) + shift
                axes.plot([low, high], [y, y], color=colour, lw=3, solid_capstyle="round", alpha=0.55)
                first = name == next(iter(values))
                axes.plot([mean], [y], "o", color=colour, ms=6, mec="white", label=series if first else None)
        axes.set_yticks(range(len(names))[::-1], names)
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.set_xlabel(label, color=FAINT)
        axes.grid(axis="x", color=GRID)
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=max(1, len(rows)))
        figure.tight_layout()
    return bytes(done())


def _running_mean(values: Any, share: float = 0.05) -> Any:
    width = max(1, int(len(values) * share))
    padded = np.pad(values, (width - 1, 0), mode="edge")
    return np.convolve(padded, np.full(width, 1 / width), mode="valid")


@contextmanager
def _figure(width_in: float, height_in: float) -> "Iterator[tuple[Any, Any, Any]]":
    """A styled figure, its axes, and a function that gives the PNG once the block is left."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    out = io.BytesIO()
    style = {"font.size": 9.0, "font.family": "sans-serif", "text.color": INK, "axes.edgecolor": GRID}
    with matplotlib.rc_context({**style, "xtick.color": FAINT, "ytick.color": INK, "axes.axisbelow": True}):
        figure = Figure(figsize=(width_in, height_in), dpi=DPI, facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0)
        yield figure, axes, out.getvalue
        figure.savefig(out, format="png")
