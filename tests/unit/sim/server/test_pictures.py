"""Colour pictures stay what they were, and label, instance and depth pictures agree with them."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.viz.painter import background, shades
from drive.viz.quads import Tag
from drive.viz.survey import Survey
from drive.viz.view import DAYLIGHT
from sim.server import cameras
from sim.server.actors import Actor, Sensor
from sim.server.scene import Scene, Seen, view_of
from sim.server.town import Town, load_town
from sim.server.wire import IMAGE
from sim.server.world import World
from tests.sensor_builders import busy_world, camera, lane_places, put

pytestmark = pytest.mark.usefixtures("mesh_cache")

# The shipped model learns from these very pictures: a change of them needs a new model, not only new hashes.
# Last renewed when signs, street lamps and rows of windows came in.
GOLDEN = {
    "Town02": {
        (0, False): "d9ec5bcc4bcea693",
        (0, True): "76a303b5eaeb82be",
        (20, False): "eac81d42c98d305b",
        (20, True): "bed0197e90ca22ff",
        (41, False): "636f4256cfdf8314",
        (41, True): "57b2cb724a632dd3",
    },
    "Town03": {
        (3, False): "5fd5bd6644cfe235",
        (3, True): "c3a3ecc7c0b0971a",
        (60, False): "4074edb1903ecd31",
        (60, True): "154b25ef4910e97a",
    },
}


@pytest.fixture(scope="module")
def town(mesh_cache: None) -> Town:
    return load_town("Town02")


@pytest.fixture(scope="module")
def scene(town: Town) -> Scene:
    return Scene(town)


@pytest.fixture(scope="module")
def busy(town: Town) -> World:
    return busy_world(town)


def golden_camera(town: Town, index: int, odd: bool) -> Sensor:
    """The front camera's view, or a rolled one that looks back and up with another lens."""
    (x, y, z), (pitch, yaw, roll) = lane_places(town)[index]
    place = [x - 3, y + 1, z + 1.2]
    if odd:
        return camera([place, [pitch + 3, yaw + 130, roll + 5]], 384, 216, 70)
    return camera([place, [pitch - 4, yaw, roll]])


@pytest.mark.parametrize("name", ["Town02", pytest.param("Town03", marks=pytest.mark.slow)])
def test_colour_pictures_are_bit_for_bit_those_the_model_has_learnt_from(name: str) -> None:
    town = load_town(name)
    world, scene = busy_world(town), Scene(town)
    hashes = {
        key: hashlib.sha256(scene.image(world, golden_camera(town, *key))).hexdigest()[:16]
        for key in GOLDEN[name]
    }
    assert hashes == GOLDEN[name]


def colours(survey: Survey) -> np.ndarray:
    """The colour picture, uint8 (H, W, 3), put together from a survey."""
    rows = background(survey.view, DAYLIGHT)[:, None].repeat(survey.pixel.shape[1], 1)
    painted = shades(survey.faces, DAYLIGHT)
    seen = survey.pixel >= 0
    rows[seen] = painted[survey.pixel[seen]]
    return rows


@given(
    st.integers(0, 59), st.floats(-180, 180), st.floats(-30, 30), st.floats(-20, 20), st.floats(30, 130),
    st.floats(0.3, 12.0),
)  # fmt: skip
def test_a_survey_shows_exactly_what_the_colour_camera_shows(
    scene: Scene, busy: World, index: int, yaw: float, pitch: float, roll: float, fov: float, height: float
) -> None:
    (x, y, z), _ = lane_places(scene.town)[index]
    eye = camera([[x + 4, y, z - 0.5 + height], [pitch, yaw, roll]], 96, 54, fov)
    seen = scene.seen(busy, eye, view_of(eye))
    payload = np.frombuffer(scene.image(busy, eye)[IMAGE.size :], np.uint8).reshape(54, 96, 4)
    assert np.array_equal(colours(seen.survey), payload[..., 2::-1])


@pytest.fixture
def street(town: Town) -> tuple[World, Actor]:
    """An empty town and the car that carries the sensors."""
    world = World(town, 7, 1, 1)
    (x, y, z), rotation = lane_places(town)[20]
    return world, world.add([0, "vehicle.lincoln.mkz_2020", []], [[x, y, z - 0.5], rotation])


def look(scene: Scene, world: World, ego: Actor, pitch: float = 0.0) -> Seen:
    eye = camera([[ego.x, ego.y, ego.z + 1.7], [pitch, ego.yaw, 0.0]])
    eye.parent = ego.id
    world.frame += 1
    return scene.seen(world, eye, view_of(eye))


