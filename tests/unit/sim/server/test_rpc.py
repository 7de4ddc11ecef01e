"""Requests without a network: replies, refusals, and arbitrary arguments."""

import math
import re
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.server import wire
from sim.server.blueprints import definitions
from sim.server.rpc import FUNCTIONS, answer
from sim.server.simulation import Simulation

PLACE = [[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]]
MKZ = [14, "vehicle.lincoln.mkz_2020", []]
PEDESTRIAN = [60, "walker.pedestrian.0001", []]


@pytest.fixture(scope="module")
def shared() -> Simulation:
    return Simulation("Town02", 1)


@pytest.fixture
def sim(shared: Simulation) -> Simulation:
    shared.request_load("", True)
    shared.tick()
    shared.set_settings([True, False, [True, 0.05], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True])
    return shared


def call(sim: Simulation, name: str, *arguments: Any) -> Any:
    error, reply = answer(sim, name, list(arguments), False)
    assert error is None
    if name == "apply_batch":
        return reply
    kind, *rest = reply[0]
    assert kind in (1, False), reply
    return rest[0] if rest else None


def refusal(sim: Simulation, name: str, *arguments: Any) -> str:
    error, reply = answer(sim, name, list(arguments), False)
    assert error is None
    kind, *rest = reply[0]
    assert (kind, len(rest)) in ((0, 1), (True, 1)), reply
    message: str = rest[0][0]
    return message


def place_at(sim: Simulation, index: int) -> list[list[float]]:
    return [list(part) for part in sim.world.town.spawn_points[index]]


def test_struct_sizes_match_the_protocol() -> None:
    sizes = {
        wire.HEADER: 48,
        wire.EPISODE: 36,
        wire.ACTOR: 65,
        wire.VEHICLE: 54,
        wire.TRAFFIC_LIGHT: 54,
        wire.SIGN: 54,
        wire.WALKER: 54,
        wire.IMAGE: 12,
    }
    assert all(struct.size == size for struct, size in sizes.items())
    assert len(wire.NO_STATE) == 54
    assert len(wire.token(7, 2001)) == 24


def test_the_documentation_names_every_function_once() -> None:
    text = (Path(__file__).parents[4] / "docs" / "light_simulator.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_A-Z]+)`", text.split("## Calls")[1].split("## Safety")[0])
    assert sorted(named) == sorted(FUNCTIONS)


def test_blueprints_have_the_attributes_that_scenarios_filter_on() -> None:
    library = {row[1]: {attribute[0]: attribute for attribute in row[3]} for row in definitions()}
    mkz = library["vehicle.lincoln.mkz_2020"]
    assert mkz["base_type"][2] == "car"
    assert mkz["number_of_wheels"][1:3] == [2, "4"]
    assert sum(name.startswith("walker.") for name in library) == 52
    assert len({row[0] for row in definitions()}) == len(library)


def test_props_of_the_official_routes_can_be_spawned_in_their_true_size(sim: Simulation) -> None:
    names = (
        "container advertisement foodcart haybalelb busstoplb trafficwarning constructioncone dirtdebris02"
    )
    for name in names.split():
        row = call(sim, "spawn_actor", [1, f"static.prop.{name}", []], PLACE)
        assert min(row[3][1]) > 0.05, name
    mesh = [["mesh_path", 4, "/Game/Parked/Charger/SM_ChargerParked.SM_ChargerParked"]]
    row = call(sim, "spawn_actor", [1, "static.prop.mesh", mesh], PLACE)
    assert row[3][1] == [2.504, 0.941, 0.767]


def test_spawned_vehicle_settles_on_the_ground_and_is_in_the_snapshot(sim: Simulation) -> None:
    row = call(sim, "spawn_actor", MKZ, place_at(sim, 0))
    for _ in range(10):
        call(sim, "tick_cue")
    vehicle = sim.world.actors[row[0]]
    assert vehicle.z == pytest.approx(place_at(sim, 0)[0][2] - 0.5, abs=0.05)
    assert vehicle.vz == 0.0


def test_ids_are_never_reused(sim: Simulation) -> None:
    first = call(sim, "spawn_actor", MKZ, place_at(sim, 0))[0]
    call(sim, "destroy_actor", first)
    assert call(sim, "get_actor_bounding_box", first)[3] == first
    call(sim, "load_new_episode", "", False, 0)
    call(sim, "tick_cue")
    assert min(sim.world.actors) > first


def test_boxes_of_the_dead_are_kept_across_episodes_but_not_without_end(sim: Simulation) -> None:
    first = call(sim, "spawn_actor", MKZ, place_at(sim, 0))[0]
    call(sim, "load_new_episode", "", False, 0)
    call(sim, "tick_cue")
    assert call(sim, "get_actor_bounding_box", first)[3] == first
    for _ in range(6000):
        sim.world.remove(sim.world.add([1, "static.prop.bin", []], PLACE).id)
    assert len(sim.graves) <= 5000


