"""Every RPC function and batch command of the protocol is answered in its form.

Asked over a plain socket; test_wire_client.py asks through the official client what that can ask.
"""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import pytest

from sim.server.rpc import FUNCTIONS
from tests.light_server import TICK_S, running_server

Check = Callable[[Any], bool]
CAR, MAN, CONE = "vehicle.lincoln.mkz_2020", "walker.pedestrian.0001", "static.prop.constructioncone"
UNIT = [0.0, 0.0, 1.0]
PLACE = [[10.0, 10.0, 2.0], [0.0, 0.0, 0.0]]
PEDALS = [0.3, 0.0, 0.0, False, False, False, 1]


def numbers(count: int) -> Check:
    return lambda value: len(value) == count and all(isinstance(part, float | int) for part in value)


def rows_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(row) for row in value)


def is_a(*kinds: type) -> Check:
    return lambda value: isinstance(value, kinds)


def transform(value: Any) -> bool:
    return len(value) == 2 and all(map(numbers(3), value))


def box(value: Any) -> bool:
    return len(value) == 4 and all(map(numbers(3), value[:3])) and isinstance(value[3], int)


def point(value: Any) -> bool:
    return len(value) == 2 and numbers(3)(value[0]) and 0 <= value[1] < 256


def token(value: Any) -> bool:
    return len(value) == 1 and len(value[0]) == 24


def actor(value: Any) -> bool:
    identity, parent, description, body, tags, stream = value
    texts = isinstance(description[1], str) and isinstance(tags, bytes) and len(stream) in (0, 24)
    return isinstance(identity, int) and isinstance(parent, int) and texts and box(body)


def settings(value: Any) -> bool:
    kinds = (bool, bool, list, bool, float, int, float, bool, float, float, bool)
    return len(value) == 11 and all(isinstance(part, kind) for part, kind in zip(value, kinds, strict=True))


def physics(value: Any) -> bool:
    wheels = rows_of(lambda wheel: len(wheel) == 10 and numbers(3)(wheel[9]))
    return len(value) == 17 and wheels(value[15]) and rows_of(numbers(3))(value[10]) and value[11] > 100


def telemetry(value: Any) -> bool:
    return len(value) == 8 and numbers(7)(value[:7]) and len(value[7]) == 4 and rows_of(numbers(11))(value[7])


def definition(value: Any) -> bool:
    uid, name, tags, attributes = value
    fields = rows_of(lambda row: len(row) == 6 and isinstance(row[2], str) and 1 <= row[1] <= 5)
    return isinstance(uid, int) and isinstance(name, str) and isinstance(tags, str) and fields(attributes)


def car(world: dict[str, Any], *more: Any) -> tuple[Any, ...]:
    return (world["car"], *more)


Arguments = Callable[[dict[str, Any]], tuple[Any, ...]]


def fixed(*arguments: Any) -> Arguments:
    return lambda world: arguments


def to(name: str, *more: Any) -> Arguments:
    return lambda world: (world[name], *more)


