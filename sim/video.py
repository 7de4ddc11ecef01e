"""Recorded drives as mp4: camera, bird's-eye view, plan, command, reward terms, infractions."""

import io
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drive.contracts import U8, DriveLog, Lateral, Longitudinal, Turn, UserError
from drive.files import read_json, write_json
from drive.progress import Progress
from drive.score.scene import freeze_log
from drive.score.terms import reduce, reward_terms

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

SIZE_PX = (1072, 600)
CAMERA_PX = (640, 360)
BEV_PX = (416, 416)
MARGIN_PX = 8
RATE_HZ = 5
EVENT_SHOWN_S = 3.0
BAR_PX, LEAST_BAR_PX = 196, 6
BACK, TEXT, GOOD, BAD, DIM = (22, 26, 32), (235, 238, 242), (64, 176, 106), (224, 72, 60), (120, 128, 138)
LIGHTS = ("red light", "yellow light", "green light")


def write_videos(results: Path, logs: Path, workers: int = 1) -> dict[str, str]:
    """Write the video of every drive of a results file that has a log and none yet, and link it there.

    Args:
        results: results.json; `meta.video` of its records gets the path relative to it.
        logs: Log store of the drives.
        workers: How many to write at once.

    Returns:
        Route id -> path of the video.
    """
    from drive.logs import list_drives

    data = read_json(results)
    routes = {record["route_id"] for record in data["_checkpoint"]["records"]}
    drives = {meta.route: meta.log_id for meta in list_drives(logs)} if logs.is_dir() else {}
    folder = results.parent / "videos"
    paths = {route: folder / f"{log}.mp4" for route, log in drives.items() if route in routes}
    todo = [(logs, drives[route], path) for route, path in paths.items() if not path.exists()]
    _write_all(todo, workers)
    for record in data["_checkpoint"]["records"]:
        if record["route_id"] in paths:
            record["meta"]["video"] = str(paths[record["route_id"]].relative_to(results.parent))
    write_json(results, data)
    return {route: str(path) for route, path in paths.items()}


def _write_all(jobs: Sequence[tuple[Path, str, Path]], workers: int) -> None:
    if not jobs:
        return
    with Progress("videos", len(jobs)) as bar:
        if workers <= 1 or len(jobs) <= 1:
            for job in jobs:
                write_video(*job)
                bar.advance()
            return
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for done in as_completed([pool.submit(write_video, *job) for job in jobs]):
                done.result()
                bar.advance()


def write_video(logs: Path, log_id: str, path: Path) -> None:
    """Write one drive as H.264 mp4, a frame per planning step (5 Hz); it appears whole or not at all.

    Raises:
        UserError: The drive has no planning step, or PyAV was built without H.264.
    """
    import av

    from drive.logs import read_drive

    log = read_drive(logs, log_id)
    if not len(log.plans.step):
        raise UserError(f"{log_id}: no planning steps to make a video of; drive it again")
    if "libx264" not in av.codecs_available:
        raise UserError("this PyAV cannot write H.264; run: pip install --force-reinstall av")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.mp4")
    with av.open(str(part), "w") as file:
        stream: Any = file.add_stream("libx264", rate=RATE_HZ, options={"crf": "23", "preset": "veryfast"})
        stream.width, stream.height = SIZE_PX
        stream.pix_fmt = "yuv420p"
        for k in range(len(log.plans.step)):
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame(log, k), format="rgb24")):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)
    part.replace(path)


def frame(log: DriveLog, k: int) -> U8:
    """Picture (600, 1072, 3) RGB of planning step k."""
    from PIL import Image, ImageDraw

    from drive.viz.bev import draw_bev

    t_us = int(log.ego.t_us[log.plans.step[k]])
    picture = Image.new("RGB", SIZE_PX, BACK)
    for name in list(log.plans.images)[:1]:
        shot = Image.fromarray(log.plans.images[name][k])
        picture.paste(shot.resize(CAMERA_PX, Image.Resampling.LANCZOS), (0, 0))
    view = Image.open(io.BytesIO(draw_bev(log, t_us, BEV_PX))).convert("RGB")
    picture.paste(view, (CAMERA_PX[0] + 2 * MARGIN_PX, 0))
    pen = ImageDraw.Draw(picture)
    _lines(pen, (MARGIN_PX, CAMERA_PX[1] + MARGIN_PX), _facts(log, k, t_us))
    _terms(pen, (CAMERA_PX[0] + 2 * MARGIN_PX, BEV_PX[1] + MARGIN_PX), log, k)
    return np.asarray(picture, np.uint8)


