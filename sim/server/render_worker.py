"""A process that paints pictures for the server until its pipe, given by number, is closed."""

import signal
import sys
from multiprocessing.connection import Connection

import cv2

from drive.viz.painter import paint_bgra
from drive.viz.quads import Quads, TiledQuads
from drive.viz.view import View


def work(pipe: Connection) -> None:
    """Receive the town's quads, then (view, bodies) again and again; answer each with the BGRA bytes."""
    town: Quads = pipe.recv()
    tiles = TiledQuads(town)
    while True:
        order: tuple[View, list[Quads]] = pipe.recv()
        view, bodies = order
        pipe.send_bytes(paint_bgra(view, tiles, bodies).tobytes())


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
