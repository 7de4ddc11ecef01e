"""The server's state across episodes: settings, towns, streams, and the tick that clients ask for."""

import socket
import time
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from sim.server import instruments, sensors
from sim.server.actors import Actor, Sensor
from sim.server.collisions import Contact
from sim.server.opendrive import available_towns, short_name
from sim.server.scene import Scene
from sim.server.snapshot import SnapshotWriter
from sim.server.town import Town, load_town, parse_town
from sim.server.wire import (
    COLLISION,
    EPISODE_STREAM,
    HEADER,
    LENGTH,
    MAP_CHANGED,
    RpcError,
    token,
)
from sim.server.world import DEFAULT_DELTA_S, Graves, World

CUSTOM_TOWN = "OpenDriveMap"
_DEFAULT_SETTINGS = [False, False, [False], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]
_SETTING_TYPES: tuple[Callable[[Any], Any], ...] = tuple(type(value) for value in _DEFAULT_SETTINGS)
_FIRST_EPISODE = 1001
_LARGEST_INT = 2**31 - 1
_SHORTEST_TICK_S, _LONGEST_TICK_S = 1e-4, 10.0
_SUBSCRIBE_S = 2.0  # longest wait for a client to open a stream it has asked a token for


def _checked(settings: list[Any]) -> list[Any]:
    """Settings of the right types; RpcError for anything else."""
    has_step, *step = settings[2] if len(settings) > 2 else [False]
    good = len(settings) == len(_DEFAULT_SETTINGS)
    if not good or (has_step and not _SHORTEST_TICK_S <= float(step[0]) < _LONGEST_TICK_S):
        raise RpcError(f"bad episode settings {str(settings)[:200]}")
    values = [kind(value) for kind, value in zip(_SETTING_TYPES, settings, strict=True)]
    if any(abs(value) > _LARGEST_INT for value in values if isinstance(value, int)):
        raise RpcError("bad episode settings: a whole number is too large")
    values[2] = [True, float(step[0])] if has_step else [False]
    return values


