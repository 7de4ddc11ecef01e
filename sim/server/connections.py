"""The two TCP ports: msgpack requests, and one connection per subscribed stream."""

import asyncio
import logging
import os
import socket
from typing import Any

import msgpack

from sim.server.rpc import TICK, answer
from sim.server.simulation import Simulation
from sim.server.wire import LENGTH

log = logging.getLogger(__name__)
MAX_MESSAGE_BYTES = 64 << 20  # a client's own OpenDRIVE map is one message
MAX_ITEMS = 1 << 16  # of one list: msgpack makes room for as many as a header claims
MAX_UNSENT_BYTES = 8 << 20
LONGEST_NAME = 100
_FIRST_BUFFER_BYTES = 1 << 16  # msgpack's own choice is 1 MB for every connection
_POLL_S = 0.0005
_SEND_TIMEOUT_S = 5.0
_REFUSED_S = 1.0
_SEND_BUFFER_BYTES = 4 << 20
_REQUEST, _REPLY, _NOTIFICATION = 0, 1, 2
_BROKEN = (msgpack.UnpackException, msgpack.BufferFull, ValueError, TypeError, RecursionError)


def _no_delay(transport: asyncio.BaseTransport) -> socket.socket:
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class RpcConnection(asyncio.Protocol):
    """One client: requests are answered in order. Anything that is not a request closes the connection.

    A client that asks and does not read is not answered further until it has read.
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._held: tuple[int, list[Any]] | None = None
        self._full = False
        self._unpacker = msgpack.Unpacker(
            raw=False,
            strict_map_key=False,
            read_size=_FIRST_BUFFER_BYTES,
            max_buffer_size=MAX_MESSAGE_BYTES,
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_ITEMS,
        )
        self._packer = msgpack.Packer(use_bin_type=True)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio hook."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        _no_delay(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio hook."""
        self._transport = self._held = None

    def pause_writing(self) -> None:
        """Asyncio hook: too many replies wait to be read."""
        self._full = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Asyncio hook: the client has read its replies."""
        self._full = False
        if self._transport is not None:
            self._transport.resume_reading()
            asyncio.get_running_loop().call_soon(self._resume)

    def data_received(self, data: bytes) -> None:
        """Asyncio hook."""
        try:
            self._unpacker.feed(data)
            self._pump()
        except _BROKEN as problem:
            log.warning("malformed message, connection closed: %s: %s", type(problem).__name__, problem)
            if self._transport is not None:
                self._transport.close()

    def _resume(self) -> None:
        self.data_received(b"")

    def _pump(self) -> None:
        """Answer what has arrived; a tick, and all behind it, waits until announced streams are open."""
        if self._unread():
            return
        if self._held is not None:
            if self._sim.waiting_for_streams():
                asyncio.get_running_loop().call_later(_POLL_S, self._resume)
                return
            (number, arguments), self._held = self._held, None
            self._reply(number, TICK, arguments)
        for message in self._unpacker:
            kind, number, name, arguments = _parse(message)
            # For a client that has left nothing is held: it would pile up while others go on announcing.
            if name == TICK and self._transport is not None and self._sim.waiting_for_streams():
                self._held = (number, arguments)
                asyncio.get_running_loop().call_later(_POLL_S, self._resume)
                return
            if kind == _REQUEST:
                self._reply(number, name, arguments)
            else:
                answer(self._sim, name, arguments[1:], True)
            if self._unread():
                return

    def _unread(self) -> bool:
        """Do too many replies wait to be read?"""
        return self._full

    def _reply(self, number: int, name: str, arguments: list[Any]) -> None:
        error, value = answer(self._sim, name, arguments[1:], bool(arguments[0][0]))
        try:
            packed = self._packer.pack([_REPLY, number, error, value])
        except (OverflowError, ValueError, TypeError) as problem:
            log.warning("%s: answer cannot be sent: %s", name, problem)
            self._packer.reset()
            packed = self._packer.pack([_REPLY, number, f"{name}: the answer cannot be sent", None])
        if self._transport is not None:
            self._transport.write(packed)


def _parse(message: Any) -> tuple[int, int, str, list[Any]]:
    """(kind, number, function, [metadata, arguments...]) of a message; ValueError for anything else."""
    if isinstance(message, list) and len(message) == 4 and message[0] == _REQUEST:
        kind, number, name, arguments = message
    elif isinstance(message, list) and len(message) == 3 and message[0] == _NOTIFICATION:
        (kind, name, arguments), number = message, 0
    else:
        raise ValueError("not an rpc request")
    named = isinstance(number, int) and isinstance(name, str) and len(name) <= LONGEST_NAME
    good = named and isinstance(arguments, list) and arguments
    if not good or not isinstance(arguments[0], list) or not arguments[0]:
        raise ValueError("rpc request without function name or metadata")
    return kind, number, name, arguments


class StreamConnection(asyncio.Protocol):
    """One stream reader: sends 4 bytes (the stream id), gets length-prefixed payloads until it closes."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._request = b""
        self._stream: int | None = None
        self._socket: socket.socket | None = None
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio hook: payloads bypass asyncio, which would copy every image."""
        self._transport = transport
        self._socket = socket.socket(fileno=os.dup(_no_delay(transport).fileno()))
        self._socket.settimeout(_SEND_TIMEOUT_S)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)

    def data_received(self, data: bytes) -> None:
        """Asyncio hook."""
        if self._stream is not None or self._socket is None or self._transport is None:
            return
        self._request += data[: LENGTH.size]
        if len(self._request) < LENGTH.size:
            return
        stream = int(LENGTH.unpack_from(self._request)[0])
        try:
            accepted = self._sim.subscribe(stream, self._socket)
        except OSError:
            accepted = False
        if accepted:
            self._stream = stream
        else:
            # A client that has outlived an earlier server asks again at once, for as long as it lives.
            log.info("stream %s refused", stream)
            asyncio.get_running_loop().call_later(_REFUSED_S, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio hook."""
        if self._socket is not None:
            if self._stream is not None:
                self._sim.unsubscribe(self._stream, self._socket)
            self._socket.close()
            self._socket = None
