"""Painter: projection, occlusion, culling, repeatability."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.viz import figures
from drive.viz.painter import paint
from drive.viz.quads import Layer, Quads, Tag, TiledQuads, concatenate
from drive.viz.view import DAYLIGHT, Style, View

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
CLEAR = Style(range_m=1e6)
SIZE = (256, 144)


def camera(x: float = 0.0, y: float = 0.0, z: float = 1.7, yaw: float = 0.0, pitch: float = 0.0) -> View:
    """Camera at a place, looking along yaw; positive pitch looks up."""
    forward = np.array([math.cos(yaw) * math.cos(pitch), math.sin(yaw) * math.cos(pitch), math.sin(pitch)])
    right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
    camera_from_world = np.eye(4)
    camera_from_world[:3, :3] = np.stack([right, np.cross(forward, right), forward])
    camera_from_world[:3, 3] = -camera_from_world[:3, :3] @ np.array([x, y, z])
    focal = SIZE[0] / (2 * math.tan(math.radians(50)))
    intrinsics = np.array([[focal, 0, SIZE[0] / 2], [0, focal, SIZE[1] / 2], [0, 0, 1.0]])
    return View(intrinsics, camera_from_world, SIZE)


def quads(corners: list, colour: tuple, layer: Layer, tag: Tag) -> Quads:
    """Quads of one colour and kind."""
    n = len(corners)
    colours = np.tile(np.array(colour, np.uint8), (n, 1))
    return Quads(
        np.array(corners, np.float32), colours, np.full(n, layer, np.uint8), np.full(n, tag, np.uint8)
    )


def patch(x: float, y: float, half: float, colour: tuple, layer: Layer = Layer.ROAD, z: float = 0.0) -> Quads:
    """Square on the ground, front side up."""
    corners = [
        [x - half, y - half, z],
        [x + half, y - half, z],
        [x + half, y + half, z],
        [x - half, y + half, z],
    ]
    tag = Tag.ROAD_LINES if layer == Layer.MARKING else Tag.ROADS
    return quads([corners], colour, layer, tag)


def where(image: np.ndarray, colour: tuple) -> np.ndarray:
    """(row, column) of pixels close to a colour, whatever the haze did to it."""
    return np.argwhere(np.abs(image.astype(int) - np.array(colour)).max(-1) < 40)


def test_ground_patch_appears_where_the_pinhole_model_says() -> None:
    view = camera()
    image = paint(view, None, [patch(12.0, 2.0, 0.6, RED)], CLEAR)
    focal, cx = view.intrinsics[0, 0], view.intrinsics[0, 2]
    row, column = where(image, RED).mean(0) + 0.5
    assert column == pytest.approx(cx - focal * 2.0 / 12.0, abs=0.7)
    assert row == pytest.approx(view.intrinsics[1, 2] + focal * 1.7 / 12.0, abs=0.7)


def test_horizon_is_where_the_pitch_puts_it() -> None:
    for pitch in (0.0, math.radians(-4), math.radians(6)):
        view = camera(pitch=pitch)
        image = paint(view, None, [])
        ground = np.flatnonzero((image[:, 0] == DAYLIGHT.ground).all(-1))
        expected = view.intrinsics[1, 2] + view.intrinsics[1, 1] * math.tan(pitch)
        assert ground[0] == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize("swap", [False, True])
def test_higher_layers_cover_lower_ones_in_any_order(swap: bool) -> None:
    parts = [patch(10, 0, 2, RED, Layer.ROAD), patch(10, 0, 1, GREEN, Layer.MARKING, z=0.02)]
    image = paint(camera(), TiledQuads(concatenate(parts[::-1] if swap else parts)), [], CLEAR)
    assert len(where(image, GREEN)) > 50
    assert len(where(image, RED)) > 50


@pytest.mark.parametrize("swap", [False, True])
def test_near_bodies_cover_far_ones_in_any_order(swap: bool) -> None:
    near = figures.place(figures.box((0, 0, 0), (1, 2), 2.5, BLUE), 10.0, 0.0, 0.0, 0.0)
    far = figures.place(figures.box((0, 0, 0), (1, 2), 2.4, RED), 16.0, 0.0, 0.0, 0.0)
    image = paint(camera(), None, [far, near] if swap else [near, far], CLEAR)
    assert image[72, 128, 2] > 100
    assert image[72, 128, 0] < 50


def test_solids_show_only_their_front() -> None:
    wall = quads([[[10, 1, 0], [10, -1, 0], [10, -1, 2], [10, 1, 2]]], RED, Layer.SOLID, Tag.BUILDINGS)
    assert len(where(paint(camera(), None, [wall], CLEAR), RED)) > 100
    assert len(where(paint(camera(20.0, yaw=math.pi), None, [wall], CLEAR), RED)) == 0


def test_patch_under_the_camera_is_clipped_not_lost() -> None:
    image = paint(camera(), None, [patch(0, 0, 30, RED)], CLEAR)
    assert len(where(image[130:], RED)) == 14 * SIZE[0]


def test_deck_above_hides_its_markings_and_shows_its_underside() -> None:
    deck = TiledQuads(
        concatenate([patch(20, 0, 8, RED, z=6.0), patch(20, 0, 8, GREEN, Layer.MARKING, z=6.05)])
    )
    image = paint(camera(), deck, [], CLEAR)
    assert len(where(image, GREEN)) == len(where(image, RED)) == 0
    assert len(where(image, CLEAR.underside)) > 500


def test_road_far_below_does_not_show_through_the_deck() -> None:
    scene = TiledQuads(
        concatenate([patch(15, 0, 3, GREEN, Layer.MARKING, z=-8.0), patch(5, 0, 40, RED, Layer.ROAD, z=0.0)])
    )
    assert len(where(paint(camera(), scene, [], CLEAR), GREEN)) == 0


@given(st.floats(-40, 40), st.floats(-40, 40), st.floats(-math.pi, math.pi), st.floats(-0.3, 0.3))
def test_tiles_and_culling_never_change_the_picture(x: float, y: float, yaw: float, pitch: float) -> None:
    rng = np.random.default_rng(3)
    ground = concatenate(
        [
            patch(*rng.uniform(-60, 60, 2), rng.uniform(0.5, 6), tuple(rng.integers(0, 255, 3)), layer)
            for layer in (Layer.VERGE, Layer.ROAD, Layer.MARKING)
            for _ in range(1)
        ]
    )
    view = camera(x, y, yaw=yaw, pitch=pitch)
    style = Style(range_m=500.0)
    tiled = paint(view, TiledQuads(ground, tile_m=7.0), [], style)
    assert np.array_equal(tiled, paint(view, TiledQuads(ground, tile_m=1e4), [], style))


def test_same_scene_gives_the_same_bytes_after_other_pictures() -> None:
    scene = TiledQuads(concatenate([patch(10 * i, 3 * j, 2, RED) for i in range(9) for j in range(-3, 4)]))
    cars = [figures.place(figures.vehicle((2.4, 1.0, 0.75), BLUE), 15.0, 1.0, 0.0, 0.3)]
    first = paint(camera(), scene, cars)
    paint(camera(50.0, 20.0, yaw=2.0), scene, [])
    assert np.array_equal(first, paint(camera(), scene, cars))


def test_braking_changes_the_lamps_and_lights_show_their_colour() -> None:
    dim, bright = (
        paint(
            camera(), None, [figures.place(figures.vehicle((2.4, 1.0, 0.75), BLUE, on), 9.0, 0.0, 0.0, 0.0)]
        )
        for on in (False, True)
    )
    assert not np.array_equal(dim, bright)
    for state, colour in figures.LAMP.items():
        head = figures.place(figures.traffic_light(state, 3.0, True), 15.0, 1.0, 0.0, 0.0)
        assert len(where(paint(camera(), None, [head], CLEAR), colour)) > 10


def test_far_light_is_still_readable() -> None:
    head = figures.place(figures.traffic_light("red", 4.8, False), 45.0, 0.0, 0.0, 0.0)
    image = paint(camera(pitch=math.radians(-4)), None, [head])
    red = (image[..., 0].astype(int) - image[..., 1]) > 60
    assert red.sum() >= 1


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        Quads(
            np.zeros((2, 4, 3), np.float32),
            np.zeros((1, 3), np.uint8),
            np.zeros(2, np.uint8),
            np.zeros(2, np.uint8),
        )
