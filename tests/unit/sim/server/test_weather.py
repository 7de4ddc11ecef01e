"""Weather and time of day in colour pictures; the weather that an episode starts with changes nothing."""

import math

import carla
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drive.viz.quads import Tag
from sim.route_files import Weather as RouteWeather
from sim.server import cameras
from sim.server.actors import Actor, Sensor
from sim.server.mesh_cache import town_mesh
from sim.server.render_pool import RenderPool
from sim.server.rpc import answer
from sim.server.scene import Scene, view_of
from sim.server.sensors import follow
from sim.server.town import Town, load_town
from sim.server.weather import DEFAULT, Weather, air_of
from sim.server.wire import IMAGE
from sim.server.world import World
from sim.staging import weather_at
from tests.sensor_builders import camera, lane_places, put, sensor

pytestmark = pytest.mark.usefixtures("mesh_cache")

NIGHT = DEFAULT._replace(sun_altitude_angle=-90.0)
STORM = DEFAULT._replace(cloudiness=100.0, precipitation=100.0, wetness=100.0)
PRESETS = sorted(
    name
    for name, value in vars(carla.WeatherParameters).items()
    if isinstance(value, carla.WeatherParameters) and name != "Default"
)


def row(parameters: carla.WeatherParameters) -> Weather:
    return Weather(*(getattr(parameters, name) for name in Weather._fields))


@pytest.fixture(scope="module")
def town(mesh_cache: None) -> Town:
    return load_town("Town02")


@pytest.fixture(scope="module")
def scene(town: Town) -> Scene:
    return Scene(town)


class Street:
    """A car with a camera, another one ahead of it."""

    def __init__(self, scene: Scene, place: int = 20, ahead_m: float = 14.0) -> None:
        self.scene, self.world = scene, World(scene.town, 1, 1, 1)
        (x, y, z), rotation = lane_places(scene.town)[place]
        self.ego = self.world.add([0, "vehicle.lincoln.mkz_2020", []], [[x, y, z - 0.5], rotation])
        self.car: Actor = put(self.world, "vehicle.tesla.model3", self.ego, ahead_m)
        self.eye = self.camera("sensor.camera.rgb")

    def camera(self, kind: str, yaw: float = 0.0) -> Sensor:
        mount = [[0.5, 0.0, 1.7], [-4.0, yaw, 0.0]]
        eye = sensor(kind, mount, self.world, self.ego, image_size_x=192, image_size_y=108, fov=90)
        follow(eye, self.ego)
        return eye

    def picture(self, weather: Weather) -> np.ndarray:
        """Float (108, 192, 3)."""
        self.world.weather = list(weather)
        self.world.frame += 1
        payload = np.frombuffer(self.scene.image(self.world, self.eye)[IMAGE.size :], np.uint8)
        bgra = payload.reshape(108, 192, 4)
        assert (bgra[..., 3] == 255).all()
        return bgra[..., :3].astype(float)

    def mask(self) -> np.ndarray:
        """Where the other car is seen."""
        self.world.frame += 1
        payload = cameras.instance(self.scene, self.world, self.camera("sensor.camera.instance_segmentation"))
        pixels = np.frombuffer(payload[IMAGE.size :], np.uint8).reshape(108, 192, 4)
        return (pixels[..., 1] == self.car.id & 255) & (pixels[..., 2] == 14)


@pytest.fixture
def street(scene: Scene) -> Street:
    return Street(scene)


def test_what_cannot_be_seen_leaves_the_default_picture_bit_for_bit(street: Street) -> None:
    before = street.picture(DEFAULT)
    assert street.world.weather == [0.0, 0.0, 0.0, 0.0, 0.0, 45.0, *[0.0] * 8]
    unseen = DEFAULT._replace(
        wind_intensity=90.0,
        scattering_intensity=1.0,
        mie_scattering_scale=0.03,
        rayleigh_scattering_scale=0.0331,
    )
    assert air_of(unseen) is None
    assert np.array_equal(street.picture(unseen), before)


@pytest.mark.parametrize("name", [n for n in Weather._fields if n != "sun_altitude_angle"])
def test_a_little_weather_changes_little(street: Street, name: str) -> None:
    change = np.abs(street.picture(DEFAULT._replace(**{name: 0.01})) - street.picture(DEFAULT))
    # The edge of the town, where bare ground meets the sky, is the only place without haze by default.
    assert np.quantile(change, 0.95) <= 4
    assert change.mean() < 4


