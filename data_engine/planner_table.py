"""Tables and the picture of a comparison of planners: planner.md, planner.png, summary.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_engine.planner_config import PlannerEvalConfig
from data_engine.planner_questions import BY_COUNT, BY_WORD, SHARES
from drive.contracts import UserError
from drive.files import json_safe, write_atomic, write_json
from drive.viz.plots import score_chart

TABLE, PICTURE, SUMMARY = "planner.md", "planner.png", "summary.json"
BEGIN, END = "<!-- planner comparison: begin -->", "<!-- planner comparison: end -->"


def write_tables(config: PlannerEvalConfig, summary: Mapping[str, Any]) -> Path:
    """Write all three into the folder of the comparison; returns the table's path."""
    write_json(config.out / SUMMARY, json_safe(summary))
    rows = summary["closed_loop"]
    if rows:
        series: dict[str, dict[str, tuple[float, float, float]]] = {}
        for row in rows:
            score = row["driving_score"]
            series.setdefault(row["suite"], {})[row["model"]] = score["mean"], score["low"], score["high"]
        write_atomic(
            config.out / PICTURE, score_chart(series, "driving score (light simulator), 95 % interval")
        )
    picture = f"\n![]({PICTURE})\n" if rows else ""
    write_atomic(config.out / TABLE, f"# Planner comparison\n\n{tables(summary)}{picture}")
    return config.out / TABLE


def tables(summary: Mapping[str, Any]) -> str:
    """The tables as Markdown."""
    parts = [_header(summary), _closed_loop(summary), _paired(summary), _validation(summary), _notes(summary)]
    return "\n".join([*parts, *_questions(summary)])