SETTINGS = [True, False, [True, TICK_S], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]
VALUES: dict[str, tuple[Arguments, Check]] = {
    "version": (fixed(), lambda value: value == "0.9.16"),
    "get_episode_info": (fixed(), lambda value: isinstance(value[0], int) and token(value[1])),
    "get_sensor_token": (to("stream"), token),
    "get_episode_settings": (fixed(), settings),
    "set_episode_settings": (fixed(SETTINGS), is_a(int)),
    "get_map_info": (fixed(), lambda value: isinstance(value[0], str) and rows_of(transform)(value[1])),
    "get_map_data": (fixed(), lambda value: "<OpenDRIVE" in value),
    "get_required_files": (fixed("Nav"), lambda value: value == []),
    "query_lights_state": (fixed("127.0.0.1:1"), lambda value: value == []),
    "get_available_maps": (fixed(), rows_of(is_a(str))),
    "get_actor_definitions": (fixed(), rows_of(definition)),
    "get_spectator": (fixed(), actor),
    "get_actors_by_id": (lambda world: ([world["car"], 4_000_000],), lambda value: actor(*value)),
    "spawn_actor": (fixed([1, CONE, []], PLACE), actor),
    "spawn_actor_with_parent": (
        lambda world: ([1, "sensor.other.imu", []], PLACE, world["car"], 0, ""),
        lambda value: actor(value) and len(value[5]) == 24,
    ),
    "destroy_actor": (to("spare"), is_a(bool)),
    "tick_cue": (fixed(), is_a(int)),
    "get_actor_bounding_box": (to("car"), box),
    "get_physics_control": (to("car"), physics),
    "get_telemetry_data": (to("car"), telemetry),
    "get_vehicle_light_state": (to("car"), numbers(1)),
    "get_wheel_steer_angle": (to("car", 0), is_a(float)),
    "get_group_traffic_lights": (to("light"), lambda value: len(value) > 0 and rows_of(is_a(int))(value)),
    "get_light_boxes": (to("light"), lambda value: len(value) > 0 and rows_of(box)(value)),
    "get_weather_parameters": (fixed(), numbers(14)),
    "get_vehicle_light_states": (fixed(), lambda value: len(value) > 0 and rows_of(numbers(2))(value)),
    "add_traffic_manager_running": (fixed(["127.0.0.1", 8000]), is_a(bool)),
    "is_traffic_manager_running": (fixed(8000), is_a(bool)),
    "get_traffic_manager_running": (fixed(8001), lambda value: value == ["", 0]),
    "destroy_traffic_manager": (fixed(8000), is_a(bool)),
    "cast_ray": (fixed([10.0, 10.0, 50.0], [10.0, 10.0, -50.0]), lambda v: len(v) > 0 and rows_of(point)(v)),
    "project_point": (
        fixed([10.0, 10.0, 50.0], [0.0, 0.0, -1.0], 100.0),
        lambda value: value[0] is True and point(value[1]),
    ),
    "get_all_level_BBs": (fixed(7), lambda value: len(value) > 0 and rows_of(box)(value)),
    "get_environment_objects": (fixed(255), lambda value: value == []),
    "start_recorder": (fixed("drive.log", True), is_a(str)),
    "replay_file": (fixed("drive.log", 0.0, 0.0, 0, False, PLACE), is_a(str)),
    "get_imui_gravity": (fixed(), is_a(float)),
    "is_sensor_enabled_for_ros": (fixed(1), is_a(bool)),
    "update_day_night_cycle": (fixed(True), is_a(bool)),
}
VOIDS: dict[str, Arguments] = {
    "apply_control_to_vehicle": to("car", PEDALS),
    "apply_ackermann_control_to_vehicle": to("car", [0.1, 0.0, 3.0, 1.0, 0.0]),
    "apply_control_to_walker": to("man", [[1.0, 0.0, 0.0], 1.0, False]),
    "set_actor_location": to("car", [10.0, 10.0, 1.0]),
    "set_actor_transform": to("car", PLACE),
    "set_walker_state": to("man", [[10.0, 20.0, 2.0], [0.0, 0.0, 0.0]], 1.0),
    "set_actor_target_velocity": to("car", UNIT),
    "set_actor_target_angular_velocity": to("car", UNIT),
    "enable_actor_constant_velocity": to("car", UNIT),
    "disable_actor_constant_velocity": to("car"),
    "add_actor_impulse": to("car", UNIT),
    "add_actor_impulse_at_location": to("car", UNIT, UNIT),
    "add_actor_force": to("car", UNIT),
    "add_actor_force_at_location": to("car", UNIT, UNIT),
    "add_actor_angular_impulse": to("car", UNIT),
    "add_actor_torque": to("car", UNIT),
    "set_actor_simulate_physics": to("car", True),
    "set_actor_collisions": to("car", True),
    "set_actor_dead": to("man"),
    "set_actor_enable_gravity": to("car", True),
    "show_vehicle_debug_telemetry": to("car", True),
    "set_vehicle_light_state": to("car", [3]),
    "open_vehicle_door": to("car", 0),
    "close_vehicle_door": to("car", 0),
    "set_traffic_light_state": to("light", 2),
    "set_traffic_light_green_time": to("light", 4.0),
    "set_traffic_light_yellow_time": to("light", 4.0),
    "set_traffic_light_red_time": to("light", 4.0),
    "freeze_traffic_light": to("light", True),
    "reset_traffic_light_group": to("light"),
    "freeze_all_traffic_lights": fixed(False),
    "reset_all_traffic_lights": fixed(),
    "set_weather_parameters": fixed([10.0] * 14),
    "draw_debug_shape": fixed([[0, [[0.0, 0.0, 0.0], 0.1]], [255, 0, 0], 1.0, False]),
    "load_map_layer": fixed(65535),
    "unload_map_layer": fixed(65535),
    "set_imui_gravity": fixed(9.81),
    "stop_recorder": fixed(),
    "load_new_episode": fixed("", False, 65535),
}
COMMANDS: dict[int, Arguments] = {
    1: to("spare"),
    2: to("car", PEDALS),
    3: to("car", [0.1, 0.0, 3.0, 1.0, 0.0]),
    4: to("man", [[1.0, 0.0, 0.0], 1.0, False]),
    6: to("car", PLACE),
    7: to("man", [[10.0, 20.0, 2.0], [0.0, 0.0, 0.0]], 1.0),
    **{index: to("car", UNIT) for index in range(8, 14)},
    14: to("car", True),
    15: to("car", True),
    16: to("car", True),
    17: to("car", True),
    18: to("car", 3),
    19: to("car", [10.0, 10.0, 1.0]),
    21: to("light", 2),
}