def test_actors_are_limited(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.server.actor_calls.MAX_ACTORS", len(sim.world.actors) + 1)
    cone = [1, "static.prop.constructioncone", []]
    call(sim, "spawn_actor", cone, PLACE)
    assert "already" in refusal(sim, "spawn_actor", cone, PLACE)


@pytest.mark.parametrize(
    "attributes", [[["a", 4, "x" * 10_000]], [["a", 4, "1"]] * 1000, [["a"]], 7, [["a", "b", "c"]]]
)
def test_strange_attributes_are_refused(sim: Simulation, attributes: Any) -> None:
    assert refusal(sim, "spawn_actor", [1, "vehicle.lincoln.mkz_2020", attributes], place_at(sim, 0))


def test_strange_physics_are_refused(sim: Simulation) -> None:
    actor = call(sim, "spawn_actor", MKZ, place_at(sim, 0))[0]
    row = call(sim, "get_physics_control", actor)
    call(sim, "apply_physics_control", actor, row)
    for bad in (row[:-1], [[[0.0, 1.0]] * 100_000, *row[1:]], [*row[:11], math.nan, *row[12:]]):
        assert refusal(sim, "apply_physics_control", actor, bad)
    assert call(sim, "get_physics_control", actor) == row


def test_load_is_deferred_to_the_next_tick(sim: Simulation) -> None:
    call(sim, "tick_cue")
    before, frame = sim.world.episode_id, sim.world.frame
    call(sim, "load_new_episode", "Town02", False, 0)
    assert sim.world.episode_id == before
    call(sim, "tick_cue")
    assert sim.world.episode_id == before + 1
    assert sim.world.frame == frame + 1
    assert sim.world.elapsed_s == pytest.approx(0.05)


def test_entering_synchronous_mode_restarts_the_clock_of_an_untouched_episode(shared: Simulation) -> None:
    shared.request_load("", True)
    for _ in range(300):
        shared.tick()
    lights = [light.state for light in shared.world.lights.values()]
    shared.set_settings([True, False, [True, 0.05], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True])
    assert shared.world.elapsed_s == 0.0
    assert [light.state for light in shared.world.lights.values()] != lights


def test_nan_brake_is_full_brake(sim: Simulation) -> None:
    actor = call(sim, "spawn_actor", MKZ, place_at(sim, 0))[0]
    call(sim, "apply_control_to_vehicle", actor, [0.0, math.nan, math.nan, False, False, False, 1])
    assert sim.world.actors[actor].control[:3] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("set_actor_transform", [[[math.nan, 0.0, 0.0], [0.0, 0.0, 0.0]]]),
        ("set_actor_transform", [[[0.0, 0.0], [0.0, 0.0, 0.0]]]),
        ("set_actor_target_velocity", [["a", "b", "c"]]),
        ("apply_control_to_vehicle", [[0.0]]),
        ("apply_control_to_vehicle", [None]),
        ("apply_control_to_walker", [[[1.0, 0.0, 0.0], 1.0, False]]),
        ("get_telemetry_data", [1, 2, 3]),
    ],
)
def test_bad_arguments_are_refused_and_change_nothing(
    sim: Simulation, name: str, arguments: list[Any]
) -> None:
    actor = call(sim, "spawn_actor", MKZ, place_at(sim, 3))[0]
    vehicle = sim.world.actors[actor]
    before = (vehicle.x, vehicle.y, vehicle.vx, list(vehicle.control))
    assert refusal(sim, name, actor, *arguments)
    assert (vehicle.x, vehicle.y, vehicle.vx, list(vehicle.control)) == before
    call(sim, "tick_cue")


def test_unsupported_sensor_is_refused_by_name(sim: Simulation) -> None:
    assert "sensor.camera.dvs" in refusal(sim, "spawn_actor", [1, "sensor.camera.dvs", []], PLACE)


@pytest.mark.parametrize(
    "attributes", [{"image_size_x": "0"}, {"image_size_y": "100000"}, {"fov": "0"}, {"fov": "x"}]
)
def test_impossible_camera_is_refused(sim: Simulation, attributes: dict[str, str]) -> None:
    chosen = {"image_size_x": "64", "image_size_y": "48", "fov": "90"} | attributes
    row = [121, "sensor.camera.rgb", [[name, 2, value] for name, value in chosen.items()]]
    assert refusal(sim, "spawn_actor", row, PLACE)


def test_bad_settings_and_bad_maps_are_refused(sim: Simulation) -> None:
    assert "settings" in refusal(sim, "set_episode_settings", [True, False, [True, -1.0]])
    assert "OpenDRIVE" in refusal(sim, "copy_opendrive_to_file", "<nonsense>", [])
    call(sim, "tick_cue")


def test_batch_spawns_and_controls_in_one_go(sim: Simulation) -> None:
    control = [2, [0, [1.0, 0.0, 0.0, False, False, False, 0]]]
    command = [[0, [MKZ, place_at(sim, 5), [False], 0, "", [[control]]]]]
    replies = call(sim, "apply_batch", [command, [[1, [999_999]]]], False)
    assert replies[0][0][0] == 1
    assert replies[1][0][0] == 0
    assert sim.world.actors[replies[0][0][1]].control[0] == 1.0


def test_unknown_function_is_a_transport_error(sim: Simulation) -> None:
    error, reply = answer(sim, "no_such_function", [], False)
    assert error is not None
    assert "no_such_function" in error
    assert reply is None
    assert answer(sim, "no_such_function", [], True) == (None, wire.VOID)


scalar = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 2**40), st.floats(allow_nan=True), st.text(max_size=5)
)
argument = st.recursive(scalar, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
HARMLESS = sorted(set(FUNCTIONS) - {"load_new_episode", "copy_opendrive_to_file"})


@settings(max_examples=300)
@given(st.sampled_from(HARMLESS), st.lists(argument, max_size=4))
def test_no_arguments_break_the_server(shared: Simulation, name: str, arguments: list[Any]) -> None:
    vehicle = next((a for a in shared.world.actors.values() if a.kind == "vehicle"), None)
    if vehicle is None:
        call(shared, "spawn_actor", MKZ, place_at(shared, 0))
    error, reply = answer(shared, name, arguments, False)
    assert error is None  # a wrong argument is an answer, never a broken transport
    assert msgpack.packb(reply)
    before = shared.world.frame
    assert call(shared, "tick_cue") == before + 1
    assert call(shared, "get_episode_info")[0] == shared.world.episode_id