def check_markers(path: Path) -> None:
    """Raise UserError unless the file has one pair of markers, in order."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--into {path}: cannot be read ({error}); give a Markdown file") from None
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise UserError(
            f"--into {path}: put one line {BEGIN} and, below it, one line {END} where the tables belong"
        )


def insert(path: Path, summary: Mapping[str, Any]) -> None:
    """Replace what stands between the markers of a Markdown file by the tables.

    Raises:
        UserError: As for `check_markers`.
    """
    check_markers(path)
    text = path.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    write_atomic(path, f"{head}{BEGIN}\n{tables(summary)}\n{END}{rest.split(END)[1]}")


def _header(summary: Mapping[str, Any]) -> str:
    suites = "; ".join(
        f"{row['suite']}: {row['routes']} routes in {', '.join(row['towns'])}, "
        f"route seeds {min(row['route_seeds'])} to {max(row['route_seeds'])}"
        for row in summary["suites"]
    )
    seeds = ", ".join(map(str, summary["training_seeds"]))
    missing = summary["missing"]
    left = f" Not driven in full yet, and left out: {'; '.join(missing)}." if missing else ""
    return (
        f"Light simulator, driving score 2.0, rendered pictures. {suites}. Training seeds {seeds}; "
        f"`drive eval planner`, nightdrive {summary['versions']['nightdrive']}.{left}\n"
    )


def _closed_loop(summary: Mapping[str, Any]) -> str:
    rows = [
        [
            row["suite"],
            row["model"],
            _seeds(row["trained_with"]),
            f"{row['places']}",
            f"{row['drives']}" + (f" ({row['simulator_failed']} spoilt)" if row["simulator_failed"] else ""),
            _interval(row["success"], 1, 100),
            _interval(row["driving_score"], 1),
            f"{100 * row['completion']:.1f}",
            *(f"{row[f'{name}_per_100']:.1f}" for name in ("collisions", "off_road", "red_lights")),
        ]
        for row in summary["closed_loop"]
    ]
    columns = [
        "suite", "model", "training seeds", "places", "drives", "success % [95 %]", "driving score [95 %]",
        "route completion %", "collisions", "off-road", "red lights",
    ]  # fmt: skip
    return table(columns, rows)


def _paired(summary: Mapping[str, Any]) -> str:
    rows = [
        [
            row["suite"],
            f"{summary['ours']} minus {row['baseline']}",
            _seeds(row["trained_with"]),
            f"{row['pairs']}",
            _interval(row["driving_score_change"], 1, sign=True),
            _interval(row["success_change"], 1, sign=True),
            row["verdict"],
        ]
        for row in summary["paired"]
    ]
    columns = [
        "suite", "difference", "training seeds", "pairs", "driving score [95 %]", "success, points [95 %]",
        "driving score is",
    ]  # fmt: skip
    return table(columns, rows)


def _validation(summary: Mapping[str, Any]) -> str:
    rows = [
        [
            row["model"],
            f"{row['routes']}",
            f"{row['samples']}",
            *(_interval(row[key], 2) for key in ("ade_m", "ade_intent_m", "ade_best_m")),
            _interval(row["gap_closed"], 0, 100),
        ]
        for row in summary["validation"]
    ]
    columns = [
        "model", "routes x seeds", "samples", "chosen, ADE m [95 %]", "intended", "best proposal",
        "gap closed % [95 %]",
    ]  # fmt: skip
    return table(columns, rows)


def _notes(summary: Mapping[str, Any]) -> str:
    start = summary["gap_from"]
    begins = f"what {start} chooses" if start else "the trajectory that the model's own command intends"
    return (
        "Collisions, off-road (lane edges and oncoming lane) and red lights per 100 drives. Intervals: "
        "driving score and differences by resampling training seeds and places (town and route seed) "
        f"independently, {summary['bootstrap']} resamples; success by Wilson with n = places, as drives at "
        'one place are no new cases. Rows "all" take the suites together. A difference compares drives of '
        "the same route and, between trained models, the same training seed; drives that the simulator "
        "spoilt are left out of it. Validation: mean distance to the expert's next 4 s on routes of the "
        f"training towns that were not trained on; the gap goes from {begins} to the best proposal.\n"
    )


def _questions(summary: Mapping[str, Any]) -> list[str]:
    """Tables of what the models answered; none if nobody was asked."""
    rows, ours = summary["questions"], summary["ours"]
    if not rows:
        return []
    shown = [
        [row["model"], f"{row['routes']}", f"{row['scenes']}", *(_share(row[key]) for key in SHARES[:-1])]
        for row in rows
    ]
    columns = [
        "model", "routes x seeds", "scenes", "carries out its own command % [95 %] (n)", "obeys another",
        "told a wrong one: safe", "and flagged", "own plan safe", "3 modes at junctions", "kinds covered",
    ]  # fmt: skip
    counts = [
        [
            row["model"], f"{one['count']}",
            *(_interval(one[key], digits) for key, digits in zip(BY_COUNT, (2, 2, 3, 3), strict=True)),
        ]
        for row in rows
        for one in row["proposals"]
    ]  # fmt: skip
    words = [
        [one["word"], *(_share(one[key]) for key in BY_WORD)]
        for row in rows
        for one in row["words"]
        if row["model"] == ours
    ]
    by_word = [f"{ours}, told", "carries out its own % [95 %] (n)", "obeys", "wrong: safe", "wrong: flagged"]
    return [
        table(columns, shown),
        table(
            [
                "model",
                "proposals",
                "chosen, ADE m [95 %]",
                "nearest, ADE m",
                "reward of the chosen",
                "and reflected",
            ],
            counts,
        ),
        *([table(by_word, words)] if words else []),
        _NOTE,
    ]


_NOTE = (
    "Questions on recorded scenes, judged on the true scene. Feasible: a kinematic roll-out of that command "
    "holds all gates, ends along a lane and within the limit; wrong: no roll-out that carries it out holds "
    "the gates. Another command: a feasible one of another kind than the planner's own. Modes: distinct "
    "commands that safe proposals carry out, where the map branches within reach and three kinds are "
    "feasible. Intervals by resampling training seeds and routes.\n"
)


def _share(value: Mapping[str, float] | None) -> str:
    return "-" if value is None else f"{_interval(value, 1, 100)} ({value['n']})"


def _seeds(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) or "-"


def _interval(value: Mapping[str, float] | None, digits: int, scale: float = 1.0, sign: bool = False) -> str:
    if value is None:
        return "-"
    mean, low, high = (scale * value[key] for key in ("mean", "low", "high"))
    plus = "+" if sign else ""
    return f"{mean:{plus}.{digits}f} [{low:{plus}.{digits}f}, {high:{plus}.{digits}f}]"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