@pytest.mark.parametrize("place", [5, 20, 41])
def test_it_gets_darker_as_the_sun_goes_down(scene: Scene, place: int) -> None:
    street = Street(scene, place)
    heights = (45.0, 25.0, 10.0, 2.0, -4.0, -10.0)
    levels = [street.picture(DEFAULT._replace(sun_altitude_angle=h)).mean() for h in heights]
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] < 0.4 * levels[0]


def test_clouds_rain_and_water_darken_the_road(street: Street) -> None:
    def road(weather: Weather) -> float:
        return float(street.picture(weather)[95:, 60:130].mean())

    clear = road(DEFAULT)
    for name in ("cloudiness", "precipitation", "wetness", "precipitation_deposits"):
        levels = [road(DEFAULT._replace(**{name: share})) for share in (10.0, 50.0, 100.0)]
        assert clear + 2 > levels[0] > levels[1] > levels[2], name


def test_a_wet_road_mirrors_the_sky_far_away_and_not_near(street: Street) -> None:
    dry, wet = street.picture(DEFAULT), street.picture(DEFAULT._replace(wetness=100.0))
    brighter = (wet - dry).mean(-1)[:, 70:110]
    assert brighter[100:].mean() < -5 < brighter[63:68].mean()


@settings(max_examples=6)
@example(94.6875, 10.0)
@given(st.floats(35, 100), st.sampled_from([45.0, 10.0]))
def test_fog_hides_more_the_farther_it_is(scene: Scene, density: float, height: float) -> None:
    left = []
    for ahead in (8.0, 16.0, 32.0):
        street = Street(scene, ahead_m=ahead)
        here = street.mask()
        sky = DEFAULT._replace(sun_altitude_angle=height)

        def contrast(weather: Weather, street: Street = street, here: np.ndarray = here) -> float:
            return float(street.picture(weather)[here].std(0).mean())

        left.append(contrast(sky._replace(fog_density=density)) / contrast(sky))
    # In thick fog nothing but rounding is left of what is far away.
    assert 1 > left[0] > left[1] > left[2] - 0.03
    assert left[0] > left[2]


def test_fog_begins_where_it_is_told_to_and_thins_upwards(street: Street) -> None:
    thick = DEFAULT._replace(fog_density=60.0)
    near = np.s_[95:, 60:130]
    clear, far = street.picture(DEFAULT)[near].mean(), street.picture(thick._replace(fog_distance=30.0))[near]
    assert far.mean() == pytest.approx(clear, abs=2)
    assert street.picture(thick)[near].mean() > clear + 3
    top = np.s_[:20]
    flat, low = street.picture(thick)[top], street.picture(thick._replace(fog_falloff=5.0))[top]
    blue = np.abs(low - street.picture(DEFAULT)[top]).mean()
    assert blue < 0.5 * np.abs(flat - street.picture(DEFAULT)[top]).mean()


def test_lamps_shine_at_night(street: Street) -> None:
    night, here = street.picture(NIGHT), street.mask()
    red = night[..., 2] - night[..., :2].max(-1)
    assert (red[here] > 100).sum() >= 4
    street.car.control[2] = 1.0  # type: ignore[attr-defined]
    braking = street.picture(NIGHT)
    assert braking[here][:, 2].sum() > 1.1 * night[here][:, 2].sum()
    street.world.street_lamps = False
    assert street.picture(NIGHT).mean() < 0.98 * braking.mean()


@pytest.mark.parametrize(("state", "channel"), [(0, 2), (2, 1)])
@pytest.mark.parametrize("ahead", [3.0, 12.0, 40.0])
def test_the_state_of_a_traffic_light_can_be_told_at_night(
    scene: Scene, state: int, channel: int, ahead: float
) -> None:
    street = Street(scene)
    light = next(iter(street.world.lights.values()))
    light.state = state
    stop = next(stop for stop in light.stops if stop.at_kerb)
    yaw = math.radians(stop.yaw_deg)
    street.world.remove(street.car.id)
    eye = camera(
        [
            [stop.x - ahead * math.cos(yaw), stop.y - ahead * math.sin(yaw), stop.z + 1.7],
            [8.0, stop.yaw_deg, 0.0],
        ],
        192,
        108,
        90,
    )
    street.eye = eye
    bgr = street.picture(NIGHT)
    tags = scene.seen(street.world, eye, view_of(eye)).survey.tags
    lamp = bgr[(tags == Tag.TRAFFIC_LIGHT) & (bgr.max(-1) > 150)]
    other = np.delete(lamp, channel, axis=1).max(1)
    assert ((lamp[:, channel] - other) > 80).any()


