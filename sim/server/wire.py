"""CARLA 0.9.16 wire formats: RPC replies, stream tokens and the packed stream structures (little-endian)."""

import struct

VERSION = "0.9.16"
EPISODE_STREAM = 1

# sensor_type field of the stream header
COLLISION, DEPTH, GNSS, IMU, RADAR, LIDAR, RGB, SEMANTIC, INSTANCE, WORLD = 0, 1, 4, 5, 9, 11, 13, 14, 15, 17

RED, YELLOW, GREEN = 0, 1, 2

HEADER = struct.Struct("<QQd6f")
EPISODE = struct.Struct("<Qdf3iI")
ACTOR = struct.Struct("<IB15f")
VEHICLE = struct.Struct("<3f3BifBBIB24x")
TRAFFIC_LIGHT = struct.Struct("<32s4fIBB")
SIGN = struct.Struct("<32s22x")
WALKER = struct.Struct("<4fB37x")
IMAGE = struct.Struct("<IIf")
LENGTH = struct.Struct("<I")
NO_STATE = bytes(54)
MAP_CHANGED = 1


class RpcError(Exception):
    """A request that the server answers with an error; the connection stays open."""


def token(stream_id: int, port: int) -> bytes:
    """24-byte stream token; address type 0 lets the client use the host it already talks to."""
    return struct.pack("<IHBB16x", stream_id, port, 1, 0)
