"""Numbers of any size to real actors: whatever is accepted, time goes on and states can be sent."""

import math
from typing import Any

import msgpack
import pytest

from sim.server.rpc import FUNCTIONS, answer
from sim.server.simulation import Simulation
from sim.server.snapshot import SnapshotWriter

EXTREMES = (
    0,
    -1,
    1e5,
    -1e6,
    1e6,
    1e7,
    3.5e38,
    1e154,
    1e300,
    1.7e308,
    -1e308,
    5e-324,
    math.inf,
    math.nan,
    2**63,
)
SETTINGS = [True, False, [True, 0.05], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]
X = object()  # where the number goes
V, T = [X, X, X], [[X, X, X], [X, X, X]]
CALLS: list[tuple[str, str, list[Any]]] = [
    ("apply_control_to_vehicle", "car", [[X, X, X, False, False, False, X]]),
    ("apply_ackermann_control_to_vehicle", "car", [[X] * 5]),
    ("apply_control_to_walker", "man", [[V, X, False]]),
    ("set_actor_transform", "car", [T]),
    ("set_actor_transform", "man", [T]),
    ("set_actor_location", "car", [V]),
    ("set_walker_state", "man", [T, X]),
    ("set_actor_target_velocity", "car", [V]),
    ("set_actor_target_velocity", "man", [V]),
    ("enable_actor_constant_velocity", "car", [V]),
    ("set_actor_target_angular_velocity", "car", [V]),
    ("add_actor_impulse", "car", [V]),
    ("add_actor_impulse", "man", [V]),
    ("add_actor_force", "car", [V]),
    ("add_actor_torque", "car", [V]),
    ("add_actor_angular_impulse", "man", [V]),
    ("set_vehicle_light_state", "car", [[X]]),
    ("set_traffic_light_state", "light", [X]),
    ("set_traffic_light_green_time", "light", [X]),
    ("set_traffic_light_red_time", "light", [X]),
    ("set_weather_parameters", "", [[X] * 14]),
    ("project_point", "", [V, [0.0, 0.0, -1.0], 1e6]),
    ("project_point", "", [[0.0, 0.0, 5.0], V, X]),
    ("cast_ray", "", [V, [0.0, 0.0, 0.0]]),
    ("cast_ray", "", [[X, 0.0, 1.0], [0.0, X, 0.0]]),
    ("set_episode_settings", "", [[True, False, [True, X], *SETTINGS[3:]]]),
    ("set_episode_settings", "", [[*SETTINGS[:4], X, X, X, True, X, X, True]]),
    ("spawn_actor", "", [[1, "static.prop.bin", []], T]),
    ("spawn_actor", "", [[1, "vehicle.audi.tt", []], T]),
]


def filled(form: Any, number: Any) -> Any:
    if isinstance(form, list):
        return [filled(part, number) for part in form]
    return number if form is X else form


@pytest.fixture(scope="module")
def shared() -> Simulation:
    return Simulation("Town02", 1)


@pytest.fixture
def actors(shared: Simulation) -> dict[str, list[int]]:
    """A car that drives, a walker that walks, a light."""
    shared.request_load("", True)
    shared.tick()
    shared.set_settings(SETTINGS)
    world = shared.world
    place = world.town.spawn_points[0]
    car = world.add([1, "vehicle.lincoln.mkz_2020", []], place)
    man = world.add([1, "walker.pedestrian.0001", []], [[place[0][0] + 9, place[0][1] + 9, 1.0], [0.0] * 3])
    answer(shared, "apply_control_to_vehicle", [car.id, [0.5, 0.1, 0.0, False, False, False, 1]], False)
    answer(shared, "apply_control_to_walker", [man.id, [[1.0, 1.0, 0.0], 1.0, False]], False)
    light = next(iter(world.lights.values()))
    return {"car": [car.id], "man": [man.id], "light": [light.id], "": []}


@pytest.mark.parametrize("number", EXTREMES, ids=str)
def test_time_goes_on_and_everything_can_be_sent(
    shared: Simulation, actors: dict[str, list[int]], number: float
) -> None:
    for name, who, form in CALLS:
        error, reply = answer(shared, name, [*actors[who], *filled(form, number)], False)
        assert error is None
        assert msgpack.packb(reply), name
        frame = shared.world.frame
        for _ in range(3):
            shared.tick()
        assert shared.world.frame == frame + 3
        assert SnapshotWriter(shared.world).pack(0), name
        for asked in ("get_vehicle_light_states", "get_weather_parameters", "get_episode_settings"):
            assert msgpack.packb(answer(shared, asked, [], False)[1])
        assert msgpack.packb(answer(shared, "get_actors_by_id", [list(shared.world.actors)], False)[1])


@pytest.mark.parametrize(
    ("sensor", "attribute"),
    [
        ("imu", "noise_accel_stddev_x"),
        ("imu", "noise_seed"),
        ("gnss", "noise_lat_bias"),
        ("gnss", "sensor_tick"),
    ],
)
@pytest.mark.parametrize("value", ["x", "nan", "inf", "1e300"])
def test_sensors_with_words_for_numbers_are_refused_before_they_exist(
    shared: Simulation, actors: dict[str, list[int]], sensor: str, attribute: str, value: str
) -> None:
    before = len(shared.world.actors)
    row = [1, f"sensor.other.{sensor}", [[attribute, 4, value]]]
    arguments = [row, [[0.0] * 3, [0.0] * 3], actors["car"][0], 0, ""]
    _, reply = answer(shared, "spawn_actor_with_parent", arguments, False)
    assert reply[0][0] == 0
    assert len(shared.world.actors) == before


def test_all_names_are_functions() -> None:
    assert {name for name, _, _ in CALLS} <= set(FUNCTIONS)
