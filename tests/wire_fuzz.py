"""Fuzzed requests for the light server: right ones, right ones with wrong parts, cut ones, garbage."""

import math
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import msgpack

from sim.server.rpc import FUNCTIONS
from sim.server.wire import VERSION

PLACE = [[10.0, 10.0, 1.0], [0.0, 90.0, 0.0]]
PEDALS = [0.5, 0.1, 0.0, False, False, False, 1]
RIGHT: list[tuple[Any, ...]] = [
    ("spawn_actor", [1, "static.prop.bin", []], PLACE),
    ("spawn_actor", [1, "vehicle.audi.tt", [["color", 5, "1,2,3"]]], PLACE),
    ("spawn_actor", [1, "walker.pedestrian.0001", []], PLACE),
    ("spawn_actor_with_parent", [1, "sensor.other.imu", []], PLACE, 30, 0, ""),
    ("spawn_actor", [1, "sensor.camera.rgb", [["image_size_x", 2, "64"], ["image_size_y", 2, "48"]]], PLACE),
    ("destroy_actor", 40),
    ("apply_control_to_vehicle", 40, PEDALS),
    ("set_actor_transform", 40, PLACE),
    ("set_actor_target_velocity", 40, [1.0, 2.0, 0.0]),
    ("set_traffic_light_state", 3, 2),
    ("set_weather_parameters", [1.0] * 14),
    ("set_episode_settings", [True, False, [True, 0.05], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]),
    ("apply_batch", [[[0, [[1, "static.prop.bin", []], PLACE, [False], 0, "", []]]], [[1, [41]]]], False),
    ("load_new_episode", "", True, 65535),
    ("project_point", [0.0, 0.0, 9.0], [0.0, 0.0, -1.0], 20.0),
    ("cast_ray", [0.0, 0.0, 9.0], [50.0, 0.0, -1.0]),
    ("get_actors_by_id", [1, 2, 3, 40]),
    ("get_sensor_token", 2),
    ("add_traffic_manager_running", ["127.0.0.1", 8000]),
    ("tick_cue",),
]
LONG_ANSWERS = ("get_map_data", "get_actor_definitions", "get_map_info")  # asked for, but not all the time
NAMES = sorted(set(FUNCTIONS) - set(LONG_ANSWERS) - {"copy_opendrive_to_file"})
SCALARS = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    0.0,
    -1.5,
    1e308,
    math.inf,
    math.nan,
    "",
    "x" * 50,
    b"\0\xff",
    [],
    {},
)


def value(rng: Random, depth: int = 0) -> Any:
    """Anything."""
    if depth < 3 and rng.random() < 0.3:
        return [value(rng, depth + 1) for _ in range(rng.randrange(6))]
    return rng.choice(SCALARS)


def damaged(rng: Random, part: Any) -> Any:
    """The same with something else in one place."""
    if isinstance(part, list) and part and rng.random() < 0.85:
        at = rng.randrange(len(part))
        return [*part[:at], damaged(rng, part[at]), *part[at + 1 :]]
    return value(rng)


def message(rng: Random) -> tuple[bytes, bool]:
    """(bytes, is it one whole request)."""
    kind = rng.random()
    name, *arguments = rng.choice(RIGHT)
    if kind < 0.35:
        arguments = [damaged(rng, part) for part in arguments]
    elif kind < 0.55:
        name, arguments = rng.choice(NAMES), [value(rng) for _ in range(rng.randrange(5))]
    elif kind < 0.57:
        name, arguments = rng.choice(LONG_ANSWERS), []
    packed = msgpack.packb([0, rng.randrange(1 << 20), name, [[rng.random() < 0.3], *arguments]])
    if kind < 0.8:
        return packed, True
    if kind < 0.87:
        return packed[: rng.randrange(len(packed))], False
    if kind < 0.95:
        at = rng.randrange(len(packed))
        return packed[:at] + bytes([rng.randrange(256)]) + packed[at + 1 :], False
    return rng.randbytes(rng.randrange(1, 200)), False


class Fuzzer:
    """Sends fuzzed messages; every burst ends with a question that has to be answered."""

    def __init__(self, port: int, seed: int) -> None:
        self._port, self._rng = port, Random(seed)
        self.sent = 0

    def run(self, count: int, burst: int = 40) -> Iterator[int]:
        """Send `count` messages; yields how many are sent after each burst.

        Raises:
            OSError: The server does not answer any more.
        """
        while self.sent < count:
            self._burst(burst)
            self._nonsense_streams()
            yield self.sent

    def _burst(self, most: int) -> None:
        with self._connect(self._port) as connection:
            whole = True
            with suppress(BrokenPipeError, ConnectionResetError):  # it may end what is not a request
                while whole and most:
                    data, whole = message(self._rng)
                    connection.sendall(data)
                    most, self.sent = most - 1, self.sent + 1
            if whole:
                answered(connection)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 20):
                    pass
        with self._connect(self._port) as connection:
            answered(connection)

    def _nonsense_streams(self) -> None:
        with self._connect(self._port + 1) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(struct.pack("<I", self._rng.randrange(2, 1 << 32)))
                connection.shutdown(socket.SHUT_WR)
            self.sent += 1

    @staticmethod
    def _connect(port: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.settimeout(20)
        return connection


def answered(connection: socket.socket) -> None:
    """Ask for the version and read until it comes.

    Raises:
        ConnectionError: The server has closed the connection.
    """
    number = 1 << 30
    connection.sendall(msgpack.packb([0, number, "version", [[False]]]))
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, max_buffer_size=1 << 28)
    while True:
        data = connection.recv(1 << 20)
        if not data:
            raise ConnectionError("closed instead of answered")
        unpacker.feed(data)
        for reply in unpacker:
            if reply[1] == number:
                assert reply[3] == [[1, VERSION]]
                return