def _facts(log: DriveLog, k: int, t_us: int) -> list[tuple[str, tuple[int, int, int]]]:
    """Lines of text with their colours."""
    plans, step = log.plans, int(log.plans.step[k])
    at_s = (t_us - int(log.ego.t_us[0])) / 1e6
    kmh = round(3.6 * float(log.ego.speed_mps[step]), 1) + 0.0  # no "-0.0"
    limit = 3.6 * plans.speed_limit_mps[k]
    turn = Turn(int(plans.turn[k])).name.lower().replace("_", " ")
    lines = [
        (log.meta.route[:72], DIM),
        (f"{log.meta.driver}   {log.meta.simulator}, {log.meta.image_kind} images"[:72], DIM),
        (f"{at_s:.1f} s   {kmh:.1f} of {limit:.0f} km/h   route: {turn}", TEXT),
        (f"driver:  {_command(plans.command[k])}", BAD if plans.split_brain[k] else TEXT),
        (f"expert:  {_command(plans.label_command[k])}", TEXT),
    ]
    light, distance, gap = (float(v) for v in plans.aux[k])
    if light in (0, 1, 2):
        lines.append((f"{LIGHTS[int(light)]} in {distance:.0f} m", TEXT))
    if np.isfinite(gap) and gap < 60:
        lines.append((f"vehicle ahead: {gap:.0f} m", TEXT))
    if plans.split_brain[k]:
        lines.append(("command and trajectory disagree", BAD))
    for event in log.events:
        if 0 <= t_us - event.t_us < EVENT_SHOWN_S * 1e6:
            lines.append((f"{event.kind.replace('_', ' ')}: {event.detail}"[:72], BAD))
    return lines


def _command(pair: Any) -> str:
    if min(pair) < 0:
        return "-"
    return f"{Lateral(int(pair[0])).name}, {Longitudinal(int(pair[1])).name}".lower().replace("_", " ")


def _lines(pen: "ImageDraw", at: tuple[int, int], lines: Sequence[tuple[str, tuple[int, int, int]]]) -> None:
    from PIL import ImageFont

    font = ImageFont.load_default(size=17)
    for n, (text, colour) in enumerate(lines[:9]):
        pen.text((at[0], at[1] + 25 * n), text, fill=colour, font=font)


def _terms(pen: "ImageDraw", at: tuple[int, int], log: DriveLog, k: int) -> None:
    """Bars of the reward terms of what is driven, in the future as it was recorded."""
    from PIL import ImageFont

    planned = log.plans.plan_ego[k]
    path = planned if np.isfinite(planned).all() else log.plans.label_ego[k]
    if not np.isfinite(path).all():
        return
    terms = reward_terms(path[None], freeze_log(log, k))
    font = ImageFont.load_default(size=14)
    for n, (name, value) in enumerate(reduce(terms).items()):
        x, y = at[0] + (n % 2) * 208, at[1] + (n // 2) * 40
        known = name not in terms.unknown and not (name == "progress" and "route" in terms.unknown)
        share = float(value[0])
        ink = DIM if not known else TEXT if share > 0.5 else BAD
        pen.text((x, y), name.replace("_", " "), fill=ink, font=font)
        pen.rectangle((x, y + 19, x + BAR_PX, y + 29), fill=(46, 52, 60))
        if known:
            end = x + max(LEAST_BAR_PX, round(BAR_PX * share))
            pen.rectangle((x, y + 19, end, y + 29), fill=GOOD if share > 0.5 else BAD)
