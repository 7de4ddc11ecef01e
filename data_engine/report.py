"""The night's report: one HTML file that opens offline, with every picture inside it."""

import base64
import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_engine.config import ReportConfig
from data_engine.gate import REASONS
from data_engine.mine import clock, load_cases, nearest_plan
from data_engine.pictures import moment_us, pick_cases, seen_from_above
from data_engine.rules import REAL
from data_engine.store import DriveRef, collect
from drive.contracts import BadCase, DriveLog
from drive.files import read_json, read_object, write_atomic
from drive.viz.bev import AGENT_COLOURS, COLOURS, draw_bev

TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = "report.html.j2"
CLIP_S = (-2.0, -1.6, -1.2, -0.8, -0.4, 0.0, 0.4, 0.8)
CLIP_PX, CLIP_MS = (280, 280), 400
KIND_WORDS = {
    "hard_brake": "hard brake",
    "near_miss": "near miss",
    "off_road": "off the road",
    "wrong_lane": "oncoming lane",
    "red_light": "red light",
    "disagreement": "planner vs driver",
    "split_brain": "command vs trajectory",
    "stop_sign": "stop sign",
    "takeover": "taken over",
    "route_deviation": "off the route",
    "low_reward": "low reward",
    "low_confidence": "low confidence",
    "intent": "other intention",
    "novelty": "new scene",
}
TERM_WORDS = {
    "ade_m": "plan {:.1f} m from the driver's on average",
    "decel_mps2": "deceleration {:.1f} m/s²",
    "ttc_s": "time to collision {:.1f} s",
    "standing_s": "standing for {:.0f} s",
    "jerk_mps3": "jerk {:.0f} m/s³",
    "fde_m": "{:.1f} m at the end",
    "off_route_m": "{:.1f} m off the route",
    "reward": "reward {:.2f}",
    "confidence": "confidence {:.2f}",
    "distance": "{:.1f} from anything known",
}
SOURCE_WORDS = {
    "log": "real log",
    "closed_loop": "closed loop",
    "shadow": "real log, champion in shadow mode",
    "split_brain": "command against trajectory",
    "benchmark": "benchmark",
}


def render_report(
    folder: Path, summary: Mapping[str, Any], config: ReportConfig, out: Path, roots: Sequence[Path]
) -> Path:
    """Write the report of the night in `folder`.

    Args:
        folder: Night folder with its stage folders.
        summary: As written to summary.json.
        config: How many pictures.
        out: HTML file.
        roots: Log folders of the night's drives.
    """
    import jinja2

    drives = {ref.meta.log_id: ref for ref in collect(roots)}
    cases = load_cases(folder / "mine" / "cases.json")
    windows = read_object(folder / "curate" / "windows.json", "trained", "siblings")
    use = {w["case_id"]: "trained on" for w in windows["trained"]}
    use |= {w["case_id"]: "held out to measure the fix" for w in windows["siblings"]}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= filters()
    html = environment.get_template(TEMPLATE).render(
        s=summary,
        labels=_labels(summary, drives.values()),
        reason_words=REASONS,
        source_words=SOURCE_WORDS,
        gallery=_gallery(pick_cases(cases, config, use), drives, use, config.clips, folder / "mine"),
        rows=_case_rows(cases, summary["mined"]["starts_us"], use),
        faults=read_json(folder / "mine" / "faults.json"),
        charts=_charts(folder, summary),
        colours={**COLOURS, **{k.name.lower(): v for k, v in AGENT_COLOURS.items()}},
        config_yaml=(folder / "config.yaml").read_text(encoding="utf-8"),
    )
    write_atomic(out, html)
    return out


def filters() -> dict[str, Callable[..., str]]:
    """What the templates call: numbers, percentages and names of kinds."""
    return {"num": _number, "pct": _percent, "words": _kind_words}


def _gallery(
    cases: Sequence[BadCase],
    drives: Mapping[str, DriveRef],
    use: Mapping[str, str],
    clip_count: int,
    mined: Path,
) -> list[dict[str, Any]]:
    """One card per case; each drive is loaded once. `mined` is the folder with the cases' pictures."""
    cards: dict[str, dict[str, Any]] = {}
    worst = sorted(cases, key=lambda case: (-case.severity, case.case_id))
    clips = {case.case_id for case in worst[:clip_count]}
    for log_id in sorted({case.log_id for case in cases}):
        log = drives[log_id].read(images=True)
        for case in (c for c in cases if c.log_id == log_id):
            word = use.get(case.case_id, "not used")
            cards[case.case_id] = _card(case, log, word, case.case_id in clips, mined)
    return [cards[case.case_id] for case in cases]