@pytest.mark.parametrize(
    ("kind", "tag"),
    [
        ("vehicle.lincoln.mkz_2020", Tag.CAR),
        ("vehicle.mercedes.sprinter", Tag.CAR),
        ("vehicle.carlamotors.european_hgv", Tag.TRUCK),
        ("vehicle.mitsubishi.fusorosa", Tag.BUS),
        ("vehicle.yamaha.yzf", Tag.MOTORCYCLE),
        ("vehicle.bh.crossbike", Tag.BICYCLE),
        ("walker.pedestrian.0007", Tag.PEDESTRIANS),
        ("static.prop.container", Tag.STATIC),
        ("static.prop.mesh", Tag.CAR),
    ],
)
def test_every_kind_of_body_has_its_tag_and_id(
    scene: Scene, street: tuple[World, Actor], kind: str, tag: Tag
) -> None:
    world, ego = street
    body = put(world, kind, ego, 12.0)
    seen = look(scene, world, ego)
    tags = seen.survey.tags[seen.actors == body.id]
    assert len(tags) > 20
    allowed = {tag, Tag.RIDER} if tag in (Tag.MOTORCYCLE, Tag.BICYCLE) else {tag}
    assert set(tags.tolist()) == allowed
    pixels = cameras.instance_pixels(seen)
    mine = seen.actors == body.id
    assert (pixels[mine][:, 1] == body.id & 255).all()
    assert (pixels[mine][:, 0] == body.id >> 8).all()
    assert np.array_equal(pixels[..., 2], seen.survey.tags)


@settings(max_examples=30)
@given(st.floats(7, 60), st.floats(-0.5, 0.5), st.floats(-180, 180))
def test_depth_and_instance_of_a_car_are_where_its_box_is(
    scene: Scene, ahead: float, aside: float, turn: float
) -> None:
    world = World(scene.town, 1, 1, 1)
    (x, y, z), rotation = lane_places(scene.town)[20]
    ego = world.add([0, "vehicle.lincoln.mkz_2020", []], [[x, y, z - 0.5], rotation])
    car = put(world, "vehicle.lincoln.mkz_2020", ego, ahead, aside * ahead, turn)
    seen = look(scene, world, ego)
    mine = seen.actors == car.id
    assert mine.any()
    half_x, half_y, half_z = car.half_size or (0.0, 0.0, 0.0)
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    corners = [(u * (half_x + 0.05), v * (half_y + 0.05)) for u in (-1, 1) for v in (-1, 1)]
    forward = np.array([ahead + c * u - s * v for u, v in corners])
    right = np.array([aside * ahead + s * u + c * v for u, v in corners])
    depth = seen.survey.depth(seen.ground_m)[mine]
    assert forward.min() - 0.01 <= depth.min() <= ahead
    assert depth.max() <= forward.max() + 0.01
    focal = seen.survey.view.intrinsics[0, 0]
    rows, columns = np.nonzero(mine)
    across = 128 + focal * right / forward
    assert across.min() - 2 <= columns.min() <= across.min() + 3 + 0.1 * focal / ahead
    assert across.max() - 3 - 0.1 * focal / ahead <= columns.max() <= across.max() + 2
    assert 72 + focal * (1.7 - 2 * half_z) / forward.max() - 2 <= rows.min()
    assert rows.max() <= 72 + focal * 1.7 / forward.min() + 2


def test_road_depth_is_that_of_a_level_plane_and_the_sky_is_far(
    scene: Scene, street: tuple[World, Actor]
) -> None:
    world, ego = street
    seen = look(scene, world, ego, pitch=-4.0)
    depth = seen.survey.depth(seen.ground_m)
    focal, pitch = seen.survey.view.intrinsics[0, 0], math.radians(-4.0)
    for row in (90, 110, 140):
        down = math.atan((row + 0.5 - 72) / focal) - pitch
        expected = 1.7 / math.sin(down) * math.cos(down + pitch)
        assert seen.survey.tags[row, 128] in (Tag.ROADS, Tag.ROAD_LINES)
        assert depth[row, 128] == pytest.approx(expected, rel=0.03)
    sky = seen.survey.tags == Tag.SKY
    assert np.isinf(depth[sky]).all()
    assert np.isfinite(depth[~sky]).all()


def test_depth_is_encoded_as_carla_does() -> None:
    metres = np.array([[0.0, 1.0, 12.345, 999.999, 1000.0, 5000.0, np.inf]])
    bgra = cameras.depth_pixels(metres).astype(float)
    decoded = (bgra[..., 2] + 256 * bgra[..., 1] + 65536 * bgra[..., 0]) / (256**3 - 1) * 1000
    assert np.allclose(decoded, np.minimum(metres, 1000.0), atol=1e-4)


def test_lights_signal_their_own_id(scene: Scene, busy: World) -> None:
    found = set()
    for light in busy.lights.values():
        stop = light.stops[0]
        eye = camera([[stop.x, stop.y, stop.z + 1.7], [10.0, stop.yaw_deg, 0.0]])
        seen = scene.seen(busy, eye, view_of(eye))
        if (seen.survey.tags[seen.actors == light.id] == Tag.TRAFFIC_LIGHT).any():
            found.add(light.id)
    assert len(found) > 0.9 * len(busy.lights)
