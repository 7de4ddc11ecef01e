"""One plan in one picture: camera, bird's-eye view, reward of the ground, command and words."""

import io
import textwrap
from typing import Any

import numpy as np

from drive.contracts import F64, CameraModel, DriveLog, Plan
from drive.geometry.boxes import corners
from drive.score.scene import freeze_log
from drive.score.terms import reduce, reward_terms
from drive.score.trials import TrialField, trial_field
from drive.viz import bev

_SIZE_IN, _DPI = (15.6, 5.6), 100
_NEAREST_M = 0.5
_WORTH = 0.995  # terms of the critique below this are told
_LINE = 76
_SEEN = "#b3123f"


def draw_plan(log: DriveLog, plan_index: int, plan: Plan) -> bytes:
    """Draw a plan for planning step `plan_index` of a drive.

    Left: the camera's picture with the label (what the recorded driver or the expert did) and the plan on the
    road; below it command, flags and how drive.score judges the plan. Middle: bird's-eye view with all
    proposals, the brighter the higher their score, and the road users that the planner sees, dashed, with
    their next three seconds. Right: `drive.score.trials.trial_field`. Rewards are
    those of the true scene, which the planner does not see.

    Returns:
        PNG file.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_IN, dpi=_DPI)
    FigureCanvasAgg(figure)
    figure.set_facecolor(bev.COLOURS["background"])
    _draw_camera(figure.add_axes((0.008, 0.41, 0.385, 0.575)), log, plan_index, plan)
    _draw_words(figure.add_axes((0.008, 0.0, 0.385, 0.395)), log, plan_index, plan)
    middle, right = figure.add_axes((0.4, 0.01, 0.295, 0.93)), figure.add_axes((0.7, 0.01, 0.295, 0.93))
    field = trial_field(freeze_log(log, plan_index))
    _draw_field(right, field)
    for axes, title in (
        (middle, "proposals, brighter = higher score; dashed = seen by the planner"),
        (right, "reward of being there in 4 s, on the true scene"),
    ):
        bev.draw_moment(axes, log, int(log.plans.step[plan_index]), road=axes is middle)
        axes.set_title(title, fontsize=10, color=bev.COLOURS["ego"])
    _draw_proposals(middle, plan)
    _draw_seen(middle, plan)
    for axes in (middle, right):
        _draw_paths(axes, log, plan_index, plan)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def on_image(points_ego: F64, camera: CameraModel) -> F64:
    """Ground points (N, 2) [m] -> pixels (N, 2); NaN behind the camera."""
    points = np.concatenate([points_ego, np.zeros((len(points_ego), 1)), np.ones((len(points_ego), 1))], 1)
    seen = (camera.camera_from_ego @ points.T)[:3]
    pixel = camera.intrinsics @ seen
    ahead = seen[2] > _NEAREST_M
    return np.where(ahead[:, None], (pixel[:2] / np.where(ahead, pixel[2], 1.0)).T, np.nan)


def _paths(log: DriveLog, plan_index: int, plan: Plan) -> list[tuple[str, F64]]:
    """("label" or "plan", (41, 2)) from the ego's place on; no label where none is recorded."""
    both = [("label", log.plans.label_ego[plan_index, :, :2]), ("plan", plan.best.pose_ego[:, :2])]
    return [
        (name, np.concatenate([np.zeros((1, 2)), path])) for name, path in both if np.isfinite(path).all()
    ]


def _draw_camera(axes: Any, log: DriveLog, plan_index: int, plan: Plan) -> None:
    axes.axis("off")
    if not log.plans.images:
        axes.text(0.5, 0.5, "this drive has no pictures", ha="center", transform=axes.transAxes)
        return
    name = "front" if "front" in log.plans.images else next(iter(log.plans.images))
    image, camera = log.plans.images[name][plan_index], log.plans.cameras[name]
    axes.imshow(image, interpolation="bilinear")
    for kind, path in _paths(log, plan_index, plan):
        pixel = on_image(path, camera)
        axes.plot(*pixel.T, color=bev.COLOURS[kind], lw=3.2 if kind == "label" else 2.0, alpha=0.9)
        axes.plot(*pixel[10::10].T, "o", color=bev.COLOURS[kind], ms=5, mec="white", mew=0.8)
    axes.set_xlim(-0.5, image.shape[1] - 0.5)
    axes.set_ylim(image.shape[0] - 0.5, -0.5)