def _clip(log: DriveLog, at_us: int) -> str | None:
    """The moment from above as a short animated GIF, a data URI; None for a moment of one frame."""
    import io

    from PIL import Image

    times = [at_us + round(s * 1e6) for s in CLIP_S]
    times = [t for t in times if log.ego.t_us[0] <= t <= log.ego.t_us[-1]]
    if len(times) < 2:
        return None
    frames = [Image.open(io.BytesIO(draw_bev(log, t, CLIP_PX))).convert("P") for t in times]
    data = io.BytesIO()
    frames[0].save(data, "GIF", save_all=True, append_images=frames[1:], duration=CLIP_MS, loop=0)
    return "data:image/gif;base64," + base64.b64encode(data.getvalue()).decode()


def _card(case: BadCase, log: DriveLog, use: str, clip: bool, mined: Path) -> dict[str, Any]:
    at_us = moment_us(case)
    return {
        "kind": case.kind,
        "route": case.route,
        "town": log.meta.town,
        "time": clock(case.start_us) if log.meta.simulator == REAL else "",
        "into_s": (case.start_us - int(log.ego.t_us[0])) / 1e6,
        "severity": case.severity,
        "cause": case.cause,
        "terms": [TERM_WORDS.get(k, k + " {:.2f}").format(v) for k, v in sorted(case.terms.items())],
        "use": use,
        "simulator": log.meta.simulator,
        "bev": png_uri(seen_from_above(case, log, mined)),
        "clip": _clip(log, at_us) if clip else None,
        "camera": _camera(log, at_us),
        "detail": next((e.detail for e in log.events if e.t_us == case.start_us and e.detail), ""),
    }


def _camera(log: DriveLog, t_us: int) -> str | None:
    """The newest camera picture at `t_us` as a data URI, None where there is none."""
    import cv2

    images = log.plans.images.get("front")
    if images is None or not len(images):
        return None
    image = images[nearest_plan(log, t_us)]
    if image.shape[1] > 512:
        size = (512, round(512 * image.shape[0] / image.shape[1]))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    ok, data = cv2.imencode(".png", image[..., ::-1])
    return png_uri(data.tobytes()) if ok else None


def png_uri(data: bytes) -> str:
    """PNG bytes as a data URI."""
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _case_rows(
    cases: Iterable[BadCase], starts_us: Mapping[str, int], use: Mapping[str, str]
) -> list[dict[str, Any]]:
    return [
        {
            "source": case.source,
            "route": case.route,
            "kind": case.kind,
            "time": clock(case.start_us),
            "into_s": (case.start_us - starts_us.get(case.log_id, case.start_us)) / 1e6,
            "seconds": (case.end_us - case.start_us) / 1e6,
            "severity": case.severity,
            "cause": case.cause,
            "use": use.get(case.case_id, "not used"),
        }
        for case in cases
    ]


def _labels(summary: Mapping[str, Any], drives: Iterable[DriveRef]) -> list[str]:
    """What every number in the report must be read with."""
    labels: set[str] = set()
    for ref in drives:
        labels.add(ref.meta.simulator)
        if ref.meta.image_kind == "rendered":
            labels.add("images: rendered")
        if ref.meta.simulator == REAL:
            labels.add("route hints of real logs: oracle command")
    labels.add(summary["drive"]["protocol"])
    return sorted(labels)


def _charts(folder: Path, summary: Mapping[str, Any]) -> dict[str, str | None]:
    from drive.viz import plots

    charts: dict[str, str | None] = dict.fromkeys(("histogram", "training", "intervals", "routes"))
    curated = summary["curated"]
    if curated["before"]:
        charts["histogram"] = png_uri(plots.before_after(curated["before"], curated["after"]))
    curve = loss_curve(folder / "finetune" / "train" / "losses.csv")
    if curve:
        charts["training"] = png_uri(plots.training_curve(curve))
    rows = [
        (
            row["metric"],
            *(100 * row["change"][k] / abs(row["champion"]) for k in ("mean", "low", "high")),
            row["better"],
            row["verdict"],
        )
        for row in summary["gate"]
        if row["change"] and row["champion"]
    ]
    if rows:
        charts["intervals"] = png_uri(plots.interval_chart(rows))
    if summary["closed_loop"]:
        routes = [(r["route"], r["champion"], r["candidate"]) for r in summary["closed_loop"]["routes"]]
        charts["routes"] = png_uri(plots.paired_scores(routes))
    return charts


def loss_curve(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Loss terms by name from a training run's losses.csv (step, term, ...); empty if there is none."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in (rows[0] if rows else ()) if name != "step"]
    return {name: [(int(row["step"]), float(row[name])) for row in rows] for name in names}


def _kind_words(kind: str) -> str:
    return KIND_WORDS.get(kind, kind)


def _number(value: float | None, digits: int = 2, sign: bool = False) -> str:
    if value is None or value != value:
        return "-"
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
