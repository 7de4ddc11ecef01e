"""Signs stand beside the lanes, face their traffic, and every camera sees them."""

import math

import carla
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.viz.plates import speed_sign, stop_sign, yield_sign
from drive.viz.quads import Quads, Tag
from sim.frames import pose_from_carla
from sim.server.actors import SignActor, TrafficLight
from sim.server.scene import Scene, view_of
from sim.server.sign_posts import sign_figure, speed_signs
from sim.server.town import Town, load_town
from sim.server.wire import IMAGE
from sim.server.world import World
from tests.sensor_builders import camera

pytestmark = pytest.mark.usefixtures("mesh_cache")

AHEAD_M = 9.0


@pytest.fixture(scope="module")
def town(mesh_cache: None) -> Town:
    """It has stop and yield signs, and no speed-limit signs."""
    return load_town("Town10HD")


@pytest.fixture(scope="module")
def scene(town: Town) -> Scene:
    return Scene(town)


def plate_of(figure: Quads) -> np.ndarray:
    """Middle of the plate, (x, y, z) in the world."""
    return figure.corners[figure.tag == Tag.TRAFFIC_SIGNS].reshape(-1, 3).mean(0)


def look(
    scene: Scene, world: World, plate: np.ndarray, yaw_deg: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(RGB, tags, actor ids) of a camera in front of a plate; the yaw is CARLA's."""
    x, y, yaw = float(plate[0]), -float(plate[1]), math.radians(yaw_deg)
    place = [x - AHEAD_M * math.cos(yaw), y - AHEAD_M * math.sin(yaw), float(plate[2]) - 0.5]
    eye = camera([place, [0.0, yaw_deg, 0.0]], 256, 144, 60)
    world.frame += 1
    rgb = np.frombuffer(scene.image(world, eye)[IMAGE.size :], np.uint8).reshape(144, 256, 4)[..., 2::-1]
    seen = scene.seen(world, eye, view_of(eye))
    return rgb.astype(int), seen.survey.tags, seen.actors


def red(rgb: np.ndarray) -> np.ndarray:
    return (rgb[..., 0] > 120) & (rgb[..., 0] - rgb[..., 1:].max(-1) > 60)


def white(rgb: np.ndarray) -> np.ndarray:
    return rgb.min(-1) > 200


def test_each_stop_and_yield_sign_is_seen_in_its_colours_where_labels_show_it(
    town: Town, scene: Scene
) -> None:
    world, kinds = World(town, 1, 1, 1), set()
    for sign in world.fixtures.values():
        if not isinstance(sign, SignActor) or isinstance(sign, TrafficLight):
            continue
        rgb, tags, actors = look(scene, world, plate_of(sign_figure(town.map, sign)), sign.yaw - 90)
        plate = (tags == Tag.TRAFFIC_SIGNS) & (actors == sign.id)
        assert plate.sum() > 100, sign.type_id
        middle = rgb[plate]
        share = red(middle).mean(), white(middle).mean()
        assert share[0] > (0.5 if sign.type_id == "traffic.stop" else 0.3), sign.type_id
        assert share[1] > (0.05 if sign.type_id == "traffic.stop" else 0.25), sign.type_id
        kinds.add(sign.type_id)
    assert kinds == {"traffic.stop", "traffic.yield"}


def test_each_speed_sign_faces_its_traffic_beside_the_lanes() -> None:
    town = load_town("Town02")
    signs, scene, world = speed_signs(town.map), Scene(town), World(town, 1, 1, 1)
    marks = [mark for mark in town.map.get_all_landmarks() if mark.type == "274"]
    assert len(signs.quads) == len(marks) == 21
    for mark, figure, (x, y) in zip(marks, signs.quads, signs.xy.tolist(), strict=True):
        plate = plate_of(figure)
        assert np.allclose(plate[:2], pose_from_carla(x, y, 0.0)[:2], atol=0.2)
        lane = town.map.get_waypoint(carla.Location(x, y, 0.0), False, carla.LaneType.Driving)
        assert lane is None
        rgb, tags, actors = look(scene, world, plate, mark.transform.rotation.yaw)
        shown = (tags == Tag.TRAFFIC_SIGNS) & (actors == 0)
        assert shown.sum() > 100
        assert red(rgb[shown]).mean() > 0.2
        assert white(rgb[shown]).mean() > 0.2
        rgb, tags, _ = look(scene, world, plate, mark.transform.rotation.yaw + 180)
        back = np.s_[55:65, 123:133]
        assert (tags[back] == Tag.TRAFFIC_SIGNS).mean() > 0.9
        assert not red(rgb[back]).any()


@settings(max_examples=20)
@given(st.integers(1, 999))
def test_every_limit_has_a_plate_with_ink_inside_its_rim(limit: int) -> None:
    figure = speed_sign(limit)
    dark = figure.corners[(figure.colour.max(1) < 40) & (figure.tag == Tag.TRAFFIC_SIGNS)]
    rim = figure.corners[(figure.colour[:, 0] > 150) & (figure.colour[:, 1] < 60)]
    assert len(dark) >= 2 * len(str(limit))
    assert np.abs(dark[..., 1]).max() < 0.8 * np.abs(rim[..., 1]).max()


def test_signs_have_their_shapes() -> None:
    def width_at(figure: Quads, share: float) -> float:
        points = figure.corners[figure.tag == Tag.TRAFFIC_SIGNS].reshape(-1, 3)
        low, high = points[:, 2].min(), points[:, 2].max()
        near = np.abs(points[:, 2] - (low + share * (high - low))) < 0.05
        return float(np.ptp(points[near, 1]))

    assert width_at(yield_sign(), 0.0) < 0.1 < 0.9 < width_at(yield_sign(), 1.0)
    assert 0.3 < width_at(stop_sign(), 0.0) == pytest.approx(width_at(stop_sign(), 1.0), abs=0.01)


@pytest.mark.parametrize(("state", "channel"), [(0, 0), (2, 1)])
def test_the_state_of_a_light_can_be_told_from_100_m(
    scene: Scene, town: Town, state: int, channel: int
) -> None:
    world = World(town, 1, 1, 1)
    told = asked = 0
    for light in list(world.lights.values()):
        light.state = state
        stop = light.stops[0]
        yaw = math.radians(stop.yaw_deg)
        ahead = 85.0  # and the far head stands 15 m beyond the stop line
        x, y = stop.x - ahead * math.cos(yaw), stop.y - ahead * math.sin(yaw)
        eye = camera(
            [[x, y, stop.z + 4.0], [0.0, stop.yaw_deg, 0.0]],
            384, 216, 70,
        )  # fmt: skip
        seen = scene.seen(world, eye, view_of(eye))
        mine = (seen.actors == light.id) & (seen.survey.tags == Tag.TRAFFIC_LIGHT)
        if not mine.any():
            continue  # a house is in the way
        asked += 1
        rgb = np.frombuffer(scene.image(world, eye)[IMAGE.size :], np.uint8).reshape(216, 384, 4)[..., 2::-1]
        lamp = rgb[mine].astype(int)
        other = lamp[:, [c for c in (0, 1, 2) if c != channel]].max(1)
        told += bool(((lamp[:, channel] - other) > 80).any())
        light.state = 0
    assert asked > 10
    assert told >= 0.9 * asked