class Simulation:
    """Everything behind the two ports.

    Attributes:
        settings: Wire row of the episode settings.
        world: Present episode.
        graves: Boxes of destroyed actors; clients may still ask for them.
        traffic_managers: Port -> address of registered TrafficManagers (they live in clients).
        awaited: Stream id -> wall-clock deadline of announced, not yet opened streams; ticks wait for them.
    """

    def __init__(self, town: str, stream_port: int) -> None:
        self.stream_port = stream_port
        self.settings: list[Any] = list(_DEFAULT_SETTINGS)
        self.traffic_managers: dict[int, str] = {}
        self.awaited: dict[int, float] = {}
        self.subscribers: dict[int, set[socket.socket]] = defaultdict(set)
        self._known_streams = {EPISODE_STREAM}
        self._last_stream = EPISODE_STREAM
        self._noise: dict[int, Random] = {}
        self._custom: Town | None = None
        self._pending: tuple[Town, bool] | None = None
        self._state = MAP_CHANGED
        self.graves = Graves()
        first = load_town(short_name(town))
        self._scene = Scene(first)
        self.world = World(first, _FIRST_EPISODE, 1, 1, self.graves)
        self._snapshots = SnapshotWriter(self.world)

    def _begin(self, world: World) -> None:
        self.world = world
        if self._scene.town is not world.town:
            self._scene.close()
            self._scene = Scene(world.town)
        self._snapshots = SnapshotWriter(world)
        self._state = MAP_CHANGED

    # ------------------------------------------------------------------ episodes
    def use_opendrive(self, xodr: str) -> None:
        """Keep a client's own OpenDRIVE text as the next "OpenDriveMap"."""
        self._custom = parse_town(CUSTOM_TOWN, xodr)

    def request_load(self, name: str, reset_settings: bool) -> None:
        """Switch to a town ("" = the same again) with the next tick.

        Deferred as in CARLA: the client still has to see the old episode when this call returns, or its
        TrafficManager keeps the old map.
        """
        wanted = short_name(name) or self.world.town.name
        if wanted == self.world.town.name and wanted != CUSTOM_TOWN:
            town = self.world.town
        elif wanted == CUSTOM_TOWN and self._custom is not None:
            town = self._custom
        elif wanted in available_towns():
            town = load_town(wanted)
        else:
            raise RpcError(f"map not found: {name}; choose one of {', '.join(available_towns())}")
        self._pending = (town, reset_settings)

    def set_settings(self, settings: list[Any]) -> int:
        """New settings; entering synchronous mode before any actor exists restarts the episode's clock.

        The restart makes a run independent of how long the server was free-running before.
        """
        settings = _checked(settings)
        entering = settings[0] and not self.settings[0]
        self.settings = settings
        if entering and not self.world.populated:
            self.world.restart_clock()
        return self.world.frame

    @property
    def delta_s(self) -> float:
        """Length of a tick [s]."""
        fixed = self.settings[2]
        return float(fixed[1]) if fixed[0] and fixed[1] else DEFAULT_DELTA_S

    @property
    def synchronous(self) -> bool:
        """Do clients advance the time?"""
        return bool(self.settings[0])

    def tick(self) -> int:
        """Advance by one tick (switching episodes first if asked to), stream everything, return the frame."""
        if self._pending is not None:
            town, reset = self._pending
            self._pending = None
            old = self.world
            for actor in old.actors.values():
                self.graves.add(actor)
            self._begin(World(town, old.episode_id + 1, old.frame, old.next_id, self.graves))
            self._noise.clear()
            if reset:
                self.settings = list(_DEFAULT_SETTINGS)
        contacts = self.world.step(self.delta_s)
        self._publish(contacts)
        return self.world.frame

    # ------------------------------------------------------------------ streams
    def open_sensor(self, sensor: Sensor) -> None:
        """Give a sensor its stream."""
        self._last_stream += 1
        sensor.stream = self._last_stream
        self._known_streams.add(sensor.stream)
        sensor.token = token(sensor.stream, self.stream_port)
        self._noise[sensor.id] = Random(int(sensor.attributes.get("noise_seed", 0) or 0))

    def announce(self, stream: int) -> bytes:
        """Token of a stream that a client is about to open."""
        if stream not in self._known_streams:
            raise RpcError(f"unknown stream {stream}")
        self.awaited[stream] = time.monotonic() + _SUBSCRIBE_S
        return token(stream, self.stream_port)

    def waiting_for_streams(self) -> bool:
        """Is a client still opening a stream that it asked a token for?"""
        if self.awaited:
            now = time.monotonic()
            self.awaited = {stream: deadline for stream, deadline in self.awaited.items() if deadline > now}
        return bool(self.awaited)

    def subscribe(self, stream: int, connection: socket.socket) -> bool:
        """Add a stream's reader; the episode stream starts with the present state. False if unknown."""
        if stream not in self._known_streams:
            return False
        self.subscribers[stream].add(connection)
        self.awaited.pop(stream, None)
        if stream == EPISODE_STREAM:
            payload = self._snapshots.pack(self._state)
            connection.sendall(LENGTH.pack(len(payload)) + payload)
        return True

    def unsubscribe(self, stream: int, connection: socket.socket) -> None:
        """Remove a stream's reader."""
        self.subscribers[stream].discard(connection)

    def _send(self, stream: int, *parts: bytes) -> None:
        readers = self.subscribers.get(stream)
        if not readers:
            return
        size = sum(map(len, parts))
        message = (LENGTH.pack(size), *parts)
        for reader in list(readers):
            try:
                sent = reader.sendmsg(message)
                if sent < size + LENGTH.size:
                    reader.sendall(memoryview(b"".join(message))[sent:])
            except OSError:  # gone, or not reading for seconds
                readers.discard(reader)

    def _publish(self, contacts: list[Contact]) -> None:
        for contact in contacts:
            x, y = contact.impulse
            self._report(contact.first, contact.second, (x, y))
            self._report(contact.second, contact.first, (-x, -y))
        due = [
            sensor
            for sensor in self.world.sensors.values()
            if self.subscribers.get(sensor.stream) and self._is_due(sensor)
        ]
        self._scene.paint_ahead(self.world, [s for s in due if s.type_id == instruments.COLOUR_CAMERA])
        for sensor in due:
            self._measure(sensor)
        self._send(EPISODE_STREAM, self._snapshots.pack(self._state))
        self._state = 0

    def _report(self, owner: Actor, other: Actor, impulse: tuple[float, float]) -> None:
        for sensor in owner.sensors:
            if sensor.type_id == "sensor.other.collision" and self.subscribers.get(sensor.stream):
                self._send(
                    sensor.stream, self._header(COLLISION, sensor), sensors.collision(owner, other, impulse)
                )

    def _is_due(self, sensor: Sensor) -> bool:
        return not sensor.period_s or self.world.elapsed_s - sensor.last_s >= sensor.period_s - 1e-6

    def _measure(self, sensor: Sensor) -> None:
        world = self.world
        measured = instruments.measure(self._scene, world, sensor, self._noise[sensor.id])
        sensor.last_s = world.elapsed_s
        if measured is not None:
            kind, payload = measured
            self._send(sensor.stream, self._header(kind, sensor), payload)

    def _header(self, kind: int, s: Sensor) -> bytes:
        world = self.world
        return HEADER.pack(kind, world.frame, world.elapsed_s, s.x, s.y, s.z, s.pitch, s.yaw, s.roll)