def test_the_own_headlamps_light_the_road(street: Street) -> None:
    with_lamps = street.picture(NIGHT)[78:90, 80:112].mean()
    street.eye.parent = 0
    street.ego.half_size = None
    assert with_lamps > 2 * street.picture(NIGHT)[78:90, 80:112].mean()


@pytest.mark.parametrize("weather", [NIGHT, STORM, STORM._replace(sun_altitude_angle=-90.0)])
def test_the_same_moment_looks_the_same_and_the_next_one_does_not(scene: Scene, weather: Weather) -> None:
    one, other = Street(scene), Street(scene)
    first = one.picture(weather)
    assert np.array_equal(first, other.picture(weather))
    assert np.array_equal(first, one.picture(weather))
    other.world.elapsed_s += 0.05
    assert not np.array_equal(first, other.picture(weather))


def test_helpers_paint_weather_like_the_server(scene: Scene, street: Street) -> None:
    street.world.weather = list(STORM._replace(sun_altitude_angle=-20.0))
    orders = [
        scene._order(street.world, street.camera("sensor.camera.rgb", yaw)) for yaw in (-60.0, 0.0, 60.0)
    ]
    pool = RenderPool(town_mesh(scene.town), scene._mesh(), workers=2)
    try:
        assert pool.paint(orders) == [order.paint(scene._mesh()) for order in orders]
    finally:
        pool.close()


@pytest.mark.parametrize("kind", ["semantic", "instance", "depth"])
def test_other_cameras_see_through_any_weather(street: Street, kind: str) -> None:
    look = getattr(cameras, kind)
    street.world.frame += 1
    before = look(street.scene, street.world, street.eye)
    street.world.weather = list(STORM._replace(sun_altitude_angle=-90.0, fog_density=100.0))
    street.world.frame += 1
    assert look(street.scene, street.world, street.eye) == before


def test_every_preset_has_its_own_picture(street: Street) -> None:
    pictures = {
        name: street.picture(row(getattr(carla.WeatherParameters, name))).tobytes() for name in PRESETS
    }
    assert len(PRESETS) == 22
    assert len(set(pictures.values())) == len(PRESETS)
    noon, night = (np.frombuffer(pictures[name]).mean() for name in ("ClearNoon", "ClearNight"))
    assert night < 0.4 * noon


def test_clear_noon_is_nearly_the_default(street: Street) -> None:
    change = np.abs(street.picture(row(carla.WeatherParameters.ClearNoon)) - street.picture(DEFAULT))
    assert change.mean() < 6


@settings(max_examples=12)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=14, max_size=14))
def test_any_finite_weather_can_be_painted(scene: Scene, values: list[float]) -> None:
    picture = Street(scene).picture(Weather(*values))
    assert picture.min() >= 0


def test_weather_of_a_route_file_reaches_the_picture(street: Street) -> None:
    weathers = [
        RouteWeather(0.0, {"sun_altitude_angle": 45.0}),
        RouteWeather(100.0, {"sun_altitude_angle": -30.0}),
    ]
    levels = []
    for percent in (0.0, 50.0, 100.0):
        parameters = row(carla.WeatherParameters(**weather_at(weathers, percent)))
        transport, reply = answer(_Sim(street.world), "set_weather_parameters", [list(parameters)], False)  # type: ignore[arg-type]
        assert (transport, reply) == (None, [[False]])
        levels.append(street.picture(Weather(*street.world.weather)).mean())
    assert levels[0] > levels[1] > levels[2]


class _Sim:
    """What the calls of weather and lamps need of a simulation."""

    def __init__(self, world: World) -> None:
        self.world = world


def test_street_lamps_stay_as_they_are_without_the_day_night_cycle(street: Street) -> None:
    sim = _Sim(street.world)

    def lamps() -> float:
        air = air_of(tuple(street.world.weather), street.world.street_lamps)
        return air.lamps if air else 0.0

    street.world.weather = list(NIGHT)
    assert lamps() == 1.0
    answer(sim, "update_day_night_cycle", ["", False], False)  # type: ignore[arg-type]
    street.world.weather = list(DEFAULT)
    assert lamps() == 1.0
    answer(sim, "update_day_night_cycle", ["", True], False)  # type: ignore[arg-type]
    assert lamps() == 0.0
    answer(sim, "update_day_night_cycle", ["", False], False)  # type: ignore[arg-type]
    street.world.weather = list(NIGHT)
    assert lamps() == 0.0
