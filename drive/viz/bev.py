"""Bird's-eye view of one moment of a drive in the ego frame, forward is up."""

import io
from typing import Any

import numpy as np

from drive.contracts import F64, AgentKind, DriveLog
from drive.geometry.boxes import centre_pose, corners
from drive.geometry.se2 import to_local, to_world

AHEAD_M, BEHIND_M, SIDE_M = 42.0, 10.0, 26.0
TRAIL_S = 4.0
COLOURS = {
    "background": "#f4f4f1",
    "road": "#d5d9df",
    "junction": "#c8cdd5",
    "centre": "#aab1bb",
    "stop line": "#ffffff",
    "route": "#9fc1ea",
    "ego": "#16202c",
    "label": "#128a4b",
    "plan": "#e8590c",
}
AGENT_COLOURS = {
    AgentKind.CAR: "#4568b0",
    AgentKind.TRUCK: "#2e4372",
    AgentKind.CYCLIST: "#8a3fa8",
    AgentKind.PEDESTRIAN: "#c2255c",
    AgentKind.OBSTACLE: "#7d858d",
}


def draw_bev(log: DriveLog, t_us: int, size_px: tuple[int, int] = (416, 416)) -> bytes:
    """Draw the last recorded step at or before `t_us`.

    Shown: lanes and stop lines (if a map is known), the route, every road user with its next seconds as a
        fading
    line, the ego box, the label (expert or human) and the driver's plan of the last planning step, dots
    every second.

    Args:
        log: Drive; images are not needed.
        t_us: Time in the log's clock.
        size_px: (width, height).

    Returns:
        PNG file.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    step = max(0, int(np.searchsorted(log.ego.t_us, t_us, side="right")) - 1)
    figure = Figure(figsize=(size_px[0] / 100, size_px[1] / 100), dpi=100)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    figure.set_facecolor(COLOURS["background"])
    draw_moment(axes, log, step)
    _draw_plans(axes, log, step)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def draw_moment(axes: Any, log: DriveLog, step: int, *, road: bool = True) -> None:
    """Lanes (or only their outlines), route, road users and the ego at one step, on matplotlib axes."""
    axes.set_facecolor(COLOURS["background"])
    origin = log.ego.pose_world[step]
    _draw_road(axes, log, origin, road)
    _draw_route(axes, log, origin)
    _draw_agents(axes, log, step)
    _draw_ego(axes, log)
    _draw_scale(axes)
    axes.set_xlim(-SIDE_M, SIDE_M)
    axes.set_ylim(-BEHIND_M, AHEAD_M)
    axes.set_aspect("equal", adjustable="box")
    axes.axis("off")


def up(points_ego: Any) -> F64:
    """Ego-frame points (..., 2|3) as picture coordinates (..., 2): x to the right, forward up."""
    points = np.asarray(points_ego, np.float64)
    return np.stack([-points[..., 1], points[..., 0]], -1)


def _draw_road(axes: Any, log: DriveLog, origin: F64, filled: bool) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    if log.road is None or not len(log.road.centre_world):
        return
    centre = to_local(log.road.centre_world, origin)
    near = (np.abs(centre[..., 0]) < 1.6 * AHEAD_M).any(1) & (np.abs(centre[..., 1]) < 1.6 * AHEAD_M).any(1)
    half = log.road.width_m[near, None, None] / 2
    centre, junction = centre[near], log.road.in_junction[near]
    ahead = np.gradient(centre, axis=1)
    ahead /= np.maximum(np.linalg.norm(ahead, axis=-1, keepdims=True), 1e-9)
    across = np.stack([-ahead[..., 1], ahead[..., 0]], -1) * half
    outline = up(np.concatenate([centre + across, (centre - across)[:, ::-1]], 1))
    for inside, colour in ((False, COLOURS["road"]), (True, COLOURS["junction"])):
        axes.add_collection(
            PolyCollection(
                outline[junction == inside], facecolor=colour if filled else "none", edgecolor=colour, lw=0.6
            )
        )
    lines = up(centre[~junction])
    axes.add_collection(LineCollection(list(lines), colors=COLOURS["centre"], lw=0.8, linestyles=(0, (4, 4))))
    stops = up(to_local(log.road.stop_line_world, origin))
    axes.add_collection(LineCollection(list(stops), colors=COLOURS["stop line"], lw=2.2))


def _draw_route(axes: Any, log: DriveLog, origin: F64) -> None:
    if len(log.route_world) < 2:
        return
    route = to_local(log.route_world, origin)
    here = int(np.argmin(np.hypot(route[:, 0], route[:, 1])))
    line = up(route[max(0, here - 2) :])
    axes.plot(
        line[:, 0], line[:, 1], color=COLOURS["route"], lw=6, alpha=0.75, solid_capstyle="round", zorder=2
    )


def _draw_agents(axes: Any, log: DriveLog, step: int) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    agents, origin = log.agents, log.ego.pose_world[step]
    shown = np.flatnonzero(agents.valid[:, step]) if len(agents.ids) else np.zeros(0, int)
    if not len(shown):
        return
    pose = to_local(agents.pose_world[shown, step], origin)
    near = np.abs(pose[:, :2]).max(1) < 1.6 * AHEAD_M
    shown, pose = shown[near], pose[near]
    if not len(shown):
        return
    until = int(np.searchsorted(log.ego.t_us, log.ego.t_us[step] + TRAIL_S * 1e6, side="right"))
    colours = [AGENT_COLOURS[AgentKind(int(agents.kind[i]))] for i in shown]
    boxes = up(corners(pose, agents.size_m[shown]))
    axes.add_collection(PolyCollection(list(boxes), facecolors=colours, edgecolors="white", lw=0.7, zorder=5))
    trails, trail_colours = [], []
    for i, colour in zip(shown, colours, strict=True):
        seen = step + np.flatnonzero(agents.valid[i, step:until])
        path = up(to_local(agents.pose_world[i, seen, :2], origin))
        if len(path) > 1 and np.hypot(*(path[-1] - path[0])) > 0.5:
            trails.append(path)
            trail_colours.append(colour)
    small = np.isin(agents.kind[shown], [AgentKind.PEDESTRIAN, AgentKind.CYCLIST])
    if small.any():  # half a metre would be a speck
        at = up(pose[small])
        ring = [colour for colour, is_small in zip(colours, small, strict=True) if is_small]
        axes.scatter(at[:, 0], at[:, 1], s=46, facecolors="none", edgecolors=ring, linewidths=1.3, zorder=6)
    axes.add_collection(LineCollection(trails, colors=trail_colours, lw=1.6, alpha=0.45, zorder=4))
    noses = up(np.stack([corners(pose, agents.size_m[shown])[:, [0, 1]].mean(1), pose[:, :2]], 1))
    axes.add_collection(LineCollection(list(noses), colors="white", lw=0.9, zorder=6))


def _draw_ego(axes: Any, log: DriveLog) -> None:
    from matplotlib.patches import Polygon

    size = np.array([log.ego_size.length_m, log.ego_size.width_m])
    box = corners(centre_pose(np.zeros(3), log.ego_size.centre_from_axle_m), size)
    axes.add_patch(Polygon(up(box), facecolor=COLOURS["ego"], edgecolor="white", lw=0.9, zorder=11))
    nose = up(
        np.array(
            [[box[:, 0].max() - 0.3, 0.0], [box[:, 0].max() - 1.6, 0.55], [box[:, 0].max() - 1.6, -0.55]]
        )
    )
    axes.add_patch(Polygon(nose, facecolor="white", lw=0, zorder=12))


def _draw_plans(axes: Any, log: DriveLog, step: int) -> None:
    plans = log.plans
    at = int(np.searchsorted(plans.step, step, side="right")) - 1
    if at < 0:
        return
    then = log.ego.pose_world[int(plans.step[at])]
    now = log.ego.pose_world[step]
    for name, paths, width in (("label", plans.label_ego, 3.4), ("plan", plans.plan_ego, 2.2)):
        path = paths[at, :, :2]
        if not np.isfinite(path).all():
            continue
        start = np.concatenate([np.zeros((1, 2)), path])
        line = up(to_local(to_world(start, then), now))
        axes.plot(line[:, 0], line[:, 1], color=COLOURS[name], lw=width, solid_capstyle="round", zorder=9)
        axes.plot(
            line[10::10, 0],
            line[10::10, 1],
            "o",
            color=COLOURS[name],
            ms=width + 2.2,
            mec="white",
            mew=0.8,
            zorder=10,
        )


def _draw_scale(axes: Any) -> None:
    x, y = SIDE_M - 13.0, -BEHIND_M + 2.2
    axes.plot([x, x + 10], [y, y], color="#5c6670", lw=2, solid_capstyle="butt", zorder=12)
    axes.text(x + 5, y + 0.8, "10 m", ha="center", va="bottom", fontsize=8, color="#5c6670", zorder=12)
