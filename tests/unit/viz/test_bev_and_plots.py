"""Pictures: right size, right colours in the right places."""

import io

import numpy as np
import pytest
from PIL import Image

from drive.contracts import U8, DriveLog
from drive.viz import plots
from drive.viz.bev import AHEAD_M, BEHIND_M, COLOURS, draw_bev
from tests import builders

SIZE = (416, 416)


def pixels(png: bytes) -> U8:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def share(image: U8, colour: str) -> float:
    """Share of pixels close to a colour."""
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return float((np.abs(image.astype(int) - wanted).max(-1) < 12).mean())


def test_ego_road_and_label_are_visible_and_ego_is_low_in_the_middle() -> None:
    image = pixels(draw_bev(builders.cruise(), 2_000_000, SIZE))
    assert image.shape == (SIZE[1], SIZE[0], 3)
    for name in ("ego", "road", "plan"):
        assert share(image, COLOURS[name]) > 0.001, name
    dark = np.argwhere((image < 60).all(-1))
    row, column = dark.mean(0)
    expected = SIZE[1] * (AHEAD_M - 1.4) / (AHEAD_M + BEHIND_M)
    assert row == pytest.approx(expected, abs=6)
    assert column == pytest.approx(SIZE[0] / 2, abs=3)


@pytest.mark.parametrize(
    "log",
    [builders.lead_braking(), builders.left_turn(), builders.pedestrian_crossing()],
    ids=lambda d: d.meta.log_id,
)
def test_every_scene_can_be_drawn_at_any_time(log: DriveLog) -> None:
    for t_us in (-1, 0, 3_000_000, 10**9):
        assert pixels(draw_bev(log, t_us)).std() > 5


def test_a_left_turn_goes_to_the_left() -> None:
    image = pixels(draw_bev(builders.left_turn(), 3_000_000, SIZE))
    wanted = np.array([int(COLOURS["plan"][i : i + 2], 16) for i in (1, 3, 5)])
    columns = np.argwhere(np.abs(image.astype(int) - wanted).max(-1) < 12)[:, 1]
    assert columns.mean() < SIZE[0] / 2 - 5


def test_the_same_moment_gives_the_same_picture() -> None:
    assert draw_bev(builders.left_turn(), 1_000_000) == draw_bev(builders.left_turn(), 1_000_000)


def test_charts_are_pictures() -> None:
    charts = [
        plots.training_curve({"loss": [(1, 2.0), (2, 1.0)], "distill": [(1, 0.1), (2, 0.2)]}),
        plots.before_after({"keep / cruise": 0.9, "keep / stop": 0.1}, {"keep / stop": 1.0}),
        plots.before_after({f"kind {i}": 1 / 20 for i in range(20)}, {}),
        plots.interval_chart([("error", -10.0, -15.0, -5.0, "lower", "pass")]),
        plots.paired_scores([("route", 50.0, 100.0), ("other", 80.0, 80.0)]),
        plots.score_chart(
            {"a": {"x": (5.0, 4.0, 6.0), "y": (1.0, 1.0, 1.0)}, "b": {"y": (2.0, 0.0, 4.0)}}, "m"
        ),
    ]
    for png in charts:
        assert pixels(png).std() > 5
