"""A process that paints pictures for the server until its pipe, given by number, is closed."""

import signal
import sys
from multiprocessing.connection import Connection

import cv2

from drive.viz.quads import Quads, TiledQuads
from sim.server.local_mesh import LocalMesh
from sim.server.render_pool import Order


def work(pipe: Connection) -> None:
    """Receive the town (quads or text), then orders again and again; answer each with the BGRA bytes."""
    town: Quads | str = pipe.recv()
    tiles = LocalMesh(town) if isinstance(town, str) else TiledQuads(town)
    while True:
        order: Order = pipe.recv()
        pipe.send_bytes(order.paint(tiles))


def main() -> None:
    """Paint until the server closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(1)
    try:
        work(Connection(int(sys.argv[1])))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


if __name__ == "__main__":
    main()
