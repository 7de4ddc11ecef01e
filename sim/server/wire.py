"""CARLA 0.9.16 wire formats: RPC replies, stream tokens and packed stream structures (little-endian)."""

import struct
from typing import Any

VERSION = "0.9.16"
EPISODE_STREAM = 1

# sensor_type field of the stream header
COLLISION, DEPTH, GNSS, IMU, OBSTACLE, RADAR, SEMANTIC_LIDAR, LIDAR = 0, 1, 4, 5, 7, 9, 10, 11
RGB, SEMANTIC, INSTANCE, WORLD = 13, 14, 15, 17

RED, YELLOW, GREEN = 0, 1, 2

HEADER = struct.Struct("<QQd6f")
EPISODE = struct.Struct("<Qdf3iI")
ACTOR = struct.Struct("<IB15f")
VEHICLE = struct.Struct("<3f3BifBBIB24x")
VEHICLE_STATE = struct.Struct(ACTOR.format + VEHICLE.format[1:])
TRAFFIC_LIGHT = struct.Struct("<32s4fIBB")
SECONDS = struct.Struct("<f")
SIGN = struct.Struct("<32s22x")
WALKER = struct.Struct("<4fB37x")
IMAGE = struct.Struct("<IIf")
LENGTH = struct.Struct("<I")
NO_STATE = bytes(54)
ACTOR_STATE_BYTES = ACTOR.size + len(NO_STATE)
ELAPSED_AT = ACTOR.size + struct.calcsize("<32s3f")  # of a traffic light's state
MAP_CHANGED = 1


BAD_ARGUMENTS = (TypeError, ValueError, LookupError, AttributeError, OverflowError, struct.error)
LONGEST_REASON = 500


class RpcError(Exception):
    """A request that the server answers with an error; the connection stays open."""


def token(stream_id: int, port: int) -> bytes:
    """24-byte stream token; address type 0 lets the client use the host it already talks to."""
    return struct.pack("<IHBB16x", stream_id, port, 1, 0)


def ok(value: Any) -> list[Any]:
    """Response<T> holding a value."""
    return [[1, value]]


def error(message: str) -> list[Any]:
    """Response<T> holding an error."""
    return [[0, [message]]]


def error_void(message: str) -> list[Any]:
    """Response<void> holding an error."""
    return [[True, [message]]]


VOID: list[Any] = [[False]]