def _draw_words(axes: Any, log: DriveLog, plan_index: int, plan: Plan) -> None:
    axes.axis("off")
    for place, line in enumerate(words(log, plan_index, plan)):
        axes.text(
            0.0, 1.0 - 0.088 * place, line, va="top", fontsize=9, family="monospace",
            transform=axes.transAxes, color=bev.COLOURS["ego"],
        )  # fmt: skip


def words(log: DriveLog, plan_index: int, plan: Plan) -> list[str]:
    """What is written beside the picture: where and when, command, flags, judgement, latency."""
    meta, step = log.meta, int(log.plans.step[plan_index])
    seconds = (log.ego.t_us[step] - log.ego.t_us[0]) * 1e-6
    lines = [
        f"{meta.log_id}, planning step {plan_index} ({seconds:.1f} s)"[:_LINE],
        f"{meta.simulator}, {meta.image_kind} pictures, {meta.town}, {log.ego.speed_mps[step]:.1f} m/s",
        "",
    ]
    said = plan.command
    if said is None:
        lines.append("command: this planner emits none")
    else:
        sure = f"{100 * said.confidence:.0f} % sure, to {said.target_speed_mps:.1f} m/s"
        lines.append(f"command: {said.name}, {sure}")
        lines += textwrap.wrap(f"sees: {said.reason or 'nothing that matters'}", _LINE)[:2]
    lines.append(f"flags: {', '.join(plan.flags) or 'none'}")
    one = reduce(reward_terms(plan.best.pose_ego[None], freeze_log(log, plan_index)))
    judged = [f"{name} {float(value[0]):.2f}" for name, value in one.items()]
    lines += textwrap.wrap("judged on the true scene: " + ", ".join(judged), _LINE)
    if plan.critique:
        seen = [f"{name} {value:.2f}" for name, value in plan.critique.items() if value < _WORTH]
        lines += textwrap.wrap("on what it sees itself: " + (", ".join(seen) or "nothing to mend"), _LINE)[:1]
    took = ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in plan.latency_ms.items())
    lines.append(f"latency: {took or 'not measured'}")
    return [*lines, "", "green: the recorded label   orange: the plan   a dot every second"]


def _draw_field(axes: Any, field: TrialField) -> None:
    half_x, half_y = np.diff(field.x_m)[0] / 2, np.diff(field.y_m)[0] / 2
    extent = (-field.y_m[-1] - half_y, -field.y_m[0] + half_y, field.x_m[0] - half_x, field.x_m[-1] + half_x)
    axes.imshow(
        field.reward[:, ::-1],
        extent=extent,
        origin="lower",
        cmap="RdYlGn",
        vmin=0,
        vmax=1,
        alpha=0.75,
        zorder=1,
    )


def _draw_proposals(axes: Any, plan: Plan) -> None:
    from matplotlib.collections import LineCollection

    start = np.zeros((len(plan.proposals_ego), 1, 2))
    lines = bev.up(np.concatenate([start, plan.proposals_ego[..., :2]], 1))
    order = np.argsort(plan.scores)
    collection = LineCollection(list(lines[order]), cmap="viridis", lw=1.4, alpha=0.8, zorder=8)
    collection.set_array(plan.scores[order])
    axes.add_collection(collection)


def _draw_seen(axes: Any, plan: Plan) -> None:
    """What the planner takes for road users: the surer, the less faint."""
    for user in plan.road_users:
        box = bev.up(corners(user[None, :3].astype(np.float64), user[None, 3:5].astype(np.float64)))[0]
        later = bev.up(np.concatenate([user[:2], user[6:]]).reshape(-1, 2))
        faint = float(np.clip(user[5], 0.3, 1.0))
        axes.plot(*np.concatenate([box, box[:1]]).T, "--", color=_SEEN, lw=1.4, alpha=faint, zorder=11)
        axes.plot(*later.T, ":", color=_SEEN, lw=1.4, alpha=faint, zorder=11)


def _draw_paths(axes: Any, log: DriveLog, plan_index: int, plan: Plan) -> None:
    for kind, path in _paths(log, plan_index, plan):
        line = bev.up(path)
        axes.plot(*line.T, color=bev.COLOURS[kind], lw=3.4 if kind == "label" else 2.2, zorder=9)
        axes.plot(*line[10::10].T, "o", color=bev.COLOURS[kind], ms=5, mec="white", mew=0.8, zorder=10)