WITHOUT_FORM = {  # answered, but not part of the documented protocol
    "disable_sensor_for_ros",
    "enable_environment_objects",
    "enable_sensor_for_ros",
    "get_actor_bone_names",
    "get_actor_component_names",
    "get_actor_socket_names",
    "get_names_of_all_objects",
    "get_navigation_mesh",
    "get_wheel_pitch_angle",
    "restore_physx_physics",
    "set_annotations_traverse_translucency",
    "set_replayer_ignore_hero",
    "set_replayer_ignore_spectator",
    "set_replayer_time_factor",
    "set_wheel_pitch_angle",
    "set_wheel_steer_direction",
    "show_recorder_actors_blocked",
    "show_recorder_collisions",
    "show_recorder_file_info",
    "stop_replayer",
    "update_lights_state",
}


class Asker:
    """One RPC connection, and a server with a car, a walker, a cone and lights."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.settimeout(20)
        self._unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 26)
        self.world: dict[str, Any] = {}

    def __call__(self, name: str, *arguments: Any, is_async: bool = False) -> Any:
        self._socket.sendall(msgpack.packb([0, 1, name, [[is_async], *arguments]]))
        while True:
            for kind, number, error, value in self._unpacker:
                assert (kind, number, error) == (1, 1, None)
                return value
            data = self._socket.recv(1 << 20)
            assert data
            self._unpacker.feed(data)

    def close(self) -> None:
        self._socket.close()

    def value(self, name: str, *arguments: Any) -> Any:
        ((kind, value),) = self(name, *arguments)
        assert kind == 1, value
        return value

    def void(self, name: str, *arguments: Any) -> None:
        assert self(name, *arguments) == [[False]]

    def prepare(self) -> None:
        self.void("load_new_episode", "", True, 65535)
        self.value("tick_cue")
        self.value("set_episode_settings", SETTINGS)
        start = self.value("get_map_info")[1][0]
        first = self.value("spawn_actor", [1, CAR, []], start)
        light = next(i for i in range(1, first[0]) if self._is_light(i))
        self.world = {"car": first[0], "light": light}
        self.world["man"] = self.value("spawn_actor", [1, MAN, []], [[10.0, 20.0, 2.0], [0.0] * 3])[0]
        self.world["spare"] = self.value("spawn_actor", [1, CONE, []], PLACE)[0]
        stream = self.value("spawn_actor_with_parent", [1, "sensor.other.imu", []], PLACE, first[0], 0, "")
        self.world["stream"] = int.from_bytes(stream[5][:4], "little")

    def _is_light(self, actor_id: int) -> bool:
        rows = self.value("get_actors_by_id", [actor_id])
        return bool(rows) and rows[0][2][1] == "traffic.traffic_light"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running_server("Town02") as (_, number, line):
        assert line.startswith("serving")
        yield number


@pytest.fixture(scope="module")
def connection(port: int) -> Iterator[Asker]:
    asker = Asker(port)
    yield asker
    asker.close()


@pytest.fixture
def ask(connection: Asker) -> Asker:
    connection.prepare()
    return connection


def test_every_function_that_returns_something_returns_it_in_its_form(ask: Asker) -> None:
    for name, (arguments, check) in VALUES.items():
        value = ask.value(name, *arguments(ask.world))
        assert check(value), (name, str(value)[:300])


def test_every_function_that_returns_nothing_is_accepted_waited_for_or_not(ask: Asker) -> None:
    for name, arguments in VOIDS.items():
        assert ask(name, *arguments(ask.world)) == [[False]], name
        assert isinstance(ask(name, *arguments(ask.world), is_async=True), list), name
    ask.value("tick_cue")


def test_actors_that_do_not_exist_are_an_answer_not_a_broken_connection(ask: Asker) -> None:
    for name, arguments in VOIDS.items():
        first = arguments(ask.world)[:1]
        if first and first[0] in ask.world.values():
            reply = ask(name, 4_000_000, *arguments(ask.world)[1:])
            assert reply == [[False]] or reply[0][0] is True, name


def test_physics_control_goes_there_and_back(ask: Asker) -> None:
    row = ask.value("get_physics_control", ask.world["car"])
    row[11] = 1500.0
    ask.void("apply_physics_control", ask.world["car"], row)
    assert ask.value("get_physics_control", ask.world["car"])[11] == 1500.0


def test_every_command_answers_with_the_actor(ask: Asker) -> None:
    row = ask.value("get_physics_control", ask.world["car"])
    table = COMMANDS | {5: to("car", row), 1: COMMANDS[1]}
    bodies = {index: list(arguments(ask.world)) for index, arguments in sorted(table.items())}
    replies = ask("apply_batch", [[[index, body]] for index, body in bodies.items()], False)
    expected = [[[1, body[0]]] for body in bodies.values()]
    assert replies == expected
    ask.value("tick_cue")


def test_spawn_commands_tell_later_ones_about_their_actor(ask: Asker) -> None:
    start = ask.value("get_map_info")[1][3]
    imu = [[0, [[1, "sensor.other.imu", []], PLACE, [True, 0], 0, "", []]]]
    autopilot, control = [[16, [0, True]]], [[2, [0, PEDALS]]]
    (reply,) = ask(
        "apply_batch", [[[0, [[1, CAR, []], start, [False], 7, "", [autopilot, control, imu]]]]], False
    )
    identity = reply[0][1]
    sensor = ask.value("get_actors_by_id", [identity + 1])[0]
    assert sensor[1] == identity
    assert sensor[2][1] == "sensor.other.imu"


def test_a_bad_command_fails_alone(ask: Asker) -> None:
    good = [[2, [ask.world["car"], PEDALS]]]
    bad = [[[2, [ask.world["car"], "pedals"]]], [[20, ["quit"]]], [[99, [1]]], [], [[1, [4_000_000]]], 7]
    replies = ask("apply_batch", [*bad, good], False)
    assert [reply[0][0] for reply in replies] == [0] * len(bad) + [1]


def test_the_table_is_complete() -> None:
    asked = {*VALUES, *VOIDS, "apply_batch", "apply_physics_control", "copy_opendrive_to_file"}
    without_form = {name for name in FUNCTIONS if name not in asked}
    assert without_form == WITHOUT_FORM
